/*===- fake_cuda.c - A CUDA driver without a device, for tests -----------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/
#include "fake_cuda.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
  success = 0,
  invalid_value = 1,
  not_initialized = 3,
  invalid_image = 200,
  invalid_context = 201,
  context_destroyed = 709,
  capture_implicit = 906
};

/*===----------------------------------------------------------------------===*
 * The log. Nothing here allocates: the tests count allocations.
 *===----------------------------------------------------------------------===*/

FakeCuda fake_cuda;
FakeLaunch fake_launch, fake_launch_before, fake_launches[FAKE_LAUNCHES];
int fake_num_launches;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_text[2000];
static size_t log_length;
static struct {
  const char *name;
  int count;
} counts[64];
static pid_t process;

/* Every entry point begins with it. A child of fork() cannot use the driver. */
static int call(const char *name) {
  pthread_mutex_lock(&mutex);
  int length = snprintf(log_text + log_length, sizeof(log_text) - log_length, "%s%s",
                        log_length ? " " : "", name);
  log_length += (size_t)length;
  if (log_length >= sizeof(log_text))
    log_length = sizeof(log_text) - 1;
  int i = 0;
  while (counts[i].name && strcmp(counts[i].name, name) != 0)
    ++i;
  counts[i].name = name;
  ++counts[i].count;
  pthread_mutex_unlock(&mutex);
  return process && process != getpid() ? not_initialized : success;
}
#define CALL()                                                                                     \
  do {                                                                                             \
    int status = call(__func__);                                                                   \
    if (status)                                                                                    \
      return status;                                                                               \
  } while (0)

void fake_clear_log(void) {
  pthread_mutex_lock(&mutex);
  log_length = 0;
  log_text[0] = 0;
  memset(counts, 0, sizeof(counts));
  fake_num_launches = 0;
  pthread_mutex_unlock(&mutex);
}

const char *fake_log(void) { return log_text; }

int fake_count(const char *name) {
  for (int i = 0; counts[i].name; ++i)
    if (strcmp(counts[i].name, name) == 0)
      return counts[i].count;
  return 0;
}

/*===----------------------------------------------------------------------===*
 * Devices and contexts
 *===----------------------------------------------------------------------===*/

/* A primary context: a new one after each reset. */
typedef struct Context {
  int device, is_alive;
} Context;

static Context contexts[64];
static int num_contexts;
static Context *primary[FAKE_DEVICES];
static _Thread_local Context *stack[8];
static _Thread_local int depth;

void fake_reset(void) {
  fake_cuda = (FakeCuda){{90, 90}, 100000, 0, 1024, 272, NULL, NULL, -1};
  memset(&fake_launch, 0, sizeof(fake_launch));
  memset(&fake_launch_before, 0, sizeof(fake_launch_before));
  fake_clear_log();
}

void fake_reset_context(int device) {
  if (primary[device])
    primary[device]->is_alive = 0;
  primary[device] = NULL;
}

int cuInit(unsigned flags) {
  (void)flags;
  process = getpid();
  CALL();
  return success;
}

int cuDriverGetVersion(int *version) {
  *version = 12040;
  return success;
}

int cuGetErrorName(int error, const char **name) {
  *name = error == not_initialized     ? "CUDA_ERROR_NOT_INITIALIZED"
          : error == invalid_image     ? "CUDA_ERROR_INVALID_IMAGE"
          : error == invalid_context   ? "CUDA_ERROR_INVALID_CONTEXT"
          : error == context_destroyed ? "CUDA_ERROR_CONTEXT_IS_DESTROYED"
                                       : "CUDA_ERROR_INVALID_VALUE";
  return success;
}

int cuDeviceGetCount(int *count) {
  CALL();
  *count = FAKE_DEVICES;
  return success;
}

int cuDeviceGet(int *device, int ordinal) {
  CALL();
  *device = ordinal + 10; /* a handle is no ordinal */
  return success;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  CALL();
  *value = attribute == 75   ? fake_cuda.capability[device - 10] / 10
           : attribute == 76 ? fake_cuda.capability[device - 10] % 10
           : attribute == 97 ? fake_cuda.max_shared_bytes
                             : 1024;
  return success;
}

int cuDevicePrimaryCtxRetain(Context **context, int device) {
  CALL();
  pthread_mutex_lock(&mutex);
  if (!primary[device - 10]) {
    primary[device - 10] = &contexts[num_contexts++];
    *primary[device - 10] = (Context){device - 10, 1};
  }
  *context = primary[device - 10];
  pthread_mutex_unlock(&mutex);
  return success;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  CALL();
  return success;
}

int cuCtxGetCurrent(Context **context) {
  CALL();
  *context = depth ? stack[depth - 1] : NULL;
  return success;
}

int cuCtxPushCurrent_v2(Context *context) {
  CALL();
  if (!context->is_alive)
    return context_destroyed;
  stack[depth++] = context;
  return success;
}

int cuCtxPopCurrent_v2(Context **context) {
  CALL();
  if (!depth)
    return invalid_context;
  *context = stack[--depth];
  return success;
}

/*===----------------------------------------------------------------------===*
 * Code and launches
 *===----------------------------------------------------------------------===*/

