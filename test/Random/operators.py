# operators.py - The operators that are drawn: their equations, their spec, their meaning.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An :class:`Operator` is what happens to its states, in order. ``Operator.spec`` writes it in
MLIR; ``Operator.step`` does it to one token in double precision and knows no compiler."""

from __future__ import annotations

from dataclasses import dataclass, field

import expressions as e
from expressions import Evaluation, Number, Printer, Value

Matrix = list[list[float]]


@dataclass
class Decay:
    state: int
    log: Value
    bound: float | None = None


@dataclass
class Write:
    state: int
    key: Value
    value: Value
    reads: list[Read] = field(default_factory=list)  # those that enter it


@dataclass
class Read:
    """Of a state after ``position`` of its events and after those of a branch that only it sees."""

    state: int
    position: int
    key: Value
    result: Value
    branch: list[Decay | Write] = field(default_factory=list)


@dataclass
class Port:
    """An input or a parameter. ``role`` says which numbers are sensible: those of a direction,
    value, gate, logit, share or rate."""

    value: Value
    role: str


@dataclass
class Operator:
    name: str
    inputs: list[Port] = field(default_factory=list)
    params: list[Port] = field(default_factory=list)
    scales: dict[str, float] = field(
        default_factory=dict
    )  # params that are one number for all heads
    num_states: int = 1
    steps: list[Decay | Write | Read] = field(default_factory=list)  # in the order of the spec
    outputs: list[Value] = field(default_factory=list)
    breaks: set[str] = field(default_factory=set)  # conditions of the chunkwise or log schedule

    def events(self, state: int) -> list[Decay | Write]:
        return [s for s in self.steps if not isinstance(s, Read) and s.state == state]

    @property
    def writes(self) -> list[Write]:
        return [s for s in self.steps if isinstance(s, Write)]

    @property
    def has_feedback(self) -> bool:
        return any(w.reads for w in self.writes)

    def clock(self, state: int, position: int) -> int:
        return sum(isinstance(event, Decay) for event in self.events(state)[:position])

    def refusals(self, schedule: str) -> set[str]:
        """The conditions that a schedule is refused for: empty where it has kernels."""
        legality = {c for c in self.breaks if c[0] == "A"}
        if legality:
            return legality
        if schedule == "log":
            return set() if any(self.events(s) for s in range(self.num_states)) else {"B4"}
        found = {c for c in self.breaks if c[0] == "B"}
        if self.num_states > 1:
            found.add("B1")
        if not 1 <= len(self.writes) <= 8:
            found.add("B5")
        for before, write in zip(self.writes, self.writes[1:]):
            at = self.events(before.state).index(before)
            for read in write.reads:
                if read.position <= at and self.clock(0, read.position) < self.clock(0, at):
                    found.add("B6")
        return found

    # ===------------------------------------------------------------------===#
    # The spec
    # ===------------------------------------------------------------------===#

    def spec(self) -> str:
        printer = Printer()
        for port in self.inputs + self.params:
            printer.define(port.value, f"%{port.value.name}")
        args = []
        for port in self.inputs:
            pinned = " {linattn.dtype = f32}" if port.role == "gate" else ""
            args.append(f"%{port.value.name}: {port.value.type}{pinned}")
        params = [f"%{p.value.name}: {p.value.type}" for p in self.params if p.value.axis]
        params += [f"%{n}: f32 {{linattn.default = {x!r}}}" for n, x in self.scales.items()]
        states = [[f"%S{n}"] for n in range(self.num_states)]
        head = f"linattn.operator @{self.name}({', '.join(args)})"
        if params:
            head += f"\n    params({', '.join(params)})"
        head += f"\n    state({', '.join(f'{names[0]}: !linattn.state' for names in states)})"
        head += f" -> ({', '.join(f'o{n}: {o.type}' for n, o in enumerate(self.outputs))}) {{"
        for step in self.steps:
            names = states[step.state]
            if isinstance(step, Read):
                state = names[step.position]
                for event in step.branch:
                    state = self._print_event(printer, event, state, f"%B{len(printer.lines)}")
                name = f"%{step.result.name}"
                key = printer.use(step.key)
                printer.line(
                    f"{name} = linattn.read {state}, {key} : {step.key.type} -> {step.result.type}"
                )
                printer.define(step.result, name)
            else:
                names.append(
                    self._print_event(printer, step, names[-1], f"%S{step.state}_{len(names)}")
                )
        outputs = [printer.use(o) for o in self.outputs]
        types = ["!linattn.state"] * self.num_states + [o.type for o in self.outputs]
        printer.line(
            f"linattn.yield {', '.join([n[-1] for n in states] + outputs)} : {', '.join(types)}"
        )
        aliases = []
        for (axis, group), alias in e.ALIASES.items():
            size = {"scalar": "", "key_value": "?x?x"}.get(axis, "?x")
            aliases.append(f"{alias} = tensor<{size}f32, #linattn.of<{axis}, {group}>>")
        return "\n".join([*aliases, "", head, *printer.lines, "}", ""])

    @staticmethod
    def _print_event(printer: Printer, event: Decay | Write, state: str, name: str) -> str:
        if isinstance(event, Decay):
            bound = "" if event.bound is None else f" bound {event.bound!r}"
            log = printer.use(event.log)
            printer.line(f"{name} = linattn.decay {state}, {log}{bound} : {event.log.type}")
        else:
            key, value = printer.use(event.key), printer.use(event.value)
            types = f"{event.key.type}, {event.value.type}"
            printer.line(f"{name} = linattn.write {state}, {key}, {value} : {types}")
        return name

    # ===------------------------------------------------------------------===#
    # The meaning
    # ===------------------------------------------------------------------===#

    def step(
        self, states: list[Matrix], known: dict[str, Number]
    ) -> tuple[list[Matrix], list[list[float]]]:
        """One token of one value head, of known inputs and params: its new states and outputs."""
        values = Evaluation(dict(known), {"key": len(states[0]), "value": len(states[0][0])})
        paths = [[state] for state in states]
        for step in self.steps:
            if isinstance(step, Read):
                state = paths[step.state][step.position]
                for event in step.branch:
                    state = apply(state, event, values)
                values.known[step.result.name] = read(state, values.of(step.key))
            else:
                paths[step.state].append(apply(paths[step.state][-1], step, values))
        return [path[-1] for path in paths], [values.of(o) for o in self.outputs]


def apply(state: Matrix, event: Decay | Write, values: Evaluation) -> Matrix:
    """The state after an event."""
    if isinstance(event, Write):
        a, b = values.of(event.key), values.of(event.value)
        return [[s + x * y for s, y in zip(row, b)] for row, x in zip(state, a)]
    log, axis = values.of(event.log), event.log.axis
    if axis == "scalar":
        factor = e._exp(log)
        return [[factor * s for s in row] for row in state]
    factors = [e._exp(g) for g in log]
    if axis == "key":
        return [[f * s for s in row] for row, f in zip(state, factors)]
    if axis == "value":
        return [[f * s for s, f in zip(row, factors)] for row in state]
    width = len(state[0])
    return [[factors[i * width + j] * s for j, s in enumerate(row)] for i, row in enumerate(state)]


def read(state: Matrix, key: list[float]) -> list[float]:
    """S^T x."""
    result = [0.0] * len(state[0])
    for row, x in zip(state, key):
        result = [r + x * s for r, s in zip(result, row)]
    return result
