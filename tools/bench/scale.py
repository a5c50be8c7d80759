# The kernel whose time is the memory's ceiling. Needs Triton.
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
