//===- Code.h - Loading code and running a grid ---------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_CODE_H
#define DL_RUNTIME_CODE_H

#include "Package.h"

namespace dl::runtime {

/// A kernel that is ready to run on one device. Immutable.
class Executable {
public:
  virtual ~Executable() = default;
  /// Runs the grid. `params` points to at least DLK_MAX_PARAM_BYTES readable bytes. `mayOverlap`:
  /// it need not wait for the grid before it on the stream, where the kernel, device and driver can
  /// do without.
  virtual dlk_status launch(const void *params, const uint32_t grid[3], void *stream,
                            bool mayOverlap) const = 0;

  /// For checked mode. Waits until the stream is idle; a stream that is capturing is refused.
  virtual dlk_status wait(void *stream) const = 0;
  /// Makes memory of the device readable through `data`, by way of `copy` where the host cannot
  /// read it.
  virtual dlk_status read(uint64_t address, size_t bytes, std::vector<char> &copy,
                          const char *&data) const = 0;
};

/// Loads a kernel whose format is `so`.
dlk_status prepareCpu(const std::shared_ptr<Package> &package, const Kernel &kernel,
                      std::unique_ptr<Executable> &result);

/// Loads a kernel whose format is `cubin` or `ptx` on cuda:`device`; `flags` are dlk_prepare's.
dlk_status prepareCuda(const std::shared_ptr<Package> &package, const Kernel &kernel,
                       int32_t device, uint32_t flags, std::unique_ptr<Executable> &result);

/// How well a kernel fits the device (0 = it does not run there), DLK_UNSUPPORTED or
/// DLK_DEVICE_ERROR with a message.
dlk_status rankForDevice(const Kernel &kernel, dlk_device device, int &rank);

} // namespace dl::runtime

#endif // DL_RUNTIME_CODE_H
