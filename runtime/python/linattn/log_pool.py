# log_pool.py - States as a base and a log of updates, as inference engines keep them.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A state is a dense base and a log with one entry per accepted token since; a step appends to the
log, drafts too, and now and then merges it into the base. test/Reference/LogProtocol.md is the
protocol, with the names used here; :class:`LogPool` holds the memory and makes the calls:

    pool = LogPool(log_kernels("gdn", key_dim=128, value_dim=128, device="cuda"),
                   slots=64, heads=(16, 32), layers=36, device="cuda")
    pool.plan(slots, slots, num_accepted_tokens=accepted, tokens=4)       # once per step
    for layer in range(36):
        o = pool.append(layer, q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias)

What a log consists of is the operator's, and comes from the kernels' manifest. Calls launch on
torch's current stream and do nothing else: no allocation but of outputs that are not given, no
host read, so they may be captured in a CUDA graph that serves all lengths and phases. Every kernel
is an operator of torch.library (:attr:`linattn.Kernel.op`) that says what it writes, and the calls
trace under torch.compile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _errors, _torch_ops
from .engine import LogKernels
from .kernels import DeviceLike, Kernel, Parameter, Plan, parse_device
from .packages import LOG_KINDS, Package

Tensors = Mapping[str, Tensor]
PerLayer = Tensor | Tensors | Sequence[Tensor | Tensors]
_PLAN_SCALARS = ("first_slot", "tokens", "final")  # those that are arguments of their own here


@dataclasses.dataclass(frozen=True)
class Layer:
    """The memory of one layer: tensors by the names in the kernels' manifest."""

    states: dict[str, Tensor]
    logs: dict[str, Tensor]


# What the pool itself puts into calls, by role; the rest is the caller's.
_OWNED = {
    *("state", "state_in", "state_out", "log", "cursors", "descriptors", "slots_in", "slots_out"),
    *("counts", "row_starts", "row_flags", "accepted", "flush"),
    *("checkpoint_slots", "checkpoint_offsets"),
}


class _Caller:
    """One of the kernels, loaded, with what its calls have in common in each layer."""

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        layers: Sequence[Layer],
        parameters: Sequence[Mapping[str, Any]],
    ) -> None:
        self.kernel, self.plan = kernel, plan
        self.index = {p.name: p.index for p in kernel.parameters}
        self.free = {p.name: p.index for p in kernel.parameters if p.role not in _OWNED}
        self.scalars = [name for name in kernel.scalars if name not in _PLAN_SCALARS]
        self.outputs = [p.index for p in kernel.parameters if p.role == "output"]
        self.bases = [self._base(*pair) for pair in zip(layers, parameters)]

    def _base(self, layer: Layer, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, float]]:
        """The memory and parameters of a layer, where the kernel takes them."""
        tensors: list[Any] = [None] * len(self.kernel.parameters)
        for parameter in self.kernel.parameters:
            name = parameter.name
            if parameter.role in ("state", "state_in"):
                tensors[parameter.index] = layer.states[name.removesuffix("_in")]
            elif parameter.role == "log":
                tensors[parameter.index] = layer.logs[name]
            elif parameter.role == "param":
                tensors[parameter.index] = values.get(name)
        return tensors, {name: values[name] for name in self.scalars if name in values}

    def begin(self, layer: int, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, float]]:
        """The launch's tensors and scalars, so far as the layer and the caller say them."""
        if not 0 <= layer < len(self.bases):
            raise _errors.InvalidArgument(
                f"layer: expected 0 to {len(self.bases) - 1}, got {layer}"
            )
        kept, kept_scalars = self.bases[layer]
        tensors, scalars = list(kept), dict(kept_scalars)
        for name, value in arguments.items():
            if name in self.free:
                tensors[self.free[name]] = value
            elif name in self.scalars:
                if value is not None:
                    scalars[name] = value
            else:
                known = ", ".join([*self.free, *self.scalars])
                raise _errors.InvalidType(
                    f"{self.kernel.kind}: expected arguments among {known}, got '{name}'"
                )
        return tensors, scalars

    def launch(self, tensors: list[Any], scalars: dict[str, float]) -> None:
        _torch_ops.call(self.kernel, tensors, scalars, self.plan, None)


