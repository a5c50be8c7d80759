//===- CpuCode.cpp - Host shared objects ----------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The object is written to an anonymous file and loaded from there: nothing stays on disk. A
// kernel's blocks are independent, so threads share a large grid.
//
//===----------------------------------------------------------------------===//
#include "Code.h"
#include "Status.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

using namespace dl::runtime;

/// Host objects name no libraries: what they need is the C maths library, which a process that does
/// not link it, or loads this runtime without RTLD_GLOBAL, does not show them. Stays loaded.
static void loadMaths() {
  static void *const maths = dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  (void)maths; // where it has another name, dlopen of the object says what is missing
}

/// Host objects are compiled for x86-64-v3. An older processor would stop the process at the first
/// fused multiply-add.
static bool processorIsNewEnough() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

namespace {
class CpuCode : public LoadedCode {
public:
  ~CpuCode() override {
    if (handle)
      dlclose(handle);
    if (file >= 0)
      close(file);
  }

  dlk_status load(const char *data, size_t bytes) {
    if (!processorIsNewEnough())
      return fail(DLK_UNSUPPORTED, "cpu: expected an x86-64 processor with AVX2 and FMA");
    file = memfd_create("dlk", MFD_CLOEXEC);
    if (file < 0)
      return fail(DLK_DEVICE_ERROR, "cpu: cannot create an anonymous file: %s",
                  std::strerror(errno));
    for (size_t done = 0; done < bytes;) {
      ssize_t got = write(file, data + done, bytes - done);
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return fail(DLK_DEVICE_ERROR, "cpu: cannot write an anonymous file: %s",
                    std::strerror(errno));
      done += got;
    }
    // dlopen recognises objects by name, before it looks at the file. The file stays open as long
    // as the object is loaded, so that no other one gets its name; and since objects exist that
    // dlclose leaves in place, a name that is still taken is not used again.
    std::string path = pathOf(file);
    while (void *stale = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
      dlclose(stale);
      int next = fcntl(file, F_DUPFD_CLOEXEC, file + 1);
      if (next < 0)
        return fail(DLK_DEVICE_ERROR, "cpu: cannot duplicate a file descriptor: %s",
                    std::strerror(errno));
      close(file);
      file = next;
      path = pathOf(file);
    }
    loadMaths();
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return fail(DLK_DEVICE_ERROR, "cpu: cannot load the host object: %s", dlerror());
    return DLK_OK;
  }

  void *find(const char *symbol) const { return dlsym(handle, symbol); }

private:
  static std::string pathOf(int file) { return "/proc/self/fd/" + std::to_string(file); }

  int file = -1;
  void *handle = nullptr;
};

/// One launch: blocks are handed out by a counter, the first failure stops the others.
struct GridRun {
  dlk_cpu_entry entry;
  const void *params;
  const uint32_t *grid;
  uint64_t numBlocks;
  size_t scratchBytes;
  std::atomic<uint64_t> next{0};
  std::atomic<int32_t> result{0};
  std::atomic<bool> outOfMemory{false};

  void work() {
    size_t bytes = (std::max<size_t>(scratchBytes, 1) + 63) / 64 * 64;
    std::unique_ptr<void, void (*)(void *)> scratch(std::aligned_alloc(64, bytes), std::free);
    if (!scratch) {
      outOfMemory = true;
      return;
    }
    for (uint64_t i; result == 0 && (i = next++) < numBlocks;) {
      const uint32_t block[3] = {static_cast<uint32_t>(i % grid[0]),
                                 static_cast<uint32_t>(i / grid[0] % grid[1]),
                                 static_cast<uint32_t>(i / grid[0] / grid[1])};
      if (int32_t code = entry(params, block, scratch.get()))
        result = code;
    }
  }
};

class CpuExecutable : public Executable {
public:
  CpuExecutable(std::shared_ptr<LoadedCode> code, dlk_cpu_entry entry, const Kernel &kernel)
      : code(std::move(code)), entry(entry), scratchBytes(kernel.scratchBytes) {}

  dlk_status launch(const void *params, const uint32_t grid[3], void *, bool) const override {
    uint64_t numBlocks = uint64_t(grid[0]) * grid[1];
    if (__builtin_mul_overflow(numBlocks, uint64_t(grid[2]), &numBlocks))
      return fail(DLK_UNSUPPORTED, "grid: more than 2^64 blocks");
    GridRun run{entry, params, grid, numBlocks, scratchBytes};
    // A thread costs about as much as a small block: give each of them several.
    constexpr uint64_t blocksPerThread = 4;
    static const unsigned numCores = std::max(1u, std::thread::hardware_concurrency());
    uint64_t numThreads = std::min<uint64_t>(numCores, numBlocks / blocksPerThread);
    std::vector<std::thread> threads;
    try {
      while (threads.size() + 1 < numThreads)
        threads.emplace_back([&run] { run.work(); });
    } catch (const std::system_error &) {
      // Fewer threads are slower, not wrong.
    }
    run.work();
    for (std::thread &thread : threads)
      thread.join();
    if (int32_t code = run.result)
      return fail(DLK_DEVICE_ERROR, "cpu: the kernel returned error %d", code);
    if (run.outOfMemory && run.next < numBlocks)
      return fail(DLK_OUT_OF_MEMORY, "cpu: no memory for %zu bytes of scratch", scratchBytes);
    return DLK_OK;
  }

  dlk_status wait(void *) const override { return DLK_OK; }
  dlk_status read(uint64_t address, size_t, std::vector<char> &, const char *&data) const override {
    data = reinterpret_cast<const char *>(address);
    return DLK_OK;
  }

private:
  std::shared_ptr<LoadedCode> code;
  dlk_cpu_entry entry;
  size_t scratchBytes;
};
} // namespace

dlk_status dl::runtime::prepareCpu(const std::shared_ptr<Package> &package, const Kernel &kernel,
                                   std::unique_ptr<Executable> &result) {
  std::shared_ptr<LoadedCode> code;
  auto load = [&](std::shared_ptr<LoadedCode> &loaded) {
    auto fresh = std::make_shared<CpuCode>();
    const Blob &blob = package->manifest().blobs[kernel.blob];
    dlk_status status = fresh->load(package->blobData(blob), blob.bytes);
    if (status == DLK_OK)
      loaded = std::move(fresh);
    return status;
  };
  if (dlk_status status = package->loadOnce({kernel.blob, DLK_DEVICE_CPU, 0}, code, load))
    return status;
  void *entry = static_cast<CpuCode &>(*code).find(kernel.entry.c_str());
  if (!entry)
    return fail(DLK_BAD_PACKAGE, "kernel '%s': the host object has no symbol '%s'",
                kernel.name.c_str(), kernel.entry.c_str());
  result = std::make_unique<CpuExecutable>(std::move(code), reinterpret_cast<dlk_cpu_entry>(entry),
                                           kernel);
  return DLK_OK;
}
