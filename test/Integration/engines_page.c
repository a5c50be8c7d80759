/*===- engines_page.c - The C of runtime/ENGINES.md, run on the CPU --------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 *   engines_page FOLDER          FOLDER holds the page's gdn.dlk
 *
 * Here are the buffers that an engine has. engines_page.inc is what the page has between ```c and
 * ```.
 *
 *===----------------------------------------------------------------------===*/
#include "dl/dlk.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(dlk_status status) {
  if (status != DLK_OK) {
    fprintf(stderr, "engines_page: %s\n", dlk_last_error());
    exit(1);
  }
}

static void *allocate(size_t bytes) {
  void *memory = calloc((bytes + 255) / 256, 256);
  if (!memory)
    exit(1);
  return memory;
}

enum { HQ = 2, HV = 4, n = 3, num_spec = 3, T = n * (1 + num_spec), slots = 1 + T };
enum { width = 2 * HQ * 128 + HV * 128 + 64, pitch = HV * 128 * 128 + 512 };

int main(int argc, char **argv) {
  if (argc != 2 || chdir(argv[1]) != 0)
    return 2;
  const char *where = "cpu";
  void *stream = NULL;
  void *qkv = allocate(T * width * 2), *ba = allocate(T * 2 * HV * 2);
  void *A_log_data = allocate(HV * 4), *dt_bias_data = allocate(HV * 4);
  void *output = allocate(T * HV * 128 * 2), *pool = allocate((size_t)slots * pitch * 4);
  int32_t query_start_loc[] = {0, 4, 5, 5}; /* the last row is padding */
  int32_t state_indices[] = {1, 2, 0}, num_accepted_tokens[] = {2, 1, 1}, minus_one[] = {-1};
  uint8_t has_initial_state[] = {1, 0, 1};
  int32_t spec_state_indices[n * (1 + num_spec)] = {1, 2, 3, 4, 5, 6, 7, 8};

#include "engines_page.inc"

  dlk_tensor narrow = v;
  int64_t narrow_shape[] = {1, T, HV, 64};
  narrow.shape = narrow_shape;
  views[2] = narrow;
  if (dlk_launch(plan, views, 15, scalars, 1, stream) == DLK_OK)
    return 1;
  puts(dlk_last_error()); /* the page shows it */
  spec_state_indices[4] = 2;
  if (dlk_prepare(kernel, device, DLK_PLAN_CHECKED, &checked) != DLK_OK ||
      dlk_launch(checked, drafts, 15, scalars, 1, stream) == DLK_OK)
    return 1;
  puts(dlk_last_error());
  dlk_plan_release(checked);
  dlk_plan_release(early);
  dlk_plan_release(plan);
  dlk_package_close(package);
  void *buffers[] = {qkv, ba, A_log_data, dt_bias_data, output, pool};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i)
    free(buffers[i]);
  return 0;
}
