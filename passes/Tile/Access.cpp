//===- Access.cpp - How a tile meets global memory ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Tile/Access.h"

using namespace mlir;
using namespace dl;

int64_t tile::accessWidth(MemRefType memory, ArrayRef<int64_t> axes, RankedTensorType tensor,
                          std::optional<ArrayRef<int64_t>> repeats) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(memory.getStridesAndOffset(strides, offset)))
    return 1;
  const int64_t *unit = llvm::find_if(axes, [&](int64_t axis) { return strides[axis] == 1; });
  if (unit == axes.end() || (repeats && (*repeats)[unit - axes.begin()] != 1))
    return 1;
  layout::RegisterLayout layout = llvm::cantFail(getLayout(tensor));
  int64_t bytes = tensor.getElementTypeBitWidth() / 8;
  // Divides whatever the start and the length of a run are made of: tile widths, sizes, packed
  // strides.
  auto fits = [&](int64_t width) {
    return width * bytes <= 16 && memory.getDimSize(*unit) % width == 0 &&
           tensor.getDimSize(unit - axes.begin()) % width == 0 &&
           llvm::all_of(strides, [&](int64_t stride) {
             return ShapedType::isDynamic(stride) || stride == 1 || stride % width == 0;
           });
  };
  int64_t width = 1, limit = layout.contiguousRegisters(unit - axes.begin());
  while (limit % (2 * width) == 0 && fits(2 * width))
    width *= 2;
  return width;
}

int64_t tile::accessWidth(RingLoadOp load) {
  auto memory = cast<MemRefType>(load.getMemory().getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(memory.getStridesAndOffset(strides, offset)) || strides[load.getAxes()[0]] == 1)
    return 1;
  return accessWidth(memory, load.getAxes(), load.getResult().getType());
}

int64_t tile::requiredAlignment(BlockArgument memory) {
  auto type = cast<MemRefType>(memory.getType());
  int64_t width = 1;
  for (Operation *user : memory.getUsers()) {
    if (isa<StoreImageOp, CopyAsyncOp, CopyBulkOp>(user))
      return 16;
    if (auto load = dyn_cast<LoadOp>(user))
      width = std::max(
          width, accessWidth(type, load.getAxes(), load.getResult().getType(), load.getRepeats()));
    if (auto load = dyn_cast<RingLoadOp>(user))
      width = std::max(width, accessWidth(load));
    if (auto store = dyn_cast<StoreOp>(user))
      width = std::max(width, accessWidth(type, store.getAxes(), store.getValue().getType()));
  }
  return width * type.getElementTypeBitWidth() / 8;
}