class LogPool:
    """Base states, logs and cursors of the layers of a model, and the calls of a step.

    Attributes:
        kernels: plan, append, merge and materialize, of one package.
        window, max_tokens, ring: W, the longest row of a step, and R, compiled in.
        slots, rows, key_heads, value_heads: the sizes it was made with.
        layers: the memory of each layer: ``layers[0].states["S"]``, ``layers[0].logs["log_k"]``.
            Bases are ``[slots, HV, K, V]`` or ``[slots, HV, V, K]``, fields of the log ``[slots,
            heads, R, ...]``. Neither needs initial values.
        cursors: int32 ``[slots, 4]``, of all layers. Only plans write them.
        descriptors: int32 ``[rows, 12]``: what plans write where they are not given other memory.
    """

    def __init__(
        self,
        kernels: LogKernels | Package,
        *,
        slots: int,
        heads: int | tuple[int, int],
        layers: int = 1,
        rows: int | None = None,
        first_slot: int = 0,
        device: DeviceLike = "cpu",
        states: PerLayer | None = None,
        logs: PerLayer | None = None,
        cursors: Tensor | None = None,
        parameters: Sequence[Mapping[str, Any]] | None = None,
        checked: bool | None = None,
        pdl: bool | None = None,
    ) -> None:
        """Takes or allocates the memory, and loads the kernels on the device: the last thing that
        allocates anything but outputs.

        Args:
            kernels: of :func:`linattn.log_kernels`, or a package that has these four just once.
            slots: slots of the pool; all layers share their numbers.
            heads: HV, or (HQ, HV) where several value heads share a key head.
            layers: how many layers there are.
            rows: the longest step that ``descriptors`` has room for. None: as many as slots.
            first_slot: slots below it are null: rows that name them are padding. 0 or 1.
            device: "cpu", "cuda:1", a torch.device.
            states: bases to use instead of new ones, a tensor per layer (of several states, a dict
                by name); for one layer the tensor itself will do. Slots and heads may have any
                strides that are multiples of the kernel's alignment, such as pages of an engine;
                matrices are packed.
            logs: the same for the log, dicts by name: ``log_fields`` lists names and shapes.
            cursors: int32 ``[slots, 4]``, packed; zeros at first. None: new.
            parameters: per layer, tensors and scalars that all of its calls get: ``{"A_log": ...,
                "scale": ...}``. What a call gives itself counts before these.
            checked: verify the promises of a step before each plan (slow, waits for the stream).
                None: as ``LINATTN_CHECKED`` says.
            pdl: programmatic dependent launch. None: as ``LINATTN_PDL`` says, where there is it.

        Raises:
            ValueError: a number, shape or device that does not fit; kernels that do not belong
                together.
            TypeError: a data type or kind of object that does not fit.
        """
        self.kernels = _kernels_of(kernels)
        append = self.kernels.append
        self.window, self.max_tokens, self.ring = append.window, append.max_tokens, append.ring
        self.slots = _number("slots", slots, 1)
        pair = (heads, heads) if isinstance(heads, int) else tuple(heads)
        if len(pair) != 2:
            raise _errors.InvalidArgument(f"heads: expected HV or (HQ, HV), got {heads}")
        self.key_heads, self.value_heads = (_number("heads", count, 1) for count in pair)
        if self.value_heads % self.key_heads:
            raise _errors.InvalidArgument(f"heads: expected HV to be a multiple of HQ, got {heads}")
        self.rows = self.slots if rows is None else _number("rows", rows, 0)
        self.first_slot = _number("first_slot", first_slot, 0)
        where = parse_device(device)
        count = _number("layers", layers, 1)
        self.device = torch.device("cpu" if where.type == _torch_ops.CPU else f"cuda:{where.id}")
        self._sizes = {"slots": self.slots, "HQ": self.key_heads, "HV": self.value_heads}
        bases = self._memory("states", "state", states, count)
        logs_of = self._memory("logs", "log", logs, count)
        self.layers = [Layer(*pair) for pair in zip(bases, logs_of)]
        (of_cursors,) = (p for p in self.kernels.plan.parameters if p.role == "cursors")
        if cursors is None:
            cursors = torch.zeros((self.slots, 4), dtype=torch.int32, device=self.device)
        else:
            self._check("cursors", cursors, of_cursors)
        self.cursors = cursors
        self.descriptors = torch.zeros((self.rows, 12), dtype=torch.int32, device=self.device)
        self.descriptors[:, [1, 9]] = -1  # null rows, until a plan writes others
        values = self._parameters(parameters, count)
        self._plan, self._append, self._merge, self._materialize = (
            _Caller(k, k.prepare(where, checked=checked, pdl=pdl), self.layers, values)
            for k in self.kernels
        )
        self._current: Tensor | None = None

    def __repr__(self) -> str:
        return (
            f"<linattn.LogPool {self.kernels.append.name}: {len(self.layers)} layers, "
            f"{self.slots} slots, {self.key_heads}/{self.value_heads} heads, on {self.device}>"
        )

    @property
    def log_fields(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """The fields of a log by name, with data type and shape."""
        fields = (p for p in self.kernels.append.parameters if p.role == "log")
        return {p.name: (_torch_ops.dtype_of(p.dtype), self._shape(p)) for p in fields}

    def _shape(self, parameter: Parameter) -> tuple[int, ...]:
        return tuple(self._sizes[s] if isinstance(s, str) else s for s in parameter.shape)

    def _memory(
        self, label: str, role: str, given: PerLayer | None, layers: int
    ) -> list[dict[str, Tensor]]:
        """The tensors of a role in each layer: those given, once they are checked, or new ones."""
        fields = [p for p in self.kernels.append.parameters if p.role == role]
        if given is None:
            new = {
                p.name: torch.zeros(
                    (layers, *self._shape(p)),
                    dtype=_torch_ops.dtype_of(p.dtype),
                    device=self.device,
                )
                for p in fields
            }
            return [{name: tensor[i] for name, tensor in new.items()} for i in range(layers)]
        entries = [given] if isinstance(given, (Tensor, Mapping)) else list(given)
        if len(entries) != layers:
            raise _errors.InvalidArgument(
                f"{label}: expected those of {layers} layers, got {len(entries)}"
            )
        names = [p.name for p in fields]
        result = []
        for layer, entry in enumerate(entries):
            tensors: Any = (
                {names[0]: entry} if isinstance(entry, Tensor) and len(names) == 1 else entry
            )
            if not isinstance(tensors, Mapping) or set(tensors) != set(names):
                got = ", ".join(tensors) if isinstance(tensors, Mapping) else type(entry).__name__
                raise _errors.InvalidArgument(
                    f"{label} of layer {layer}: expected tensors {', '.join(names)}, got {got}"
                )
            for parameter in fields:
                name = parameter.name
                self._check(f"{label} of layer {layer} '{name}'", tensors[name], parameter)
            result.append(dict(tensors))
        return result

    def _check(self, label: str, tensor: Any, parameter: Parameter) -> None:
        """Checks memory that the pool is given."""
        if not isinstance(tensor, Tensor):
            raise _errors.InvalidType(
                f"{label}: expected a torch.Tensor, got {type(tensor).__name__}"
            )
        dtype, shape = _torch_ops.dtype_of(parameter.dtype), self._shape(parameter)
        if tensor.dtype != dtype:
            raise _errors.InvalidType(f"{label} dtype: expected {dtype}, got {tensor.dtype}")
        if tuple(tensor.shape) != shape:
            raise _errors.InvalidArgument(
                f"{label} shape: expected {list(shape)}, got {list(tensor.shape)}"
            )
        try:
            fits = _torch_ops.word_of(tensor.device) == _torch_ops.word_of(self.device)
        except KeyError:
            fits = False
        if not fits:
            raise _errors.InvalidArgument(
                f"{label} device: expected {self.device}, got {tensor.device}"
            )

    def _parameters(
        self, given: Sequence[Mapping[str, Any]] | None, layers: int
    ) -> list[Mapping[str, Any]]:
        if given is None:
            return [{}] * layers
        if isinstance(given, Mapping) or len(given) != layers:
            got = "one mapping" if isinstance(given, Mapping) else len(given)
            raise _errors.InvalidArgument(
                f"parameters: expected {layers} mappings, one per layer, got {got}"
            )
        append = self.kernels.append
        known = [p.name for p in append.parameters if p.role == "param"] + list(append.scalars)
        for values in given:
            for name in values:
                if name not in known:
                    names = ", ".join(known) or "none"
                    raise _errors.InvalidType(
                        f"parameters: expected names among {names}, got '{name}'"
                    )
        return list(given)

    def plan(
        self,
        src_slots: Tensor | None = None,
        dst_slots: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        tokens: int = 1,
        num_accepted_tokens: Tensor | None = None,
        initial_state: Tensor | None = None,
        flush: Tensor | None = None,
        checkpoint_slots: Tensor | None = None,
        checkpoint_offsets: Tensor | None = None,
        final: bool = False,
        rows: int | None = None,
        descriptors: Tensor | None = None,
    ) -> Tensor:
        """Begins a step: settles what the last steps of the sources did, decides what this one
        does, and writes it to descriptors and cursors. Once per step, before the first layer.

        Arrays are ``[N]``, of any stride; those that are "index" have the kernels' index type
        (int32, or int64). ``None``: not needed.

        Args:
            src_slots, dst_slots: index: where row n starts from and goes to; the same for a row
                that stays. None: slot n for row n.
            cu_seqlens: index ``[N + 1]``: row n has the tokens ``[cu_seqlens[n],
                cu_seqlens[n + 1])`` of entry 0 of a batch of one; 0 to ``max_tokens``, drafts
                included.
            tokens: without cu_seqlens: how many tokens each row has.
            num_accepted_tokens: index: how many of the tokens that the last step put into the
                source are accepted, from 0. None: all.
            initial_state: uint8 or bool: 0: from zeros; 1: as the slot has it; 2: the slot's base
                is the whole state, because prefill or a transfer wrote it. None: 1.
            flush: uint8 or bool: not 0: merge before the tokens at any length.
            checkpoint_slots: index: a slot whose base gets an earlier state; below the first slot:
                none.
            checkpoint_offsets: index: which: that many tokens after the end of what had been
                accepted before the last step of the source. None: 0.
            final: whether no token of this step will be rejected. A row of one token that fills
                its log then merges it too.
            rows: N, if no array says it. None: as many as ``descriptors`` has.
            descriptors: int32 ``[N, 12]`` to write. None: the first N rows of the pool's own.

        Returns:
            The descriptors; ``append`` and ``merge`` take them by themselves until the next plan.

        Raises:
            ValueError: arrays of different lengths, more rows than ``rows``; with ``checked`` also
                what the protocol forbids.
            TypeError: a data type.
        """
        arrays = {
            "src_slots": src_slots,
            "dst_slots": dst_slots,
            "num_accepted_tokens": num_accepted_tokens,
            "initial_state": initial_state,
            "flush": flush,
            "checkpoint_slots": checkpoint_slots,
            "checkpoint_offsets": checkpoint_offsets,
        }
        if rows is None:
            rows = self._count(arrays, cu_seqlens, descriptors)
        if descriptors is None:
            if not 0 <= rows <= self.rows:
                raise _errors.InvalidArgument(
                    f"rows: expected 0 to {self.rows}, as the pool was made for, got {rows}"
                )
            descriptors = self.descriptors[:rows]
        caller = self._plan
        tensors, _ = caller.begin(0, {})
        for name, array in arrays.items():
            tensors[caller.index[name]] = array
        tensors[caller.index["cu_seqlens"]] = cu_seqlens
        tensors[caller.index["cursors"]] = self.cursors
        tensors[caller.index["descriptors"]] = descriptors
        scalars: dict[str, float] = {
            "first_slot": self.first_slot,
            "tokens": tokens,
            "final": int(final),
        }
        caller.launch(tensors, scalars)
        self._current = descriptors
        return descriptors

    def _count(
        self,
        arrays: Mapping[str, Tensor | None],
        cu_seqlens: Tensor | None,
        descriptors: Tensor | None,
    ) -> int:
        """The rows of a step."""
        for array in arrays.values():
            if isinstance(array, Tensor) and array.ndim:
                return array.shape[0]
        if isinstance(cu_seqlens, Tensor) and cu_seqlens.ndim:
            return cu_seqlens.shape[0] - 1
        return self.rows if descriptors is None else descriptors.shape[0]

    def _planned(self, descriptors: Tensor | None) -> Tensor:
        """The descriptors of a call."""
        if descriptors is not None:
            return descriptors
        if self._current is None:
            raise _errors.InvalidArgument(
                "argument 'descriptors': expected a plan before the first call, got none"
            )
        return self._current

    def append(
        self, layer: int = 0, /, *, descriptors: Tensor | None = None, **arguments: Any
    ) -> Any:
        """One layer's part of a step: merges where descriptors say so, appends the tokens to the
        log, and computes their outputs.

        Args:
            layer: which layer's memory.
            descriptors: of another plan than the last one of this pool.
            **arguments: the operator's inputs ``[B, T, heads, ...]`` and parameters by name, and
                scalars, as of its decode kernel; outputs to write, which are allocated otherwise.
                Rows are entries of the batch, or lie one after the other in one entry.

        Returns:
            The output ``[B, T, HV, V]``, or a tuple of several. Tokens of null rows are zeros;
            those of no row are left as they are.

        Raises:
            ValueError: a shape, stride, alignment or device that does not fit, or no such layer.
            TypeError: a data type, an unknown or a missing argument.
        """
        caller = self._append
        tensors, scalars = caller.begin(layer, arguments)
        tensors[caller.index["descriptors"]] = self._planned(descriptors)
        caller.kernel.complete(tensors)
        caller.launch(tensors, scalars)
        outputs = [tensors[index] for index in caller.outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def merge(
        self, layer: int = 0, /, *, descriptors: Tensor | None = None, **arguments: Any
    ) -> None:
        """What ``append`` does with rows without tokens: merges, moves and checkpoints. For steps
        in which no row has any.

        Args:
            layer, descriptors: as for ``append``.
            **arguments: the operator's parameters by name, and scalars.

        Raises:
            ValueError, TypeError: as ``append``.
        """
        caller = self._merge
        tensors, scalars = caller.begin(layer, arguments)
        tensors[caller.index["descriptors"]] = self._planned(descriptors)
        caller.kernel.complete(tensors)
        caller.launch(tensors, scalars)

    def materialize(
        self,
        layer: int = 0,
        /,
        *,
        src_slots: Tensor,
        counts: Tensor | None = None,
        out: Tensor | Tensors | None = None,
        dst_slots: Tensor | None = None,
        first_slot: int = 0,
        **arguments: Any,
    ) -> Any:
        """Writes dense states of slots to other memory; reads only. Between two steps.

        Args:
            layer: which layer's memory.
            src_slots: index ``[N]``: the slots.
            counts: index ``[N]``: after how many entries since the base, clamped to what is there.
                None: after all, drafts included.
            out: where to: a pool as the bases are, ``[M, HV, ...]``; of several states a dict by
                name. None: a new one of N slots.
            dst_slots: index ``[N]``: the slots of ``out``. None: slot n for row n.
            first_slot: rows whose slot in either pool is below are skipped.
            **arguments: the operator's parameters by name, and scalars.

        Returns:
            ``out``; a dict by name if there are several states.

        Raises:
            ValueError, TypeError: as ``append``.
        """
        caller = self._materialize
        tensors, scalars = caller.begin(layer, arguments)
        bases = self.layers[layer].states
        if out is None:
            rows = src_slots.shape[0] if isinstance(src_slots, Tensor) and src_slots.ndim else 0
            written = {
                name: base.new_empty((rows, *base.shape[1:])) for name, base in bases.items()
            }
        else:
            written = {next(iter(bases)): out} if isinstance(out, Tensor) else dict(out)
        if set(written) != set(bases):
            raise _errors.InvalidArgument(
                f"argument 'out': expected tensors {', '.join(bases)}, got {', '.join(written)}"
            )
        for name, tensor in written.items():
            tensors[caller.index[name]] = tensor
        tensors[caller.index["cursors"]] = self.cursors
        tensors[caller.index["src_slots"]] = src_slots
        tensors[caller.index["counts"]] = counts
        tensors[caller.index["dst_slots"]] = dst_slots
        caller.kernel.complete(tensors)
        caller.launch(tensors, {**scalars, "first_slot": first_slot})
        return next(iter(written.values())) if len(written) == 1 else written


def _number(label: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _errors.InvalidType(f"{label}: expected a number, got {type(value).__name__}")
    if value < least:
        raise _errors.InvalidArgument(f"{label}: expected {least} or more, got {value}")
    return value


def _kernels_of(source: Any) -> LogKernels:
    """The four kernels, once it is clear that they belong together."""
    if isinstance(source, Package):
        source = LogKernels(*(source.kernel(kind) for kind in LOG_KINDS))
    if not isinstance(source, LogKernels):
        raise _errors.InvalidType(
            f"kernels: expected linattn.LogKernels or a package, got {type(source).__name__}"
        )
    append = source.append
    for kind, kernel in zip(LOG_KINDS, source):
        if kernel.kind != kind:
            raise _errors.InvalidArgument(
                f"kernels: expected a kernel of kind '{kind}', got {kernel!r}"
            )
        for name in ("window", "max_tokens", "ring"):
            expected, got = getattr(append, name), getattr(kernel, name)
            if got != expected:
                raise _errors.InvalidArgument(
                    f"kernels: expected '{kernel.name}' with {name} = {expected} as in "
                    f"'{append.name}', got {got}"
                )
        fields = {p.name: p for p in append.parameters if p.role in ("state", "log")}
        for parameter in kernel.parameters:
            if parameter.role in ("state", "log", "state_in"):
                field = fields.get(parameter.name.removesuffix("_in"))
                if field is None or (field.dtype, field.shape) != (
                    parameter.dtype,
                    parameter.shape,
                ):
                    raise _errors.InvalidArgument(
                        f"kernels: expected '{kernel.name}' to have the memory of '{append.name}', "
                        f"got another '{parameter.name}'"
                    )
    return source
