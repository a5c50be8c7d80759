//===- ChunkKernel.cpp - Chunks of tokens in one kernel or two ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All and Walk: block (x, y, z) = (value head and tile of V, row in a layer, layer of rows):
//
//   slots and tokens of the row (Row.h); params
//   if it is not null:
//     S = state tile of its slot, transposed, or zeros
//     for each C tokens: inputs, or fields of the workspace -> ChunkEmitter -> outputs, S
//     store S
//   else: outputs = 0
//
// Prepare: block (x, y, z) = (value head, chunk in a layer, layer of chunks):
//
//   the chunk's row, by bisection; inputs -> ChunkEmitter -> fields of the workspace
//
// Row n has the chunks from start(n) / C + n on, with start(n) its first token among all: rows need
// not begin at multiples of C, and so no two of them share one. That makes tokens / C + rows chunks
// at most, a number that is known without looking at device memory. Both kernels take one part of
// the chunks after the other (ChunkParts.h). With checkpoints a row may have one chunk more
// (ChunkedRow.h), and n and rows count twice.
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/BlockEmitter.h"
#include "passes/LinAttnToTile/ChunkCrossings.h"
#include "passes/LinAttnToTile/ChunkParts.h"
#include "passes/LinAttnToTile/ChunkedRow.h"
#include "passes/LinAttnToTile/Passes.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

namespace {

class ChunkKernel : BlockEmitter {
public:
  ChunkKernel(ChunkPart part, linattn::OperatorOp op, const analysis::StepAnalysis &step,
              const ChunkRows &rows, const KernelTypes &types, const schedule::ChunkPlan &chunks,
              int64_t tiles)
      : BlockEmitter(op, types, chunks.block), part(part), step(step), rowsOfToken(rows),
        parts(builder, loc, chunks, tiles, types.checkpointInterval != 0),
        places(op.getContext(), chunks, types.keyDim) {}
  /// `rowBytes`: of the workspace, where there is one.
  LogicalResult emit(int64_t rowBytes);
  void eraseKernel() { kernel.erase(); }
  void eraseOperator() { op.erase(); }
  int64_t fieldBytes = 0; ///< after emit: what Prepare hands over

private:
  using Tokens = ChunkedRow::Tokens;

  void addArguments(KernelArguments &arguments, int64_t rowBytes);
  void emitPrepareBlock();
  void emitWalkBlock();
  void emitRow();
  LogicalResult emitTokens(ChunkedRow &row, const ChunkSpan &span);
  LogicalResult emitChunk(ChunkedRow &row, const ChunkSpan &span, const IRMapping &params,
                          scf::ForOp loop, CrossFromMemory *memory);
  void emitPreparation(Value chunk);
  LogicalResult emitPrepared(ChunkedRow &row, const Tokens &tokens);
  void bindArguments(ChunkEmitter &emitter, Row &row, const Tokens &tokens, const IRMapping &params,
                     ValueRange values);
  IRMapping loadParamsOfChunk();
  Value loadParam(BlockArgument param, ChunkSide side);
  Value loadTile(BlockArgument input, Row &row, const Tokens &tokens, RankedTensorType type,
                 ArrayRef<int64_t> axes, ArrayRef<bool> inBounds, ArrayRef<int64_t> repeats = {});
  SmallVector<Value> loadValues(Row &row, const Tokens &tokens);
  void storeOutputTile(unsigned i, Row &row, const Tokens &tokens, Value value);
  ChunkSpan spanOf(ChunkedRow &row);
  Value loadState(Row &row, const ChunkSpan &span);
  Value loadStart(Row &row);
  void storeState(Value state, Row &row, const ChunkSpan &span);
  void storeInSlot(Value state, Value slot);
  ChunkedRow chunkedRow(Value number);
  SmallVector<Value> stateIndicesOf(Value slot);

  /// Whether a tile of a side is VT x tokens.
  bool isTransposed(ChunkSide side, RankedTensorType type) const {
    return places.isTransposed(side) && type == places.values(side, type.getElementType());
  }
  bool readsByDescriptor() const { return places.products == schedule::Products::Wgmma; }
  Value startOf(Value row);
  Value firstChunkOf(Value start, Value row);
  Value firstChunkOf(Row &row, Value number);
  Value findRow(Value chunk);
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value div(Value a, Value b) { return arith::DivUIOp::create(builder, loc, a, b); }
  Value choose(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }

