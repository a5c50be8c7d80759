# drawing.py - Draws operators at random.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``draw(seed)`` gives the operator of a seed, the same on every machine.

Recurrences are kept stable, or their errors would say nothing: keys that are read into writes have
length one or less, and shares are at most two where a write takes back along the key it reads, else
one divided by the number of such writes."""

from __future__ import annotations

import random

import expressions as e
from expressions import Value
from operators import Decay, Operator, Port, Read, Write

# What no chunkwise kernel does, each with the condition it breaks.
REFUSED = (
    "value decay",
    "element decay",
    "value gate",
    "tanh of a read",
    "product of reads",
    "value sum",
    "two states",
    "no write",
    "nine writes",
    "decay from the state",
)


class Drawer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.op = Operator(f"random_{seed}")
        self.keys: list[tuple[Value, bool]] = []  # and whether they have length one
        self.queries: list[tuple[Value, bool]] = []
        self.values: list[Value] = []
        self.flaw = self.pick([("", 16), *((name, 0.5) for name in REFUSED)])
        self.feedback = self.chance(0.65)
        self.value_decays = False

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, weighted: list[tuple]) -> object:
        return self.random.choices([x for x, _ in weighted], [w for _, w in weighted])[0]

    # --- inputs and parameters

    def input(self, axis: str, group: str, role: str) -> Value:
        value = Value("input", (), axis, group, f"x{len(self.op.inputs)}")
        self.op.inputs.append(Port(value, role))
        return value

    def param(self, axis: str, group: str, role: str = "rate") -> Value:
        value = Value("param", (), axis, group, f"p{len(self.op.params)}")
        self.op.params.append(Port(value, role))
        return value

    def group(self, value_heads: float = 0.5) -> str:
        return "value_head" if self.chance(value_heads) else "key_head"

    def share(self, axis: str = "scalar", most: float = 1.0, group: str = "") -> Value:
        """A factor from 0 to ``most``, beta in the papers."""
        group = group or self.group(0.8)
        form = self.pick(
            [("logit", 5), ("value", 3), ("constant", 1), ("param", 1), ("product", 1)]
        )
        if form == "logit":
            x = e.sigmoid(self.input(axis, group, "logit"))
        elif form == "value" and axis == "scalar":
            x = self.input(axis, group, "share")
        elif form == "param":
            x = e.sigmoid(self.param(axis, group))
        elif form == "product":
            x = e.mul(
                e.sigmoid(self.input(axis, group, "logit")),
                e.sigmoid(self.param("scalar", self.group())),
            )
        else:
            return e.constant(self.random.choice([1.0, 0.5, 0.25]) * most)
        return x if most == 1.0 else e.mul(x, e.constant(most))

    def unit_key(self) -> Value:
        """A key vector of length one, an old one or a new one."""
        units = [key for key, is_unit in self.keys if is_unit]
        if units and self.chance(0.3):
            return self.random.choice(units)
        source = self.input("key", self.group(0.25), "direction")
        if self.chance(0.15):
            source = e.sub(
                source,
                e.mul(
                    self.param("scalar", source.group), self.input("key", source.group, "direction")
                ),
            )
        key = e.l2norm(source)
        if self.chance(0.15):
            key = e.neg(key)
        self.keys.append((key, True))
        return key

    def key(self, unit: bool) -> Value:
        """A key vector, of length one or less if it has to be."""
        if self.keys and self.chance(0.25) and not unit:
            return self.random.choice(self.keys)[0]
        if unit or self.chance(0.4):
            key = self.unit_key()
            form = self.pick([("", 7), ("gated", 2), ("share", 1)])
            if form:
                key = e.mul(
                    key, self.share("key" if form == "gated" else "scalar", group=self.group(0.25))
                )
            return key
        key = self.input("key", self.group(0.25), "direction")
        if self.chance(0.2):
            key = e.mul(key, self.param("key", self.group(0.25)))
        self.keys.append((key, False))
        return key

    def query(self) -> Value:
        """A key vector to read outputs with. Where a write takes back what it reads, another one
        than any key: along its own the state is what the write has left, perhaps nothing, and an
        error beside nothing says nothing."""
        if not self.feedback:
            return self.key(unit=False)
        self.keys, self.queries = self.queries, self.keys
        made = self.key(unit=False)
        self.keys, self.queries = self.queries, self.keys
        return made

    def local(self) -> Value:
        """A value vector that depends on no state."""
        if self.values and self.chance(0.3):
            return self.random.choice(self.values)
        v = self.input("value", self.group(0.85), "value")
        form = self.pick([("", 6), ("gate", 1), ("step", 1), ("share", 1), ("difference", 1)])
        if form == "gate":
            v = e.mul(self.share("value"), v)
        elif form == "step":
            v = e.mul(e.softplus(self.input("scalar", self.group(), "logit")), v)
        elif form == "share":
            v = e.mul(self.share(), v)
        elif form == "difference":
            v = e.sub(
                v, e.mul(self.param("value", self.group()), self.input("value", v.group, "value"))
            )
        self.values.append(v)
        return v

    # --- decays

    def gate(self, axis: str) -> tuple[Value, float | None]:
        """A log decay of at most 0, and its bound."""
        group = self.group(0.6)
        form = self.pick([("given", 4), ("constant", 1), ("slope", 1), ("logit", 9)])
        if axis == "key_value" or form == "logit":
            return self.gate_of(self.input(axis, group, "logit"))
        if form == "given":
            return self.input(axis, group, "gate"), None
        if form == "slope":
            return e.neg(e.softplus(self.param(axis, group))), None
        number = e.constant(self.random.choice([-0.05, -0.5, -3.0]))
        return e.broadcast(number, axis, group), None

    def gate_of(self, a: Value) -> tuple[Value, float | None]:
        """The same from what a layer computes."""
        form = self.pick([("softplus", 4), ("logsigmoid", 1), ("raw", 1), ("bounded", 3)])
        if form == "logsigmoid":
            return e.neg(e.softplus(e.neg(a))), None
        if form == "raw":
            return e.neg(e.exp(a)), None
        if form == "bounded":
            bound = self.random.choice([-0.5, -1.0, -2.5, -5.0, -12.0])
            return e.mul(e.constant(bound), e.sigmoid(a)), bound
        if self.chance(0.5) and a.axis != "key_value":
            a = e.add(a, self.param(a.axis, self.group()))
        rate = e.softplus(a)
        if self.chance(0.5) and a.axis != "key_value":
            rate = e.mul(e.exp(self.param("scalar", self.group())), rate)
        return e.neg(rate), None

    def decay(self, state: int) -> Decay:
        axis = self.pick([("scalar", 5), ("key", 5)])
        if self.flaw == "value decay":
            axis, self.value_decays = "value", True
        elif self.flaw == "element decay":
            axis = "key_value"
            self.op.breaks.add("A1")
        log, bound = self.gate(axis)
        if not self.feedback and axis == "key" and bound is None and self.chance(0.15):
            self.keys.append((e.sub(e.constant(1.0), e.exp(log)), False))
        return Decay(state, log, bound)

    # --- reads

    def read(self, state: int, position: int, key: Value) -> Read:
        result = Value(
            "read", (), "value", "value_head", f"r{sum(isinstance(s, Read) for s in self.op.steps)}"
        )
        made = Read(state, position, key, result)
        self.op.steps.append(made)
        return made

    def feedback_read(self, state: int, key: Value) -> Read:
        """A read that enters a write along ``key``, an old one or a new one."""
        source = state if self.op.num_states == 1 or self.chance(0.7) else 1 - state
        latest = len(self.op.events(source))
        at = latest if self.chance(0.6) else self.random.randint(0, latest)
        own = key if self.chance(0.6) else self.key(unit=True)
        reads = [s for s in self.op.steps if isinstance(s, Read) and s.state == source]
        earlier = [read for read in reads if read.key in (key, own)]
        if earlier and self.chance(0.3):
            return self.random.choice(earlier)
        made = self.read(source, at, own)
        if self.chance(0.08):  # as if the state decayed once more, for this read alone
            axis = self.pick([("scalar", 1), ("key", 1)])
            made.branch = [Decay(source, *self.gate(axis))]
        return made

    def write(self, state: int, num_writes: int) -> Write:
        """The next write, with the reads that enter it."""
        is_delta = self.feedback and (self.chance(0.7) or not self.op.has_feedback)
        if not is_delta:
            return Write(state, self.key(unit=self.feedback), self.local())
        position = len(self.op.events(state))
        key = self.unit_key() if self.chance(0.8) else self.key(unit=True)
        count = self.pick([(1, 8), (2, 1.5), (3, 0.5)])
        reads = [self.feedback_read(state, key) for _ in range(count)]
        total = reads[0].result
        for read in reads[1:]:
            total = e.add(total, read.result)
        share = self.share_of(reads, state, position, key, num_writes)
        return Write(state, key, self.correction(total, share), reads)

    def share_of(
        self, reads: list[Read], state: int, position: int, key: Value, num_writes: int
    ) -> Value:
        """How much of what is read a write takes back."""
        if self.flaw == "value gate":
            share = self.share("value", group="value_head")
            if share.axis:
                self.op.breaks.add("A3")
            return share
        count = num_writes * len(reads)
        if count > 1:
            return e.mul(self.share(), e.constant(1.0 / count))
        seen = reads[0].state, reads[0].position
        is_plain = reads[0].key is key and seen == (state, position)
        return self.share(most=2.0 if is_plain and self.chance(0.4) else 1.0)

    def correction(self, reads: Value, share: Value) -> Value:
        """What a write adds that takes back ``share`` of what it reads."""
        if self.flaw == "tanh of a read":
            reads = e.unary("math.tanh", reads)
            self.op.breaks.add("A4")
        form = self.pick([("delta", 6), ("apart", 2), ("only", 1)])
        if form == "delta":
            return e.mul(share, e.sub(self.local(), reads))
        if form == "apart":
            return e.sub(self.local(), e.mul(share, reads))
        return e.mul(e.neg(share), reads)

    # --- outputs

    def branch(self, state: int) -> list[Decay | Write]:
        """What one read alone sees: a bonus of the current token, another decay."""
        events: list[Decay | Write] = []
        if self.chance(0.4):
            events.append(Decay(state, *self.gate(self.pick([("scalar", 1), ("key", 1)]))))
        if self.chance(0.8):
            events.append(Write(state, self.key(unit=False), self.local()))
        return events

    def output(self) -> Value:
        terms: list[Value] = []
        for _ in range(self.pick([(1, 7), (2, 2), (3, 0.5), (0, 0.2)])):
            state = self.random.randrange(self.op.num_states)
            latest = len(self.op.events(state))
            made = self.read(
                state,
                self.pick([(latest, 6), (0, 2), (self.random.randint(0, latest), 2)]),
                self.query(),
            )
            if self.chance(0.12):
                made.branch = self.branch(state)
            terms.append(made.result)
        feedback = [r.result for w in self.op.writes for r in w.reads]
        if feedback and self.chance(0.1):
            terms.append(self.random.choice(feedback))
        if self.chance(0.35) or not terms:
            terms.append(self.token_term())
        total = terms[0]
        for term in terms[1:]:
            total = self.pick([(e.add, 3), (e.sub, 1)])(total, term)
        if self.flaw == "product of reads":
            total = e.mul(total, self.read(0, 0, self.key(False)).result)
        if self.chance(0.6):
            total = e.mul(self.scale(), total)
        if self.chance(0.2):
            total = e.mul(self.share("value"), total)
        return e.broadcast(total, "value", "value_head")

    def token_term(self) -> Value:
        """RWKV-6's bonus, Mamba-2's skip, and what is like them."""
        form = self.pick([("bonus", 2), ("skip", 2), ("plain", 1)])
        if form == "plain":
            return self.local()
        if form == "skip":
            return e.mul(
                self.param(self.pick([("scalar", 1), ("value", 1)]), self.group()), self.local()
            )
        product = e.mul(self.key(False), self.key(False))
        if self.chance(0.5):
            product = e.mul(self.param("key", self.group()), product)
        return e.mul(e.reduce(product), self.local())

    def scale(self) -> Value:
        if self.op.scales and self.chance(0.5):
            return next(p.value for p in self.op.params if p.value.axis is None)
        name = f"scale{len(self.op.scales)}"
        self.op.scales[name] = self.random.choice([1.0, 0.5, 0.17677669])
        value = Value("param", name=name)
        self.op.params.append(Port(value, "scale"))
        return value

    # --- the whole

    def order(self, num_writes: int) -> list[str]:
        """Decays and writes in order."""
        num_decays = self.pick([(0, 1.2), (1, 7), (2, 1.5), (3, 0.3)])
        if self.flaw in ("value decay", "element decay"):
            num_decays = max(num_decays, 1)
        writes, decays = ["write"] * num_writes, ["decay"] * num_decays
        form = self.pick([("first", 6), ("last", 2), ("mixed", 3)])
        if form == "mixed":
            mixed = writes + decays
            self.random.shuffle(mixed)
            return mixed
        return decays + writes if form == "first" else writes + decays

    def draw(self) -> Operator:
        num_writes = self.pick([(1, 5), (2, 2.5), (3, 1.2), (4, 0.8), (5, 0.2), (8, 0.1)])
        if self.flaw == "no write":
            num_writes, self.feedback = 0, False
        if self.flaw == "nine writes":
            num_writes = 9
        if self.flaw in ("value gate", "tanh of a read"):
            self.feedback = True
        if self.flaw == "two states":
            self.op.num_states = 2
        for state in range(self.op.num_states):
            order = self.order(num_writes)
            for kind in order:
                event = self.decay(state) if kind == "decay" else self.write(state, num_writes)
                self.op.steps.append(event)
            if state == 0 and self.flaw == "decay from the state":
                self.decay_from_state()
        self.op.outputs = [self.output() for _ in range(self.pick([(1, 8), (2, 1.5)]))]
        self.finish()
        return self.op

    def decay_from_state(self) -> None:
        """A decay that what is read decides; a sum over V gets it there."""
        total = e.reduce(self.read(0, len(self.op.events(0)), self.unit_key()).result)
        log = e.neg(e.softplus(total))
        self.op.steps.append(Decay(0, log))
        self.op.breaks.add("A4")

    def finish(self) -> None:
        if self.flaw == "product of reads":
            self.op.breaks.add("A4")
        if self.flaw == "value sum":
            total = e.reduce(self.local())
            self.op.outputs[0] = e.add(self.op.outputs[0], e.mul(e.sigmoid(total), self.local()))
            self.op.breaks.add("B3")
        if self.value_decays:
            self.op.breaks.add("A2" if self.op.has_feedback else "B2")


def draw(seed: int) -> Operator:
    """The operator of a seed: the same on every machine."""
    return Drawer(seed).draw()
