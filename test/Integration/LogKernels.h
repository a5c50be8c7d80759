//===- LogKernels.h - Kernels of a log, from packages or the model --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels are known by kind, their arguments by role and name. Packages are found in a folder; the
// model of test/Reference, dressed up as kernels on the host's memory, tests the tests.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_LOGKERNELS_H
#define DL_TEST_INTEGRATION_LOGKERNELS_H

#include "test/Integration/Device.h"
#include "test/Integration/LogNumbers.h"
#include "test/Reference/LogPlan.h"

#include <map>
#include <string>
#include <vector>

namespace dl::test {
using deltalog::Limits;

struct KernelArgument {
  std::string name, role;
  dlk_dtype dtype = DLK_F32;
  std::vector<std::string> dims; ///< "B", "128", "(N+1)"
  std::vector<int64_t> strides;  ///< in elements, 0: any
  int64_t align = 4;
  bool isNullable = false, isWritten = false;
};

struct LaunchStatus {
  dlk_status code = DLK_OK;
  std::string message;
};

class LogKernel {
public:
  virtual ~LogKernel() = default;
  virtual std::vector<int64_t> shapeOf(size_t argument,
                                       const std::map<std::string, int64_t> &sizes) const = 0;
  /// Waits for the end of the kernel.
  virtual LaunchStatus launch(const std::vector<dlk_tensor> &arguments,
                              const std::vector<dlk_scalar> &scalars, uint32_t flags) const = 0;

  std::string name, kind;
  std::vector<KernelArgument> arguments;
  std::vector<std::string> scalars; ///< that a caller may give
};

/// The kernels that belong together. `decode` may be missing.
struct LogKernels {
  std::string title; ///< "gdn-w16t4 64x32 kv"
  std::string package;
  LogOperator op;
  int64_t K = 0, V = 0;
  std::string layout; ///< "kv", "vk"
  dlk_dtype state = DLK_F32, io = DLK_BF16, index = DLK_I32;
  bool isNarrowLog = false; ///< entries that depend on the state are kept in 16 bits
  Limits limits;
  const LogKernel *decode = nullptr, *plan = nullptr, *append = nullptr, *merge = nullptr,
                  *materialize = nullptr;

  bool isModel() const { return package == "model"; }
};

/// All that the folder's packages have for the device under test.
const std::vector<LogKernels> &allLogKernels();
/// Of those, the first of an operator whose package's name contains `part`; null if there is none.
const LogKernels *findLogKernels(const std::string &op, const std::string &part = "", int64_t K = 0,
                                 int64_t V = 0);

/// Opens the packages of the folder, or if `folder` is "model" the model. What is missing in
/// packages is added to `problems`.
void openLogKernels(const std::string &folder, std::vector<std::string> &problems);
/// The model for each operator, size and limits that a few tests want.
std::vector<LogKernels> modelKernels();

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_LOGKERNELS_H
