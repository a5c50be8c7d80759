# many_inputs.py - Prints an operator that has N inputs.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import sys

count = int(sys.argv[1]) - 2  # beside key and value
inputs = ", ".join(f"%x{i}: !per_head" for i in range(count))
print(
    f"""!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @many(%k: !key, %v: !value, {inputs}) state(%S: !linattn.state) -> (o: !value) {{"""
)
total = "x0"
for i in range(1, count):
    print(f"  %s{i} = arith.addf %{total}, %x{i} : !per_head")
    total = f"s{i}"
print(
    f"""  %factor = linattn.broadcast %{total} : !per_head -> !value
  %u = arith.mulf %factor, %v : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %k : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}}"""
)
