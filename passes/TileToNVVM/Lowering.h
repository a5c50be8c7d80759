//===- Lowering.h - A tile kernel as the program of one thread ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETONVVM_LOWERING_H
#define PASSES_TILETONVVM_LOWERING_H

#include "compiler/Layout/Atoms.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include <functional>
#include <map>
#include <tuple>

namespace dl::tile {

/// Lowers one kernel. A scalar of the kernel is one value here, a distributed tensor one value per
/// register, a memref argument a pointer and its strides.
class KernelLowering {
public:
  KernelLowering(KernelOp kernel, mlir::OpBuilder &builder)
      : kernel(kernel), builder(builder), loc(kernel.getLoc()) {}

  /// Emits the function at the builder's insertion point, or a diagnostic.
  mlir::LogicalResult run();

private:
  using Registers = llvm::SmallVector<mlir::Value>;
  struct View {
    mlir::Value pointer;                    ///< !llvm.ptr<1>
    llvm::SmallVector<mlir::Value> strides; ///< i64, in elements
    mlir::MemRefType type;
    bool readOnly = false; ///< nothing in the launch writes it
  };

  // Kernel.cpp: function, arguments, control flow
  void emitArguments(mlir::Value parameters);
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lower(mlir::Operation *op);
  struct Synchronization;
  mlir::LogicalResult lowerFor(mlir::scf::ForOp loop);
  void separateIterations(mlir::scf::ForOp loop, const Synchronization &before);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp branch);
  mlir::LogicalResult lowerBody(mlir::Block &from, mlir::Block &to);
  Registers flatten(mlir::ValueRange values);
  void bindFlat(mlir::ValueRange values, mlir::ValueRange flat);
  mlir::Value scalar(mlir::Value value) { return scalars.lookup(value); }
  /// The value's registers here. What lies in shared memory after a conversion is read anew by each
  /// user: its registers are then free in between, and the state needs them.
  Registers distributed(mlir::Value value) {
    finishProduct(value);
    auto inShared = converted.find(value);
    return inShared == converted.end() ? registers.find(value)->second : inShared->second();
  }

  // Memory.cpp
  /// The registers of a load; under a condition, `otherwise` where it does not hold.
  Registers loadTile(LoadOp op, mlir::Value condition = {}, mlir::ValueRange otherwise = {});
  mlir::Value loadScalar(mlir::memref::LoadOp op, mlir::Value condition = {},
                         mlir::Value otherwise = {});
  Registers loadRing(RingLoadOp op);
  mlir::LogicalResult lowerStore(StoreOp op);
  void lowerScalarStore(mlir::memref::StoreOp op);
  void lowerIsPresent(IsPresentOp op);
  mlir::Value sharedOffset(const layout::SharedLayout &shared, mlir::ValueRange coordinate);
  void storeToBuffer(mlir::TypedValue<mlir::RankedTensorType> value, SharedType type,
                     mlir::Value buffer);
  void lowerLocalLoad(LocalLoadOp op);
  mlir::Value distanceOf(mlir::Value index, mlir::Value stride);
  mlir::Value elementOffset(const View &view, mlir::ValueRange indices);
  struct Access;
  Access makeAccess(mlir::Value memory, mlir::ValueRange indices, llvm::ArrayRef<int64_t> axes,
                    std::optional<llvm::ArrayRef<bool>> inBounds, mlir::RankedTensorType tensor,
                    mlir::Value count = {}, std::optional<llvm::ArrayRef<int64_t>> repeats = {});
  mlir::Value addressOf(Access &access, int64_t reg);
  mlir::Value maskOf(const Access &access, int64_t reg);

  // Copy.cpp
  mlir::Value rowOfBytes(mlir::Value memory, mlir::ValueRange indices);
  void lowerStoreImage(StoreImageOp op);
  void lowerCopyAsync(CopyAsyncOp op);
  void lowerCopyWait(int64_t pending);
  void lowerCopyCommit();
  mlir::Value isFirstThread();
  mlir::Value counter(mlir::Value arrivals, mlir::Value stage);
  void lowerArrivals(ArrivalsOp op);
  void lowerCopyBulk(CopyBulkOp op);
  void lowerAwait(AwaitOp op);

  // Guarded.cpp
  /// Whether a branch is to be predicated and does nothing but load, or have other values.
  bool onlyLoads(mlir::scf::IfOp branch);
  mlir::LogicalResult lowerGuardedLoads(mlir::scf::IfOp branch);
  Registers loadIf(mlir::Value condition, mlir::Value pointer, mlir::ValueRange otherwise,
                   bool invariant);

