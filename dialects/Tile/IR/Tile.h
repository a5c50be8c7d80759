//===- Tile.h - The tile dialect ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_TILE_IR_TILE_H
#define DIALECTS_TILE_IR_TILE_H

#include "compiler/Layout/Layout.h"
#include "compiler/Layout/Shared.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Tile/IR/TileDialect.h.inc"

#include "dialects/Tile/IR/TileInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Tile/IR/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Tile/IR/TileTypes.h.inc"

namespace dl::tile {
/// Whether `type` is a statically shaped ranked tensor whose encoding is a register layout.
bool isDistributed(mlir::Type type);

/// The layout of a distributed tensor. Verified IR always has one; the error is for callers that
/// build types.
llvm::Expected<layout::RegisterLayout> getLayout(mlir::RankedTensorType type);

/// The type that remains of `type` when `axis` is reduced away (f32 scalar for rank 1).
mlir::Type sliceType(mlir::RankedTensorType type, int64_t axis);

llvm::Expected<layout::SharedLayout> getLayout(SharedType type);

/// The feature that a target must have to run `op` ("wgmma", as in compiler/Target); empty where
/// every target does.
llvm::StringRef requiredFeature(mlir::Operation *op);

/// Whether the kernel may be launched while the grid before it still runs: it waits for that grid.
bool startsEarly(mlir::Operation *kernel);

/// On an scf.if that only loads, or has other values: load under a predicate instead of branching.
constexpr llvm::StringLiteral kPredicatedAttrName = "tile.predicated";

/// Where one argument of a kernel lives in its by-value parameter struct.
struct ParameterSlot {
  int64_t offset = 0; ///< pointer or scalar, bytes from the struct's start
  llvm::SmallVector<int64_t, 4>
      strides; ///< per memref dimension: byte offset of its uint32 stride, -1 if static
};
struct ParameterLayout {
  llvm::SmallVector<ParameterSlot> slots; ///< one per argument
  int64_t bytes = 0;
};
/// The struct all arguments travel in: in order, each at its natural alignment, size a multiple
/// of 8.
ParameterLayout getParameterLayout(mlir::TypeRange arguments);
} // namespace dl::tile

#define GET_OP_CLASSES
#include "dialects/Tile/IR/TileOps.h.inc"

#endif // DIALECTS_TILE_IR_TILE_H
