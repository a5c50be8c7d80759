/*===- device.h - Memory, streams and graphs for the examples --------------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * An engine has all of this already. Here libcuda is opened by hand, so that the example builds
 * without a CUDA toolkit and also runs where there is no GPU.
 *
 *===----------------------------------------------------------------------===*/
#ifndef DL_EXAMPLES_DEVICE_H
#define DL_EXAMPLES_DEVICE_H

#include "dl/dlk.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Driver {
  int (*init)(unsigned);
  int (*device_get)(int *, int);
  int (*retain)(void **, int);
  int (*set_current)(void *);
  int (*synchronize)(void);
  int (*alloc)(unsigned long long *, size_t);
  int (*release)(unsigned long long);
  int (*to_device)(unsigned long long, const void *, size_t);
  int (*to_host)(void *, unsigned long long, size_t);
  int (*stream_create)(void **, unsigned);
  int (*begin_capture)(void *, int);
  int (*end_capture)(void *, void **);
  int (*instantiate)(void **, void *, unsigned long long);
  int (*graph_launch)(void *, void *);
} Driver;

static Driver driver;

static void die(const char *what) {
  fprintf(stderr, "decode: %s\n", what);
  exit(1);
}

static void check_cuda(int result, const char *what) {
  if (result != 0) {
    fprintf(stderr, "decode: %s failed with CUDA error %d\n", what, result);
    exit(1);
  }
}

/* Loads the driver and makes the primary context current. Returns 0 if there is no such device. */
static int open_cuda(int ordinal) {
  static const char *names[] = {"cuInit",
                                "cuDeviceGet",
                                "cuDevicePrimaryCtxRetain",
                                "cuCtxSetCurrent",
                                "cuCtxSynchronize",
                                "cuMemAlloc_v2",
                                "cuMemFree_v2",
                                "cuMemcpyHtoD_v2",
                                "cuMemcpyDtoH_v2",
                                "cuStreamCreate",
                                "cuStreamBeginCapture_v2",
                                "cuStreamEndCapture",
                                "cuGraphInstantiateWithFlags",
                                "cuGraphLaunch"};
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library)
    return 0;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    void *function = dlsym(library, names[i]);
    if (!function)
      return 0;
    memcpy((char *)&driver + i * sizeof(function), &function, sizeof(function));
  }
  int device = 0;
  void *context = NULL;
  return driver.init(0) == 0 && driver.device_get(&device, ordinal) == 0 &&
         driver.retain(&context, device) == 0 && driver.set_current(context) == 0;
}

static void *device_alloc(dlk_device device, size_t bytes) {
  unsigned long long pointer = 0;
  if (device.type == DLK_DEVICE_CUDA) {
    check_cuda(driver.alloc(&pointer, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)pointer;
  }
  void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory)
    die("out of memory");
  return memory;
}

static void device_free(dlk_device device, void *memory) {
  if (device.type == DLK_DEVICE_CUDA)
    driver.release((uintptr_t)memory);
  else
    free(memory);
}

static void to_device(dlk_device device, void *to, const void *from, size_t bytes) {
  if (device.type == DLK_DEVICE_CUDA)
    check_cuda(driver.to_device((uintptr_t)to, from, bytes), "cuMemcpyHtoD");
  else
    memcpy(to, from, bytes);
}

static void to_host(dlk_device device, void *to, const void *from, size_t bytes) {
  if (device.type == DLK_DEVICE_CUDA) {
    check_cuda(driver.synchronize(), "the kernel");
    check_cuda(driver.to_host(to, (uintptr_t)from, bytes), "cuMemcpyDtoH");
  } else {
    memcpy(to, from, bytes);
  }
}

#endif /* DL_EXAMPLES_DEVICE_H */
