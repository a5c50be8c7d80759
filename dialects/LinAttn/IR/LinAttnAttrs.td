//===- LinAttnAttrs.td - Axes, head groups and number options -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_LINATTNATTRS_TD
#define DL_DIALECTS_LINATTN_IR_LINATTNATTRS_TD

include "dialects/LinAttn/IR/LinAttnDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class LinAttn_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<LinAttn_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def LinAttn_Axis : I32EnumAttr<"Axis", "axes of the state that a value spans", [
    I32EnumAttrCase<"Scalar", 0, "scalar">,
    I32EnumAttrCase<"Key", 1, "key">,
    I32EnumAttrCase<"Value", 2, "value">,
    I32EnumAttrCase<"KeyValue", 3, "key_value">]> {
  let cppNamespace = "::dl::linattn";
}

def LinAttn_HeadGroup : I32EnumAttr<"HeadGroup", "heads that own a value", [
    I32EnumAttrCase<"KeyHead", 0, "key_head">,
    I32EnumAttrCase<"ValueHead", 1, "value_head">]> {
  let cppNamespace = "::dl::linattn";
}

def LinAttn_OfAttr : LinAttn_Attr<"Of", "of",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "which axis of the state and which heads a tensor belongs to";
  let description = [{
    The encoding of every tensor of an operator. The axis is one of

    | axis | shape | meaning |
    |---|---|---|
    | `scalar` | `tensor<f32>` | one number per head |
    | `key` | `tensor<?xf32>` | K numbers, one per row of the state |
    | `value` | `tensor<?xf32>` | V numbers, one per column of the state |
    | `key_value` | `tensor<?x?xf32>` | K x V numbers, one per element of the state |

    and the group says whether there is one such tensor per key head (`key_head`; shared by all the
    value heads of that key head) or one per value head (`value_head`).

    Constraints:
    - C1: the rank is that of the axis: 0 for `scalar`, 1 for `key` and `value`, 2 for `key_value`.
    - C2: the element type is f32, or i1 for the result of a comparison.
    - C3: every dimension is `?`: K and V are chosen when a kernel is compiled.

    ```mlir
    !key = tensor<?xf32, #linattn.of<key, key_head>>
    !per_head = tensor<f32, #linattn.of<scalar, value_head>>
    ```
  }];
  let parameters = (ins EnumParameter<LinAttn_Axis>:$axis, EnumParameter<LinAttn_HeadGroup>:$group);
  let hasCustomAssemblyFormat = 1;
}

def LinAttn_NumberAttr : LinAttn_Attr<"Number", "number"> {
  let summary = "a number option: its default and its range";
  let description = [{
    The value of a number option in the `options` of an operator. `from` and `to` include the end
    of the range, `above` and `below` exclude it.

    Constraints:
    - C4: default and ends are finite, and the default lies in the range.

    ```mlir
    #linattn.number<-5.0 from -5.0 below 0.0>
    #linattn.number<1.0 from 1.0 to 2.0>
    #linattn.number<0.5 above 0.0 to 1.0>
    ```
  }];
  let parameters = (ins
    APFloatParameter<"value when the option is not set">:$defaultNumber,
    APFloatParameter<"lower end of the range">:$lowerEnd,
    AttrParameter<"bool", "whether the lower end belongs to the range">:$lowerIncluded,
    APFloatParameter<"upper end of the range">:$upperEnd,
    AttrParameter<"bool", "whether the upper end belongs to the range">:$upperIncluded);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    double getDefault() const { return getDefaultNumber().convertToDouble(); }
    double getLower() const { return getLowerEnd().convertToDouble(); }
    double getUpper() const { return getUpperEnd().convertToDouble(); }
    /// Whether `value` lies in the range. NaN lies in no range.
    bool contains(double value) const;
    /// The range in words, as in the assembly: "from -5.0 below 0.0".
    std::string rangeText() const;
  }];
}

#endif // DL_DIALECTS_LINATTN_IR_LINATTNATTRS_TD
