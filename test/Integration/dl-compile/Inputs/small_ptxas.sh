#!/bin/sh
# small_ptxas.sh - Stands in for ptxas on a chip of few registers: the PTX alone decides what spills.
#
# Called like ptxas: -arch=CHIP -v -O3 IN -o OUT. A kernel's size is its fused multiply-adds, which are as many as
# a thread has elements of the state, some times over. The first kernel that it is given is the measure: what is
# larger than $PERCENT of it spills. $CALLS has a line for each call: the size, the registers that were allowed.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

size=$(grep -c 'fma\.rn\.f32' "$4")
registers=$(sed -n 's/.*\.maxnreg \([0-9]*\).*/\1/p' "$4")
echo "$size $registers" >>"$CALLS"
most=$(($(sed -n '1s/ .*//p' "$CALLS") * PERCENT / 100))
spilled=0
if [ "$size" -gt "$most" ]; then spilled=$((4 * (size - most))); fi
echo "ptxas info    : Used $registers registers"
echo "    $spilled bytes stack frame, $spilled bytes spill stores, 0 bytes spill loads"
echo "machine code" >"$6"