  // Compute.cpp
  mlir::LogicalResult lowerElementwise(mlir::Operation *op);
  mlir::FailureOr<mlir::Value> cloneScalar(mlir::Operation *op, mlir::ValueRange operands);
  void lowerInsert(InsertOp op);
  mlir::LogicalResult lowerReduce(ReduceOp op);
  mlir::LogicalResult lowerDot(DotOp op);
  struct MatrixFactor;
  MatrixFactor makeFactor(mlir::TypedValue<mlir::RankedTensorType> matrix, unsigned axis);
  void addProducts(mlir::ValueRange vector, const MatrixFactor &matrix, unsigned axis,
                   Registers &sums);
  void lowerCoordinate(CoordinateOp op);
  void combineLanes(const layout::RegisterLayout &layout, unsigned axis, Registers &values);
  void combineWarps(const layout::RegisterLayout &layout, unsigned axis,
                    llvm::MutableArrayRef<Registers> results);
  void bindReduction(mlir::ResultRange results, llvm::MutableArrayRef<Registers> values);

  // Convert.cpp
  void lowerRows(InterleaveOp op);
  void lowerRows(PickOp op);
  void convert(mlir::Value value, const layout::RegisterLayout &from,
               mlir::TypedValue<mlir::RankedTensorType> result);
  Registers transposeBlocks(mlir::ValueRange source, llvm::ArrayRef<int64_t> pairs);
  mlir::LogicalResult lowerRankUpdate(RankUpdateOp op);
  struct Exchange;
  void fillExchange(Exchange &exchange, const layout::RegisterLayout &from,
                    mlir::ValueRange source);
  mlir::Value placeOf(const Exchange &exchange, const layout::RegisterLayout &layout);

  // Scan.cpp
  struct Scan;
  void lowerScan(ScanOp op);
  void addOtherPieces(ScanOp op, const Scan &scan, llvm::ArrayRef<Registers> totals,
                      Registers &sums);
  Registers sumOfPieces(const Scan &scan, mlir::Value run, mlir::Value place, int64_t width);

  // Invert.cpp
  struct Triangle;
  void lowerInvert(InvertUnitLowerOp op);
  void storeTriangle(const Triangle &triangle, mlir::ValueRange values);
  Registers loadTriangle(const Triangle &triangle);
  void invertDiagonal(const Triangle &triangle);
  void invertBlock(const Triangle &triangle, mlir::Value block);
  void joinBlocks(const Triangle &triangle, int64_t half, bool last);
  struct Join;
  void joinPiece(const Join &join, mlir::Value piece);
  Registers productOf(const Join &join, mlir::Value left, mlir::Value right);
  void addToProduct(const Join &join, mlir::Value left, mlir::Value right, Registers &sums);

  // Mma.cpp
  struct Product;
  mlir::LogicalResult lowerMma(MmaOp op);
  void emitMmaSync(Product &product);
  void emitMmaSyncOfA(Product &product, MmaOp op, mlir::TypedValue<SharedType> buffer);
  void emitMmaSync(Product &product, MmaOp op, mlir::TypedValue<SharedType> buffer);
  Registers withoutPadding(mlir::Value factor, unsigned axisK);
  Registers packWords(mlir::ValueRange elements, const layout::Instruction &row);
  void setFactor(mlir::Value factor, unsigned axisK, Product &product);
  Registers splitFactor(Registers &elements, const layout::Instruction &row);
  Registers unpackStruct(mlir::Value value);

  // Wgmma.cpp
  Registers inlineAssembly(llvm::StringRef text, mlir::ValueRange tied, mlir::ValueRange inputs,
                           mlir::TypeRange results = {});
  mlir::Value wgmmaDescriptorOf(mlir::TypedValue<SharedType> buffer, const Product &product);
  /// `isBehind`: its accumulators are those of a product that is still running.
  void emitWgmma(Product &product, MmaOp op, mlir::TypedValue<SharedType> buffer, bool isBehind);
  bool takeRunning(MmaOp op);
  void finishProducts(size_t count); ///< the oldest
  void finishProduct(mlir::Value result);

