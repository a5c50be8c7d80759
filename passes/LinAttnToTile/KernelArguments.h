//===- KernelArguments.h - The parameters of a kernel and what the package says of them ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_KERNELARGUMENTS_H
#define PASSES_LINATTNTOTILE_KERNELARGUMENTS_H

#include "compiler/Schedule/Recurrent.h"
#include "dialects/LinAttn/IR/LinAttn.h"
#include "mlir/IR/Builders.h"

namespace dl {

/// Sizes and storage types a kernel is compiled for.
struct KernelTypes {
  int64_t keyDim = 0, valueDim = 0;
  schedule::StateLayout layout = schedule::StateLayout::KV;
  mlir::Type state, io;
};

/// Collects a kernel's arguments in order. Each gets a dictionary that travels to the package's
/// manifest: `tile.name`, `tile.role` (input, param, output, state_in, state_out, slots_in,
/// slots_out, scalar), for tensors `tile.shape` (symbols and numbers), `tile.access`,
/// `tile.nullable`; for scalars `tile.default` or `tile.value`, an expression the runtime
/// evaluates.
class KernelArguments {
public:
  explicit KernelArguments(mlir::OpBuilder &builder) : builder(builder) {}

  /// A tensor of the given shape: integers are compiled in, strings are run-time symbols. Strides
  /// are free along symbols; the trailing run of integers is packed.
  unsigned addTensor(llvm::StringRef name, llvm::StringRef role, mlir::Type element,
                     llvm::ArrayRef<mlir::Attribute> shape, llvm::StringRef access,
                     bool nullable = false);
  /// A scalar passed by value; `value` is an expression of the sizes, `fallback` what the caller
  /// may leave out.
  unsigned addScalar(llvm::StringRef name, mlir::Type type, mlir::Attribute value,
                     mlir::Attribute fallback);

  /// What must hold of the sizes for the argument to make sense; the runtime refuses others.
  void require(unsigned argument, mlir::Attribute expression, int64_t equals,
               llvm::StringRef message);

  mlir::Attribute symbol(llvm::StringRef name) { return builder.getStringAttr(name); }
  mlir::Attribute number(int64_t value) { return builder.getI64IntegerAttr(value); }
  /// [operation, operands...], evaluated by the runtime.
  mlir::Attribute expression(llvm::StringRef operation, llvm::ArrayRef<mlir::Attribute> operands);

  llvm::ArrayRef<mlir::Type> getTypes() const { return types; }
  llvm::ArrayRef<mlir::Attribute> getAttributes() const { return attributes; }

private:
  mlir::OpBuilder &builder;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Attribute> attributes;
};

/// Positions of an operator's arguments among those of its kernel.
struct OperatorArguments {
  llvm::SmallVector<unsigned> inputs, params, outputs, stateIn, stateOut;
  unsigned sourceSlots = 0, destinationSlots = 0, tokens = 0, firstSlot = 0;
  std::optional<unsigned> headRatio; ///< HV / HQ; absent where nothing belongs to key heads
};

/// Adds what every kernel that walks tokens row by row takes: inputs [B, T, heads, dim], params
/// [heads, dim], outputs, state pools read and written through slots, and the scalars.
OperatorArguments addOperatorArguments(KernelArguments &arguments, linattn::OperatorOp op,
                                       const KernelTypes &types);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_KERNELARGUMENTS_H
