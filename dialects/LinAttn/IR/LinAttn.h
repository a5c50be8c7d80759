//===- LinAttn.h - What one token does: the linattn dialect ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_LINATTN_H
#define DL_DIALECTS_LINATTN_IR_LINATTN_H

#include "dialects/LinAttn/IR/StepMap.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"

#include <optional>
#include <string>

#include "dialects/LinAttn/IR/LinAttnDialect.h.inc"
#include "dialects/LinAttn/IR/LinAttnEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/LinAttn/IR/LinAttnAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/LinAttn/IR/LinAttnTypes.h.inc"

namespace dl::linattn {

/// Attributes of operator arguments.
constexpr llvm::StringLiteral kDtypeAttrName = "linattn.dtype";
constexpr llvm::StringLiteral kDefaultAttrName = "linattn.default";
constexpr llvm::StringLiteral kBoundAttrName = "linattn.bound";

/// The axis a type lies along; nullopt for anything without a #linattn.of encoding (f32, states).
std::optional<Axis> axisOf(mlir::Type type);
/// The heads that own a value of this type; nullopt as for axisOf.
std::optional<HeadGroup> groupOf(mlir::Type type);
/// Whether this is !linattn.state.
bool isState(mlir::Type type);
/// Whether this is an f32 tensor with an encoding, and one along `axis`.
bool isEncoded(mlir::Type type);
bool isOn(mlir::Type type, Axis axis);
/// Whether this is what linattn.read gives: a value vector of a value head.
bool isReadResult(mlir::Type type);

/// The f32 tensor of this axis and group.
mlir::RankedTensorType getTensorType(mlir::MLIRContext *context, Axis axis, HeadGroup group);

/// A number in decimal, as short as it can be and never an integer to the parser: "-5.0".
std::string formatNumber(double value);

/// Whether a name can be an argument, output, option or choice: [A-Za-z_][A-Za-z0-9_]*.
bool isIdentifier(llvm::StringRef name);

/// What a "key_dim^P" default stands for: P, or nullopt if the text has another form.
std::optional<double> parseKeyDimPower(llvm::StringRef text);

} // namespace dl::linattn

#include "dialects/LinAttn/IR/LinAttnInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/LinAttn/IR/LinAttnOps.h.inc"

namespace dl::linattn {

/// The number of the state argument each state value of the operator derives from. A value that
/// derives from none, or through a switch from several, is absent.
llvm::DenseMap<mlir::Value, unsigned> computeStateRoots(OperatorOp op);

} // namespace dl::linattn

#endif // DL_DIALECTS_LINATTN_IR_LINATTN_H
