//===- LinAttnInterfaces.td - What changes a state ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_LINATTNINTERFACES_TD
#define DL_DIALECTS_LINATTN_IR_LINATTNINTERFACES_TD

include "mlir/IR/OpBase.td"

def LinAttn_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::dl::linattn";
  let description = [{
    Takes a state to a state. The map from one to the other, everything that depends on the token
    alone held fixed, has a class; the class of a step is that of its operations composed, and tells
    which schedules are legal. A new operation on states says here what it does to that class.
  }];
  let methods = [
    InterfaceMethod<"The state it starts from.",
      "::mlir::Value", "getStateBefore", (ins), [{}], [{ return $_op.getState(); }]>,
    InterfaceMethod<"The state it gives.",
      "::mlir::Value", "getStateAfter", (ins), [{}], [{ return $_op.getResult(); }]>,
    InterfaceMethod<[{
        The map it applies. `feedback` is how its operands other than the state depend on a state: for
        a write, the value it adds.
      }],
      "::dl::linattn::StepMap", "getStepMap", (ins "::dl::linattn::Feedback":$feedback)>
  ];
}

#endif // DL_DIALECTS_LINATTN_IR_LINATTNINTERFACES_TD
