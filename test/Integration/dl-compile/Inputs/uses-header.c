/*===- uses-header.c - A launcher's use of a generated header -------------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

typedef kda_decode_64x96_vk_f32_bf16_params params;

int launch(const params *p, unsigned grid[3], int64_t rows, int64_t heads);
int launch(const params *p, unsigned grid[3], int64_t rows, int64_t heads) {
  if (!KDA_DECODE_64X96_VK_F32_BF16_SUPPORTED(rows, rows, 1, heads, heads) || p->T != 1)
    return 0;
  grid[0] = (unsigned)KDA_DECODE_64X96_VK_F32_BF16_SM_80_GRID_X(rows, rows, 1, heads, heads);
  grid[1] = (unsigned)KDA_DECODE_64X96_VK_F32_BF16_SM_80_GRID_Y(rows, rows, 1, heads, heads);
  grid[2] = (unsigned)KDA_DECODE_64X96_VK_F32_BF16_SM_80_GRID_Z(rows, rows, 1, heads, heads);
  return KDA_DECODE_64X96_VK_F32_BF16_SM_80_THREADS;
}