  const ChunkPart part;
  const analysis::StepAnalysis &step;
  const ChunkRows &rowsOfToken;
  ChunkParts parts;
  ChunkLayouts places;
  OperatorArguments where;
  LogicalResult result = success();
};

/// Numbers and key vectors once per head, as the chunk needs them: repeated for each of its tokens.
IRMapping ChunkKernel::loadParamsOfChunk() {
  IRMapping params;
  Type f32 = builder.getF32Type();
  for (auto [param, i] : llvm::zip(op.getParams(), where.params)) {
    std::optional<Axis> axis = linattn::axisOf(param.getType());
    if (!axis) {
      params.map(param, argument(i));
      continue;
    }
    Value memory = argument(i), place = head(param.getType());
    if (*axis == Axis::Scalar) {
      Value number = toF32(memref::LoadOp::create(builder, loc, memory, place));
      params.map(param, tile::SplatOp::create(builder, loc, places.tokens(f32), number));
    } else if (*axis == Axis::Key) {
      Value vector = toF32(tile::LoadOp::create(
          builder, loc, places.keys(elementOf(i)), memory, ValueRange{place, index(0)},
          ArrayRef<int64_t>{1}, builder.getDenseBoolArrayAttr({true}), /*count=*/Value()));
      params.map(param, tile::ExpandOp::create(builder, loc, places.tokenKeys(f32), vector, 0));
    }
  }
  return params;
}

Value ChunkKernel::loadParam(BlockArgument param, ChunkSide side) {
  unsigned position = where.params[param.getArgNumber() - op.getNumInputs()];
  Value vector = toF32(tile::LoadOp::create(
      builder, loc, places.valueColumns(side, elementOf(position)), argument(position),
      ValueRange{head(param.getType()), firstColumn}, ArrayRef<int64_t>{1},
      builder.getDenseBoolArrayAttr({wholeTiles()}), /*count=*/Value()));
  return tile::ExpandOp::create(builder, loc, places.values(side, builder.getF32Type()), vector,
                                places.isTransposed(side) ? 1 : 0);
}

Value ChunkKernel::loadTile(BlockArgument input, Row &row, const Tokens &tokens,
                            RankedTensorType type, ArrayRef<int64_t> axes, ArrayRef<bool> inBounds,
                            ArrayRef<int64_t> repeats) {
  SmallVector<Value> indices{row.batch, toIndex(tokens.first), head(input.getType())};
  if (axes.size() == 2)
    indices.push_back(linattn::isOn(input.getType(), Axis::Key) ? index(0) : firstColumn);
  return tile::LoadOp::create(
      builder, loc, type, argument(where.inputs[input.getArgNumber()]), indices,
      builder.getDenseI64ArrayAttr(axes), builder.getDenseBoolArrayAttr(inBounds), tokens.count,
      repeats.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(repeats));
}

/// Inputs with columns of V, of writes, then of outputs, as they lie in memory; zeros behind the
/// tokens.
SmallVector<Value> ChunkKernel::loadValues(Row &row, const Tokens &tokens) {
  SmallVector<Value> values;
  for (ChunkSide side : {ChunkSide::Writes, ChunkSide::Outputs})
    for (BlockArgument input : ChunkEmitter::valuesOf(step, side)) {
      if (input.getArgNumber() >= op.getNumInputs())
        continue;
      Type element = elementOf(where.inputs[input.getArgNumber()]);
      RankedTensorType type = places.valuesInMemory(side, element);
      SmallVector<int64_t> axes{1, 3}, repeats;
      SmallVector<bool> inBounds{false, wholeTiles()};
      if (side == ChunkSide::Writes && places.rowsPerToken > 1)
        repeats = {places.rowsPerToken, 1};
      if (isTransposed(side, type)) {
        std::swap(axes[0], axes[1]);
        std::swap(inBounds[0], inBounds[1]);
        if (!repeats.empty())
          std::swap(repeats[0], repeats[1]);
      }
      values.push_back(loadTile(input, row, tokens, type, axes, inBounds, repeats));
    }
  return values;
}

/// `values`: what loadValues gave.
void ChunkKernel::bindArguments(ChunkEmitter &emitter, Row &row, const Tokens &tokens,
                                const IRMapping &params, ValueRange values) {
  for (BlockArgument input : op.getInputs()) {
    Axis axis = *linattn::axisOf(input.getType());
    Type element = elementOf(where.inputs[input.getArgNumber()]);
    if (axis == Axis::Scalar)
      emitter.bind(input,
                   toF32(loadTile(input, row, tokens, places.tokens(element), {1}, {false})));
    else if (axis == Axis::Key)
      emitter.bind(input, toF32(loadTile(input, row, tokens, places.tokenKeys(element), {1, 3},
                                         {false, true})));
  }
  for (BlockArgument param : op.getParams())
    if (params.contains(param))
      emitter.bind(param, params.lookup(param));
  for (ChunkSide side : {ChunkSide::Writes, ChunkSide::Outputs})
    for (BlockArgument argument : ChunkEmitter::valuesOf(step, side)) {
      if (argument.getArgNumber() >= op.getNumInputs()) {
        emitter.bind(argument, side, loadParam(argument, side));
        continue;
      }
      Value value = values.front();
      RankedTensorType type = places.values(side, getElementTypeOrSelf(value.getType()));
      if (value.getType() != type)
        value = tile::TransposeOp::create(builder, loc, type, value);
      emitter.bind(argument, side, toF32(value));
      values = values.drop_front();
    }
}

void ChunkKernel::storeOutputTile(unsigned i, Row &row, const Tokens &tokens, Value value) {
  unsigned position = where.outputs[i];
  SmallVector<Value> indices{row.batch, toIndex(tokens.first), head(op.getOutputType(i)),
                             firstColumn};
  value = fromF32(value, elementOf(position));
  RankedTensorType type = places.valuesInMemory(ChunkSide::Outputs, elementOf(position));
  if (value.getType() != type)
    value = tile::TransposeOp::create(builder, loc, type, value);
  SmallVector<int64_t> axes{1, 3};
  SmallVector<bool> inBounds{false, wholeTiles()};
  if (isTransposed(ChunkSide::Outputs, type)) {
    std::swap(axes[0], axes[1]);
    std::swap(inBounds[0], inBounds[1]);
  }
  tile::StoreOp::create(builder, loc, value, argument(position), indices, axes,
                        builder.getDenseBoolArrayAttr(inBounds), tokens.count);
}

SmallVector<Value> ChunkKernel::stateIndicesOf(Value slot) {
  SmallVector<Value> indices{slot, valueHead, index(0), firstColumn};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(indices[2], indices[3]);
  return indices;
}

/// Axes of the transposed tile in memory.
static SmallVector<int64_t> stateAxesOf(const KernelTypes &types) {
  return types.layout == schedule::StateLayout::VK ? SmallVector<int64_t>{2, 3}
                                                   : SmallVector<int64_t>{3, 2};
}

/// From the pool or from zeros, in f32.
Value ChunkKernel::loadStart(Row &row) {
  RankedTensorType type = places.state(types.state);
  auto branch = scf::IfOp::create(builder, loc, TypeRange(type), row.isFresh(),
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, zeroOf(type));
    builder.setInsertionPointToStart(branch.elseBlock());
    Value state = tile::LoadOp::create(builder, loc, type, argument(where.stateIn.front()),
                                       stateIndicesOf(row.source()), stateAxesOf(types),
                                       builder.getDenseBoolArrayAttr({wholeTiles(), true}),
                                       /*count=*/Value());
    scf::YieldOp::create(builder, loc, state);
  }
  return toF32(branch.getResult(0));
}

