# test_log_pool.py - States as a base and a log: steps, drafts, moves, checkpoints, errors.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import numpy as np
import pytest
from cases import DEVICE, array, torch
from log_model import GDN, OPERATORS, Engine, K, Model, V, kernels_of

import linattn


def pool_of(name: str = "gdn", layout: str = "kv", slots: int = 6, heads=(1, 2), **changes):
    kernels = changes.pop("kernels", None) or kernels_of(name, layout)
    if name == "rwkv6":
        heads = (2, 2)
    return linattn.LogPool(kernels, slots=slots, heads=heads, device=DEVICE, **changes)


def slots_of(*numbers: int, dtype=torch.int32):
    return torch.tensor(numbers, dtype=dtype, device=DEVICE)


@pytest.mark.parametrize("layout", ["kv", "vk"])
@pytest.mark.parametrize("name", list(OPERATORS))
def test_requests_come_draft_move_and_go(name, layout):
    """Some hundreds of steps as an engine makes them: rows of 0 to 3 tokens, any number of drafts
    rejected, requests that sit out, start anew, from zeros, from a prefill or from another's state,
    are flushed, move, and leave checkpoints. All of it passes the checks of promises."""
    pool = pool_of(name, layout, slots=12, rows=12, first_slot=1, checked=True)
    model = Model(pool, name, seed=len(name))
    engine = Engine(model)
    for number in range(200):
        rows = engine.rows()
        if rows:
            model.step(rows)
        if number % 10 == 9:
            model.check_states([slot for slot in engine.live.values() if slot in model.slots])
    assert model.merges > 50 and model.checkpoints > 5 and engine.forks > 5


