# examples.py - Parses and verifies the examples of the reference pages with dl-opt.
#
#   examples.py PAGE...
#
# An example is a block fenced by ```mlir; "// becomes" in it parts two. Aliases in a
# dialect's own description hold for all examples. One that is no whole operator or kernel is put
# into one, with a value made for each name that it uses and does not define. Left out are examples
# with a line "..." in them. Prints how many were parsed, and each one left out.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import re
import subprocess
import sys

# What the examples use without saying where it comes from. Other names
# are key vectors in operators, indices in kernels.
OPERATOR_VALUES = {
    "q": "!key",
    "k": "!key",
    "kn": "!key",
    "qk": "!key",
    "v": "!value",
    "u": "!value",
    "g": "!per_head",
    "a": "!per_head",
    "b": "!per_head",
    "beta": "!per_head",
    "norm": "!per_key_head",
    "one": "f32",
    "S": "!linattn.state",
    "S1": "!linattn.state",
    "S2": "!linattn.state",
    "o": "!value",
}
VECTOR, SLICE = "tensor<128xf32, #row>", "tensor<128xf32, #tile.slice<1, #rows>>"
KERNEL_VALUES = {
    "keys": "memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>>",
    "values": "memref<?x?x?x96xbf16, strided<[?, ?, ?, 1]>>",
    "out": "memref<?x?x?x96xbf16, strided<[?, ?, ?, 1]>>",
    "pool": "memref<?x?x128x128xf32, strided<[?, ?, 128, 1]>>",
    "log": "memref<?x?x16x128xbf16, strided<[?, ?, 128, 1]>>",
    "size": "i32",
    "slots": "memref<?xi32, strided<[?]>>",
    "scale": "f32",
    "squares": VECTOR,
    "row": "i32",
    "left": "i32",
    "workspace": "memref<?x?x12288xi8, strided<[?, ?, 1]>>",
    "c": "index",
    "h": "index",
    "q": SLICE,
    "s": "tensor<128x64xf32, #rows>",
    "o": "tensor<64xbf16, #tile.slice<0, #rows>>",
}
# Names that mean another type in the example of one op.
KERNEL_VALUES_OF = {
    "`tile.convert`": {"k": VECTOR},
    "`tile.dot`": {
        "k": SLICE,
        "w": "tensor<16xf32, #tile.slice<1, #rows>>",
        "u": "tensor<16x64xf32, #rows>",
    },
    "`tile.expand`": {"k": SLICE},
    "`tile.insert`": {"u": "tensor<64xf32, #tile.slice<0, #rows>>"},
    "`tile.interleave`": {
        "first": "tensor<16x128xf32, #tokens>",
        "second": "tensor<16x128xf32, #tokens>",
    },
    "`tile.pick`": {"rows": "tensor<32x128xf32, #rows>"},
    "`tile.local_load`": {"b": "!tile.shared<64x64xbf16, #tile.swizzled<128>>"},
    "`tile.local_store`": {
        "x": "tensor<64x64xbf16, #rows>",
        "b": "!tile.shared<64x64xbf16, #tile.swizzled<128>>",
    },
    "`tile.decayed_gram`": {
        "k": "tensor<32x128xf32, #rows>",
        "q": "tensor<32x128xf32, #rows>",
        "l": "tensor<32x128xf32, #rows>",
    },
    "`tile.invert_unit_lower`": {"a": "tensor<32x32xf32, #rows>"},
    "`tile.scan`": {"log_decay": "tensor<32x128xf32, #rows>"},
    "`tile.transpose`": {"s": "tensor<64x128xbf16, #fc>"},
    "`tile.copy_async`": {"row": "!tile.shared<12288xi8, #tile.swizzled<0>>"},
    "`tile.copy_bulk`": {"row": "!tile.shared<12288xi8, #tile.swizzled<0>>", "i": "i32"},
    "`tile.await`": {"i": "i32", "p": "i32"},
    "`tile.local_part`": {"row": "!tile.shared<12288xi8, #tile.swizzled<0>>"},
    "`tile.store_image`": {"x": "tensor<32x128xbf16, #rows>"},
    "`tile.stage`": {"i": "i32"},
    "`tile.gram`": {
        "k": "!tile.shared<32x128xbf16, #tile.swizzled<128>>",
        "kk": "!tile.shared<32x32xf32, #tile.swizzled<0>>",
    },
    "`tile.mma`": {
        "a": "tensor<64x32xbf16, #fa>",
        "b": "tensor<32x16xbf16, #fb>",
        "c": "tensor<64x16xf32, #fc>",
        "x": "tensor<64x32xf32, #fa>",
        "k": "!tile.shared<16x32xbf16, #tile.swizzled<64>>",
        "l": "!tile.shared<16x32xbf16, #tile.swizzled<64>>",
    },
    "`tile.rank_update`": {"k": "tensor<16x128xf32, #rows>", "u": "tensor<16x64xf32, #rows>"},
    "`--tile-expand-math`": {"x": "f32"},
}
OPTIONS = "normalize = true, lower_bound = #linattn.number<-5.0 from -5.0 below 0.0>"
ALIAS = re.compile(r"^([#!]\w+) *=")
WHOLE = re.compile(r"^(linattn\.operator|tile\.kernel|gpu\.module|llvm\.func)", re.MULTILINE)


