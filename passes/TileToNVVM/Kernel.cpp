//===- Kernel.cpp - Function, arguments and control flow of a lowered kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToNVVM/Lowering.h"
#include "passes/TileToNVVM/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

namespace dl {
#define GEN_PASS_DEF_CONVERTTILETONVVM
#include "passes/TileToNVVM/Passes.h.inc"
} // namespace dl

//===----------------------------------------------------------------------===//
// Shared pieces
//===----------------------------------------------------------------------===//

Value KernelLowering::i32(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}
Value KernelLowering::i64(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 64);
}

Value KernelLowering::toI64(Value value) {
  if (value.getType().isInteger(64))
    return value;
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), value);
}

Value KernelLowering::threadId() { return threadDigit(1, kernel.getThreads()); }

Value KernelLowering::threadDigit(int64_t div, int64_t mod) {
  Value &known = digits[{div, mod}];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(builder);
  int64_t threads = kernel.getThreads();
  if (div == 1 && mod == threads) {
    builder.setInsertionPointToStart(&function.getBody().front());
    auto range = LLVM::ConstantRangeAttr::get(builder.getContext(), 32, 0, threads);
    return known = NVVM::ThreadIdXOp::create(builder, loc, builder.getI32Type(), range);
  }
  Value digit = threadId();
  builder.setInsertionPointAfterValue(digit);
  if (div > 1)
    digit = arith::DivUIOp::create(builder, loc, digit, i32(div));
  if (div * mod < threads)
    digit = arith::RemUIOp::create(builder, loc, digit, i32(mod));
  return digits[{div, mod}] = digit;
}

Value KernelLowering::threadBase(const layout::RegisterLayout &layout, unsigned axis) {
  Value base;
  for (const layout::Digit &digit : layout.digitsOf(layout::Source::Thread, axis)) {
    Value term = threadDigit(digit.div, digit.mod);
    if (digit.stride != 1)
      term = arith::MulIOp::create(builder, loc, term, i32(digit.stride));
    base = base ? arith::AddIOp::create(builder, loc, base, term) : term;
  }
  return base ? base : i32(0);
}

Value KernelLowering::digitsAreZero(ArrayRef<layout::ThreadDigit> zeros) {
  Value condition;
  for (const layout::ThreadDigit &digit : zeros)
    condition = both(condition, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                                      threadDigit(digit.div, digit.mod), i32(0)));
  return condition;
}

Value KernelLowering::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, loc, a, b);
}

Value KernelLowering::gep(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), builder.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes}, LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelLowering::gep(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), builder.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelLowering::bufferPointer(Value buffer) {
  Value start = sharedPointer(sharedBuffers.lookup(buffer)), stage = stages.lookup(buffer);
  return stage ? gep(start, toI64(stage)) : start;
}

/// Of a buffer and all that are parts of it: descriptors, and swizzles, see addresses.
static int64_t alignmentOf(TypedValue<SharedType> buffer) {
  int64_t alignment = llvm::cantFail(getLayout(buffer.getType())).alignment();
  for (Operation *user : buffer.getUsers())
    if (isa<StageOp, LocalPartOp>(user))
      alignment =
          std::max(alignment, alignmentOf(cast<TypedValue<SharedType>>(user->getResult(0))));
  return alignment;
}

int64_t KernelLowering::allocateShared(int64_t bytes, int64_t alignment) {
  int64_t offset = (sharedBytes + alignment - 1) / alignment * alignment;
  sharedBytes = offset + bytes;
  return offset;
}

Value KernelLowering::sharedPointer(int64_t offset) {
  Value base = LLVM::AddressOfOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext(), 3), kSharedSymbol);
  return gep(base, offset);
}

