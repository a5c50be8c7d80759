// RUN: dl-compile %s --dims=64x32 --target=cpu -o %t.dlk
// RUN: dl-run info %t.dlk --json | FileCheck %s
// RUN: dl-run verify %t.dlk --device=cpu

// The bound of a decay travels in the reference, and dl-run's inputs keep it: a log decay below it
// would turn the output into NaN.

// CHECK:      "bound": -0.01,
// CHECK-NEXT: "group":
// CHECK-NEXT: "op": "decay"

!key = tensor<?xf32, #linattn.of<key, key_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @promise(%q: !key, %k: !key, %v: !value, %g: !channel)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g bound -0.01 : !channel
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %r = linattn.read %S2, %q : !key -> !value
  %bound = arith.constant -0.01 : f32
  %bounds = linattn.broadcast %bound : f32 -> !channel
  %kept = arith.maximumf %g, %bounds : !channel
  // sqrt of what is below the bound: 0, or NaN.
  %below = arith.subf %g, %kept : !channel
  %nan = math.sqrt %below : !channel
  %alarm = linattn.reduce %nan : !channel -> !per_head
  %alarms = linattn.broadcast %alarm : !per_head -> !value
  %o = arith.addf %r, %alarms : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
