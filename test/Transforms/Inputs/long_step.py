# long_step.py - Prints an operator whose step writes and reads its state N times.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import sys

count = int(sys.argv[1])
print(
    """!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
linattn.operator @long(%q: !key, %k: !key, %v: !value) state(%S0: !linattn.state) -> (o: !value) {
  %o0 = arith.negf %v : !value"""
)
for i in range(count):
    print(f"  %S{i + 1} = linattn.write %S{i}, %k, %v : !key, !value")
    print(f"  %r{i} = linattn.read %S{i + 1}, %q : !key -> !value")
    print(f"  %o{i + 1} = arith.addf %o{i}, %r{i} : !value")
print(f"  linattn.yield %S{count}, %o{count} : !linattn.state, !value\n}}")