  // MmaSync.cpp
  struct Chunks;
  mlir::Value multiplyAdd(mlir::Value a, int64_t b, mlir::Value c); ///< i32; null: nothing to add
  Chunks makeChunks(mlir::TypedValue<SharedType> buffer, mlir::Value row, mlir::Value chunk,
                    int64_t chunkBits);
  mlir::Value chunkOffset(const Chunks &at, mlir::Value chunk, int64_t chunkBits);
  mlir::Value chunkAt(Chunks &chunks, int64_t rows, int64_t count);
  Registers loadMatrices(Chunks &chunks, int64_t rows, int64_t count, int64_t matrices,
                         bool transposed);
  Registers mmaSync(const layout::Instruction &row, mlir::ValueRange a, mlir::ValueRange b,
                    mlir::ValueRange c);

  // Gram.cpp
  mlir::LogicalResult lowerGram(GramOp op);
  void emitGramBlock(GramOp op, mlir::Value row, mlir::Value column);
  void storeGram(mlir::TypedValue<SharedType> gram, mlir::Value row, mlir::Value column,
                 llvm::ArrayRef<Registers> tiles, int64_t half);

  // Shared pieces
  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value toI64(mlir::Value unsignedInteger);
  /// The type of one register of a distributed tensor, or of a scalar: index is i64 from here on.
  mlir::Type scalarType(mlir::Type type) {
    mlir::Type element = mlir::getElementTypeOrSelf(type);
    return element.isIndex() ? builder.getI64Type() : element;
  }
  mlir::Value threadId();
  mlir::Value threadDigit(int64_t div, int64_t mod);                           ///< i32, cached
  mlir::Value threadBase(const layout::RegisterLayout &layout, unsigned axis); ///< i32
  mlir::Value
  digitsAreZero(llvm::ArrayRef<layout::ThreadDigit> digits); ///< i1, null if there are none
  mlir::Value both(mlir::Value a, mlir::Value b);            ///< null stands for true
  mlir::Value gep(mlir::Value pointer, mlir::Value bytes);
  mlir::Value gep(mlir::Value pointer, int64_t bytes);
  mlir::Value sharedPointer(int64_t offset);
  mlir::Value bufferPointer(mlir::Value buffer); ///< its start
  int64_t allocateShared(int64_t bytes, int64_t alignment = 16);
  Registers loadVector(mlir::Value pointer, mlir::Type element, int64_t width, bool invariant);
  void storeVector(mlir::Value pointer, mlir::ValueRange values);
  void ifTrue(mlir::Value condition, llvm::function_ref<void()> body);
  void blockBarrier();
  void warpBarrier();
  void
  finishExchange(bool inWarp); ///< the barrier between writing an exchange buffer and reading it

  KernelOp kernel;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::LLVM::LLVMFuncOp function;
  mlir::IRMapping scalars;
  llvm::DenseMap<mlir::Value, Registers> registers;
  llvm::DenseMap<mlir::Value, std::function<Registers()>> converted; ///< how to read them
  llvm::DenseMap<mlir::Value, View> views;
  llvm::DenseMap<mlir::Value, int64_t> sharedBuffers;
  llvm::DenseMap<mlir::Value, mlir::Value> stages; ///< i32: bytes of a stage from its ring's start
  llvm::DenseMap<std::pair<int64_t, int64_t>, mlir::Value> digits;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> distances; ///< index * stride
  /// Where totals of scans are: by tensor, block of code, axis, length of pieces and their number.
  std::map<std::tuple<const void *, mlir::Block *, unsigned, int64_t, int64_t>, int64_t> totalsOf;
  int64_t sharedBytes = 0;
  /// Products that have been issued and not been waited for, oldest first.
  struct Running {
    mlir::Value result; ///< null if another product adds to it
    Registers factor;   ///< its first one, which is being read
  };
  llvm::SmallVector<Running> running;
  /// What the code emitted so far contains, to see what a loop body does: barriers on every way
  /// through it, exchanges on any.
  struct Synchronization {
    int64_t blockBarriers = 0, blockExchanges = 0, warpExchanges = 0;
    /// Read from a buffer shared by the block, or by a warp, since the last barrier that ends it.
    bool blockReads = false, warpReads = false;
  } emitted;
};

/// {$first, $first+1, ...} in inline assembly.
std::string operandList(size_t first, size_t count);

/// The external zero-size global that stands for dynamic shared memory.
constexpr llvm::StringLiteral kSharedSymbol = "dl_shared";

} // namespace dl::tile

#endif // PASSES_TILETONVVM_LOWERING_H
