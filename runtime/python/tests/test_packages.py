# test_packages.py - Packages: loading them, choosing among them, finding one for a request.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import pytest

import linattn
from linattn import _specs, cache, packages


def build(path, *arguments, spec="gdn"):
    program = cache.compiler()
    source = _specs.find(spec).path
    target = [] if any(word.startswith("--target") for word in arguments) else ["--target=cpu"]
    command = [program, source, *target, "-o", str(path), *arguments]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def two_layouts(tmp_path_factory):
    """A package of four kernels."""
    path = tmp_path_factory.mktemp("packages") / "gdn.dlk"
    return build(path, "--dims=32x32,32x48", "--state-layout=kv,vk", "--io-type=f32")


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No compiler, no cache, nothing registered."""
    monkeypatch.setenv("LINATTN_DL_COMPILE", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cache, "_memory", {})
    monkeypatch.setattr(packages, "_registry", packages._Registry())


def test_what_a_package_says(two_layouts):
    package = linattn.load(two_layouts)
    assert package.operator == "gdn" and package.options["gate"] == "softplus"
    assert len(package.kernels) == 4 and "gdn.decode.32x48.vk" in repr(package)
    kernel = package.kernel(key_dim=32, value_dim=48, state_layout="vk")
    assert (kernel.kind, kernel.targets, kernel.io_type) == ("decode", ("cpu",), "f32")
    assert kernel.scalars == {"scale": pytest.approx(32**-0.5), "first_slot": 0}
    names = [p.name for p in kernel.parameters]
    assert names[:8] == ["q", "k", "v", "a", "b", "A_log", "dt_bias", "o"]
    assert kernel.by_name["S"].shape == ("pool_out", "HV", 48, 32)
    assert kernel.by_name["cu_seqlens"].shape == ("(N+1)",)
    assert [linattn.load(two_layouts.read_bytes()).operator] == ["gdn"]


def test_what_a_kernel_supports(two_layouts):
    kernel = linattn.load(two_layouts).kernels[0]
    sizes = dict(B=2, T=1, HQ=2, HV=4, N=2, pool_in=8, pool_out=8)
    assert kernel.supported() is None and kernel.supported("cpu", **sizes) is None
    assert "HV must be a multiple of HQ" in kernel.supported("cpu", **{**sizes, "HV": 5})
    with pytest.raises(ValueError, match="size 'X'"):
        kernel.supported("cpu", **sizes, X=1)
    with pytest.raises(linattn.Error):
        kernel.supported("cuda:0")  # the package has the cpu target alone


def test_variants_are_part_of_their_kernel(tmp_path):
    path = build(tmp_path / "x.dlk", "--target=sm_90a", "--dims=128x128", "--state-layout=kv,vk")
    package = linattn.load(path)
    entries = package.manifest["kernels"]
    assert len(entries) > 2 and any("variant_of" in entry for entry in entries)
    assert sorted(k.state_layout for k in package.kernels) == ["kv", "vk"]


def test_choice_among_kernels(two_layouts):
    package = linattn.load(two_layouts)
    random = np.random.default_rng(0)

    def call(V, state, **conditions):
        def normal(*shape):
            return random.standard_normal(shape).astype(np.float32)

        arguments = dict(q=normal(1, 1, 1, 32), k=normal(1, 1, 1, 32), v=normal(1, 1, 1, V))
        arguments |= dict(a=normal(1, 1, 1), b=normal(1, 1, 1), A_log=normal(1), dt_bias=normal(1))
        found = package.kernel(**conditions) if conditions else package.decode
        return found(**arguments, S=np.zeros((1, 1, *state), np.float32))

    assert call(48, (32, 48)).shape == (1, 1, 1, 48)
    assert call(48, (48, 32)).shape == (1, 1, 1, 48)
    with pytest.raises(LookupError, match="expected one kernel that takes them, got gdn.decode"):
        call(32, (32, 32))  # kv or vk?
    assert call(32, (32, 32), value_dim=32, state_layout="vk").shape == (1, 1, 1, 32)
    with pytest.raises(LookupError, match="expected one kernel with kind=decode, .*, got none"):
        package.kernel(state_type="bf16")
    with pytest.raises(ValueError, match="conditions: expected names among"):
        package.kernel(layout="kv")
    with pytest.raises(AttributeError, match="no kernels of the kind 'prefill'"):
        package.prefill


def test_damaged_packages(two_layouts, tmp_path):
    data = two_layouts.read_bytes()
    for name, bad in {"short": data[:-1], "empty": b"", "noise": b"x" * 200}.items():
        path = tmp_path / f"{name}.dlk"
        path.write_bytes(bad)
        with pytest.raises(linattn.BadPackage):
            linattn.load(path)
        with pytest.raises(ValueError):
            linattn.load(bad)
    with pytest.raises(OSError, match="none.dlk"):
        linattn.load(tmp_path / "none.dlk")


def test_nothing_serves_a_request(alone):
    with pytest.raises(LookupError) as caught:
        linattn.kernel("gdn", key_dim=64, value_dim=32, options={"gate": "precomputed"})
    text = str(caught.value)
    assert "LINATTN_DL_COMPILE" in text and "LINATTN_PACKAGES" in text
    command = text.rsplit(": ", 1)[1]
    assert "gdn.mlir --kernels=decode --target=cpu --dims=64x32" in command
    assert "--set gate=precomputed" in command and command.endswith("-o gdn.dlk")


def test_the_command_in_the_message_works(alone, tmp_path, monkeypatch, request):
    wanted = dict(
        key_dim=32, value_dim=16, state_layout="vk", io_type="f16", types={"a": "f32"},
        index_type="i64", options={"beta_factor": 1.5},
    )  # fmt: skip
    with pytest.raises(LookupError) as caught:
        linattn.kernel("gdn", **wanted)
    words = str(caught.value).rsplit(": ", 1)[1].split()
    monkeypatch.undo()
    program = cache.compiler()
    subprocess.run([program, *words[1:]], check=True, cwd=tmp_path, capture_output=True)
    request.getfixturevalue("alone")
    linattn.add_packages(tmp_path / "gdn.dlk")
    kernel = linattn.kernel("gdn", **wanted)
    assert kernel.package.path == str(tmp_path / "gdn.dlk") and kernel.by_name["a"].dtype == "f32"


def test_registered_packages(alone, two_layouts, monkeypatch):
    wanted = dict(key_dim=32, value_dim=48, io_type="f32")
    with pytest.raises(linattn.NotFound):
        linattn.kernel("gdn", **wanted)
    monkeypatch.setenv("LINATTN_PACKAGES", str(two_layouts.parent))
    assert linattn.kernel("gdn", **wanted).state_layout == "kv"
    assert linattn.kernel("gdn", **wanted, state_layout="vk").state_layout == "vk"
    for other in (
        {"options": {"beta_factor": 2}},
        {"options": {"gate": "precomputed"}},
        {"types": {"q": "bf16"}},
        {"index_type": "i64"},
        {"state_type": "bf16"},
    ):
        with pytest.raises(linattn.NotFound):
            linattn.kernel("gdn", **{**wanted, **other})
    with pytest.raises(OSError, match="packages: expected a file or folder, got"):
        linattn.add_packages(two_layouts.with_name("none.dlk"))


def test_registered_package_that_is_damaged(alone, tmp_path):
    (tmp_path / "bad.dlk").write_bytes(b"noise" * 100)
    linattn.add_packages(tmp_path)
    for _ in range(2):
        with pytest.raises(linattn.BadPackage):
            linattn.kernel("gdn", key_dim=32, value_dim=48)


def test_own_specs(tmp_path):
    """A new operator is a file: nothing of it is known here."""
    path = tmp_path / "mine.mlir"
    text = _specs.find("rwkv6").text.replace("@rwkv6", "@mine")
    path.write_text(text.replace("params(%u", "params(%w2").replace("mulf %u,", "mulf %w2,"))
    kernel = linattn.kernel(path, key_dim=16, value_dim=16, io_type="f32")
    assert kernel.name == "mine.decode.16x16.kv.f32.f32" and "w2" in kernel.by_name
    one = np.ones((1, 1, 1, 16), np.float32)
    S = np.zeros((1, 1, 16, 16), np.float32)
    o = kernel(r=one, k=one, v=one, w=-one, w2=one[0, 0], S=S, scale=1.0)
    assert (o == 16).all() and (S == 1).all()


def test_spec_signatures():
    signature = _specs.find("kda").signature
    assert signature.inputs == {
        "q": "key", "k": "key", "v": "value", "a": "key", "g": "key", "b": "scalar",
        "beta": "scalar",
    }  # fmt: skip
    assert signature.params == {"A_log": "scalar", "dt_bias": "key"}
    assert (signature.scalars, signature.outputs) == (("scale",), {"o": "value"})
    assert signature.pinned == {"g": "f32"}
    assert _specs.find("gated_delta_rule").options["beta_factor"] == 1.0


def test_every_shipped_spec_is_understood():
    for folder in _specs.directories():
        for path in folder.glob("*.mlir"):
            spec = _specs.find(path.stem)
            assert spec.signature.first("key") and spec.signature.first("value")
            assert bool(spec.options) == ("options {" in spec.text)


@pytest.mark.skipif(shutil.which("dl-run") is None and not os.environ.get("LINATTN_DL_COMPILE"),
                    reason="no dl-run")  # fmt: skip
def test_the_full_spec_agrees_with_its_reference(tmp_path):
    """gated_delta_rule.mlir, the spec that only this package has, by dl-run verify."""
    program = shutil.which("dl-run", path=os.path.dirname(cache.compiler() or ""))
    if program is None:
        pytest.skip("no dl-run beside dl-compile")
    settings = ["gate=precomputed", "key_gate=true", "value_gate=true", "beta=logits"]
    options = [word for setting in settings for word in ("--set", setting)]
    path = build(tmp_path / "x.dlk", "--dims=32x48", *options, spec="gated_delta_rule")
    done = subprocess.run(
        [program, "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
