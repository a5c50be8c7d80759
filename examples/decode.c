/*===- decode.c - One decode step from C ----------------------------------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 *   decode PKG.dlk [cpu | cuda:N]
 *
 * Finds the decode kernel of a package, whatever its operator, and runs one token for four rows: on
 * a stream, and on CUDA again from a captured graph. Row i uses slot 4 - i of the pools; slot 0 is
 * the null slot, which the last row has (an engine pads its batches this way). Checks that the
 * outputs are finite, that the null row's are zero, that slot 0 is untouched and that both launches
 * agree bit for bit.
 *
 *===----------------------------------------------------------------------===*/
#include "device.h"

#include <math.h>

enum { rows = 4, tokens = 1, heads = 2, slots = 5, null_row = 3 };

typedef struct Argument {
  dlk_arg_info info;
  int64_t shape[DLK_MAX_RANK];
  size_t bytes;
  char *initial; /* host copies */
  char *final;
  void *memory; /* on the device */
  int pool;     /* index of the argument whose memory this is: a state is updated in place */
} Argument;

static void check(dlk_status status) {
  if (status != DLK_OK)
    die(dlk_last_error());
}

static float read_number(dlk_dtype dtype, const char *from) {
  float value = 0;
  if (dtype == DLK_F32)
    memcpy(&value, from, 4);
  else if (dtype == DLK_BF16)
    memcpy((char *)&value + 2, from, 2);
  else if (dtype == DLK_F16) {
    uint16_t bits;
    memcpy(&bits, from, 2);
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    value = exponent == 31 ? NAN
                           : ldexpf((float)(exponent ? 1024 + mantissa : mantissa),
                                    (exponent ? exponent : 1) - 25);
  }
  return value;
}

/* Small numbers around zero, exact in every type. Slot arrays count down to the null slot. */
static void write_number(const dlk_arg_info *info, size_t n, char *to) {
  const float value = (float)((int)(n * 37 % 17) - 8) / 64;
  const int64_t slot = n == null_row ? 0 : (int64_t)(slots - 1 - n);
  const int32_t narrow = (int32_t)slot;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (info->dtype == DLK_F32) {
    memcpy(to, &value, 4);
  } else if (info->dtype == DLK_BF16) {
    memcpy(to, (char *)&bits + 2, 2);
  } else if (info->dtype == DLK_F16) {
    const uint32_t exponent = (bits >> 23 & 255) - 112, mantissa = bits >> 13 & 1023;
    const uint16_t half =
        (uint16_t)(value == 0 ? 0 : (bits >> 16 & 0x8000) | exponent << 10 | mantissa);
    memcpy(to, &half, 2);
  } else if (info->dtype == DLK_I32) {
    memcpy(to, &narrow, 4);
  } else if (info->dtype == DLK_I64) {
    memcpy(to, &slot, 8);
  }
}

/* Rows are the entries of the batch here, none of them starts anew, and each has one state. */
static int is_left_out(const dlk_arg_info *info) {
  return info->role == DLK_ROLE_ROW_STARTS || info->role == DLK_ROLE_ROW_FLAGS ||
         info->role == DLK_ROLE_ACCEPTED;
}

static void make_argument(const dlk_kernel *kernel, int32_t index, dlk_device device,
                          Argument *args) {
  const dlk_size sizes[] = {{"B", rows},   {"T", tokens},      {"HQ", heads},
                            {"HV", heads}, {"pool_in", slots}, {"pool_out", slots}};
  Argument *arg = &args[index];
  check(dlk_kernel_get_arg(kernel, index, &arg->info));
  check(dlk_arg_shape(kernel, index, sizes, 6, arg->shape));
  const size_t element = dlk_dtype_bytes(arg->info.dtype);
  arg->bytes = element;
  for (int32_t i = 0; i < arg->info.rank; ++i)
    arg->bytes *= (size_t)arg->shape[i];
  arg->initial = malloc(arg->bytes);
  arg->final = malloc(arg->bytes);
  if (!arg->initial || !arg->final)
    die("out of memory");
  for (size_t n = 0; n < arg->bytes / element; ++n)
    write_number(&arg->info, n, arg->initial + n * element);
  arg->pool = index;
  for (int32_t i = 0; i < index; ++i)
    if (arg->info.role == DLK_ROLE_STATE_OUT && args[i].info.role == DLK_ROLE_STATE_IN &&
        args[i].info.dtype == arg->info.dtype && strcmp(args[i].info.name, arg->info.name) == 0)
      arg->pool = i;
  arg->memory = args[arg->pool].memory;
  if (arg->pool == index)
    arg->memory = device_alloc(device, arg->bytes);
}

static void reset(dlk_device device, Argument *args, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (args[i].pool == i)
      to_device(device, args[i].memory, args[i].initial, args[i].bytes);
}