Value ChunkKernel::loadState(Row &row, const ChunkSpan &span) {
  if (!span.begins)
    return loadStart(row);
  RankedTensorType type = places.state(builder.getF32Type());
  auto branch =
      scf::IfOp::create(builder, loc, TypeRange(type), span.begins, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, loadStart(row));
  builder.setInsertionPointToStart(branch.elseBlock());
  Value state = tile::LoadOp::create(
      builder, loc, type, parts.getCarried(),
      ValueRange{parts.carriedFrom(), valueHead, firstColumn, index(0)}, ArrayRef<int64_t>{2, 3},
      builder.getDenseBoolArrayAttr({wholeTiles(), true}),
      /*count=*/Value());
  scf::YieldOp::create(builder, loc, state);
  return branch.getResult(0);
}

void ChunkKernel::storeInSlot(Value state, Value slot) {
  tile::StoreOp::create(builder, loc, fromF32(state, types.state), argument(where.stateOut.front()),
                        stateIndicesOf(slot), stateAxesOf(types),
                        builder.getDenseBoolArrayAttr({wholeTiles(), true}), /*count=*/Value());
}

void ChunkKernel::storeState(Value state, Row &row, const ChunkSpan &span) {
  if (!span.ends)
    return storeInSlot(state, row.destination());
  auto branch = scf::IfOp::create(builder, loc, span.ends, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  storeInSlot(state, row.destination());
  builder.setInsertionPointToStart(branch.elseBlock());
  tile::StoreOp::create(builder, loc, state, parts.getCarried(),
                        ValueRange{parts.carriedTo(), valueHead, firstColumn, index(0)},
                        ArrayRef<int64_t>{2, 3},
                        builder.getDenseBoolArrayAttr({wholeTiles(), true}), /*count=*/Value());
}

//===----------------------------------------------------------------------===//
// All, and walking
//===----------------------------------------------------------------------===//

/// The values of the next chunk are on their way while this one is computed.
LogicalResult ChunkKernel::emitChunk(ChunkedRow &row, const ChunkSpan &span,
                                     const IRMapping &params, scf::ForOp loop,
                                     CrossFromMemory *memory) {
  Value token = loop.getInductionVar();
  const Tokens tokens = row.tokensOf(token);
  Value next = add(token, i32(places.tokensPerChunk));
  SmallVector<Value> after = loadValues(row, row.tokensOf(next));
  if (memory) {
    Value turn = div(sub(token, span.first), i32(places.tokensPerChunk));
    Value last = div(sub(sub(span.end, span.first), i32(1)), i32(places.tokensPerChunk));
    Value following = arith::MinUIOp::create(builder, loc, add(turn, i32(1)), last);
    memory->startChunk(turn, add(span.chunk, toIndex(following)),
                       compare(arith::CmpIPredicate::ult, turn, last));
  }
  CrossInBlock inBlock(builder, loc, readsByDescriptor());
  ChunkEmitter emitter(builder, step, rowsOfToken, places,
                       memory ? static_cast<ChunkCrossing &>(*memory) : inBlock);
  bindArguments(emitter, row, tokens, params, loop.getRegionIterArgs().drop_front());
  auto store = [&](unsigned i, Value output) { storeOutputTile(i, row, tokens, output); };
  FailureOr<Value> state = emitter.emit(loop.getRegionIterArg(0), tokens.count, store);
  if (failed(state))
    return failure();
  if (types.checkpointInterval != 0)
    row.ifCheckpoint(next, [&](Value slot) { storeInSlot(*state, slot); });
  after.insert(after.begin(), *state);
  scf::YieldOp::create(builder, loc, after);
  return success();
}

LogicalResult ChunkKernel::emitTokens(ChunkedRow &row, const ChunkSpan &span) {
  IRMapping params = loadParamsOfChunk();
  std::optional<CrossFromMemory> memory;
  if (part == ChunkPart::Walk)
    memory.emplace(builder, loc, parts.getWorkspace(), span.chunk,
                   compare(arith::CmpIPredicate::slt, span.first, span.end), valueHead,
                   readsByDescriptor());
  SmallVector<Value> values{loadState(row, span)};
  llvm::append_range(values, loadValues(row, row.tokensOf(span.first)));
  auto loop =
      scf::ForOp::create(builder, loc, span.first, span.end, i32(places.tokensPerChunk), values);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    if (failed(emitChunk(row, span, params, loop, memory ? &*memory : nullptr)))
      return failure();
  }
  if (memory)
    memory->finish();
  storeState(loop.getResult(0), row, span);
  return success();
}

