//===- CudaDriver.cpp - The part of the CUDA driver API in use ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"
#include "Status.h"

#include <dlfcn.h>

using namespace dl::runtime;
using namespace dl::runtime::cuda;

namespace {
struct DriverState {
  Driver driver;
  std::string error; // empty: usable
};
} // namespace

static void loadDriver(DriverState &state) {
  // Never closed: the driver starts threads and has its own exit handlers.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    state.error = "no CUDA driver: cannot load libcuda.so.1";
    return;
  }
  Driver &driver = state.driver;
  auto find = [&](const char *name) { return dlsym(library, name); };
  if (void *getVersion = find("cuDriverGetVersion"))
    reinterpret_cast<Result (*)(int *)>(getVersion)(&driver.version);
#define X(MEMBER, SYMBOL, PARAMETERS)                                                              \
  driver.MEMBER = reinterpret_cast<Result(*) PARAMETERS>(find(#SYMBOL));                           \
  if (!driver.MEMBER && state.error.empty())                                                       \
    state.error = "CUDA driver: expected version 12.0 or newer, got " +                            \
                  std::to_string(driver.version / 1000) + "." +                                    \
                  std::to_string(driver.version % 1000 / 10) + " (no " #SYMBOL ")";
  DL_CUDA_FUNCTIONS(X)
#undef X
  driver.kernelGetParamInfo =
      reinterpret_cast<Result (*)(KernelHandle, size_t, size_t *, size_t *)>(
          find("cuKernelGetParamInfo"));
  driver.launchKernelEx =
      reinterpret_cast<Result (*)(const LaunchConfig *, KernelHandle, void **, void **)>(
          find("cuLaunchKernelEx"));
  if (!state.error.empty())
    return;
  if (Result result = driver.init(0))
    state.error = std::string("CUDA driver: cuInit failed with ") + errorName(driver, result);
}

dlk_status cuda::getDriver(const Driver *&driver) {
  // Leaked on purpose: plans may be released from static destructors.
  static const DriverState *state = [] {
    auto *fresh = new DriverState;
    loadDriver(*fresh);
    return fresh;
  }();
  if (!state->error.empty())
    return fail(DLK_DEVICE_ERROR, "%s", state->error.c_str());
  driver = &state->driver;
  return DLK_OK;
}

const char *cuda::errorName(const Driver &driver, Result result) {
  const char *name = nullptr;
  if (driver.getErrorName && driver.getErrorName(result, &name) == 0 && name)
    return name;
  return "an unknown error";
}

dlk_status cuda::getDevice(int32_t id, const Driver *&driver, DeviceFacts &facts) {
  if (dlk_status status = getDriver(driver))
    return status;
  int count = 0;
  if (Result result = driver->deviceGetCount(&count))
    return fail(DLK_DEVICE_ERROR, "CUDA driver: cuDeviceGetCount failed with %s",
                errorName(*driver, result));
  if (id < 0 || id >= count)
    return fail(DLK_DEVICE_ERROR, "device cuda:%d: the driver has %d device%s", id, count,
                count == 1 ? "" : "s");
  Result result = driver->deviceGet(&facts.handle, id);
  int major = 0, minor = 0;
  auto query = [&](int attribute, int &value) {
    if (!result)
      result = driver->deviceGetAttribute(&value, attribute, facts.handle);
  };
  query(attributeComputeCapabilityMajor, major);
  query(attributeComputeCapabilityMinor, minor);
  query(attributeMaxSharedBytesOptIn, facts.maxSharedBytes);
  query(attributeMaxThreadsPerBlock, facts.maxThreads);
  if (result)
    return fail(DLK_DEVICE_ERROR, "device cuda:%d: %s", id, errorName(*driver, result));
  facts.computeCapability = major * 10 + minor;
  return DLK_OK;
}
