//===- Session.h - The package, the device and the options of a run -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DLRUN_SESSION_H
#define DL_TOOLS_DLRUN_SESSION_H

#include "CudaDriver.h"
#include "dl/dlk.h"
#include "reference/Reference.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace dl::run {

/// A failure to report as one line.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws the runtime's message if `status` is a failure.
void check(dlk_status status);

struct Options {
  std::string package;
  std::string device; // empty: cuda:0 if there is one, else cpu
  std::string kernel; // only kernels whose "NAME TARGET" contains this
  std::string shape;  // "B=1+8,T=1"
  std::string gates;  // empty: all three
  uint64_t seed = 1;
  int iterations = 0; // 0: chosen
  bool json = false;
  // bench
  bool verify = false, best = false, pdl = false, shuffle = false;
};

/// One combination of run-time sizes.
struct Shape {
  int64_t B = 1, T = 1, HQ = 1, HV = 1;
  std::string str() const;
};

/// All symbols of a kernel's shapes: a batch of B entries, or N rows one behind the other in one.
struct Sizes {
  Sizes(const Shape &shape, int64_t pool)
      : B(shape.B), T(shape.T), HQ(shape.HQ), HV(shape.HV), N(shape.B), pool(pool) {}
  int64_t B, T, HQ, HV, N;
  int64_t pool; // slots of the pools
  int64_t sourceWidth = 1, destinationWidth = 1;
};

/// Reads "B=1+8,T=1,HQ=2,HV=4": lists are joined by '+' and multiply. Absent sizes come from
/// `defaults`; if only one of HQ and HV is given, the other equals it.
std::vector<Shape> parseShapes(const std::string &text,
                               const std::map<std::string, std::vector<int64_t>> &defaults);

/// One kernel of the package with its facts.
struct KernelEntry {
  const dlk_kernel *handle;
  dlk_kernel_info info;
  std::vector<dlk_arg_info> args;
  std::vector<dlk_scalar_info> scalars;

  /// "sm_90a", "sm_80 ptx": kernels for several targets share a name.
  std::string target() const;
  reference::Dims dims() const { return {info.key_dim, info.value_dim}; }
  std::vector<int64_t> argShape(size_t index, const Sizes &sizes) const;
  bool hasRole(dlk_role role) const;
  bool isPrefill() const { return info.kind == std::string("prefill"); }
  /// Fills in the workspace of another kernel, which launches it.
  bool isPreparation() const { return *info.prepares != 0; }
  /// Why no case is made for the kernel; empty if there is one. Those of a log take several
  /// launches and what an engine keeps between them.
  std::string whyNoCase() const;
};

class Session {
public:
  explicit Session(const Options &options);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// Decides the device; needed before anything below it.
  void openDevice();
  bool isCuda() const { return device.type == DLK_DEVICE_CUDA; }
  /// "cpu", "cuda:0"
  std::string deviceText() const;
  /// Device, driver, versions and date, for --json.
  nlohmann::json environment() const;

  /// Kernels that match --kernel; if `runnable`, only those for the device.
  std::vector<KernelEntry> kernels(bool runnable) const;
  /// The operator that travels in the package.
  reference::Operator reference() const;

  const Options options;
  dlk_package *package = nullptr;
  nlohmann::json manifest;
  dlk_device device = {DLK_DEVICE_CPU, 0};
  const runtime::cuda::Driver *driver = nullptr; // cuda only
  runtime::cuda::DeviceFacts facts;

  /// Throws if a driver call failed.
  void checkCuda(runtime::cuda::Result result, const char *what) const;

private:
  runtime::cuda::Context context = nullptr;
};

/// Memory on the session's device.
class Buffer {
public:
  Buffer() = default;
  Buffer(const Session &session, size_t bytes);
  Buffer(Buffer &&other) noexcept { *this = std::move(other); }
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer();

  /// Copies to `offset`, or from the beginning.
  void upload(const void *from, size_t offset, size_t bytes);
  void download(void *to, size_t bytes) const;
  char *data() const { return memory; }
  size_t size() const { return bytes; }

private:
  const Session *session = nullptr;
  char *memory = nullptr;
  size_t bytes = 0;
};

/// A table with left-aligned text, for people.
class Table {
public:
  void row(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  void print() const;

private:
  std::vector<std::vector<std::string>> rows;
};

/// Keeps the larger error; NaN wins over every number.
inline void keepWorst(double &worst, double error) {
  if (error > worst || std::isnan(error))
    worst = error;
}

/// Replaces the progress line on a terminal; elsewhere does nothing.
void showProgress(const std::string &text);

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

int runInfo(const Options &options);
int runVerify(const Options &options);
int runBench(const Options &options);

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_SESSION_H
