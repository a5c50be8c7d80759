//===- LogKernel.cpp - Append, merge and materialize ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   linattn.operator @op   ->   tile.kernel @op_append
//
//   descriptor of the row; params; inputs of its first token
//   if it is not null:
//     base = state tile of src, or zeros; log = its entries
//     if a checkpoint is wanted: store the state after so many entries
//     if merge is before: base = state, stored to dst; log = empty
//     for each token:
//       inputs -> StepEmitter, reading base and log -> outputs
//       if merge is after: store the state with the token to dst
//       else:              store the token's entry
//   else: outputs = 0
//
// What the numbers of a descriptor mean, and in what order a row does things, is the protocol's:
// test/Reference/LogProtocol.md. They are clamped to what is there: whatever a descriptor holds, a
// kernel reads and writes inside the tensors it was given.
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/LogKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/LogEmitter.h"

using namespace mlir;
using namespace dl;

namespace {
class LogKernel : LogEmitter {
public:
  using LogEmitter::LogEmitter;
  LogicalResult emit(LogKernelKind kind);

private:
  void addArguments(KernelArguments &arguments, LogKernelKind kind);
  void addMaterializeArguments(KernelArguments &arguments);
  void addSizes(KernelArguments &arguments);

  // Append and merge
  struct Row {
    Value batch, first, end; ///< index, i32: its tokens
    Value source, destination, start, length, write, merge, isFresh;
    Value checkpointSlot, checkpointCount; ///< i32
    Value isActive;
  };
  SmallVector<Value> loadDescriptor();
  Row loadRow(bool hasTokens);
  void placeTokens(Row &row, Value token, Value tokens);
  void emitRow(bool hasTokens);
  void emitCheckpoint(const Row &row);
  void emitMergeBefore(const Row &row, SmallVector<Value> &base, Log &log);
  void emitTokens(const Row &row, ValueRange firstInputs, ValueRange base, const Log &log);
  void storeMerged(const Row &row, ValueRange base, const Log &log);
  struct Step {
    Log log;
    SmallVector<Value> nextInputs;
  };
  Step emitToken(const Row &row, Value token, ValueRange inputs, ValueRange base, const Log &log,
                 bool isLast);

  void emitMaterialize();

  Value column(unsigned array, Value row, int64_t number) {
    return memref::LoadOp::create(builder, loc, argument(array), ValueRange{row, index(number)});
  }
  Value equals(Value a, int64_t b) { return compare(arith::CmpIPredicate::eq, a, i32(b)); }
  void ifTrue(Value condition, llvm::function_ref<void()> body) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  OperatorArguments where;
  SmallVector<unsigned> states; ///< positions of the bases
  unsigned descriptors = 0, rows = 0, slots = 0, batches = 0;
  unsigned cursors = 0, counts = 0; ///< of materialize
  LogicalResult result = success();
};
} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void LogKernel::addSizes(KernelArguments &arguments) {
  Type i32 = builder.getI32Type();
  auto size = [&](StringRef name) {
    return arguments.addScalar(name, i32, arguments.symbol(name), {});
  };
  rows = where.rows = size("N");
  slots = size("slots");
  addHeadReciprocal(arguments, builder.getContext(), where);
  if (where.headReciprocal)
    headRatio = arguments.addScalar(
        "head_ratio", i32,
        arguments.expression("div", {arguments.symbol("HV"), arguments.symbol("HQ")}), {});
}

void LogKernel::addArguments(KernelArguments &arguments, LogKernelKind kind) {
  bool isAppend = kind == LogKernelKind::Append;
  if (isAppend)
    addTokenArguments(arguments, op, types, where);
  else
    addParamArguments(arguments, op, types, where);
  states = addPools(arguments, op, types, "slots", "state", "rw");
  logArguments = addLogArguments(arguments, fields, types, options, isAppend ? "rw" : "r");
  descriptors =
      arguments.addTensor("descriptors", "descriptors", builder.getI32Type(),
                          {arguments.symbol("N"), arguments.number(DescriptorField::Count)}, "r");
  addSizes(arguments);
  if (!isAppend)
    return;
  Type i32 = builder.getI32Type();
  batches = arguments.addScalar("B", i32, arguments.symbol("B"), {});
  where.tokens = arguments.addScalar("T", i32, arguments.symbol("T"), {});
}