/* Reads back everything that the kernel writes. Returns whether it equals the result of the last
 * call. */
static int read_back(dlk_device device, Argument *args, int32_t count) {
  int same = 1;
  for (int32_t i = 0; i < count; ++i) {
    if (!args[i].info.written)
      continue;
    char *now = malloc(args[i].bytes);
    if (!now)
      die("out of memory");
    to_host(device, now, args[i].memory, args[i].bytes);
    same = same && memcmp(now, args[i].final, args[i].bytes) == 0;
    memcpy(args[i].final, now, args[i].bytes);
    free(now);
  }
  return same;
}

static void verify(const Argument *args, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const Argument *arg = &args[i];
    const size_t element = dlk_dtype_bytes(arg->info.dtype), row = arg->bytes / arg->shape[0];
    double largest = 0;
    if (arg->info.role == DLK_ROLE_STATE_OUT && memcmp(arg->final, arg->initial, row) != 0)
      die("the null slot of the pool has changed");
    if (arg->info.role != DLK_ROLE_OUTPUT)
      continue;
    for (size_t n = 0; n < arg->bytes; n += element) {
      const float value = read_number(arg->info.dtype, arg->final + n);
      if (!isfinite(value))
        die("an output is not finite");
      if (n / row == null_row && value != 0)
        die("the null row's output is not zero");
      largest = fmax(largest, fabs(value));
    }
    printf("output %s: finite, zeros in the null row, largest magnitude %.4g\n", arg->info.name,
           largest);
  }
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3)
    die("usage: decode PKG.dlk [cpu | cuda:N]");
  dlk_device device;
  check(dlk_device_parse(argc > 2 ? argv[2] : "cuda:0", &device));
  if (device.type == DLK_DEVICE_CUDA && !open_cuda(device.id)) {
    if (argc > 2)
      die("no such CUDA device");
    check(dlk_device_parse("cpu", &device));
  }

  /* Once per process: everything that loads or allocates. */
  dlk_package *package;
  check(dlk_package_open_file(argv[1], &package));
  const dlk_query query = {.kind = "decode"};
  const dlk_kernel *kernel;
  check(dlk_find(package, &query, device, &kernel));
  /* DLK_PLAN_PDL in place of 0 lets the kernel start while the one before it still runs. */
  dlk_plan *plan;
  check(dlk_prepare(kernel, device, 0, &plan));
  dlk_kernel_info info;
  check(dlk_kernel_get_info(kernel, &info));
  printf("%s on %s\n", info.name, device.type == DLK_DEVICE_CUDA ? "cuda" : "cpu");

  Argument args[DLK_MAX_ARGS];
  dlk_tensor views[DLK_MAX_ARGS];
  for (int32_t i = 0; i < info.num_args; ++i) {
    make_argument(kernel, i, device, args);
    views[i] = (dlk_tensor){.data = is_left_out(&args[i].info) ? NULL : args[i].memory,
                            .device = device,
                            .ndim = args[i].info.rank,
                            .dtype = dlk_dtype_data_type(args[i].info.dtype),
                            .shape = args[i].shape};
  }
  const dlk_scalar scalars[] = {{"first_slot", 1}};

  /* Every step: one call. */
  void *stream = NULL;
  if (device.type == DLK_DEVICE_CUDA)
    check_cuda(driver.stream_create(&stream, 0), "cuStreamCreate");
  reset(device, args, info.num_args);
  check(dlk_launch(plan, views, info.num_args, scalars, 1, stream));
  read_back(device, args, info.num_args);
  verify(args, info.num_args);

  /* The same from a graph. */
  reset(device, args, info.num_args);
  if (device.type == DLK_DEVICE_CUDA) {
    void *graph, *executable;
    check_cuda(driver.begin_capture(stream, 0), "cuStreamBeginCapture");
    check(dlk_launch(plan, views, info.num_args, scalars, 1, stream));
    check_cuda(driver.end_capture(stream, &graph), "cuStreamEndCapture");
    check_cuda(driver.instantiate(&executable, graph, 0), "cuGraphInstantiate");
    check_cuda(driver.graph_launch(executable, stream), "cuGraphLaunch");
  } else {
    check(dlk_launch(plan, views, info.num_args, scalars, 1, stream));
  }
  if (!read_back(device, args, info.num_args))
    die("two launches on the same data differ");
  printf("%s: the same bits\n",
         device.type == DLK_DEVICE_CUDA ? "from a captured graph" : "a second time");

  for (int32_t i = 0; i < info.num_args; ++i) {
    if (args[i].pool == i)
      device_free(device, args[i].memory);
    free(args[i].initial);
    free(args[i].final);
  }
  dlk_plan_release(plan);
  dlk_package_close(package);
  return 0;
}