ChunkedRow ChunkKernel::chunkedRow(Value number) {
  return {builder, loc, kernel, where, number, places.tokensPerChunk, types.checkpointInterval};
}

ChunkSpan ChunkKernel::spanOf(ChunkedRow &row) {
  if (part == ChunkPart::Walk)
    return parts.spanOf(row, toI32(firstChunkOf(row, this->row)));
  return {row.begin, row.end, {}, {}, {}, {}};
}

void ChunkKernel::emitRow() {
  ChunkedRow numbers = chunkedRow(row);
  ChunkSpan span = spanOf(numbers);
  OpBuilder::InsertionGuard guard(builder);
  if (span.isHere) {
    auto here = scf::IfOp::create(builder, loc, span.isHere, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(here.thenBlock());
  }
  auto branch = scf::IfOp::create(builder, loc, numbers.isActive(), /*withElseRegion=*/true);
  builder.setInsertionPointToStart(branch.thenBlock());
  result = emitTokens(numbers, span);
  builder.setInsertionPointToStart(branch.elseBlock());
  Value first = numbers.before ? numbers.tokensOf(span.first).first : span.first;
  storeZeroOutputs(where.outputs, numbers.batch, first, span.end);
}

//===----------------------------------------------------------------------===//
// Chunks of all rows
//===----------------------------------------------------------------------===//

/// index: the row's first token among the tokens of all.
Value ChunkKernel::startOf(Value number) {
  Value tokens = toIndex(argument(where.tokens)), place = toIndex(number);
  Value isPacked = tile::IsPresentOp::create(builder, loc, argument(where.rowStarts));
  auto branch = scf::IfOp::create(builder, loc, TypeRange(builder.getIndexType()), isPacked,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value start = memref::LoadOp::create(builder, loc, argument(where.rowStarts), place);
  start = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), start);
  start = arith::MaxSIOp::create(builder, loc, start, index(0));
  scf::YieldOp::create(builder, loc, start);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, mul(place, tokens));
  return branch.getResult(0);
}