void LogKernel::addMaterializeArguments(KernelArguments &arguments) {
  Attribute N = arguments.symbol("N");
  addParamArguments(arguments, op, types, where);
  where.stateIn = addPools(arguments, op, types, "slots", "state_in", "r");
  logArguments = addLogArguments(arguments, fields, types, options, "r");
  cursors =
      arguments.addTensor("cursors", "cursors", builder.getI32Type(),
                          {arguments.symbol("slots"), arguments.number(CursorField::Count)}, "r");
  where.sourceSlots = arguments.addTensor("src_slots", "slots_in", types.index, N, "r");
  counts = arguments.addTensor("counts", "counts", types.index, N, "r", true);
  where.stateOut = addPools(arguments, op, types, "pool_out", "state_out", "w");
  where.destinationSlots = arguments.addTensor("dst_slots", "slots_out", types.index, N, "r", true);
  where.firstSlot =
      arguments.addScalar("first_slot", builder.getI32Type(), {}, builder.getI64IntegerAttr(0));
  where.destinationPool =
      arguments.addScalar("pool_out", builder.getI32Type(), arguments.symbol("pool_out"), {});
  addSizes(arguments);
}

//===----------------------------------------------------------------------===//
// Append and merge
//===----------------------------------------------------------------------===//

/// A batch of several entries has a row in each; in one entry rows lie one behind the other.
void LogKernel::placeTokens(Row &row, Value token, Value tokens) {
  Value isBatch = compare(arith::CmpIPredicate::sgt, argument(batches), i32(1));
  Value all = argument(where.tokens), none = i32(0);
  auto within = [&](Value number) {
    return arith::MinSIOp::create(builder, loc, arith::MaxSIOp::create(builder, loc, number, none),
                                  all);
  };
  row.batch = toIndex(arith::SelectOp::create(builder, loc, isBatch, this->row, none));
  row.first = within(arith::SelectOp::create(builder, loc, isBatch, none, token));
  Value room = arith::SubIOp::create(builder, loc, all, row.first);
  Value count = arith::MinSIOp::create(builder, loc,
                                       arith::MaxSIOp::create(builder, loc, tokens, none), room);
  row.end = arith::AddIOp::create(builder, loc, row.first, count);
}

/// All columns at once. Plain loads would sink to their uses, behind the branches on the first of
/// them, and be waited for one after the other.
SmallVector<Value> LogKernel::loadDescriptor() {
  constexpr int64_t count = DescriptorField::CheckpointCount + 1;
  SmallVector<Type> types(count, builder.getI32Type());
  Value number = toIndex(row);
  SmallVector<Value> places, loaded;
  for (int64_t i = 0; i < count; ++i)
    places.push_back(index(i));
  Value isThere = tile::IsPresentOp::create(builder, loc, argument(descriptors));
  auto branch = scf::IfOp::create(builder, loc, types, isThere, /*withElseRegion=*/true);
  branch->setAttr(tile::kPredicatedAttrName, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, SmallVector<Value>(count, i32(-1)));
  builder.setInsertionPointToStart(branch.thenBlock());
  for (Value place : places)
    loaded.push_back(
        memref::LoadOp::create(builder, loc, argument(descriptors), ValueRange{number, place}));
  scf::YieldOp::create(builder, loc, loaded);
  return branch.getResults();
}

