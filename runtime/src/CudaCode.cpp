//===- CudaCode.cpp - Cubins and PTX on CUDA devices ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Code is loaded as a CUlibrary, which belongs to no context: its handles stay valid when the
// primary context is reset, so releasing a plan afterwards is safe.
//
//===----------------------------------------------------------------------===//
#include "Code.h"
#include "CudaDriver.h"
#include "Status.h"
#include "Target.h"

#include <unistd.h>

#include <cstring>

using namespace dl::runtime;
using namespace dl::runtime::cuda;

namespace {
class CudaCode : public LoadedCode {
public:
  CudaCode(const Driver &driver, const DeviceFacts &facts, int32_t id)
      : driver(driver), facts(facts), id(id), process(getpid()) {}

  /// Errors are ignored: at exit, or after a reset, the driver has cleaned up already. After fork()
  /// the driver's state in the child is unusable.
  ~CudaCode() override {
    if (getpid() != process)
      return;
    if (library)
      driver.libraryUnload(library);
    if (context)
      driver.primaryRelease(facts.handle);
  }

  dlk_status load(const Package &package, const Kernel &kernel);

  /// Raises the limit on dynamic shared memory. Kernels of the package may share an entry: never
  /// lower it.
  Result allowSharedBytes(KernelHandle handle, int bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    int &allowed = sharedBytes[handle];
    if (bytes <= allowed)
      return 0;
    Result result =
        driver.kernelSetAttribute(functionMaxDynamicSharedBytes, bytes, handle, facts.handle);
    if (!result)
      allowed = bytes;
    return result;
  }

  const Driver &driver;
  const DeviceFacts facts;
  const int32_t id;
  Library library = nullptr;
  Context context = nullptr;

private:
  const pid_t process;
  std::mutex mutex;
  std::map<KernelHandle, int> sharedBytes;
};

class CudaExecutable : public Executable {
public:
  /// `canOverlap`: with the grid before it on a stream; `overlaps`: every launch does.
  CudaExecutable(std::shared_ptr<CudaCode> code, KernelHandle handle, const Kernel &kernel,
                 bool canOverlap, bool overlaps)
      : code(std::move(code)), handle(handle), threads(kernel.threads),
        sharedBytes(kernel.sharedBytes), canOverlap(canOverlap), overlaps(overlaps) {}

  dlk_status launch(const void *params, const uint32_t grid[3], void *stream,
                    bool mayOverlap) const override;
  dlk_status wait(void *stream) const override;
  dlk_status read(uint64_t address, size_t bytes, std::vector<char> &copy,
                  const char *&data) const override;

private:
  std::shared_ptr<CudaCode> code;
  KernelHandle handle;
  uint32_t threads, sharedBytes;
  bool canOverlap, overlaps;
};
} // namespace

dlk_status CudaExecutable::launch(const void *params, const uint32_t grid[3], void *stream,
                                  bool mayOverlap) const {
  const Driver &driver = code->driver;
  ScopedContext scope(driver, code->context);
  void *arguments[] = {const_cast<void *>(params)};
  Result result = scope.result;
  if (!result && (overlaps || (mayOverlap && canOverlap))) {
    LaunchAttribute attribute = {launchProgrammaticStreamSerialization, {}, {1}};
    const LaunchConfig config = {{grid[0], grid[1], grid[2]}, {threads, 1, 1}, sharedBytes,
                                 static_cast<Stream>(stream), &attribute,      1};
    result = driver.launchKernelEx(&config, handle, arguments, nullptr);
  } else if (!result) {
    result = driver.launchKernel(handle, grid[0], grid[1], grid[2], threads, 1, 1, sharedBytes,
                                 static_cast<Stream>(stream), arguments, nullptr);
  }
  if (result)
    return fail(DLK_DEVICE_ERROR, "cuda:%d: the launch failed with %s", code->id,
                errorName(driver, result));
  return DLK_OK;
}