/// index; whatever the row's numbers are, there is such a chunk.
Value ChunkKernel::firstChunkOf(Value start, Value number) {
  Value within = toIndex(number);
  if (parts.chunksWithin > 1)
    within = mul(within, index(parts.chunksWithin));
  Value chunk = add(div(start, index(places.tokensPerChunk)), within);
  Value last = sub(toIndex(parts.countChunks()), index(1));
  return arith::MinUIOp::create(builder, loc, chunk, last);
}

Value ChunkKernel::firstChunkOf(Row &row, Value number) {
  Value start = add(toIndex(row.first), mul(row.batch, toIndex(argument(where.tokens))));
  return firstChunkOf(start, number);
}

/// i32: the last row whose chunks begin at or before this one.
Value ChunkKernel::findRow(Value chunk) {
  Value last = sub(argument(where.rows), i32(1));
  Value steps = sub(i32(32), math::CountLeadingZerosOp::create(builder, loc, last));
  auto loop = scf::ForOp::create(builder, loc, i32(0), steps, i32(1), ValueRange{i32(0), last});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value low = loop.getRegionIterArg(0), high = loop.getRegionIterArg(1);
  Value middle = arith::ShRUIOp::create(builder, loc, add(add(low, high), i32(1)), i32(1));
  Value isBehind =
      compare(arith::CmpIPredicate::ule, firstChunkOf(startOf(middle), middle), toIndex(chunk));
  Value lower = choose(isBehind, middle, low);
  Value higher =
      choose(isBehind, high, arith::MaxSIOp::create(builder, loc, i32(0), sub(middle, i32(1))));
  scf::YieldOp::create(builder, loc, ValueRange{lower, higher});
  return loop.getResult(0);
}

LogicalResult ChunkKernel::emitPrepared(ChunkedRow &numbers, const Tokens &tokens) {
  IRMapping params = loadParamsOfChunk();
  CrossToMemory memory(builder, loc, parts.getWorkspace(), parts.rowOfWorkspace(row), valueHead);
  ChunkEmitter emitter(builder, step, rowsOfToken, places, memory);
  bindArguments(emitter, numbers, tokens, params, loadValues(numbers, tokens));
  Value state = zeroOf(places.state(builder.getF32Type()));
  if (failed(emitter.emit(state, tokens.count, [](unsigned, Value) {})))
    return failure();
  fieldBytes = memory.bytes();
  return success();
}

