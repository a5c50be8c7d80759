//===- LinAttnTypes.td - The state and the kinds of tensors ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_LINATTNTYPES_TD
#define DL_DIALECTS_LINATTN_IR_LINATTNTYPES_TD

include "dialects/LinAttn/IR/LinAttnDialect.td"
include "mlir/IR/AttrTypeBase.td"

def LinAttn_State : TypeDef<LinAttn_Dialect, "State"> {
  let mnemonic = "state";
  let summary = "the K x V state of one value head";
  let description = [{
    Opaque: a state can be decayed, read and written, and is never an operand of `arith` or `math`.
    Its storage type and memory layout are chosen when a kernel is compiled.

    ```mlir
    linattn.operator @keep(%q: !key) state(%S: !linattn.state) -> (o: !value) {
      %o = linattn.read %S, %q : !key -> !value
      linattn.yield %S, %o : !linattn.state, !value
    }
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Kinds of tensors. Summaries are the words of the diagnostics.
//===----------------------------------------------------------------------===//

class LinAttn_Tensor<string predicate, string summary>
    : Type<CPred<"::dl::linattn::" # predicate>, summary>;

def LinAttn_AnyEncoded : LinAttn_Tensor<
    "isEncoded($_self)", "f32 tensor with a #linattn.of encoding">;
def LinAttn_KeyVector : LinAttn_Tensor<
    "isOn($_self, ::dl::linattn::Axis::Key)", "key vector (f32, axis key, either group)">;
def LinAttn_ValueVector : LinAttn_Tensor<
    "isOn($_self, ::dl::linattn::Axis::Value)", "value vector (f32, axis value, either group)">;
def LinAttn_ScalarTensor : LinAttn_Tensor<
    "isOn($_self, ::dl::linattn::Axis::Scalar)",
    "scalar of a head (f32, axis scalar, either group)">;
def LinAttn_ReadResult : LinAttn_Tensor<
    "isReadResult($_self)", "tensor<?xf32, #linattn.of<value, value_head>>">;
def LinAttn_Vector : AnyTypeOf<[LinAttn_KeyVector, LinAttn_ValueVector]>;

#endif // DL_DIALECTS_LINATTN_IR_LINATTNTYPES_TD