KernelLowering::Registers KernelLowering::loadVector(Value pointer, Type element, int64_t width,
                                                     bool invariant) {
  Type type = width == 1 ? element : VectorType::get(width, element);
  Value value =
      LLVM::LoadOp::create(builder, loc, type, pointer, width * element.getIntOrFloatBitWidth() / 8,
                           /*isVolatile=*/false, /*isNonTemporal=*/false, invariant);
  if (width == 1)
    return {value};
  Registers result;
  for (int64_t i = 0; i < width; ++i)
    result.push_back(LLVM::ExtractElementOp::create(builder, loc, value, i32(i)));
  return result;
}

void KernelLowering::storeVector(Value pointer, ValueRange values) {
  Type element = values.front().getType();
  Value value = values.front();
  if (values.size() > 1) {
    value = LLVM::PoisonOp::create(builder, loc, VectorType::get(values.size(), element));
    for (auto [i, part] : llvm::enumerate(values))
      value = LLVM::InsertElementOp::create(builder, loc, value, part, i32(i));
  }
  LLVM::StoreOp::create(builder, loc, value, pointer,
                        values.size() * element.getIntOrFloatBitWidth() / 8);
}

void KernelLowering::ifTrue(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

void KernelLowering::blockBarrier() {
  ++emitted.blockBarriers;
  emitted.blockReads = emitted.warpReads = false;
  NVVM::BarrierOp::create(builder, loc);
}

void KernelLowering::warpBarrier() {
  emitted.warpReads = false;
  NVVM::SyncWarpOp::create(builder, loc, i32(-1));
}

void KernelLowering::finishExchange(bool inWarp) {
  ++(inWarp ? emitted.warpExchanges : emitted.blockExchanges);
  inWarp ? warpBarrier() : blockBarrier();
}

//===----------------------------------------------------------------------===//
// Function and arguments
//===----------------------------------------------------------------------===//

/// Every argument is read from the parameter struct once, at the start.
void KernelLowering::emitArguments(Value parameters) {
  ParameterLayout layout = getParameterLayout(kernel.getArgumentTypes());
  // What the grid before this one may still write is not constant.
  bool startsEarly = tile::startsEarly(kernel);
  auto field = [&](int64_t offset, Type type) -> Value {
    return LLVM::LoadOp::create(builder, loc, type, gep(parameters, offset),
                                type.isIntOrFloat() ? type.getIntOrFloatBitWidth() / 8 : 8);
  };
  for (auto [argument, slot] : llvm::zip(kernel.getBody().getArguments(), layout.slots)) {
    auto memref = dyn_cast<MemRefType>(argument.getType());
    if (!memref) {
      scalars.map(argument, field(slot.offset, argument.getType()));
      continue;
    }
    View view;
    view.type = memref;
    auto access = kernel.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.access");
    auto role = kernel.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.role");
    // State pools may be read and written through different arguments.
    view.readOnly =
        access && access == "r" && role && (startsEarly ? role == "param" : role != "state_in");
    view.pointer = field(slot.offset, LLVM::LLVMPointerType::get(builder.getContext(), 1));
    SmallVector<int64_t> strides;
    int64_t offset;
    (void)memref.getStridesAndOffset(strides, offset);
    for (auto [stride, place] : llvm::zip(strides, slot.strides)) {
      if (place < 0)
        view.strides.push_back(i64(stride));
      else
        view.strides.push_back(LLVM::ZExtOp::create(builder, loc, builder.getI64Type(),
                                                    field(place, builder.getI32Type())));
    }
    views[argument] = std::move(view);
  }
}

LogicalResult KernelLowering::run() {
  MLIRContext *context = builder.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer});
  function = LLVM::LLVMFuncOp::create(builder, loc, kernel.getSymName(), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(kernel.getThreads())}));
  if (kernel.getMaxRegisters() > 0)
    function->setAttr(NVVM::NVVMDialect::getMaxnregAttrName(),
                      builder.getI32IntegerAttr(kernel.getMaxRegisters()));
  else if (kernel.getMinBlocks() > 0)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      builder.getI32IntegerAttr(kernel.getMinBlocks()));
  int64_t bytes = getParameterLayout(kernel.getArgumentTypes()).bytes;
  function.setArgAttr(0, LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(LLVM::LLVMArrayType::get(builder.getI8Type(), bytes)));
  function.setArgAttr(0, NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr());
  function.setArgAttr(0, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(8));

  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  emitArguments(entry->getArgument(0));
  if (failed(lowerBlock(kernel.getBody().front())))
    return failure();
  function->setAttr(kSharedBytesAttrName, builder.getI64IntegerAttr(sharedBytes));
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

