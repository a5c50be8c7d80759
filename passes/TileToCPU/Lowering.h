//===- Lowering.h - A tile kernel as a function of the host ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETOCPU_LOWERING_H
#define PASSES_TILETOCPU_LOWERING_H

#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/TileToCPU/Arena.h"
#include "passes/TileToCPU/HostBuilder.h"
#include <list>
#include <optional>

namespace dl::tile {

/// Lowers one kernel, op by op in program order. A scalar of the kernel is one value here; a
/// distributed tensor is an array [threads][registers] in scratch memory, or a scalar that every
/// element equals.
class LaneLowering {
public:
  explicit LaneLowering(KernelOp kernel) : kernel(kernel) {}

  /// Emits the function before the kernel, or a diagnostic.
  mlir::LogicalResult run();

private:
  using Layout = layout::RegisterLayout;

  struct Place {
    Arena::Buffer *buffer = nullptr;
    mlir::Value splat;
  };
  /// A memref argument: where it starts and its strides in elements, constants included.
  struct View {
    mlir::Value pointer;
    llvm::SmallVector<mlir::Value> strides;
    mlir::MemRefType type;
  };
  struct SharedBuffer {
    int64_t offset = 0;
    layout::SharedLayout layout;
    mlir::Value stage; ///< bytes from there, null: none
  };
  /// Elementwise ops of one layout that wait to be emitted as one loop.
  struct Group {
    mlir::RankedTensorType key; ///< shape and layout; the element type says nothing
    llvm::SmallVector<mlir::Operation *> ops;
  };

  // Kernel.cpp: function, arguments, control flow, uses
  void emitFunction();
  void emitArguments(mlir::Value parameters);
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lower(mlir::Operation *op);
  mlir::LogicalResult lowerCrossLane(mlir::Operation *op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp loop);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp branch);
  void bindCarried(mlir::ValueRange values, mlir::ValueRange lowered,
                   llvm::ArrayRef<Arena::Buffer *> buffers);
  void lowerYield(mlir::Operation *yield, llvm::ArrayRef<Arena::Buffer *> targets, mlir::Block &to);
  mlir::LogicalResult lowerScalar(mlir::Operation *op);
  mlir::LogicalResult bindConstant(mlir::arith::ConstantOp op);
  void countUses(mlir::Value value);
  void finish(mlir::Operation *op); ///< its operands have one use less
  void releaseIfUnused(mlir::Value value);

  // Places.cpp: where values are, and coordinates
  void bind(mlir::Value value, Place place);
  Arena::Buffer *bindNew(mlir::Value value);
  Arena::Buffer *allocate(mlir::RankedTensorType type);
  Arena::Buffer *materialize(mlir::Value value); ///< its buffer, with one more holder
  Arena::Buffer *copyOf(mlir::Value value);      ///< a buffer of its own
  mlir::Value pointerTo(Arena::Buffer *buffer) { return host->bytes(scratch, buffer->offset); }
  void fill(Arena::Buffer *buffer, mlir::RankedTensorType type, mlir::Value scalar);
  void copy(Arena::Buffer *to, Arena::Buffer *from);
  const Layout &layoutOf(mlir::RankedTensorType type);

  using Coordinates = llvm::SmallVector<mlir::Value>;
  mlir::Value digitSum(const Layout &layout, layout::Source source, unsigned axis,
                       mlir::Value index);
  /// Loops over all threads and registers; the body gets thread, register and one coordinate per
  /// axis.
  using ElementBody = llvm::function_ref<void(mlir::Value, mlir::Value, const Coordinates &)>;
  void forEachElement(const Layout &layout, ElementBody body, bool ownersOnly = false);
  mlir::Value flat(const Layout &layout, mlir::Value thread, mlir::Value reg);
  mlir::Value insideShape(const Layout &layout, const Coordinates &coordinates);
  mlir::Value sliceRegister(const Layout &parent, unsigned axis, mlir::Value reg);
  /// The flat place of a coordinate along one axis: its digits' share of the thread and register
  /// number.
  mlir::Value shareOfPlace(const Layout &layout, unsigned axis, mlir::Value coordinate,
                           int64_t below);
  mlir::Value isOwner(const Layout &layout, mlir::Value thread);

  // Elementwise.cpp
  static bool isElementwise(mlir::Operation *op);
  void addToGroup(mlir::Operation *op);
  void flush(std::list<Group>::iterator group);
  void flushAll();
  void emitGroupBody(const Group &group, mlir::Value thread, mlir::Value reg);
  mlir::Value loadElement(mlir::Value tensor, mlir::Value index);
  void storeElement(Arena::Buffer *buffer, mlir::Value element, mlir::Value index);
  static mlir::LogicalResult hasNoMeaning(mlir::Operation *op);
  static mlir::LogicalResult checkScalar(mlir::Operation *op);
  mlir::Value cloneScalar(mlir::Operation *op, mlir::ValueRange operands);