dlk_status CudaExecutable::wait(void *stream) const {
  const Driver &driver = code->driver;
  ScopedContext scope(driver, code->context);
  int isCapturing = 0;
  Result result = scope.result;
  if (!result)
    result = driver.streamIsCapturing(static_cast<Stream>(stream), &isCapturing);
  if (isCapturing || result == errorStreamCaptureImplicit)
    return fail(DLK_INVALID_ARGUMENT,
                "stream: expected one that is not capturing, since DLK_PLAN_CHECKED waits for it, "
                "got one that is");
  if (!result)
    result = driver.streamSynchronize(static_cast<Stream>(stream));
  if (result)
    return fail(DLK_DEVICE_ERROR, "cuda:%d: waiting for the stream failed with %s", code->id,
                errorName(driver, result));
  return DLK_OK;
}

dlk_status CudaExecutable::read(uint64_t address, size_t bytes, std::vector<char> &copy,
                                const char *&data) const {
  const Driver &driver = code->driver;
  ScopedContext scope(driver, code->context);
  copy.resize(bytes);
  Result result = scope.result;
  if (!result)
    result = driver.memcpyDtoH(copy.data(), address, bytes);
  if (result)
    return fail(DLK_DEVICE_ERROR, "cuda:%d: copying %zu bytes to the host failed with %s", code->id,
                bytes, errorName(driver, result));
  data = copy.data();
  return DLK_OK;
}

