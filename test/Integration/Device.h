//===- Device.h - The device under test and memory on it ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_DEVICE_H
#define DL_TEST_INTEGRATION_DEVICE_H

#include "CudaDriver.h"
#include "dl/dlk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace dl::test {
namespace cuda = runtime::cuda;

/// The device under test, and for a GPU its context.
class Device {
public:
  static Device &get() {
    static Device device;
    return device;
  }
  dlk_device handle = {DLK_DEVICE_CPU, 0};
  const cuda::Driver *driver = nullptr;
  int computeCapability = 0; ///< 90 is 9.0; of a GPU

  bool isHost() const { return handle.type == DLK_DEVICE_CPU; }
  void open(const char *text) {
    ASSERT_EQ(dlk_device_parse(text, &handle), DLK_OK) << dlk_last_error();
    if (handle.type == DLK_DEVICE_CPU)
      return;
    cuda::DeviceFacts facts;
    cuda::Context context = nullptr;
    ASSERT_EQ(cuda::getDevice(handle.id, driver, facts), DLK_OK) << dlk_last_error();
    computeCapability = facts.computeCapability;
    ASSERT_EQ(driver->primaryRetain(&context, facts.handle), 0);
    ASSERT_EQ(driver->ctxPush(context), 0);
  }
};

/// Pages of the host that fault when touched, right before or right after some memory.
enum class Fence { None, Before, After };

/// Bytes on the device with an image on the host.
class Memory {
public:
  /// Fences stand on the host alone: a GPU has compute-sanitizer.
  explicit Memory(size_t bytes, Fence fence = Fence::None) : image(bytes), device(Device::get()) {
    if (device.driver)
      EXPECT_EQ(device.driver->memAlloc(&pointer, std::max<size_t>(bytes, 1)), 0);
    else if (fence != Fence::None)
      allocateFenced(fence);
    else
      pointer = reinterpret_cast<uintptr_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  ~Memory() {
    if (device.driver)
      device.driver->memFree(pointer);
    else if (pages)
      munmap(pages, pagesBytes);
    else
      std::free(data());
  }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  void *data() const { return reinterpret_cast<void *>(pointer); }
  void upload() {
    if (device.driver)
      ASSERT_EQ(device.driver->memcpyHtoD(pointer, image.data(), image.size()), 0);
    else
      std::copy(image.begin(), image.end(), static_cast<unsigned char *>(data()));
  }
  std::vector<unsigned char> download() const {
    std::vector<unsigned char> bytes(image.size());
    if (device.driver)
      EXPECT_EQ(device.driver->memcpyDtoH(bytes.data(), pointer, bytes.size()), 0);
    else
      std::copy_n(static_cast<const unsigned char *>(data()), bytes.size(), bytes.data());
    return bytes;
  }

  /// What the device holds: its memory if the host can see it, else a copy in `scratch`.
  const unsigned char *look(std::vector<unsigned char> &scratch) const {
    if (!device.driver)
      return static_cast<const unsigned char *>(data());
    scratch = download();
    return scratch.data();
  }

  std::vector<unsigned char> image;

private:
  void allocateFenced(Fence fence) {
    const size_t page = sysconf(_SC_PAGESIZE), body = (image.size() + page - 1) / page * page;
    pagesBytes = body + 2 * page;
    pages = mmap(nullptr, pagesBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    char *start = static_cast<char *>(pages) + page;
    ASSERT_EQ(mprotect(start, body, PROT_READ | PROT_WRITE), 0);
    pointer =
        reinterpret_cast<uintptr_t>(start) + (fence == Fence::After ? body - image.size() : 0);
  }

  Device &device;
  cuda::DevicePtr pointer = 0;
  void *pages = nullptr; ///< of fenced memory, with the fences
  size_t pagesBytes = 0;
};

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_DEVICE_H