LogKernel::Row LogKernel::loadRow(bool hasTokens) {
  SmallVector<Value> raw = loadDescriptor();
  Row result;
  result.source = raw[DescriptorField::Source];
  result.destination = raw[DescriptorField::Destination];
  Value fits =
      compare(arith::CmpIPredicate::ule, raw[DescriptorField::Tokens], i32(options.maxTokens));
  Value exist = arith::AndIOp::create(builder, loc, isSlot(result.source, slots),
                                      isSlot(result.destination, slots));
  result.isActive = arith::AndIOp::create(builder, loc, fits, exist);
  if (hasTokens)
    placeTokens(result, raw[DescriptorField::Token], raw[DescriptorField::Tokens]);
  result.isFresh = compare(arith::CmpIPredicate::ne, raw[DescriptorField::Fresh], i32(0));
  result.start = minimum(raw[DescriptorField::Start], options.ring() - 1);
  result.length =
      arith::SelectOp::create(builder, loc, result.isFresh, i32(0),
                              minimum(raw[DescriptorField::Length], options.longestLog()));
  result.write = minimum(raw[DescriptorField::Write], options.ring() - 1);
  result.merge = raw[DescriptorField::Merge];
  result.checkpointSlot = raw[DescriptorField::CheckpointSlot];
  result.checkpointCount =
      arith::MinUIOp::create(builder, loc, raw[DescriptorField::CheckpointCount], result.length);
  return result;
}

/// The source as the row found it, earlier. Loaded for itself: tiles of both at once would not fit
/// into registers.
void LogKernel::emitCheckpoint(const Row &row) {
  Value isWanted = arith::AndIOp::create(
      builder, loc, isSlot(row.checkpointSlot, slots),
      arith::XOrIOp::create(builder, loc, row.isFresh,
                            arith::ConstantIntOp::create(builder, loc, 1, 1)));
  ifTrue(isWanted, [&] {
    SmallVector<Value> base = loadStates(states, toIndex(row.source));
    for (Value &state : base)
      state = toF32(state);
    Log earlier = loadLog(toIndex(row.source), row.start, row.checkpointCount);
    storeStates(states, merged(base, earlier), toIndex(row.checkpointSlot));
  });
}

void LogKernel::emitMergeBefore(const Row &row, SmallVector<Value> &base, Log &log) {
  SmallVector<Value> before(base);
  llvm::append_range(before, log.flatten());
  auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(before)),
                                  equals(row.merge, MergeKind::Before), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, before);
  builder.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> after = merged(base, log);
  storeStates(states, after, toIndex(row.destination));
  llvm::append_range(after, emptyLog().flatten());
  scf::YieldOp::create(builder, loc, after);
  ValueRange results = branch.getResults();
  size_t numStates = base.size();
  base.assign(results.begin(), results.begin() + numStates);
  log = unflatten(results.drop_front(numStates));
}

LogKernel::Step LogKernel::emitToken(const Row &row, Value token, ValueRange inputs,
                                     ValueRange base, const Log &log, bool isLast) {
  StepEmitter emitter(builder, op, layouts);
  bindParams(emitter, params);
  for (auto [input, value] : llvm::zip(op.getInputs(), inputs))
    emitter.bind(input, toF32(value));
  Step next;
  auto store = [&](unsigned i, Value output) {
    storeOutput(where.outputs, i, row.batch, token, output);
    if (i + 1 == op.getNumOutputs() && !isLast)
      next.nextInputs =
          loadInputs(where.inputs, row.batch, arith::AddIOp::create(builder, loc, token, i32(1)),
                     row.end, /*predicated=*/false);
  };
  auto read = [&](unsigned state, Value, ArrayRef<Value> keys) {
    return this->read(base, log, state, keys);
  };
  if (failed(emitter.emit(read, store))) {
    result = failure();
    return next;
  }
  SmallVector<Value> held = makeEntry(emitter, inputs, log);
  // Loaded again, which few rows do: so no row needs registers for the log beside its outputs.
  if (isLast)
    ifTrue(equals(row.merge, MergeKind::After), [&] {
      Log again = loadLog(toIndex(row.source), row.start, log.length);
      storeMerged(row, base, advance(emitter, again, held));
    });
  else
    next.log = advance(emitter, log, held);
  ifTrue(compare(arith::CmpIPredicate::ne, row.merge, i32(MergeKind::After)), [&] {
    Value since = arith::SubIOp::create(builder, loc, token, row.first);
    Value position = wrap(arith::AddIOp::create(builder, loc, row.write, since));
    storeEntry(held, toIndex(row.destination), toIndex(position));
  });
  return next;
}