dlk_status CudaCode::load(const Package &package, const Kernel &kernel) {
  if (Result result = driver.primaryRetain(&context, facts.handle)) {
    context = nullptr;
    return fail(DLK_DEVICE_ERROR, "cuda:%d: no context: %s", id, errorName(driver, result));
  }
  ScopedContext scope(driver, context);
  const Blob &blob = package.manifest().blobs[kernel.blob];
  // PTX must end in a zero; the copy is harmless for cubins.
  std::string image(package.blobData(blob), blob.bytes);
  char log[600] = "";
  int options[] = {jitErrorLog, jitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  Result result =
      driver.libraryLoadData(&library, image.c_str(), options, values, 2, nullptr, nullptr, 0);
  if (result) {
    library = nullptr;
    return fail(DLK_DEVICE_ERROR, "kernel '%s' (%s): loading on cuda:%d failed with %s%s%s",
                kernel.name.c_str(), kernel.target.c_str(), id, errorName(driver, result),
                *log ? ": " : "", log);
  }
  return DLK_OK;
}

/// Compares the kernel's needs with the device's limits.
static dlk_status checkLimits(const CudaCode &code, KernelHandle handle, const Kernel &kernel) {
  const Driver &driver = code.driver;
  const char *name = kernel.name.c_str();
  int staticBytes = 0, maxThreads = 0;
  Result result =
      driver.kernelGetAttribute(&staticBytes, functionStaticSharedBytes, handle, code.facts.handle);
  if (!result)
    result = driver.kernelGetAttribute(&maxThreads, functionMaxThreadsPerBlock, handle,
                                       code.facts.handle);
  if (result)
    return fail(DLK_DEVICE_ERROR, "kernel '%s': %s", name, errorName(driver, result));
  int64_t needed = int64_t(staticBytes) + kernel.sharedBytes;
  if (needed > code.facts.maxSharedBytes)
    return fail(DLK_UNSUPPORTED, "kernel '%s': %lld bytes of shared memory, cuda:%d allows %d",
                name, static_cast<long long>(needed), code.id, code.facts.maxSharedBytes);
  if (int64_t(kernel.threads) > maxThreads)
    return fail(DLK_UNSUPPORTED, "kernel '%s': %u threads per block, cuda:%d allows it %d", name,
                kernel.threads, code.id, maxThreads);
  size_t offset = 0, bytes = 0;
  if (driver.kernelGetParamInfo && driver.kernelGetParamInfo(handle, 0, &offset, &bytes) == 0 &&
      bytes != kernel.paramBytes)
    return fail(DLK_BAD_PACKAGE, "kernel '%s': param_bytes is %u, the code takes %zu", name,
                kernel.paramBytes, bytes);
  return DLK_OK;
}

/// Programmatic dependent launch needs the kernel, the device and the driver to take part.
static bool hasPdl(const Driver &driver, const DeviceFacts &facts, const Kernel &kernel) {
  return kernel.pdl && facts.computeCapability >= 90 && driver.launchKernelEx;
}

/// Says why, where a plan asks for it.
static dlk_status checkPdl(const Driver &driver, const DeviceFacts &facts, const Kernel &kernel,
                           int32_t device) {
  const char *name = kernel.name.c_str();
  if (!kernel.pdl)
    return fail(
        DLK_UNSUPPORTED,
        "kernel '%s': DLK_PLAN_PDL: expected a kernel compiled for it ('pdl'), got one that "
        "is not",
        name);
  if (facts.computeCapability < 90)
    return fail(DLK_UNSUPPORTED,
                "kernel '%s': DLK_PLAN_PDL: expected a device of sm_90 or newer, cuda:%d is sm_%d",
                name, device, facts.computeCapability);
  if (!driver.launchKernelEx)
    return fail(DLK_UNSUPPORTED,
                "kernel '%s': DLK_PLAN_PDL: expected a driver with cuLaunchKernelEx, got %d.%d",
                name, driver.version / 1000, driver.version % 1000 / 10);
  return DLK_OK;
}

dlk_status dl::runtime::prepareCuda(const std::shared_ptr<Package> &package, const Kernel &kernel,
                                    int32_t device, uint32_t flags,
                                    std::unique_ptr<Executable> &result) {
  if (kernel.format == DLK_FORMAT_PTX && (flags & DLK_PLAN_NO_PTX))
    return fail(DLK_UNSUPPORTED, "kernel '%s' is PTX, which DLK_PLAN_NO_PTX refuses",
                kernel.name.c_str());
  const Driver *driver;
  DeviceFacts facts;
  if (dlk_status status = getDevice(device, driver, facts))
    return status;
  const bool pdl = (flags & DLK_PLAN_PDL) != 0;
  if (pdl)
    if (dlk_status status = checkPdl(*driver, facts, kernel, device))
      return status;
  std::shared_ptr<LoadedCode> loaded;
  auto load = [&](std::shared_ptr<LoadedCode> &code) {
    auto fresh = std::make_shared<CudaCode>(*driver, facts, device);
    dlk_status status = fresh->load(*package, kernel);
    if (status == DLK_OK)
      code = std::move(fresh);
    return status;
  };
  if (dlk_status status = package->loadOnce({kernel.blob, DLK_DEVICE_CUDA, device}, loaded, load))
    return status;
  auto code = std::static_pointer_cast<CudaCode>(loaded);

  ScopedContext scope(*driver, code->context);
  KernelHandle handle = nullptr;
  if (Result error = driver->libraryGetKernel(&handle, code->library, kernel.entry.c_str()))
    return fail(DLK_BAD_PACKAGE, "kernel '%s': the code has no entry '%s' (%s)",
                kernel.name.c_str(), kernel.entry.c_str(), errorName(*driver, error));
  if (dlk_status status = checkLimits(*code, handle, kernel))
    return status;
  Function function =
      nullptr; // Asking for it loads the code into the context now, not at the first launch.
  Result error = code->allowSharedBytes(handle, static_cast<int>(kernel.sharedBytes));
  if (!error)
    error = driver->kernelGetFunction(&function, handle);
  if (error)
    return fail(DLK_DEVICE_ERROR, "kernel '%s': preparing on cuda:%d failed with %s",
                kernel.name.c_str(), device, errorName(*driver, error));
  result = std::make_unique<CudaExecutable>(std::move(code), handle, kernel,
                                            hasPdl(*driver, facts, kernel), pdl);
  return DLK_OK;
}

dlk_status dl::runtime::rankForDevice(const Kernel &kernel, dlk_device device, int &rank) {
  rank = 0;
  const char *name = kernel.name.c_str();
  if (device.type == DLK_DEVICE_CPU) {
    rank = kernel.format == DLK_FORMAT_SO;
    if (!rank)
      return fail(DLK_UNSUPPORTED, "kernel '%s' is for %s, not for cpu", name,
                  kernel.target.c_str());
    return DLK_OK;
  }
  const Driver *driver;
  DeviceFacts facts;
  if (dlk_status status = getDevice(device.id, driver, facts))
    return status;
  CudaTarget target;
  if (parseCudaTarget(kernel.target, target))
    rank = rankCudaTarget(target, kernel.format, facts.computeCapability);
  if (!rank)
    return fail(DLK_UNSUPPORTED, "kernel '%s' is for %s (%s), cuda:%d is sm_%d", name,
                kernel.target.c_str(), kernel.format == DLK_FORMAT_PTX ? "ptx" : "machine code",
                device.id, facts.computeCapability);
  return DLK_OK;
}