KernelLowering::Registers KernelLowering::flatten(ValueRange values) {
  Registers flat;
  for (Value value : values) {
    if (isDistributed(value.getType()))
      llvm::append_range(flat, distributed(value));
    else
      flat.push_back(scalar(value));
  }
  return flat;
}

void KernelLowering::bindFlat(ValueRange values, ValueRange flat) {
  for (Value value : values) {
    if (!isDistributed(value.getType())) {
      scalars.map(value, flat.front());
      flat = flat.drop_front();
      continue;
    }
    int64_t count = llvm::cantFail(getLayout(cast<RankedTensorType>(value.getType()))).numRegisters;
    registers[value] = Registers(flat.take_front(count));
    flat = flat.drop_front(count);
  }
}

LogicalResult KernelLowering::lowerBody(Block &from, Block &to) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&to);
  if (failed(lowerBlock(from)))
    return failure();
  builder.setInsertionPointToEnd(&to);
  scf::YieldOp::create(builder, loc, flatten(from.getTerminator()->getOperands()));
  return success();
}

/// An exchange is write, barrier, read in a buffer of its own. The next iteration may write it
/// again once every reader is done: another barrier on every way through the body, after the last
/// read, makes sure of that; where there is none, iterations after the first start with one.
void KernelLowering::separateIterations(scf::ForOp loop, const Synchronization &before) {
  bool blockReads = emitted.blockReads, warpReads = emitted.warpReads; // at the body's end
  bool needsBlock = emitted.blockExchanges != before.blockExchanges &&
                    (emitted.blockBarriers - before.blockBarriers < 2 || blockReads);
  bool needsWarp = emitted.warpExchanges != before.warpExchanges && warpReads;
  if (needsBlock || needsWarp) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value later = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                        loop.getInductionVar(), loop.getLowerBound());
    ifTrue(later, [&] { needsBlock ? blockBarrier() : warpBarrier(); });
  }
  // A loop may run not at all.
  emitted.blockBarriers = before.blockBarriers;
  emitted.blockReads = before.blockReads || blockReads;
  emitted.warpReads = before.warpReads || warpReads;
}

LogicalResult KernelLowering::lowerFor(scf::ForOp loop) {
  Registers init = flatten(loop.getInitArgs());
  auto lowered = scf::ForOp::create(builder, loc, scalar(loop.getLowerBound()),
                                    scalar(loop.getUpperBound()), scalar(loop.getStep()), init);
  Block *body = lowered.getBody();
  if (!body->empty()) // the builder adds a terminator where nothing is carried
    body->getTerminator()->erase();
  scalars.map(loop.getInductionVar(), lowered.getInductionVar());
  bindFlat(loop.getRegionIterArgs(), lowered.getRegionIterArgs());
  Synchronization before = emitted;
  if (failed(lowerBody(*loop.getBody(), *body)))
    return failure();
  separateIterations(lowered, before);
  bindFlat(loop.getResults(), lowered.getResults());
  return success();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp branch) {
  if (onlyLoads(branch))
    return lowerGuardedLoads(branch);
  SmallVector<Type> types;
  for (Type type : branch.getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    int64_t count = tensor ? llvm::cantFail(getLayout(tensor)).numRegisters : 1;
    types.append(count, scalarType(type));
  }
  bool withElse = !branch.getElseRegion().empty();
  Synchronization before = emitted;
  Synchronization after = before; // barriers that both ways have, reads that one has
  after.blockBarriers = INT64_MAX;
  after.blockReads = after.warpReads = false;
  auto lowered = scf::IfOp::create(builder, loc, types, scalar(branch.getCondition()), withElse);
  for (auto [from, to] : {std::pair(&branch.getThenRegion(), &lowered.getThenRegion()),
                          std::pair(&branch.getElseRegion(), &lowered.getElseRegion())}) {
    emitted.blockBarriers = before.blockBarriers;
    emitted.blockReads = before.blockReads;
    emitted.warpReads = before.warpReads;
    if (!from->empty()) {
      Block &block = to->front();
      if (!block.empty())
        block.getTerminator()->erase();
      if (failed(lowerBody(from->front(), block)))
        return failure();
    }
    after.blockBarriers = std::min(after.blockBarriers, emitted.blockBarriers);
    after.blockReads |= emitted.blockReads;
    after.warpReads |= emitted.warpReads;
  }
  after.blockExchanges = emitted.blockExchanges;
  after.warpExchanges = emitted.warpExchanges;
  emitted = after;
  bindFlat(branch.getResults(), lowered.getResults());
  return success();
}

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block) {
    loc = op.getLoc();
    if (op.getNumRegions() != 0 || op.hasTrait<OpTrait::IsTerminator>() || isa<BarrierOp>(op))
      finishProducts(running.size());
    if (failed(lower(&op)))
      return failure();
  }
  return success();
}