  // Memory.cpp
  mlir::Value elementPointer(const View &view, llvm::ArrayRef<mlir::Value> indices);
  mlir::LogicalResult lowerLoad(LoadOp op);
  mlir::LogicalResult lowerRingLoad(RingLoadOp op);
  mlir::LogicalResult lowerStore(StoreOp op);
  void lowerScalarAccess(mlir::Operation *op);
  mlir::LogicalResult lowerIsPresent(IsPresentOp op);
  mlir::Value rowOfBytes(mlir::Value memory, mlir::ValueRange indices);
  mlir::LogicalResult lowerStoreImage(StoreImageOp op);
  mlir::LogicalResult lowerLocalPart(LocalPartOp op);
  mlir::LogicalResult lowerAlloc(AllocOp op);
  mlir::LogicalResult lowerStage(StageOp op);
  mlir::LogicalResult lowerCopyAsync(CopyAsyncOp op);
  mlir::LogicalResult lowerLocalStore(LocalStoreOp op);
  mlir::LogicalResult lowerLocalLoad(LocalLoadOp op);
  mlir::Value sharedOffset(const layout::SharedLayout &layout, const Coordinates &coordinates);
  mlir::Value sharedElement(mlir::Value buffer, const Coordinates &coordinates); ///< a pointer
  struct Access {
    mlir::Value start;                      ///< of the tile's first element
    llvm::SmallVector<mlir::Value> strides; ///< per tensor axis, in elements
    llvm::SmallVector<mlir::Value>
        limits; ///< per tensor axis, elements left in memory; null: enough
  };
  Access makeAccess(mlir::Value memory, mlir::ValueRange indices, llvm::ArrayRef<int64_t> axes,
                    std::optional<llvm::ArrayRef<bool>> inBounds, const Layout &layout,
                    mlir::Value count = {});
  mlir::Value pointerOf(const Access &access, mlir::Type element, const Coordinates &coordinates);
  mlir::Value isInMemory(const Access &access, const Coordinates &coordinates); ///< null: always
  mlir::Value maskOf(const Access &access, const Layout &layout, const Coordinates &coordinates);

  // CrossLane.cpp
  void convert(mlir::TypedValue<mlir::RankedTensorType> value,
               mlir::TypedValue<mlir::RankedTensorType> converted, bool transposed);
  void lowerInterleave(InterleaveOp op);
  void lowerPick(PickOp op);
  mlir::Value loadPlaced(mlir::Value tensor, const Coordinates &coordinates);
  mlir::LogicalResult lowerCoordinate(CoordinateOp op);
  mlir::LogicalResult lowerInsert(InsertOp op);
  mlir::LogicalResult lowerReduce(ReduceOp op);
  mlir::LogicalResult lowerDot(DotOp op);
  mlir::LogicalResult lowerRankUpdate(RankUpdateOp op);
  /// Adds to `sum` what register `reg` of `thread` contributes to result number i, nothing unless
  /// `inside`.
  using Term = llvm::function_ref<mlir::Value(unsigned i, mlir::Value thread, mlir::Value reg,
                                              mlir::Value inside, mlir::Value sum)>;
  void addProducts(mlir::ValueRange vectors, mlir::TypedValue<mlir::RankedTensorType> matrix,
                   unsigned axis, llvm::ArrayRef<Arena::Buffer *> sums, std::optional<float> start);
  llvm::SmallVector<Arena::Buffer *> allocateSums(const Layout &layout, unsigned axis,
                                                  size_t count);
  void sumRegisters(const Layout &layout, unsigned axis, llvm::ArrayRef<Arena::Buffer *> sums,
                    std::optional<float> start, Term term);
  void combine(const Layout &layout, unsigned axis, mlir::ResultRange results,
               llvm::MutableArrayRef<Arena::Buffer *> sums);
  void combineLanes(const Layout &layout, unsigned axis,
                    llvm::MutableArrayRef<Arena::Buffer *> sums);
  void combineWarps(const Layout &layout, unsigned axis,
                    llvm::MutableArrayRef<Arena::Buffer *> sums);

  // Scan.cpp
  struct Scan;
  mlir::LogicalResult lowerScan(ScanOp op);
  void sumPieces(const Scan &scan, Arena::Buffer *result, Arena::Buffer *totals);
  void addOtherPieces(const Scan &scan, Arena::Buffer *result, Arena::Buffer *totals);

  // Invert.cpp
  mlir::LogicalResult lowerInvert(InvertUnitLowerOp op);

  // Mma.cpp
  mlir::Value placeInFragment(const Layout &layout, mlir::Value thread, unsigned axis,
                              mlir::Value coordinate, int64_t below);
  mlir::LogicalResult lowerMma(MmaOp op);

  // Arrivals.cpp
  void emitCounters();
  mlir::Value emitResult();
  mlir::Value field(mlir::Value arrivals, mlir::Value stage, int64_t number);
  mlir::Value isUnderWay(mlir::Value arrivals, mlir::Value stage); ///< a copy
  void faultIf(mlir::Value condition);
  void forEachWord(mlir::Value count, llvm::function_ref<void(mlir::Value)> body);
  mlir::LogicalResult lowerCopyBulk(CopyBulkOp op);
  mlir::LogicalResult lowerAwait(AwaitOp op);

  // Gram.cpp
  mlir::LogicalResult lowerGram(GramOp op);
  void emitGramPair(GramOp op, mlir::Value i, mlir::Value j);

  KernelOp kernel;
  std::optional<HostBuilder> host;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value block, scratch;
  mlir::IRMapping scalars;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, View> views;
  llvm::DenseMap<mlir::Value, SharedBuffer> sharedBuffers;
  llvm::MapVector<mlir::Value, int64_t> counters; ///< offsets of those of tile.arrivals
  std::optional<int64_t> faultOffset;             ///< where there are counters
  llvm::DenseMap<mlir::Value, unsigned> remainingUses;
  llvm::DenseMap<mlir::Type, std::unique_ptr<Layout>> layouts;
  std::list<Group> groups;
  Arena arena;
};

} // namespace dl::tile

#endif // PASSES_TILETOCPU_LOWERING_H
