//===- LinAttnOps.td - The operator and the operations on its state -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_LINATTNOPS_TD
#define DL_DIALECTS_LINATTN_IR_LINATTNOPS_TD

include "dialects/LinAttn/IR/LinAttnAttrs.td"
include "dialects/LinAttn/IR/LinAttnDialect.td"
include "dialects/LinAttn/IR/LinAttnInterfaces.td"
include "dialects/LinAttn/IR/LinAttnTypes.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class LinAttn_Op<string mnemonic, list<Trait> traits = []>
    : Op<LinAttn_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Operator
//===----------------------------------------------------------------------===//

def LinAttn_OperatorOp : LinAttn_Op<"operator", [
    IsolatedFromAbove, Symbol, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "describes one token of one value head of a linear-attention operator";
  let description = [{
    Inputs exist once per token, params once per head; the states are carried from token to token.
    The body computes the new states and the outputs of the token.

    - In memory an input is `[B, T, heads, dims]`, a param `[heads, dims]`, where heads are the key
      heads or the value heads (the group) and dims follow the axis (none for a scalar).
    - A param of type f32 is the same for all heads and is passed by value at launch. Its
      `linattn.default` is a number, or `"key_dim^P"` for the key dimension to the power P.
    - `linattn.dtype` pins the storage type of an input or param. Otherwise inputs are stored in the
      io type given when compiling, params in f32.
    - `linattn.bound` promises of an input or param that no number of it is larger in size. Products
      are computed as precisely as that asks for.
    - `options` declares what may be chosen when compiling: a list of names is a choice (the first
      is the default), a bool a flag, `#linattn.number` a number. `linattn-set-options` resolves
      them and leaves what was chosen in `settings`.

    Constraints:
    - C5: the body has one argument per name, inputs, then params, then states, and `arg_attrs`,
      where present, has one dictionary per argument.
    - C6: the operator's name and those of inputs, params, states and outputs are identifiers, and no
      two of the latter are equal.
    - C7: inputs are f32 tensors with an encoding.
    - C8: params are f32 tensors with an encoding, or f32.
    - C9: there is at least one state, and states have type `!linattn.state`.
    - C10: there is at least one output, and outputs are f32 tensors of value heads.
    - C11: `linattn.dtype` is f32, bf16 or f16 on an input or an encoded param; `linattn.default` is
      a finite number or "key_dim^P", P from -8 to 8, on an f32 param; `linattn.bound` is a positive
      finite number on an input or param; there is no other `linattn.` attribute.
    - C12: option names are identifiers; an option is a choice (a list of at least one identifier,
      none twice), a flag or a `#linattn.number`.
    - C13: the body holds `linattn` ops, `arith.constant` and elementwise `arith` and `math` ops
      only; apart from states their values are f32, i1 or tensors with an encoding.
    - C14: state number i yielded derives from state argument i.

    ```mlir
    linattn.operator @gated(%q: !key, %k: !key, %v: !value, %g: !per_head {linattn.dtype = f32})
        params(%scale: f32 {linattn.default = "key_dim^-0.5"})
        state(%S: !linattn.state) -> (o: !value)
        options {floor = #linattn.number<-5.0 from -5.0 below 0.0>, kind = ["plain", "scaled"]} {
      %S1 = linattn.decay %S, %g bound "floor" : !per_head
      %S2 = linattn.write %S1, %k, %v : !key, !value
      %r = linattn.read %S2, %q : !key -> !value
      %o = linattn.switch "kind" -> !value
      case "plain" {
        linattn.yield %r : !value
      }
      case "scaled" {
        %s = linattn.broadcast %scale : f32 -> !value
        %rs = arith.mulf %r, %s : !value
        linattn.yield %rs : !value
      }
      linattn.yield %S2, %o : !linattn.state, !value
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrArrayAttr:$input_names, StrArrayAttr:$param_names, StrArrayAttr:$state_names,
    StrArrayAttr:$output_names, TypeArrayAttr:$output_types,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictionaryAttr>:$options,
    OptionalAttr<DictionaryAttr>:$settings);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    using Args = ::mlir::MutableArrayRef<::mlir::BlockArgument>;

    unsigned getNumInputs() { return getInputNames().size(); }
    unsigned getNumParams() { return getParamNames().size(); }
    unsigned getNumStates() { return getStateNames().size(); }
    unsigned getNumOutputs() { return getOutputNames().size(); }
    unsigned getNumArgs() { return getNumInputs() + getNumParams() + getNumStates(); }

    Args getArgs();
    Args getInputs();
    Args getParams();
    Args getStates();

    /// Name of an argument: of an input, a param or a state.
    ::llvm::StringRef getArgName(unsigned argNumber);
    ::llvm::StringRef getArgName(::mlir::BlockArgument arg) {
      return getArgName(arg.getArgNumber());
    }
    ::llvm::StringRef getOutputName(unsigned i);
    ::mlir::Type getOutputType(unsigned i);

    /// Attributes of an argument, never null.
    ::mlir::DictionaryAttr getArgAttrDict(unsigned argNumber);
    /// The pinned storage type (linattn.dtype) of an argument, or null.
    ::mlir::Type getPinnedType(unsigned argNumber);
    /// The linattn.default of an f32 param for a given key dimension; nullopt: must be passed.
    std::optional<double> getDefaultValue(unsigned argNumber, int64_t keyDim);
    /// The linattn.bound of an argument.
    std::optional<double> getBound(unsigned argNumber);

    /// The declaration of an option (ArrayAttr, BoolAttr or NumberAttr), or null.
    ::mlir::Attribute getOption(::llvm::StringRef name);

    YieldOp getYield();
    ::mlir::OperandRange getYieldedStates();
    ::mlir::OperandRange getYieldedOutputs();

    /// Removes these arguments (unused in the body) with their names and attributes.
    void eraseArguments(const ::llvm::BitVector &toErase);
  }];
}

def LinAttn_YieldOp : LinAttn_Op<"yield", [
    Pure, Terminator, ReturnLike, ParentOneOf<["OperatorOp", "SwitchOp"]>]> {
  let summary = "ends an operator or a case with its results";
  let description = [{
    In an operator: the new states in order, then the outputs. In a case: the results of the switch.

    Constraints:
    - C15: number and types of the operands are those of the states and outputs of the operator, or
      those of the results of the switch.

    ```mlir
    linattn.yield %S2, %o : !linattn.state, !value
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

def LinAttn_SwitchOp : LinAttn_Op<"switch", [
    SingleBlock, NoRegionArguments, RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "selects code by a choice or flag of the operator, when compiling";
  let description = [{
    One case per choice; a flag has the cases "true" and "false". `linattn-set-options` replaces the
    switch by the chosen case, so no kernel branches on an option.

    Constraints:
    - C16: it lies in an operator which declares the option as a choice or a flag.
    - C17: there is exactly one case for each choice.
    - C18: a state yielded by the cases derives from the same state argument in each.

    ```mlir
    %kn = linattn.switch "normalize" -> !key
    case "true" {
      %n = linattn.l2norm %k : !key
      linattn.yield %n : !key
    }
    case "false" {
      linattn.yield %k : !key
    }
    ```
  }];
  let arguments = (ins StrAttr:$option, StrArrayAttr:$cases);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$caseRegions);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def LinAttn_OptionOp : LinAttn_Op<"option", [Pure]> {
  let summary = "gives the value of a number option of the operator";
  let description = [{
    `linattn-set-options` replaces it by a constant: the default, or what was set.

    Constraints:
    - C19: it lies in an operator which declares the option as a number.

    ```mlir
    %floor = linattn.option "lower_bound" : f32
    ```
  }];
  let arguments = (ins StrAttr:$option);
  let results = (outs F32:$result);
  let assemblyFormat = "$option attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

def LinAttn_DecayOp : LinAttn_Op<"decay", [
    Pure, DeclareOpInterfaceMethods<LinAttn_StepOpInterface>]> {
  let summary = "multiplies the state by the exponential of a log decay";
  let description = [{
    S <- e^g o S, where g is the natural logarithm of the decay: a scalar, one number per row (axis
    key), per column (axis value) or per element (axis key_value). -inf resets to exact zero.

    `bound` promises g >= bound for every token; schedules use it to keep exponents in range. It is
    a negative number or the name of a number option.

    Constraints:
    - C20: g is an f32 tensor with an encoding.
    - C21: the bound is finite and negative, or names a number option whose range is negative.

    ```mlir
    %S1 = linattn.decay %S, %g : !per_head
    %S2 = linattn.decay %S, %g bound -5.0 : !per_head
    %S3 = linattn.decay %S, %g bound "lower_bound" : !per_head
    ```
  }];
  let arguments = (ins
    LinAttn_State:$state,
    /*C20*/ LinAttn_AnyEncoded:$log_decay,
    /*C21*/ OptionalAttr<AnyAttrOf<[F64Attr, StrAttr]>>:$bound);
  let results = (outs LinAttn_State:$result);
  let assemblyFormat = [{
    $state `,` $log_decay (`bound` custom<Bound>($bound)^)? attr-dict `:` type($log_decay)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The bound when it is a number (always, once options are set).
    std::optional<double> getBoundValue();
  }];
}

def LinAttn_ReadOp : LinAttn_Op<"read", [Pure]> {
  let summary = "reads the state: its transpose times a key vector";
  let description = [{
    S^T x: V numbers of the value head, number j the sum over i of S[i, j] x[i].

    Constraints:
    - C22: x is a key vector of either group; the result is a value vector of the value head.

    ```mlir
    %o = linattn.read %S, %q : !key -> !value
    ```
  }];
  let arguments = (ins LinAttn_State:$state, /*C22*/ LinAttn_KeyVector:$key);
  let results = (outs /*C22*/ LinAttn_ReadResult:$result);
  let assemblyFormat = "$state `,` $key attr-dict `:` type($key) `->` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Value":$state, "::mlir::Value":$key)>];
}

def LinAttn_WriteOp : LinAttn_Op<"write", [
    Pure, DeclareOpInterfaceMethods<LinAttn_StepOpInterface>]> {
  let summary = "adds the outer product of a key vector and a value vector to the state";
  let description = [{
    S <- S + a b^T.

    Constraints:
    - C23: a is a key vector and b a value vector, each of either group.

    ```mlir
    %S1 = linattn.write %S, %k, %u : !key, !value
    ```
  }];
  let arguments = (ins
    LinAttn_State:$state, /*C23*/ LinAttn_KeyVector:$key, /*C23*/ LinAttn_ValueVector:$value);
  let results = (outs LinAttn_State:$result);
  let assemblyFormat = "$state `,` $key `,` $value attr-dict `:` type($key) `,` type($value)";
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

def LinAttn_BroadcastOp : LinAttn_Op<"broadcast", [Pure]> {
  let summary = "repeats a value along an axis or over the value heads of a key head";
  let description = [{
    Operands of `arith` and `math` have one type: a scalar that meets a vector, or a value of a key
    head that meets one of a value head, is broadcast first.

    Constraints:
    - C24: the operand is f32 or an f32 tensor with an encoding, the result such a tensor.
    - C25: the axis stays or widens from scalar, the group stays or widens from key_head to
      value_head, and the type changes. f32 widens to anything.

    ```mlir
    %ones = linattn.broadcast %one : f32 -> !key
    %betas = linattn.broadcast %beta : !per_head -> !value
    ```
  }];
  let arguments = (ins /*C24*/ AnyTypeOf<[F32, LinAttn_AnyEncoded]>:$operand);
  let results = (outs /*C24*/ LinAttn_AnyEncoded:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def LinAttn_ReduceOp : LinAttn_Op<"reduce", [Pure]> {
  let summary = "sums a vector to a scalar of the same heads";
  let description = [{
    The sum over the vector's axis: K or V numbers become one, per head of the vector's group.

    Constraints:
    - C26: the operand is a key or value vector, the result a scalar of the same group.

    ```mlir
    %dot = linattn.reduce %qk : !key -> !per_key_head
    ```
  }];
  let arguments = (ins /*C26*/ LinAttn_Vector:$operand);
  let results = (outs /*C26*/ LinAttn_ScalarTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let builders = [OpBuilder<(ins "::mlir::Value":$operand)>];
  let hasVerifier = 1;
}

class LinAttn_ElementwiseOp<string mnemonic>
    : LinAttn_Op<mnemonic, [Pure, SameOperandsAndResultType]> {
  let arguments = (ins /*C27*/ AnyTypeOf<[F32, LinAttn_AnyEncoded]>:$operand);
  let results = (outs /*C27*/ AnyTypeOf<[F32, LinAttn_AnyEncoded]>:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

def LinAttn_SigmoidOp : LinAttn_ElementwiseOp<"sigmoid"> {
  let summary = "computes the logistic function 1 / (1 + e^-x)";
  let description = [{
    Per element. Reaches 0 and 1 exactly for large |x|.

    Constraints:
    - C27: operand and result have the same type, f32 or an f32 tensor with an encoding.

    ```mlir
    %beta = linattn.sigmoid %b : !per_head
    ```
  }];
}

def LinAttn_SoftplusOp : LinAttn_ElementwiseOp<"softplus"> {
  let summary = "computes log(1 + e^x), which above 20 is x itself";
  let description = [{
    Per element. Above 20 the difference to x is below the rounding of f32, and further on e^x
    would overflow.

    Constraints:
    - C27: operand and result have the same type, f32 or an f32 tensor with an encoding.

    ```mlir
    %dt = linattn.softplus %a : !per_head
    ```
  }];
}

def LinAttn_L2NormOp : LinAttn_Op<"l2norm", [Pure, SameOperandsAndResultType]> {
  let summary = "scales a vector to length one";
  let description = [{
    x / sqrt(sum x^2 + 1e-6), over the axis of the vector.

    Constraints:
    - C28: operand and result have the same type, a key or value vector.

    ```mlir
    %kn = linattn.l2norm %k : !key
    ```
  }];
  let arguments = (ins /*C28*/ LinAttn_Vector:$operand);
  let results = (outs /*C28*/ LinAttn_Vector:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}

#endif // DL_DIALECTS_LINATTN_IR_LINATTNOPS_TD
