# test_workspace.py - Kernels that work in memory of the caller, prepared by another kernel.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import linattn
from linattn import _tensors, cache

B, T, HQ, HV, K, V = 2, 40, 1, 2, 4, 8


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The runtime's own test package: gated linear attention on the CPU, whose scale goes by way of
    a workspace."""
    program = Path(os.fspath(cache.compiler())).with_name("dl-write-test-package")
    if not program.exists():
        pytest.skip("the runtime's tests are not built")
    path = tmp_path_factory.mktemp("workspace") / "prepared.dlk"
    subprocess.run([program, path, "test_prepared"], check=True)
    return linattn.load(path)


@pytest.fixture
def kernel(package):
    return package.kernel()


@pytest.fixture
def tensors():
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    return dict(
        q=normal(B, T, HQ, K),
        k=normal(B, T, HQ, K) / 2,
        v=normal(B, T, HV, V),
        g=-np.abs(normal(B, T, HV)),
        S=normal(B, HV, K, V),
    )


def expected(q, k, v, g, S):
    """With a scale of 1, and states as they were before."""
    states, outputs = S.astype(np.float64), np.empty(v.shape)
    for t in range(q.shape[1]):
        keys, values = k[:, t, :, :, None], v[:, t, :, None, :]
        states = np.exp(g[:, t, :, None, None]) * states + keys * values
        outputs[:, t] = (q[:, t, :, None, :] @ states)[:, :, 0]
    return outputs


def error(given, wanted):
    return np.linalg.norm(np.asarray(given) - wanted) / np.linalg.norm(wanted)


def test_a_preparation_is_part_of_its_kernel(package, kernel):
    assert len(package.manifest["kernels"]) == 2 and len(package.kernels) == 1
    workspace = kernel.by_name["workspace"]
    assert workspace.shape == ("(div((B*T),32)+N)", "HV", 24) and workspace.optional
    assert kernel.runs_on("cpu")
    assert kernel.supported("cpu", B=1, T=1, HQ=1, HV=2, pool_in=1, pool_out=1) is None


def test_shapes(kernel):
    assert kernel.shape_of("workspace", B=2, T=100, HV=3) == (8, 3, 24)
    assert kernel.shape_of("workspace", B=1, T=100, HV=3, N=7) == (10, 3, 24)
    assert kernel.shape_of("cu_seqlens", B=2) == (3,)
    with pytest.raises(ValueError, match="'workspace': expected the size 'HV', got B, T"):
        kernel.shape_of("workspace", B=2, T=100)
    with pytest.raises(ValueError, match="sizes: expected names among B, T, .*, got 'H'"):
        kernel.shape_of("workspace", H=2)
    with pytest.raises(TypeError, match="expected arguments among q, .*, got 'scratch'"):
        kernel.shape_of("scratch")


def test_arrays(kernel, tensors):
    wanted = expected(**tensors)
    o = kernel(**{**tensors, "S": tensors["S"].copy()}, scale=3)
    assert isinstance(o, np.ndarray) and error(o, 3 * wanted) < 1e-5
    workspace = np.full(kernel.shape_of("workspace", B=B, T=T, HV=HV), 0xFF, np.uint8)
    o = kernel(**{**tensors, "S": tensors["S"].copy()}, scale=3, workspace=workspace)
    assert error(o, 3 * wanted) < 1e-5
    assert (workspace[:, :, :4].copy().view(np.float32) == 3).all()
    assert (workspace[:, :, 4:] == 0xFF).all()


def test_packed_rows(kernel, tensors):
    """N is what cu_seqlens shows."""
    packed = {name: tensor for name, tensor in tensors.items() if name != "S"}
    packed = {name: tensor.reshape(1, B * T, *tensor.shape[2:]) for name, tensor in packed.items()}
    starts = np.array([0, T, 2 * T], np.int32)
    o = kernel(**packed, S=tensors["S"].copy(), cu_seqlens=starts, scale=1)
    assert error(o.reshape(B, T, HV, V), expected(**tensors)) < 1e-5


def test_refusals(kernel, tensors):
    shape = kernel.shape_of("workspace", B=B, T=T, HV=HV)
    with pytest.raises(ValueError, match="'workspace' dimension 0: expected .* = 4, got 5"):
        kernel(**tensors, workspace=np.empty((5, *shape[1:]), np.uint8))
    with pytest.raises(TypeError, match="'workspace' dtype: expected u8, got f32"):
        kernel(**tensors, workspace=np.empty(shape, np.float32))
    with pytest.raises(ValueError, match="'workspace': expected memory of its own, .* 'v'"):
        memory = tensors["v"].reshape(-1).view(np.uint8)
        kernel(**tensors, workspace=memory[: np.prod(shape)].reshape(shape))
    workspace = np.empty(shape, np.uint8)
    workspace.flags.writeable = False
    with pytest.raises(ValueError, match="'workspace': expected memory that may be written"):
        kernel(**tensors, workspace=workspace)


@pytest.mark.parametrize("dtype", ["u8", "f32"])
def test_alignment_of_new_arrays(dtype):
    for size in (0, 1, 5, 1000):
        array = _tensors.numpy_empty("x", [3, size], dtype, 256)
        assert array.shape == (3, size) and (size == 0 or array.ctypes.data % 256 == 0)
        assert array.flags.c_contiguous and array.flags.writeable


def test_torch(kernel, tensors):
    torch = pytest.importorskip("torch")
    given = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    wanted = expected(**tensors)
    shape = kernel.shape_of("workspace", B=B, T=T, HV=HV)
    for workspace in (None, torch.full(shape, 0xFF, dtype=torch.uint8)):
        o = kernel(**{**given, "S": given["S"].clone()}, scale=3, workspace=workspace)
        assert o.dtype == torch.float32 and error(o, 3 * wanted) < 1e-5
    assert (workspace[:, :, :4].contiguous().view(torch.float32) == 3).all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(kernel, tensors, dynamic):
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    kernel.op  # where torch is there first, this is so by itself

    def call(q, k, v, g, S):
        return kernel(q=q, k=k, v=v, g=g, S=S, scale=3)

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for tokens in (T, T - 7):
        part = {n: x if n == "S" else x[:, :tokens].copy() for n, x in tensors.items()}
        given = {name: torch.from_numpy(tensor.copy()) for name, tensor in part.items()}
        assert error(compiled(**given), 3 * expected(**part)) < 1e-5