def examples(path):
    """Yields (line number, heading, text) of each example."""
    heading, block = "", None
    with open(path, encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            if block is not None:
                if line.startswith(("```", "// becomes")):
                    yield start, heading, "".join(block)
                    block = None if line.startswith("```") else []
                    start = number
                else:
                    block.append(line)
            elif line.startswith("```mlir"):
                block, start = [], number
            elif line.startswith("#"):
                heading = line.strip("# \n")


def aliases(text):
    return {m[1]: line for line in text.splitlines() if (m := ALIAS.match(line))}


def names(text):
    """The SSA values that are used and not defined, in order."""
    code = re.sub(r"//.*", "", text)
    defined = {
        name
        for results in re.findall(r"^ *((?:%\w+(?:, )?)+) = ", code, re.MULTILINE)
        for name in re.findall(r"%(\w+)", results)
    }
    return [n for n in dict.fromkeys(re.findall(r"%(\w+)", code)) if n not in defined]


def in_operator(text):
    values = {name: OPERATOR_VALUES.get(name, "!key") for name in names(text)}
    if "linattn.yield" not in text.splitlines()[-1]:
        if "!linattn.state" not in values.values():
            values["S"] = "!linattn.state"
        values["made"] = "!value"
        states = [f"%{name}" for name, type in values.items() if type == "!linattn.state"]
        types = ["!linattn.state"] * len(states) + ["!value"]
        text += f"linattn.yield {', '.join(states + ['%made'])} : {', '.join(types)}\n"

    def group(keep):
        return ", ".join(f"%{name}: {type}" for name, type in values.items() if keep(type))

    inputs = group(lambda type: type not in ("f32", "!linattn.state"))
    params = group(lambda type: type == "f32")
    states = group(lambda type: type == "!linattn.state")
    return (
        f"linattn.operator @example({inputs}) "
        + (f"params({params}) " if params else "")
        + f"state({states}) -> (result: !value) options {{{OPTIONS}}} {{\n{text}}}\n"
    )


def in_kernel(heading, text):
    types = {**KERNEL_VALUES, **KERNEL_VALUES_OF.get(heading, {})}
    arguments, made = [], ""
    for name in names(text):
        type = types.get(name, "index")
        if type == "f32" or type.startswith("memref"):
            arguments.append(f"%{name}: {type}")
        else:
            made += f'%{name} = "made"() : () -> {type}\n'
    end = "" if text.startswith("tile.return") else "tile.return\n"
    return (
        f"tile.kernel @example({', '.join(arguments)}) attributes {{threads = 256 : i64}} "
        f"{{\n{made}{text}{end}}}\n"
    )


def module(heading, text, common):
    own = aliases(text)
    head = "".join(f"{line}\n" for name, line in common.items() if name not in own)
    head += "".join(f"{line}\n" for line in own.values())
    body = "".join(line for line in text.splitlines(True) if not ALIAS.match(line))
    if text.startswith("#linattn.number"):
        body = "".join(f'"made"() {{value = {line}}} : () -> ()\n' for line in text.splitlines())
    elif not body:
        # Aliases alone: types are verified where they are used.
        body = "".join(f'"made"() : () -> {name}\n' for name in own if name[0] == "!")
    elif not WHOLE.search(body):
        body = in_operator(body) if "linattn." in body else in_kernel(heading, body)
    return head + body


def main():
    pages = [(path, list(examples(path))) for path in sys.argv[1:]]
    common = {}
    for path, found in pages:
        for _, heading, text in found:
            if heading.startswith("The "):  # the title of a dialect's page
                common.update(aliases(text))
    parsed = failed = 0
    for path, found in pages:
        for number, heading, text in found:
            if re.search(r"^ *\.\.\.$", text, re.MULTILINE):
                print(f"left out: {path}:{number}: the example of {heading}")
                continue
            source = module(heading, text, common)
            run = subprocess.run(
                ["dl-opt", "--allow-unregistered-dialect", "--verify-roundtrip", "-o", "-", "-"],
                input=source.encode(),
                capture_output=True,
                check=False,
            )
            parsed += 1
            if run.returncode:
                failed += 1
                print(f"{path}:{number}: the example of {heading} does not parse;")
                print(f"if it uses new names, give their types in examples.py\n{source}")
                print(run.stderr.decode(errors="replace"))
    print(f"parsed: {parsed} examples, {failed} of them in vain")
    sys.exit(failed != 0 or parsed == 0)


main()
