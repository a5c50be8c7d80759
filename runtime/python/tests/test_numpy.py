# test_numpy.py - Without torch: numpy arrays and DLPack.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import reference

import linattn

OPTIONS = {"gate": "precomputed", "beta": "value", "normalize": False}
B, T, H, HV, K, V = 2, 3, 2, 4, 32, 48


@pytest.fixture(scope="module")
def kernel():
    return linattn.kernel("gdn", key_dim=K, value_dim=V, io_type="f32", options=OPTIONS)


@pytest.fixture
def tensors():
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    k = normal(B, T, H, K)
    return dict(
        q=normal(B, T, H, K),
        k=k / np.linalg.norm(k, axis=-1, keepdims=True),
        v=normal(B, T, HV, V),
        g=-np.abs(normal(B, T, HV)),
        beta=random.random((B, T, HV), dtype=np.float32),
        S=normal(5, HV, K, V),
    )


def expected(tensors, states):
    wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    decay = np.exp(wide["g"])[..., None, None]
    beta = wide["beta"][..., None]
    return reference.delta_rule(
        wide["q"], wide["k"], wide["v"], decay, beta, states.astype(np.float64), K**-0.5
    )


def test_arrays(kernel, tensors):
    kept = tensors["S"].copy()
    slots = np.array([3, 1], np.int32)
    o = kernel(**tensors, src_slots=slots, dst_slots=slots)
    expected_o, states, _ = expected(tensors, kept[slots])
    assert isinstance(o, np.ndarray) and o.dtype == np.float32
    assert reference.error(o, expected_o) < 1e-5
    assert reference.error(tensors["S"][slots], states) < 1e-5
    assert (tensors["S"][[0, 2, 4]] == kept[[0, 2, 4]]).all()


class Foreign:
    """Another library's tensor, of which we know nothing but DLPack."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("older than DLPack 1.0")
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack(kernel, tensors, versioned):
    if versioned and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("numpy older than 2.1: no DLPack 1.0")
    kept = tensors["S"].copy()
    o = np.empty((B, T, HV, V), np.float32)
    foreign = {name: Foreign(tensor, versioned) for name, tensor in tensors.items()}
    given = Foreign(o, versioned)
    assert kernel(**foreign, o=given) is given
    expected_o, states, _ = expected(tensors, kept[:2])
    assert reference.error(o, expected_o) < 1e-5
    assert reference.error(tensors["S"][:2], states) < 1e-5


def test_strides_are_passed_on(kernel, tensors):
    whole = kernel(**{**tensors, "S": tensors["S"].copy()})
    wide = np.concatenate([tensors["q"], tensors["k"]], axis=2)
    tensors["q"], tensors["k"] = wide[:, :, :H], wide[:, :, H:]
    assert not tensors["q"].flags.c_contiguous
    assert (kernel(**tensors) == whole).all()


def test_values_that_are_refused(kernel, tensors):
    with pytest.raises(ValueError, match="argument 'q' stride 1: expected 0 .*, got -"):
        kernel(**{**tensors, "q": tensors["q"][:, ::-1]})
    with pytest.raises(ValueError, match="argument 'k' stride 3: expected 1, got 2"):
        kernel(**{**tensors, "k": np.repeat(tensors["k"], 2, axis=-1)[..., ::2]})
    with pytest.raises(TypeError, match="argument 'v' dtype: expected f32, got f64"):
        kernel(**{**tensors, "v": tensors["v"].astype(np.float64)})
    with pytest.raises(TypeError, match="argument 'v' dtype: expected one of .*, got complex64"):
        kernel(**{**tensors, "v": tensors["v"].astype(np.complex64)})
    with pytest.raises(TypeError, match="argument 'v' dtype: expected one of .*, got >f4"):
        kernel(**{**tensors, "v": tensors["v"].astype(">f4")})
    frozen = tensors["S"].copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="argument 'S': expected memory that may be written"):
        kernel(**{**tensors, "S": frozen})
    with pytest.raises(TypeError, match="argument 'o': expected a tensor to write to"):
        kernel(**{name: Foreign(tensor) for name, tensor in tensors.items()})


def test_scalars_and_null_rows(kernel, tensors):
    half = kernel(**{**tensors, "S": tensors["S"].copy()}, scale=0.5)
    one = kernel(**{**tensors, "S": tensors["S"].copy()}, scale=1)
    assert (2 * half == one).all()
    kept = tensors["S"].copy()
    slots = np.array([0, 1], np.int32)
    o = kernel(**tensors, src_slots=slots, dst_slots=slots, first_slot=1)
    assert not o[0].any() and o[1].any() and (tensors["S"][0] == kept[0]).all()


def test_half_precision():
    kernel = linattn.kernel("rwkv6", key_dim=16, value_dim=16, io_type="f16", state_type="f16")
    random = np.random.default_rng(0)
    r, k, v = (random.standard_normal((1, 2, 2, 16)).astype(np.float16) for _ in range(3))
    w = -np.abs(random.standard_normal((1, 2, 2, 16))).astype(np.float16)
    u = random.standard_normal((2, 16)).astype(np.float32)
    S = np.zeros((1, 2, 16, 16), np.float16)
    o = kernel(r=r, k=k, v=v, w=w, u=u, S=S, scale=1)
    wide = (x.astype(np.float64) for x in (r, k, v, w, u))
    expected_o, states, _ = reference.rwkv6(*wide, np.zeros((1, 2, 16, 16)), 1.0)
    assert reference.error(o, expected_o) < 5e-3 and reference.error(S, states) < 2e-2


def test_torch_is_not_imported():
    code = """
import sys, linattn
kernel = linattn.kernel("gdn", key_dim=16, value_dim=16)
kernel.prepare("cpu")
assert "torch" not in sys.modules and "numpy" not in sys.modules, "imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_need_torch():
    """Where torch cannot be imported, asking for what needs it says so."""
    code = """
import sys
sys.modules["torch"] = None
import linattn
try:
    linattn.fused_recurrent_kda
except ImportError as error:
    assert "torch" in str(error), error
else:
    raise SystemExit("expected an ImportError")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