int cuLibraryLoadData(void **library, const void *code, int *options, void **values,
                      unsigned num_options, int *library_options, void **library_values,
                      unsigned num_library_options) {
  CALL();
  (void)code, (void)options, (void)library_options, (void)library_values;
  (void)num_library_options;
  if (fake_cuda.load_log && num_options) {
    strcpy((char *)values[0], fake_cuda.load_log);
    return invalid_image;
  }
  *library = &fake_cuda;
  return depth ? success : invalid_context;
}

int cuLibraryUnload(void *library) {
  CALL();
  return library ? success : invalid_value;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  CALL();
  *kernel = library;
  return strncmp(name, "test_", 5) == 0 ? success : 500;
}

int cuKernelGetFunction(void **function, void *kernel) {
  CALL();
  *function = kernel;
  return success;
}

int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  CALL();
  (void)kernel, (void)device;
  *value = attribute == 1 ? fake_cuda.static_shared_bytes : fake_cuda.max_threads;
  return success;
}

int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  CALL();
  (void)attribute, (void)kernel, (void)device;
  return value + fake_cuda.static_shared_bytes <= fake_cuda.max_shared_bytes ? success
                                                                             : invalid_value;
}

int cuKernelGetParamInfo(void *kernel, size_t index, size_t *offset, size_t *bytes) {
  CALL();
  (void)kernel, (void)index;
  *offset = 0;
  *bytes = (size_t)fake_cuda.param_bytes;
  return success;
}

static int record_launch(FakeLaunch launch, void **params) {
  if (!depth)
    return invalid_context;
  if (!stack[depth - 1]->is_alive)
    return context_destroyed;
  launch.device = stack[depth - 1]->device;
  memcpy(launch.params, params[0], (size_t)fake_cuda.param_bytes);
  pthread_mutex_lock(&mutex);
  const int fails = fake_cuda.launches_left == 0;
  if (fake_cuda.launches_left > 0)
    --fake_cuda.launches_left;
  if (!fails) {
    fake_launch_before = fake_launch;
    fake_launch = launch;
    if (fake_num_launches < FAKE_LAUNCHES)
      fake_launches[fake_num_launches] = launch;
    ++fake_num_launches;
  }
  pthread_mutex_unlock(&mutex);
  return fails ? invalid_value : success;
}

int cuLaunchKernel(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void *stream, void **params, void **extra) {
  CALL();
  (void)kernel, (void)extra;
  FakeLaunch launch = {.grid = {grid_x, grid_y, grid_z},
                       .block = {block_x, block_y, block_z},
                       .shared_bytes = shared_bytes,
                       .stream = stream};
  return record_launch(launch, params);
}

#ifndef FAKE_OLD_DRIVER
/* CUlaunchAttribute and CUlaunchConfig, as cuda.h has them. */
typedef struct Attribute {
  int id;
  char pad[8 - sizeof(int)];
  union {
    char pad[64];
    int number;
  } value;
} Attribute;

typedef struct Config {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void *stream;
  Attribute *attributes;
  unsigned num_attributes;
} Config;

int cuLaunchKernelEx(const Config *config, void *kernel, void **params, void **extra) {
  CALL();
  (void)kernel, (void)extra;
  FakeLaunch launch = {.grid = {config->grid_x, config->grid_y, config->grid_z},
                       .block = {config->block_x, config->block_y, config->block_z},
                       .shared_bytes = config->shared_bytes,
                       .stream = config->stream,
                       .num_attributes = (int)config->num_attributes,
                       .attribute = config->attributes[0].id,
                       .value = config->attributes[0].value.number};
  return record_launch(launch, params);
}
#endif

/*===----------------------------------------------------------------------===*
 * Streams and memory
 *===----------------------------------------------------------------------===*/

int cuStreamIsCapturing(void *stream, int *is_capturing) {
  CALL();
  if (!stream && fake_cuda.capturing)
    return capture_implicit;
  *is_capturing = stream && stream == fake_cuda.capturing;
  return success;
}

int cuStreamSynchronize(void *stream) {
  CALL();
  (void)stream;
  return success;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
  CALL();
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return success;
}

/* The runtime looks for these, and the tests do not use them. */
#define UNUSED(NAME)                                                                               \
  int NAME(void);                                                                                  \
  int NAME(void) {                                                                                 \
    CALL();                                                                                        \
    return invalid_value;                                                                          \
  }
UNUSED(cuCtxSynchronize)
UNUSED(cuDeviceGetName)
UNUSED(cuEventCreate)
UNUSED(cuEventDestroy_v2)
UNUSED(cuEventElapsedTime)
UNUSED(cuEventRecord)
UNUSED(cuEventSynchronize)
UNUSED(cuGraphDestroy)
UNUSED(cuGraphExecDestroy)
UNUSED(cuGraphInstantiateWithFlags)
UNUSED(cuGraphLaunch)
UNUSED(cuMemAlloc_v2)
UNUSED(cuMemFree_v2)
UNUSED(cuMemGetInfo_v2)
UNUSED(cuMemcpyHtoD_v2)
UNUSED(cuMemsetD32_v2)
UNUSED(cuStreamBeginCapture_v2)
UNUSED(cuStreamCreate)
UNUSED(cuStreamDestroy_v2)
UNUSED(cuStreamEndCapture)
