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
  mlir::Type index;                                            ///< of slot numbers and token counts
  llvm::SmallVector<std::pair<std::string, mlir::Type>> given; ///< by argument name, before `io`
  bool startsEarly = false; ///< the kernel orders itself behind a grid that still runs
  /// Tokens between the states of a row that are left in other slots on the way; 0: none are.
  int64_t checkpointInterval = 0;

  /// The storage type of an input, output or per-head parameter; `fallback` if none was given.
  mlir::Type typeOf(llvm::StringRef name, mlir::Type fallback) const;
};

/// The arguments of an operator whose storage type may be chosen: inputs, outputs and parameters
/// per head.
llvm::SmallVector<llvm::StringRef> typedArguments(linattn::OperatorOp op);

/// Collects a kernel's arguments in order. Each gets a dictionary that travels to the package's
/// manifest: `tile.name`, `tile.role` (one of the runtime's, or scalar), for tensors `tile.shape`
/// (symbols, numbers and expressions), `tile.access`, `tile.nullable`, `tile.min_rank`; for scalars
/// `tile.default` or `tile.value`, an expression the runtime evaluates, or `tile.parts`, one that
/// says how often the kernel is launched, with this scalar counting.
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

  /// The number of the launch among `count` ones, an expression of the sizes.
  unsigned addPart(llvm::StringRef name, mlir::Attribute count);

  /// Views of the argument may leave out dimensions behind the first `rank`, of size one.
  void allowRank(unsigned argument, int64_t rank);

  /// What must hold of the sizes for the argument to make sense; the runtime refuses others.
  /// `kind`: "equals", "min" or "max".
  void require(unsigned argument, mlir::Attribute expression, llvm::StringRef kind, int64_t bound,
               llvm::StringRef message);

  mlir::Attribute symbol(llvm::StringRef name) { return builder.getStringAttr(name); }
  mlir::Attribute number(int64_t value) { return builder.getI64IntegerAttr(value); }
  /// [operation, operands...], evaluated by the runtime.
  mlir::Attribute expression(llvm::StringRef operation, llvm::ArrayRef<mlir::Attribute> operands);

  /// Whether a size of some argument is just this symbol.
  bool hasDimension(llvm::StringRef name) const;

  llvm::ArrayRef<mlir::Type> getTypes() const { return types; }
  llvm::ArrayRef<mlir::Attribute> getAttributes() const { return attributes; }

private:
  void set(unsigned argument, llvm::StringRef name, mlir::Attribute value);

  mlir::OpBuilder &builder;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Attribute> attributes;
};

/// Positions of an operator's arguments among those of its kernel.
struct OperatorArguments {
  llvm::SmallVector<unsigned> inputs, params, outputs, stateIn, stateOut;
  unsigned sourceSlots = 0, destinationSlots = 0; ///< [N, width]
  unsigned rowStarts = 0, hasInitialState = 0, acceptedTokens = 0;
  /// [N, width], [N] and the scalar, where there is an interval.
  unsigned checkpointSlots = 0, checkpointOffsets = 0, checkpointWidth = 0;
  unsigned firstSlot = 0, tokens = 0, rows = 0;   ///< scalars from here on
  unsigned sourcePool = 0, destinationPool = 0;   ///< slots of the pools
  unsigned sourceWidth = 0, destinationWidth = 0; ///< entries per row of the slot arrays
  /// ceil(2^32 HQ / HV); absent where nothing belongs to key heads.
  std::optional<unsigned> headReciprocal;
};

/// Adds inputs and outputs [B, T, heads, dim] and params [heads, dim], or the params alone.
void addTokenArguments(KernelArguments &arguments, linattn::OperatorOp op, const KernelTypes &types,
                       OperatorArguments &result);
void addParamArguments(KernelArguments &arguments, linattn::OperatorOp op, const KernelTypes &types,
                       OperatorArguments &result);
/// Adds a pool [`slots`, HV, ...] for each state; returns their positions.
llvm::SmallVector<unsigned> addPools(KernelArguments &arguments, linattn::OperatorOp op,
                                     const KernelTypes &types, llvm::StringRef slots,
                                     llvm::StringRef role, llvm::StringRef access);
/// Adds the scalar that says which key head a value head belongs to, if an argument has key heads.
void addHeadReciprocal(KernelArguments &arguments, mlir::MLIRContext *context,
                       OperatorArguments &result);

/// Adds what every kernel that walks tokens row by row takes: inputs [B, T, heads, dim], params
/// [heads, dim], outputs, state pools read and written through slots, what Row reads, and scalars.
/// `addMore` adds others before those that a caller may leave out at the end.
OperatorArguments addOperatorArguments(KernelArguments &arguments, linattn::OperatorOp op,
                                       const KernelTypes &types,
                                       llvm::function_ref<void()> addMore = nullptr);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_KERNELARGUMENTS_H