void LogKernel::storeMerged(const Row &row, ValueRange base, const Log &log) {
  storeStates(states, merged(base, log), toIndex(row.destination));
}

void LogKernel::emitTokens(const Row &row, ValueRange firstInputs, ValueRange base,
                           const Log &log) {
  if (options.maxTokens == 1) {
    Value exists = compare(arith::CmpIPredicate::slt, row.first, row.end);
    ifTrue(exists, [&] { emitToken(row, row.first, firstInputs, base, log, /*isLast=*/true); });
    return;
  }
  SmallVector<Value> carried = log.flatten();
  size_t size = carried.size();
  llvm::append_range(carried, firstInputs);
  auto loop = scf::ForOp::create(builder, loc, row.first, row.end, i32(1), carried);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  ValueRange now = loop.getRegionIterArgs();
  Step next = emitToken(row, loop.getInductionVar(), now.drop_front(size), base,
                        unflatten(now.take_front(size)), /*isLast=*/false);
  if (failed(result))
    return;
  SmallVector<Value> yielded = next.log.flatten();
  llvm::append_range(yielded, next.nextInputs);
  scf::YieldOp::create(builder, loc, yielded);
  // Behind the loop the base is needed no more: its registers take the state.
  builder.setInsertionPointAfter(loop);
  ifTrue(equals(row.merge, MergeKind::After),
         [&] { storeMerged(row, base, unflatten(loop.getResults().take_front(size))); });
}

void LogKernel::emitRow(bool hasTokens) {
  Row numbers = loadRow(hasTokens);
  params = loadParams(where.params);
  SmallVector<Value> inputs;
  if (hasTokens)
    inputs = loadInputs(where.inputs, numbers.batch, numbers.first, numbers.end,
                        /*predicated=*/true);
  auto branch = scf::IfOp::create(builder, loc, numbers.isActive, /*withElseRegion=*/hasTokens);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  emitCheckpoint(numbers);
  Value source = toIndex(numbers.source);
  Value isOld = arith::XOrIOp::create(builder, loc, numbers.isFresh,
                                      arith::ConstantIntOp::create(builder, loc, 1, 1));
  SmallVector<Value> base = loadStatesIf(isOld, states, source);
  Log log = loadLog(source, numbers.start, numbers.length);
  emitMergeBefore(numbers, base, log);
  if (!hasTokens)
    return;
  emitTokens(numbers, inputs, base, log);
  if (types.startsEarly)
    tile::GridReleaseOp::create(builder, loc);
  builder.setInsertionPointToStart(branch.elseBlock());
  storeZeroOutputs(where.outputs, numbers.batch, numbers.first, numbers.end);
}

//===----------------------------------------------------------------------===//
// Materialize
//===----------------------------------------------------------------------===//