LogicalResult KernelLowering::lower(Operation *op) {
  auto done = [](auto &&) { return success(); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ReturnOp) -> LogicalResult {
        LLVM::ReturnOp::create(builder, loc, ValueRange());
        return success();
      })
      .Case<scf::YieldOp>(done)
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](gpu::BlockIdOp id) {
        auto block = [&](auto tag) -> Value {
          return decltype(tag)::create(builder, loc, builder.getI32Type());
        };
        Value value = id.getDimension() == gpu::Dimension::x   ? block(NVVM::BlockIdXOp())
                      : id.getDimension() == gpu::Dimension::y ? block(NVVM::BlockIdYOp())
                                                               : block(NVVM::BlockIdZOp());
        scalars.map(id.getResult(), toI64(value));
        return success();
      })
      .Case([&](LoadOp load) {
        registers[load.getResult()] = loadTile(load);
        return success();
      })
      .Case([&](RingLoadOp load) {
        registers[load.getResult()] = loadRing(load);
        return success();
      })
      .Case([&](StoreOp store) { return lowerStore(store); })
      .Case([&](memref::LoadOp load) {
        scalars.map(load.getResult(), loadScalar(load));
        return success();
      })
      .Case([&](memref::StoreOp store) { return lowerScalarStore(store), success(); })
      .Case([&](IsPresentOp present) { return lowerIsPresent(present), success(); })
      .Case([&](GridWaitOp) {
        NVVM::GriddepcontrolOp::create(builder, loc, NVVM::GridDepActionKind::wait);
        return success();
      })
      .Case([&](GridReleaseOp) {
        NVVM::GriddepcontrolOp::create(builder, loc, NVVM::GridDepActionKind::launch_dependents);
        return success();
      })
      .Case([&](SplatOp splat) {
        int64_t count = llvm::cantFail(getLayout(splat.getResult().getType())).numRegisters;
        registers[splat.getResult()] = Registers(count, scalar(splat.getScalar()));
        return success();
      })
      .Case([&](ExpandOp expand) {
        layout::RegisterLayout layout = llvm::cantFail(getLayout(expand.getResult().getType()));
        Registers source = distributed(expand.getValue()), result;
        for (int64_t reg : layout.sliceRegisters(expand.getAxis()))
          result.push_back(source[reg]);
        registers[expand.getResult()] = std::move(result);
        return success();
      })
      .Case([&](CoordinateOp coordinate) { return lowerCoordinate(coordinate), success(); })
      .Case([&](InsertOp insert) { return lowerInsert(insert), success(); })
      .Case([&](ReduceOp reduce) { return lowerReduce(reduce); })
      .Case([&](ScanOp scan) { return lowerScan(scan), success(); })
      .Case([&](DotOp dot) { return lowerDot(dot); })
      .Case([&](RankUpdateOp update) { return lowerRankUpdate(update); })
      .Case([&](ConvertOp op) {
        convert(op.getValue(), llvm::cantFail(getLayout(op.getValue().getType())), op.getResult());
        return success();
      })
      .Case([&](TransposeOp op) {
        convert(op.getValue(), llvm::cantFail(getLayout(op.getValue().getType())).transposed(),
                op.getResult());
        return success();
      })
      .Case<InterleaveOp, PickOp>([&](auto op) { return lowerRows(op), success(); })
      .Case([&](AllocOp alloc) {
        layout::SharedLayout layout = llvm::cantFail(getLayout(alloc.getResult().getType()));
        sharedBuffers[alloc.getResult()] =
            allocateShared(layout.totalBytes(), alignmentOf(alloc.getResult()));
        return success();
      })
      .Case([&](StageOp stage) {
        layout::SharedLayout layout = llvm::cantFail(getLayout(stage.getRing().getType()));
        sharedBuffers[stage.getResult()] = sharedBuffers.lookup(stage.getRing());
        stages[stage.getResult()] = arith::MulIOp::create(builder, loc, scalar(stage.getIndex()),
                                                          i32(layout.matrixBytes()));
        return success();
      })
      .Case([&](LocalPartOp part) {
        sharedBuffers[part.getResult()] = sharedBuffers.lookup(part.getBytes()) + part.getOffset();
        stages[part.getResult()] = stages.lookup(part.getBytes());
        return success();
      })
      .Case([&](StoreImageOp store) { return lowerStoreImage(store), success(); })
      .Case([&](CopyAsyncOp copy) { return lowerCopyAsync(copy), success(); })
      .Case([&](CopyCommitOp) { return lowerCopyCommit(), success(); })
      .Case([&](CopyWaitOp wait) { return lowerCopyWait(wait.getPending()), success(); })
      .Case([&](ArrivalsOp arrivals) { return lowerArrivals(arrivals), success(); })
      .Case([&](CopyBulkOp copy) { return lowerCopyBulk(copy), success(); })
      .Case([&](AwaitOp await) { return lowerAwait(await), success(); })
      .Case([&](LocalStoreOp store) {
        storeToBuffer(store.getValue(), store.getBuffer().getType(),
                      bufferPointer(store.getBuffer()));
        return success();
      })
      .Case([&](LocalLoadOp load) { return lowerLocalLoad(load), success(); })
      .Case([&](BarrierOp barrier) {
        if (barrier.getAsyncProxy())
          NVVM::FenceProxyOp::create(
              builder, loc, NVVM::ProxyKind::async_shared,
              NVVM::SharedSpaceAttr::get(builder.getContext(), NVVM::SharedSpace::shared_cta));
        blockBarrier();
        return success();
      })
      .Case([&](MmaOp mma) { return lowerMma(mma); })
      .Case([&](InvertUnitLowerOp invert) { return lowerInvert(invert), success(); })
      .Case([&](GramOp gram) { return lowerGram(gram); })
      .Default([&](Operation *other) { return lowerElementwise(other); });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertTileToNVVM : dl::impl::ConvertTileToNVVMBase<ConvertTileToNVVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder(module.getBodyRegion());
    builder.setInsertionPointToEnd(module.getBody());
    auto gpuModule = gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels");
    builder.setInsertionPointToStart(gpuModule.getBody());
    auto bytes = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
    // Aligned to what the widest swizzle wants; the size comes with the launch.
    LLVM::GlobalOp::create(builder, module.getLoc(), bytes, /*isConstant=*/false,
                           LLVM::Linkage::External, kSharedSymbol, Attribute(), /*alignment=*/1024,
                           /*addrSpace=*/3);
    for (KernelOp kernel : llvm::make_early_inc_range(module.getOps<KernelOp>())) {
      if (failed(KernelLowering(kernel, builder).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