void ChunkKernel::emitPreparation(Value chunk) {
  Value number = findRow(chunk);
  ChunkedRow numbers = chunkedRow(number);
  Value turn = sub(chunk, toI32(firstChunkOf(numbers, number)));
  Value token = add(numbers.begin, mul(turn, i32(places.tokensPerChunk)));
  Value exists = arith::AndIOp::create(builder, loc, numbers.isActive(),
                                       compare(arith::CmpIPredicate::slt, token, numbers.end));
  exists =
      arith::AndIOp::create(builder, loc, exists, compare(arith::CmpIPredicate::sge, turn, i32(0)));
  auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  result = emitPrepared(numbers, numbers.tokensOf(token));
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void ChunkKernel::addArguments(KernelArguments &arguments, int64_t rowBytes) {
  auto addWorkspaces = [&] {
    if (part != ChunkPart::All)
      parts.addWorkspaces(arguments, types, rowBytes);
  };
  where = addOperatorArguments(arguments, op, types, addWorkspaces);
  arguments.require(where.destinationWidth, arguments.symbol("dst_width"), "max", 1,
                    "a prefill keeps a row's last state: dst_slots must have one column");
  if (part != ChunkPart::All)
    parts.addScalars(arguments);
}

/// A block of a preparation: those of the first part wait for what is before the launch, one of
/// each later part for the walk that it may run beside.
void ChunkKernel::emitPrepareBlock() {
  auto waitIf = [&](Value condition) {
    if (!types.startsEarly)
      return;
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    tile::GridWaitOp::create(builder, loc);
  };
  waitIf(parts.isFirst());
  Value exists, chunk = parts.chunkOf(row, exists);
  auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    emitPreparation(chunk);
  }
  Value head = arith::IndexCastOp::create(builder, loc, builder.getI32Type(), valueHead);
  waitIf(compare(arith::CmpIPredicate::eq, arith::OrIOp::create(builder, loc, row, head), i32(0)));
}

void ChunkKernel::emitWalkBlock() {
  if (types.startsEarly) {
    tile::GridWaitOp::create(builder, loc);
    if (part == ChunkPart::Walk) // the next part is prepared beside this one
      tile::GridReleaseOp::create(builder, loc);
  }
  Value inBatch = compare(arith::CmpIPredicate::ult, row, argument(where.rows));
  auto branch = scf::IfOp::create(builder, loc, inBatch, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  emitRow();
}

LogicalResult ChunkKernel::emit(int64_t rowBytes) {
  KernelArguments arguments(builder);
  addArguments(arguments, rowBytes);
  bool isPreparation = part == ChunkPart::Prepare;
  createKernel(arguments, isPreparation ? "prepare" : "prefill",
               isPreparation ? parts.sizeOf(arguments) : Attribute());
  parts.setKernel(kernel);
  if (isPreparation) // it holds no state
    for (StringRef name : {kStateBytesAttrName, kStateRegistersAttrName})
      kernel->setAttr(name, builder.getI64IntegerAttr(0));
  emitPlacement(where.headReciprocal);
  isPreparation ? emitPrepareBlock() : emitWalkBlock();
  tile::ReturnOp::create(builder, loc);
  if (failed(result))
    eraseKernel();
  return result;
}

} // namespace

LogicalResult dl::emitChunkKernel(ChunkPart part, linattn::OperatorOp op,
                                  const analysis::StepAnalysis &step, const ChunkRows &rows,
                                  const KernelTypes &types, const schedule::ChunkPlan &plan) {
  schedule::RecurrentProblem problem;
  problem.keyDim = types.keyDim;
  problem.valueDim = types.valueDim;
  schedule::ChunkPlan prepared = schedule::planPreparation(problem, plan);
  int64_t rowBytes = 0, tiles = plan.block.tiles(types.valueDim);
  if (part != ChunkPart::All) {
    // How much is handed over shows when it has been handed over.
    ChunkKernel trial(ChunkPart::Prepare, op, step, rows, types, prepared, tiles);
    if (failed(trial.emit(int64_t(1) << 30)))
      return failure();
    rowBytes = trial.fieldBytes;
    trial.eraseKernel();
  }
  ChunkKernel kernel(part, op, step, rows, types, part == ChunkPart::Prepare ? prepared : plan,
                     tiles);
  if (failed(kernel.emit(rowBytes)))
    return failure();
  kernel.eraseOperator();
  return success();
}
