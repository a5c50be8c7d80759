//===- LinAttnDialect.td - What one token does: the dialect ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_LINATTNDIALECT_TD
#define DL_DIALECTS_LINATTN_IR_LINATTNDIALECT_TD

include "mlir/IR/OpBase.td"

def LinAttn_Dialect : Dialect {
  let name = "linattn";
  let cppNamespace = "::dl::linattn";
  let summary = "What a linear-attention operator does to its state for one token";
  let description = [{
    An operator keeps one matrix S of K rows and V columns per value head and updates it token by
    token. This dialect describes that update for *one token of one value head*, once, and says
    nothing about chunks, threads or memory; every kernel is derived from this description.

    - The state is opaque (`!linattn.state`): it can only be decayed, read and written. The order of
      these operations is the meaning of the operator.
    - Everything else is ordinary `arith` and `math` on f32 tensors whose encoding says what they
      are: `#linattn.of<AXIS, GROUP>` names the axis of the state a vector lies along and whether
      there is one per key head or one per value head. Mixing them up does not parse.
    - The sizes K and V, the number of heads and the storage types are not part of the description.

    ```mlir
    !key = tensor<?xf32, #linattn.of<key, key_head>>
    !value = tensor<?xf32, #linattn.of<value, value_head>>
    !per_head = tensor<f32, #linattn.of<scalar, value_head>>
    !per_key_head = tensor<f32, #linattn.of<scalar, key_head>>

    linattn.operator @plain(%q: !key, %k: !key, %v: !value)
        state(%S: !linattn.state) -> (o: !value) {
      %S1 = linattn.write %S, %k, %v : !key, !value
      %o = linattn.read %S1, %q : !key -> !value
      linattn.yield %S1, %o : !linattn.state, !value
    }
    ```

    Modules are printed with a type alias for each kind of tensor. The four above are the common
    ones: key vector of a key head, value vector of a value head, scalar of either. The examples
    below use them; those that are no whole operator are lines of one.

    Constraints are numbered C1, C2, ... over the whole dialect: the number stands in the
    description of the construct, at the check in the verifier and at its negative test.

    Any operator can be computed token by token: decode takes rows of any number of tokens. The
    schedules that take tokens together, chunkwise (prefill) and log (append, merge,
    materialize), are legal where

    - A1: every decay is along scalar, key or value, not per element;
    - A2: no decay is along value on a state whose reads enter writes;
    - A3: what multiplies a read on its way into a write is one number per head, not one per value
      channel;
    - A4: reads meet token-local values in sums and products only, and no log decay or key vector
      depends on one.

    Kernels do not serve all that is legal. Those of chunks ask for one state (B1), decays along
    scalar or key (B2), sums over key vectors only (B3), one to eight writes per token (B5) and
    no decay between a write and a read before it that a later write needs (B6), those of a log
    for a step that changes a state (B4). `dl-compile` says which op breaks which condition, and what could be
    changed; `dl-compile --explain` shows what each schedule computes, or the same reasons.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif // DL_DIALECTS_LINATTN_IR_LINATTNDIALECT_TD
