//===- CudaDriver.h - The part of the CUDA driver API in use --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Declared here and found with dlopen: neither a CUDA toolkit to build nor a driver to start is
// needed. Values and signatures are those of the driver's stable ABI.
//
//===----------------------------------------------------------------------===//
#ifndef DL_RUNTIME_CUDADRIVER_H
#define DL_RUNTIME_CUDADRIVER_H

#include "dl/dlk.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace dl::runtime::cuda {

using Result = int;
using Device = int;
using DevicePtr = unsigned long long;
using Context = struct ContextImpl *;
using Library = struct LibraryImpl *;
using KernelHandle = struct KernelImpl *;
using Function = struct FunctionImpl *;
using Stream = struct StreamImpl *;
using Event = struct EventImpl *;
using Graph = struct GraphImpl *;
using GraphExec = struct GraphExecImpl *;

enum : int {
  attributeMaxThreadsPerBlock = 1,
  attributeMultiprocessorCount = 16,
  attributeL2CacheBytes = 38,
  attributeComputeCapabilityMajor = 75,
  attributeComputeCapabilityMinor = 76,
  attributeMaxSharedBytesOptIn = 97,
  functionMaxThreadsPerBlock = 0,
  functionStaticSharedBytes = 1,
  functionMaxDynamicSharedBytes = 8,
  jitErrorLog = 5,
  jitErrorLogBytes = 6,
  launchProgrammaticStreamSerialization = 6,
  errorStreamCaptureImplicit = 906, // the default stream, while another one captures
};

/// CUlaunchAttribute: the value is a union of 64 bytes, of which an int is in use here.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    int number;
    uint64_t bytes[8];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "size of CUlaunchAttribute");

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32,
              "layout of CUlaunchConfig");

/// X(member, symbol, parameters)
#define DL_CUDA_FUNCTIONS(X)                                                                       \
  X(init, cuInit, (unsigned))                                                                      \
  X(driverGetVersion, cuDriverGetVersion, (int *))                                                 \
  X(getErrorName, cuGetErrorName, (Result, const char **))                                         \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                                     \
  X(deviceGet, cuDeviceGet, (Device *, int))                                                       \
  X(deviceGetName, cuDeviceGetName, (char *, int, Device))                                         \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *, int, Device))                                \
  X(primaryRetain, cuDevicePrimaryCtxRetain, (Context *, Device))                                  \
  X(primaryRelease, cuDevicePrimaryCtxRelease_v2, (Device))                                        \
  X(ctxGetCurrent, cuCtxGetCurrent, (Context *))                                                   \
  X(ctxPush, cuCtxPushCurrent_v2, (Context))                                                       \
  X(ctxPop, cuCtxPopCurrent_v2, (Context *))                                                       \
  X(ctxSynchronize, cuCtxSynchronize, ())                                                          \
  X(memAlloc, cuMemAlloc_v2, (DevicePtr *, size_t))                                                \
  X(memFree, cuMemFree_v2, (DevicePtr))                                                            \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *, size_t *))                                             \
  X(memcpyHtoD, cuMemcpyHtoD_v2, (DevicePtr, const void *, size_t))                                \
  X(memcpyDtoH, cuMemcpyDtoH_v2, (void *, DevicePtr, size_t))                                      \
  X(memsetD32, cuMemsetD32_v2, (DevicePtr, unsigned, size_t))                                      \
  X(streamCreate, cuStreamCreate, (Stream *, unsigned))                                            \
  X(streamDestroy, cuStreamDestroy_v2, (Stream))                                                   \
  X(streamSynchronize, cuStreamSynchronize, (Stream))                                              \
  X(streamIsCapturing, cuStreamIsCapturing, (Stream, int *))                                       \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (Stream, int))                                    \
  X(streamEndCapture, cuStreamEndCapture, (Stream, Graph *))                                       \
  X(graphInstantiate, cuGraphInstantiateWithFlags, (GraphExec *, Graph, unsigned long long))       \
  X(graphLaunch, cuGraphLaunch, (GraphExec, Stream))                                               \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExec))                                             \
  X(graphDestroy, cuGraphDestroy, (Graph))                                                         \
  X(eventCreate, cuEventCreate, (Event *, unsigned))                                               \
  X(eventRecord, cuEventRecord, (Event, Stream))                                                   \
  X(eventSynchronize, cuEventSynchronize, (Event))                                                 \
  X(eventElapsedTime, cuEventElapsedTime, (float *, Event, Event))                                 \
  X(eventDestroy, cuEventDestroy_v2, (Event))                                                      \
  X(libraryLoadData, cuLibraryLoadData,                                                            \
    (Library *, const void *, int *, void **, unsigned, int *, void **, unsigned))                 \
  X(libraryUnload, cuLibraryUnload, (Library))                                                     \
  X(libraryGetKernel, cuLibraryGetKernel, (KernelHandle *, Library, const char *))                 \
  X(kernelGetFunction, cuKernelGetFunction, (Function *, KernelHandle))                            \
  X(kernelGetAttribute, cuKernelGetAttribute, (int *, int, KernelHandle, Device))                  \
  X(kernelSetAttribute, cuKernelSetAttribute, (int, int, KernelHandle, Device))                    \
  X(launchKernel, cuLaunchKernel,                                                                  \
    (KernelHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,   \
     void **, void **))

struct Driver {
#define X(MEMBER, SYMBOL, PARAMETERS) Result(*MEMBER) PARAMETERS = nullptr;
  DL_CUDA_FUNCTIONS(X)
#undef X
  /// Since driver 12.4; may be absent.
  Result (*kernelGetParamInfo)(KernelHandle, size_t, size_t *, size_t *) = nullptr;
  /// Only plans with DLK_PLAN_PDL need it; may be absent.
  Result (*launchKernelEx)(const LaunchConfig *, KernelHandle, void **, void **) = nullptr;
  int version = 0; // 12040 = 12.4
};

/// The initialised driver. On failure returns DLK_DEVICE_ERROR with a message. The first call
/// decides for the process.
dlk_status getDriver(const Driver *&driver);

/// What a loader and a launcher need to know of a device.
struct DeviceFacts {
  Device handle = 0;
  int computeCapability = 0; // 90 = 9.0
  int maxSharedBytes = 0;    // per block, opt-in
  int maxThreads = 0;
};

/// Errors: DLK_DEVICE_ERROR (no driver, no such device).
dlk_status getDevice(int32_t id, const Driver *&driver, DeviceFacts &facts);

/// "CUDA_ERROR_INVALID_VALUE"
const char *errorName(const Driver &driver, Result result);

/// Makes a context current for the lifetime of the object.
class ScopedContext {
public:
  ScopedContext(const Driver &driver, Context context) : driver(driver) {
    Context current = nullptr;
    if (driver.ctxGetCurrent(&current) == 0 && current == context)
      return;
    result = driver.ctxPush(context);
    pushed = result == 0;
  }
  ~ScopedContext() {
    Context old;
    if (pushed)
      driver.ctxPop(&old);
  }
  ScopedContext(const ScopedContext &) = delete;
  ScopedContext &operator=(const ScopedContext &) = delete;

  Result result = 0;

private:
  const Driver &driver;
  bool pushed = false;
};

} // namespace dl::runtime::cuda

#endif // DL_RUNTIME_CUDADRIVER_H
