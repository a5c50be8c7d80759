//===- Passes.td - Passes from a spec to its plain step -------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_LINATTN_PASSES_TD
#define DL_PASSES_LINATTN_PASSES_TD

include "mlir/Pass/PassBase.td"

def LinAttnSetOptions : Pass<"linattn-set-options", "::dl::linattn::OperatorOp"> {
  let summary = "Fixes the options of an operator and keeps only the code they select";
  let description = [{
    Every switch becomes its chosen case, every option op a constant, every bound a number. Options
    not named in `set` take their default. What was chosen is left in `settings`. Inputs and params
    that nothing uses any more are removed; states stay.

    An unknown option or a value outside its range is an error that lists what is allowed; setting
    an option that the remaining code never consults is a warning.

    ```mlir
    // With set=normalize=false:
    linattn.operator @op(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value)
        options {normalize = true} {
      %kn = linattn.switch "normalize" -> !key
      case "true" {
        %n = linattn.l2norm %k : !key
        linattn.yield %n : !key
      }
      case "false" {
        linattn.yield %k : !key
      }
      %S1 = linattn.write %S, %kn, %v : !key, !value
      %o = linattn.read %S1, %q : !key -> !value
      linattn.yield %S1, %o : !linattn.state, !value
    }
    // becomes
    linattn.operator @op(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value)
        settings {normalize = false} {
      %S1 = linattn.write %S, %k, %v : !key, !value
      %o = linattn.read %S1, %q : !key -> !value
      linattn.yield %S1, %o : !linattn.state, !value
    }
    ```
  }];
  let options = [ListOption<"set", "set", "std::string", "options of the operator, NAME=VALUE, comma separated; others keep their default">];
  let statistics = [
    Statistic<"numResolved", "resolved-switches", "switches replaced by a case">,
    Statistic<"numErased", "erased-arguments", "inputs and params that became unused">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LinAttnExpand : Pass<"linattn-expand", "::dl::linattn::OperatorOp"> {
  let summary = "Writes sigmoid, softplus and l2norm in arith and math";
  let description = [{
    After `linattn-set-options` and this pass a body holds only elementwise arith and math,
    constants and linattn.{decay, read, write, broadcast, reduce, yield}.

    ```mlir
    %n = linattn.l2norm %k : !key
    // becomes
    %sq = arith.mulf %k, %k : !key
    %sum = linattn.reduce %sq : !key -> !per_key_head
    %eps = arith.constant 9.99999997E-7 : f32
    %e = linattn.broadcast %eps : f32 -> !per_key_head
    %add = arith.addf %sum, %e : !per_key_head
    %r = math.rsqrt %add : !per_key_head
    %b = linattn.broadcast %r : !per_key_head -> !key
    %n = arith.mulf %k, %b : !key
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def LinAttnHoistScalars : Pass<"linattn-hoist-scalars", "::dl::linattn::OperatorOp"> {
  let summary = "Takes numbers per head out of the products with the state";
  let description = [{
    A factor of a read's key multiplies its result instead, a factor of a write's key its value. So
    the state meets inputs as they came, and what scales them, a norm for one, is only needed after
    the pass over the state.

    ```mlir
    %f = linattn.broadcast %norm : !per_key_head -> !key
    %kn = arith.mulf %k, %f : !key
    %r = linattn.read %S, %kn : !key -> !value
    // becomes
    %p = linattn.read %S, %k : !key -> !value
    %f = linattn.broadcast %norm : !per_key_head -> !value
    %r = arith.mulf %p, %f : !value
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // DL_PASSES_LINATTN_PASSES_TD
