//===- LinAttnDialect.cpp - Registration and type aliases -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"

using namespace mlir;
using namespace dl::linattn;

#include "dialects/LinAttn/IR/LinAttnDialect.cpp.inc"

namespace {

/// Prints each kind of tensor as a short alias, so that a body reads as it was written.
struct TensorAliases : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Type type, raw_ostream &os) const override {
    if (!isEncoded(type))
      return AliasResult::NoAlias;
    // The common group of an axis has the short name: keys belong to key heads, the rest to value
    // heads.
    bool perKeyHead = *groupOf(type) == HeadGroup::KeyHead;
    switch (*axisOf(type)) {
    case Axis::Scalar:
      os << (perKeyHead ? "per_key_head" : "per_head");
      break;
    case Axis::Key:
      os << (perKeyHead ? "key" : "key_per_value_head");
      break;
    case Axis::Value:
      os << (perKeyHead ? "value_per_key_head" : "value");
      break;
    case Axis::KeyValue:
      os << (perKeyHead ? "key_value_per_key_head" : "key_value");
      break;
    }
    return AliasResult::OverridableAlias;
  }
};

} // namespace

void LinAttnDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/LinAttn/IR/LinAttnOps.cpp.inc"
      >();
  addInterfaces<TensorAliases>();
}
