# The kernels whose times are the memory's ceilings. Need Triton.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import triton
import triton.language as tl


@triton.jit
def scale_in_place(pointer, count, factor, BLOCK: tl.constexpr):
    """pointer[i] *= factor, BLOCK numbers per block."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(pointer + at, tl.load(pointer + at, mask=inside) * factor, mask=inside)


@triton.jit
def read(pointer, out, count, BLOCK: tl.constexpr):
    """Reads all numbers; writes only if a block's sum is one that does not occur."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(pointer + at, mask=at < count, other=0.0))
    tl.store(out, total, mask=total == -1.0)
