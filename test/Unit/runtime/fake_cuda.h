/*===- fake_cuda.h - A CUDA driver without a device, for tests -----------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * fake_cuda.c becomes a libcuda.so.1. A test that links it is what the runtime finds when it opens
 * the driver: by then a library of that name is loaded. It keeps a log of the calls, does as the
 * driver does with contexts, streams that capture and processes that forked, and runs no kernel.
 * Device memory is host memory.
 *
 *===----------------------------------------------------------------------===*/
#ifndef DL_TEST_UNIT_RUNTIME_FAKE_CUDA_H
#define DL_TEST_UNIT_RUNTIME_FAKE_CUDA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FAKE_DEVICES = 2 };

/* What a test sets. */
typedef struct FakeCuda {
  int capability[FAKE_DEVICES]; /* 90 = 9.0 */
  int max_shared_bytes, static_shared_bytes, max_threads, param_bytes;
  void *capturing;      /* the stream that captures, or NULL */
  const char *load_log; /* what the compiler says; loading then fails */
  int launches_left;    /* after so many a launch fails; -1: none does */
} FakeCuda;
extern FakeCuda fake_cuda;

/* A launch of a kernel. */
typedef struct FakeLaunch {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  int device;         /* of the context that was current; -1: none */
  int num_attributes; /* 0 with cuLaunchKernel */
  int attribute, value;
  unsigned char params[4000];
} FakeLaunch;
/* The last one, and the one before it; and the first ones since fake_clear_log. */
enum { FAKE_LAUNCHES = 16 };
extern FakeLaunch fake_launch, fake_launch_before, fake_launches[FAKE_LAUNCHES];
extern int fake_num_launches;

/* NOLINTBEGIN(readability-identifier-naming): C */
/* Settings back to those of two small devices of 9.0; forgets all calls. */
void fake_reset(void);

/* Forgets the calls. */
void fake_clear_log(void);

/* The calls since then, "cuInit cuDeviceGet", cut to a fixed length; and how many of one name. */
const char *fake_log(void);
int fake_count(const char *name);

/* As cuDevicePrimaryCtxReset: contexts of the device that are in use stop working. */
void fake_reset_context(int device);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif /* DL_TEST_UNIT_RUNTIME_FAKE_CUDA_H */