/// The slot's last step is settled as if all of its tokens were accepted.
void LogKernel::emitMaterialize() {
  Value number = toIndex(row);
  auto entryOr = [&](unsigned array, Value fallback) {
    Value memory = argument(array);
    auto branch = scf::IfOp::create(builder, loc, fallback.getType(),
                                    tile::IsPresentOp::create(builder, loc, memory),
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc,
                         memref::LoadOp::create(builder, loc, memory, number).getResult());
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, fallback);
    return branch.getResult(0);
  };
  Type index = types.index;
  auto wide = [&](Value value) {
    return index == value.getType()
               ? value
               : arith::ExtSIOp::create(builder, loc, index, value).getResult();
  };
  auto narrow = [&](Value value) {
    return value.getType().isInteger(32)
               ? value
               : arith::TruncIOp::create(builder, loc, builder.getI32Type(), value).getResult();
  };
  auto isSlotOf = [&](Value slot, unsigned pool) {
    Value low = compare(arith::CmpIPredicate::sge, slot, wide(argument(where.firstSlot)));
    Value high = compare(arith::CmpIPredicate::ult, slot, wide(argument(pool)));
    return arith::AndIOp::create(builder, loc, low, high);
  };
  Value from = memref::LoadOp::create(builder, loc, argument(where.sourceSlots), number);
  Value to = entryOr(where.destinationSlots, wide(row));
  Value count = entryOr(counts, wide(i32(INT32_MAX)));
  ifTrue(arith::AndIOp::create(builder, loc, isSlotOf(from, slots),
                               isSlotOf(to, where.destinationPool)),
         [&] {
           Value slot = toIndex(narrow(from));
           Value start = minimum(column(cursors, slot, CursorField::Start), options.ring() - 1);
           Value length = minimum(column(cursors, slot, CursorField::Length), options.longestLog());
           Value pending = minimum(column(cursors, slot, CursorField::Pending), options.maxTokens);
           Value merge = column(cursors, slot, CursorField::Merge);
           Value isMerged = compare(arith::CmpIPredicate::ne, merge, i32(0));
           Value behind = wrap(arith::AddIOp::create(builder, loc, start, length));
           start = arith::SelectOp::create(builder, loc, isMerged, behind, start);
           length = arith::SelectOp::create(builder, loc, isMerged, i32(0), length);
           pending = arith::SelectOp::create(builder, loc, equals(merge, MergeKind::After), i32(0),
                                             pending);
           length =
               minimum(arith::AddIOp::create(builder, loc, length, pending), options.longestLog());
           Value most = wide(length), least = wide(i32(0));
           count = arith::MinSIOp::create(builder, loc,
                                          arith::MaxSIOp::create(builder, loc, count, least), most);
           SmallVector<Value> base;
           for (Value state : loadStates(where.stateIn, slot))
             base.push_back(toF32(state));
           Log log = loadLog(slot, start, narrow(count));
           storeStates(where.stateOut, merged(base, log), toIndex(narrow(to)));
         });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

LogicalResult LogKernel::emit(LogKernelKind kind) {
  KernelArguments arguments(builder);
  bool isMaterialize = kind == LogKernelKind::Materialize;
  if (isMaterialize)
    addMaterializeArguments(arguments);
  else
    addArguments(arguments, kind);
  createKernel(arguments, isMaterialize                   ? "materialize"
                          : kind == LogKernelKind::Append ? "append"
                                                          : "merge");
  emitPlacement(where.headReciprocal);
  Value inBatch = compare(arith::CmpIPredicate::ult, row, argument(rows));
  auto branch = scf::IfOp::create(builder, loc, inBatch, /*withElseRegion=*/false);
  tile::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(branch.thenBlock());
  if (types.startsEarly)
    tile::GridWaitOp::create(builder, loc);
  if (isMaterialize) {
    params = loadParams(where.params);
    emitMaterialize();
  } else {
    emitRow(/*hasTokens=*/kind == LogKernelKind::Append);
  }
  if (failed(result)) {
    kernel.erase();
    return failure();
  }
  op.erase();
  return success();
}

LogicalResult dl::emitLogKernel(LogKernelKind kind, linattn::OperatorOp op,
                                const KernelTypes &types, const schedule::RecurrentPlan &plan,
                                const LogOptions &options) {
  FailureOr<analysis::StepAnalysis> step = analysis::StepAnalysis::compute(op);
  if (failed(step) || failed(step->require(analysis::Schedule::Log)))
    return failure();
  std::optional<analysis::LogEntry> entry = analysis::LogEntry::compute(*step);
  llvm::Expected<schedule::LogPlan> held =
      schedule::planLog(logProblem(*step, *entry, types, options));
  if (!held)
    return op->emitOpError("log: ") << llvm::toString(held.takeError());
  std::vector<HeldField> fields = holdFields(*step, *entry, *held, types, options);
  return LogKernel(op, *step, *entry, fields, types, plan, options).emit(kind);
}