@pytest.mark.parametrize("final", [False, True])
def test_cycles_of_single_tokens(final):
    model = Model(pool_of(slots=2), "gdn")
    model.prefill(0), model.prefill(1)
    for number in range(40):
        rows = [{"src": s, "dst": s, "tokens": 1, "accepted": 1} for s in (0, 1)]
        if number == 0:
            rows = [{**row, "initial": 2, "accepted": 0} for row in rows]
        model.step(rows, packed=False, final=final)
        model.check_states([0, 1])
    assert model.merges == 2 * (40 // 5 if final else 39 // 5)


def test_index_i64_and_a_bf16_base():
    kernels = kernels_of("kda", index_type="i64", state_type="bf16")
    pool = pool_of("kda", kernels=kernels, slots=4)
    assert pool.layers[0].states["S"].dtype == torch.bfloat16
    model = Model(pool, "kda", index=torch.int64, limit=2e-2)
    model.prefill(3)
    for number in range(12):
        row = {"src": 3, "dst": 3, "tokens": 3, "accepted": 1 if number else 0}
        model.step([{**row, "initial": 1 if number else 2}])
    assert model.merges


@pytest.mark.parametrize("layout", ["kv", "vk"])
@pytest.mark.parametrize("name", list(OPERATORS))
def test_an_empty_log_is_a_dense_state_to_the_bit(name, layout):
    """Flushed before every step, a log gives what decode gives."""
    pool = pool_of(name, layout, slots=3)
    operator = OPERATORS[name]
    decode = linattn.kernel(
        operator.spec,
        key_dim=K,
        value_dim=V,
        state_layout=layout,
        io_type="f32",
        options=operator.options,
        device=DEVICE,
    )
    model = Model(pool, name)
    slots = slots_of(2, 0)
    for tokens in (1, 2, 3):
        for slot in (0, 2):
            model.prefill(slot)
        dense = pool.layers[0].states["S"].clone()
        inputs = model.inputs(2, tokens)
        pool.plan(slots, slots, tokens=tokens, initial_state=slots_of(2, 2, dtype=torch.uint8))
        o = pool.append(**inputs, **model.params)
        expected = decode(**inputs, **model.params, S=dense, src_slots=slots, dst_slots=slots)
        assert torch.equal(o[:, :1], expected[:, :1])
        np.testing.assert_allclose(array(o), array(expected), atol=1e-4)


def test_layers_share_plans_and_nothing_else():
    pool = pool_of("rwkv6", layers=2, slots=3)
    models = [Model(pool, "rwkv6", seed=seed) for seed in (1, 2)]
    slots = slots_of(1)
    states = [model.zeros() for model in models]
    for number in range(8):
        fresh = slots_of(0, dtype=torch.uint8) if number == 0 else None
        pool.plan(slots, slots, initial_state=fresh)
        for layer, model in enumerate(models):
            inputs = model.inputs(1, 1)
            o = pool.append(layer, **inputs, **model.params)
            read = {name: array(x) for name, x in inputs.items()}
            (states[layer],), (expected,) = model.walk(states[layer], read, [(0, 0)])
            model.close(array(o)[0, 0], expected, f"layer {layer}")
    assert not torch.equal(pool.layers[0].logs["log_k"], pool.layers[1].logs["log_k"])


def test_memory_of_the_caller_with_pages():
    """Base and log of a slot lie in one page, as parts of an engine's block."""
    fields = pool_of("kda").log_fields
    sizes = {"S": 2 * K * V, **{n: int(np.prod(shape[1:])) for n, (_, shape) in fields.items()}}
    assert all(dtype == torch.float32 for dtype, _ in fields.values())
    pages = torch.full((6, 2 * sum(sizes.values()) + 64), float("nan"), device=DEVICE)
    views, at = {}, 32
    for name, size in sizes.items():
        shape = (2, K, V) if name == "S" else fields[name][1][1:]
        views[name] = pages[:, at : at + size].unflatten(1, shape)
        at += size + 16
    cursors = torch.zeros(6, 4, dtype=torch.int32, device=DEVICE)
    logs = {name: view for name, view in views.items() if name != "S"}
    pool = pool_of("kda", states=views["S"], logs=logs, cursors=cursors)
    assert pool.cursors is cursors and pool.layers[0].states["S"] is views["S"]
    model = Model(pool, "kda")
    model.prefill(4)
    for number in range(14):
        row = {"src": 4, "dst": 4, "tokens": 2, "accepted": 1 if number else 0}
        model.step([{**row, "initial": 1 if number else 2}])
    model.check_states([4])
    assert cursors[4].any() and model.merges
    used = torch.zeros_like(pages, dtype=torch.bool)
    at = 32
    for size in sizes.values():
        used[4, at : at + size] = True
        at += size + 16
    assert pages[~used].isnan().all()


def test_parameters_of_layers():
    own = Model(pool_of("rwkv6", slots=2), "rwkv6")
    pool = pool_of("rwkv6", slots=2, parameters=[{**own.params, "scale": 0.5 * K**-0.5}])
    inputs, slots = own.inputs(2, 1), slots_of(0, 1)
    fresh = slots_of(0, 0, dtype=torch.uint8)
    outputs = []
    for used, more in ((pool, {}), (pool, {"scale": K**-0.5}), (own.pool, own.params)):
        used.plan(slots, slots, initial_state=fresh)
        outputs.append(used.append(**inputs, **more))
    assert torch.equal(outputs[1], outputs[2])
    assert torch.equal(outputs[0], 0.5 * outputs[1])


def test_materialize_counts_and_places():
    model = Model(pool_of(slots=4, first_slot=1), "gdn")
    model.prefill(2)
    for number in range(3):
        model.step(
            [{"src": 2, "dst": 2, "tokens": 1, "accepted": 1, "initial": 1 if number else 2}]
        )
    history = model.slots[2].history + model.slots[2].pending
    counts = slots_of(0, 1, 2, 9)
    got = model.pool.materialize(src_slots=slots_of(2, 2, 2, 2), counts=counts)
    for n, count in enumerate((0, 1, 2, 3)):
        model.close(model.dense(got[n]), history[-4 + count], f"after {count}")
    out = torch.full((5, 2, K, V), float("nan"), device=DEVICE)
    same = model.pool.materialize(
        src_slots=slots_of(2, 0), dst_slots=slots_of(3, 4), out={"S": out}, first_slot=1
    )
    assert same is out
    model.close(model.dense(out[3]), history[-1], "to slot 3")
    assert out[[0, 1, 2, 4]].isnan().all()


def test_outputs_and_descriptors_of_the_caller():
    pool = pool_of(slots=4)
    model = Model(pool, "gdn")
    model.prefill(1)
    slots = slots_of(1)
    inputs = model.inputs(1, 1)
    whole = slots_of(2, dtype=torch.uint8)
    first = pool.plan(slots, slots, initial_state=whole)
    assert first.data_ptr() == pool.descriptors.data_ptr() and first.shape == (1, 12)
    other = torch.zeros(1, 12, dtype=torch.int32, device=DEVICE)
    assert pool.plan(slots, slots, initial_state=whole, descriptors=other) is other
    assert torch.equal(first, other)
    o = torch.full_like(inputs["v"], float("nan"))
    assert pool.append(**inputs, o=o) is o and not o.isnan().any()
    assert torch.equal(pool.append(descriptors=first, **inputs), o)
    # The number of rows is that of any array, or of the pool.
    assert pool.plan(cu_seqlens=slots_of(0, 1, 2)).shape[0] == 2
    assert pool.plan(rows=3, final=True).shape[0] == 3
    assert pool.plan().shape[0] == 4
    assert pool.plan(descriptors=other).shape[0] == 1
    assert pool.plan(slots_of(), slots_of()).shape[0] == 0


def test_before_a_plan_nothing_is_done():
    pool = pool_of(slots=3)
    kept = [t.clone() for t in (*pool.layers[0].states.values(), *pool.layers[0].logs.values())]
    inputs = Model(pool, "gdn").inputs(3, 1)
    with pytest.raises(ValueError, match="expected a plan before the first call, got none"):
        pool.append(**inputs)
    pool.append(descriptors=pool.descriptors, **inputs)
    now = [*pool.layers[0].states.values(), *pool.layers[0].logs.values()]
    assert all(torch.equal(a, b) for a, b in zip(kept, now))


def test_of_a_package(tmp_path):
    kinds = ["decode", "plan", "append", "merge", "materialize"]
    arguments = dict(key_dim=K, value_dim=V, io_type="f32", options=GDN, target="cpu")
    package = linattn.compile("gdn", kind=kinds, window=7, max_tokens=2, **arguments)
    assert {kernel.kind for kernel in package.kernels} == set(kinds)
    append = package.kernel("append", window=7)
    assert (append.window, append.max_tokens, append.ring, append.log_type) == (7, 2, 9, "f32")
    assert package.kernel("decode").ring == 0
    pool = linattn.LogPool(package, slots=2, heads=2)
    assert "gdn.append.32x48.kv.f32.f32.w7t2: 1 layers, 2 slots, 2/2 heads, on cpu" in repr(pool)
    assert (pool.window, pool.max_tokens, pool.ring) == (7, 2, 9)
    bf16 = linattn.compile("gdn", kind=kinds[1:], window=7, log_type="bf16", **arguments)
    assert bf16.kernel("append").log_type == "bf16"
    with pytest.raises(
        LookupError, match="expected one kernel with kind=append, window=8, got none"
    ):
        package.kernel("append", window=8)


def test_the_kernel_that_fits_is_found(monkeypatch):
    """By window, longest step and the types of what is logged, in one package of several."""
    one = kernels_of("gdn", window=6, max_tokens=2)
    assert one.append.window == 6 and one.plan.package is one.append.package
    request = dict(key_dim=K, value_dim=V, io_type="f32", options=GDN, device="cpu")
    merge = linattn.kernel("gdn", kind="merge", window=6, max_tokens=2, **request)
    assert (merge.kind, merge.window) == ("merge", 6)
    path = one.append.package.path
    monkeypatch.setenv("LINATTN_PACKAGES", path)
    monkeypatch.setenv("LINATTN_CACHE", "off")
    monkeypatch.setenv("LINATTN_DL_COMPILE", "/no/compiler")
    found = linattn.log_kernels("gdn", max_tokens=2, **request)
    assert found.append.package.path == path and found.merge.window == 6
    for changes in (dict(window=5), dict(max_tokens=3), dict(log_type="bf16")):
        with pytest.raises(LookupError, match=r"expected a program, got '/no/compiler'"):
            linattn.log_kernels("gdn", **{"max_tokens": 2, **request, **changes})
    with pytest.raises(LookupError):
        linattn.kernel("gdn", kind="merge", max_tokens=2, **{**request, "types": {"k": "bf16"}})


MADE = {  # of LogPool: changes, the error, its text
    "slots": (dict(slots=0), ValueError, "slots: expected 1 or more, got 0"),
    "a float": (dict(slots=2.0), TypeError, "slots: expected a number, got float"),
    "heads": (dict(heads=(2, 3)), ValueError, r"expected HV to be a multiple of HQ, got \(2, 3\)"),
    "three heads": (dict(heads=(1, 2, 3)), ValueError, r"heads: expected HV or \(HQ, HV\)"),
    "layers": (dict(layers=0), ValueError, "layers: expected 1 or more, got 0"),
    "rows": (dict(rows=-1), ValueError, "rows: expected 0 or more, got -1"),
    "first_slot": (dict(first_slot=-1), ValueError, "first_slot: expected 0 or more, got -1"),
    "device": (dict(device="mars"), ValueError, "device: expected 'cpu' or 'cuda:N', got 'mars'"),
    "kernels": (dict(kernels=[]), TypeError, "kernels: expected linattn.LogKernels or a package"),
    "state layers": (
        dict(layers=2, states=torch.zeros(6, 2, K, V)),
        ValueError,
        "states: expected those of 2 layers, got 1",
    ),
    "state shape": (
        dict(states=torch.zeros(6, 2, V, K)),
        ValueError,
        r"states of layer 0 'S' shape: expected \[6, 2, 32, 48\], got \[6, 2, 48, 32\]",
    ),
    "state type": (
        dict(states=[torch.zeros(6, 2, K, V).half()]),
        TypeError,
        "states of layer 0 'S' dtype: expected torch.float32, got torch.float16",
    ),
    "no state": (
        dict(states=[None]),
        ValueError,
        "states of layer 0: expected tensors S, got NoneType",
    ),
    "a list as state": (
        dict(states=[{"S": [1.0]}]),
        TypeError,
        "states of layer 0 'S': expected a torch.Tensor, got list",
    ),
    "log names": (
        dict(logs=[{"log_k": torch.zeros(6, 1, 8, K)}]),
        ValueError,
        "logs of layer 0: expected tensors log_k, log_value, log_decay, got log_k",
    ),
    "cursors": (
        dict(cursors=torch.zeros(5, 4, dtype=torch.int32)),
        ValueError,
        r"cursors shape: expected \[6, 4\], got \[5, 4\]",
    ),
    "cursor type": (
        dict(cursors=torch.zeros(6, 4)),
        TypeError,
        "cursors dtype: expected torch.int32, got torch.float32",
    ),
    "meta": (
        dict(cursors=torch.zeros(6, 4, dtype=torch.int32, device="meta")),
        ValueError,
        f"cursors device: expected {DEVICE}.*, got meta",
    ),
    "parameters": (
        dict(parameters=[{}, {}]),
        ValueError,
        "parameters: expected 1 mappings, one per layer, got 2",
    ),
    "one mapping": (
        dict(parameters={"scale": 1.0}),
        ValueError,
        "parameters: expected 1 mappings, one per layer, got one mapping",
    ),
    "parameter names": (
        dict(parameters=[{"A": 1.0}]),
        TypeError,
        "parameters: expected names among scale, got 'A'",
    ),
}


@pytest.mark.parametrize("changes, kind, text", MADE.values(), ids=MADE)
def test_errors_of_a_pool(changes, kind, text):
    arguments = dict(kernels=kernels_of("gdn"), slots=6, heads=(1, 2), device=DEVICE)
    with pytest.raises(kind, match=text) as caught:
        linattn.LogPool(**{**arguments, **changes})
    assert isinstance(caught.value, linattn.Error)


def test_kernels_have_to_belong_together():
    kernels, other = kernels_of("gdn"), kernels_of("gdn", window=6)
    with pytest.raises(ValueError, match=r"w6t3' with window = 5 as in '.*w5t3', got 6"):
        linattn.LogPool(kernels._replace(merge=other.merge), slots=2, heads=2, device=DEVICE)
    with pytest.raises(ValueError, match="expected a kernel of kind 'plan'"):
        linattn.LogPool(kernels._replace(plan=kernels.merge), slots=2, heads=2, device=DEVICE)
    with pytest.raises(ValueError, match="to have the memory of .*, got another 'log_decay'"):
        merge = kernels_of("kda").merge
        linattn.LogPool(kernels._replace(merge=merge), slots=2, heads=2, device=DEVICE)


ROWS = dict(src_slots=slots_of(1, 2), dst_slots=slots_of(1, 2))
PLANS = {  # of plan
    "too many": (
        dict(rows=7),
        ValueError,
        "rows: expected 0 to 6, as the pool was made for, got 7",
    ),
    "rows": (
        dict(ROWS, dst_slots=slots_of(1)),
        ValueError,
        r"argument 'dst_slots' dimension 0: expected N = 2 .*, got 1",
    ),
    "index type": (
        dict(ROWS, src_slots=slots_of(1, 2, dtype=torch.int64)),
        TypeError,
        "argument 'src_slots' dtype: expected i32, got i64",
    ),
    "flush type": (
        dict(ROWS, flush=slots_of(0, 1)),
        TypeError,
        "argument 'flush' dtype: expected u8, got i32",
    ),
    "rank": (
        dict(ROWS, src_slots=slots_of(1, 2)[:, None]),
        ValueError,
        "argument 'src_slots' rank: expected 1, got 2",
    ),
    "starts": (
        dict(ROWS, cu_seqlens=slots_of(0, 1)),
        ValueError,
        "argument 'cu_seqlens' dimension 0: expected .*3.*, got 2",
    ),
    "descriptors": (
        dict(ROWS, descriptors=torch.zeros(2, 11, dtype=torch.int32)),
        ValueError,
        "argument 'descriptors' dimension 1: expected 12, got 11",
    ),
    "a list": (dict(src_slots=[1, 2]), TypeError, "argument 'src_slots': expected a tensor"),
}


@pytest.mark.parametrize("changes, kind, text", PLANS.values(), ids=PLANS)
def test_errors_of_a_plan(changes, kind, text):
    pool = pool_of(slots=6)
    with pytest.raises(kind, match=text) as caught:
        pool.plan(**changes)
    assert isinstance(caught.value, linattn.Error) and not pool.cursors.any()


CHECKED = {
    "two writers": (
        dict(dst_slots=slots_of(3, 3)),
        r"argument 'dst_slots' row 1: expected a slot of its own, got 3, which row 0 writes too",
    ),
    "a reader": (
        dict(dst_slots=slots_of(2, 3)),
        "'src_slots' row 1: expected a slot that no other row writes, got 2, which row 0 writes",
    ),
    "accepted": (
        dict(num_accepted_tokens=slots_of(5, 0)),
        r"argument 'num_accepted_tokens' row 0: expected 0 to 1, got 5",
    ),
    "tokens": (dict(tokens=4), "expected .*3.*, got 4"),
    "no slot": (dict(dst_slots=slots_of(1, 9)), "'dst_slots' row 1: expected .* below 6, got 9"),
    "offset": (
        dict(checkpoint_slots=slots_of(4, -1), checkpoint_offsets=slots_of(-3, 0)),
        "'checkpoint_offsets' row 0: expected 0 or more.*, got -3",
    ),
}


@pytest.mark.parametrize("changes, text", CHECKED.values(), ids=CHECKED)
def test_promises_are_checked_on_request(changes, text):
    pool = pool_of(slots=6, checked=True)
    model = Model(pool, "gdn")
    slots = slots_of(1, 2)
    pool.plan(slots, slots, initial_state=slots_of(0, 0, dtype=torch.uint8))
    pool.append(**model.inputs(2, 1))
    with pytest.raises(ValueError, match=text):
        pool.plan(**{"src_slots": slots, "dst_slots": slots, **changes})


def calls(**changes):
    """The calls of a pool with arguments that are right, but for the changes."""
    pool = pool_of(slots=6)
    inputs = Model(pool, "gdn").inputs(2, 1)
    pool.plan(ROWS["src_slots"], ROWS["dst_slots"])
    return pool, {**inputs, **changes}


APPENDS = {
    "layer": ((1,), {}, ValueError, "layer: expected 0 to 0, got 1"),
    "unknown": ((), dict(x=1), TypeError, "append: expected arguments among q, .*, got 'x'"),
    "the pool's": ((), dict(S=1), TypeError, "append: expected arguments among .*, got 'S'"),
    "missing": ((), dict(q=None), TypeError, "expected arguments q, got none"),
    "a list": ((), dict(q=[1.0]), TypeError, "argument 'q': expected a tensor"),
    "type": (
        (),
        dict(q=torch.zeros(2, 1, 1, K).half()),
        TypeError,
        "argument 'q' dtype: expected f32, got f16",
    ),
    "heads": (
        (),
        dict(v=torch.zeros(2, 1, 3, V)),
        ValueError,
        "argument 'g' dimension 2: expected HV = 3 as in 'v', got 2",
    ),
    "scale": ((), dict(scale="1"), TypeError, "scalar 'scale': expected a number, got str"),
    "descriptors": (
        (),
        dict(descriptors=torch.zeros(2, 12)),
        TypeError,
        "argument 'descriptors' dtype: expected i32, got f32",
    ),
}


@pytest.mark.parametrize("layer, changes, kind, text", APPENDS.values(), ids=APPENDS)
def test_errors_of_append(layer, changes, kind, text):
    pool, arguments = calls(**changes)
    with pytest.raises(kind, match=text) as caught:
        pool.append(*layer, **arguments)
    assert isinstance(caught.value, linattn.Error)


def test_errors_of_merge_and_materialize():
    pool, _ = calls()
    with pytest.raises(TypeError, match="merge: expected arguments among scale, got 'q'"):
        pool.merge(q=1)
    with pytest.raises(ValueError, match="layer: expected 0 to 0, got -1"):
        pool.merge(-1)
    with pytest.raises(TypeError, match="expected arguments src_slots, got none"):
        pool.materialize(src_slots=None)
    with pytest.raises(ValueError, match="argument 'out': expected tensors S, got x"):
        pool.materialize(src_slots=slots_of(1), out={"x": torch.zeros(1)})
    with pytest.raises(ValueError, match="argument 'S'.* dimension 1: expected HV = 2 .*, got 3"):
        pool.materialize(src_slots=slots_of(1), out=torch.zeros(1, 3, K, V))
    with pytest.raises(TypeError, match="argument 'counts' dtype: expected i32, got i64"):
        pool.materialize(src_slots=slots_of(1), counts=slots_of(1, dtype=torch.int64))


def test_gradients_are_refused():
    pool, arguments = calls()
    arguments["q"].requires_grad_()
    with pytest.raises(NotImplementedError, match="there is no backward pass"):
        pool.append(**arguments)
    with torch.no_grad():
        pool.append(**arguments)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_steps_trace_under_compile(backend):
    torch._dynamo.reset()
    model = Model(pool_of(slots=4), "gdn")
    other = pool_of(slots=4)
    model.prefill(1), model.prefill(2)
    other.layers[0].states["S"].copy_(model.pool.layers[0].states["S"])
    slots, whole = slots_of(2, 1), slots_of(2, 2, dtype=torch.uint8)

    def step(pool, inputs, accepted, initial):
        pool.plan(slots, slots, num_accepted_tokens=accepted, initial_state=initial, tokens=2)
        return pool.append(**inputs) * 2

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    for number in range(6):
        inputs, accepted = model.inputs(2, 2), slots_of(1, 2)
        initial = whole if number == 0 else torch.ones_like(whole)
        expected = step(other, inputs, accepted, initial)
        assert torch.equal(compiled(model.pool, inputs, accepted, initial), expected)
        assert torch.equal(model.pool.cursors, other.cursors)
    got = torch.compile(lambda: model.pool.materialize(src_slots=slots), backend=backend)()
    assert torch.equal(got, other.materialize(src_slots=slots))


def test_operators_say_what_they_write():
    pool, arguments = calls()
    layer, slots = pool.layers[0], ROWS["src_slots"]
    o = torch.empty_like(arguments["v"])
    memory = [layer.states["S"], *layer.logs.values()]
    cases = {
        "plan": ([pool.cursors, pool.descriptors[:2], slots, slots], {"first_slot": 1}),
        "append": ([*arguments.values(), o, *memory, pool.descriptors[:2]], {}),
        "merge": ([*memory, pool.descriptors[:2]], {}),
        "materialize": (
            [*memory, pool.cursors, slots, layer.states["S"].clone()],
            {},
        ),
    }
    written = {
        "plan": "Tensor(a!) cursors, Tensor(b!) descriptors",
        "append": "Tensor(a!) o, Tensor(b!) S, Tensor(c!) log_k",
        "merge": "Tensor(a!) S, Tensor log_k",
        "materialize": "Tensor(a!) S",
    }
    for kernel in pool.kernels:
        positional, named = cases[kernel.kind]
        op = kernel.op.default
        assert written[kernel.kind] in str(op._schema), op._schema
        if kernel.kind == "materialize":
            names = [argument.name for argument in op._schema.arguments]
            given = dict(S_in=memory[0], S=positional[-1], cursors=pool.cursors, src_slots=slots)
            given |= layer.logs
            positional, named = [given[n] for n in names if n in given and n != "S_in"], {}
            named["S_in"] = memory[0]
        torch.library.opcheck(op, tuple(positional), named)
