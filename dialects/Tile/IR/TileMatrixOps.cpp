//===- TileMatrixOps.cpp - Verifiers of products, Grams and triangular systems ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "dialects/Tile/IR/Tile.h"

using namespace mlir;
using namespace dl::tile;

static bool isElement(Type type, dl::layout::ElementKind kind) {
  switch (kind) {
  case dl::layout::ElementKind::BF16:
    return type.isBF16();
  case dl::layout::ElementKind::F16:
    return type.isF16();
  case dl::layout::ElementKind::TF32:
  case dl::layout::ElementKind::F32:
    return type.isF32();
  }
  return false;
}

/// C4: what instructions can read. They read whole tiles: nothing masks B in shared memory.
static LogicalResult verifyShared(MmaOp op, SharedType b, const dl::layout::Instruction &row,
                                  int64_t warpsN) {
  int64_t rows = b.getShape()[op.getTransposed() ? 1 : 0],
          columns = b.getShape()[op.getTransposed() ? 0 : 1];
  if (row.b.inRegisters() && (bitsOf(row.input) != 16 || row.n != 8))
    return op.emitOpError(
               "C4: expected elements of 16 bits and n of 8 with b in shared memory for ")
           << row.name << ", got " << b;
  if (llvm::Error error = row.b.inRegisters() ? llvm::Error::success()
                                              : dl::layout::wgmmaDescriptor(
                                                    llvm::cantFail(getLayout(b)),
                                                    op.getTransposed() ? dl::layout::Major::MN
                                                                       : dl::layout::Major::K)
                                                    .takeError())
    return op.emitOpError("C4: ") << llvm::toString(std::move(error));
  if (rows % (row.n * warpsN) != 0 || columns % row.k != 0)
    return op.emitOpError("C4: expected b with a multiple of ")
           << row.n * warpsN << " along N and of " << row.k << " along K, got " << b;
  return success();
}

static LogicalResult verifyFragments(MmaOp op, FragmentAttr a, FragmentAttr b,
                                     FragmentAttr c) { // C2
  for (FragmentAttr factor : {a, b})
    if (factor &&
        (factor.getInstruction() != c.getInstruction() || factor.getWarps() != c.getWarps()))
      return op.emitOpError("C2: expected one instruction row and one split over warps, got ")
             << factor << " and " << c;
  return success();
}

static ArrayRef<int64_t> shapeOf(Type type) {
  auto shared = dyn_cast<SharedType>(type);
  return shared ? shared.getShape() : cast<RankedTensorType>(type).getShape();
}
static Type elementOf(Type type) {
  auto shared = dyn_cast<SharedType>(type);
  return shared ? shared.getElementType() : cast<RankedTensorType>(type).getElementType();
}

/// The fragment of a factor in registers; null for one in shared memory. Fails if it is another.
static FailureOr<FragmentAttr> fragmentOf(MmaOp op, Type type, StringRef operand) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return FragmentAttr();
  auto fragment = dyn_cast<FragmentAttr>(tensor.getEncoding());
  if (fragment && fragment.getOperand() == operand)
    return fragment;
  return op.emitOpError("C2: expected fragment \"") << operand << "\", got " << tensor;
}

/// C1
static LogicalResult verifyShapes(MmaOp op) {
  ArrayRef<int64_t> a = shapeOf(op.getA().getType()), b = shapeOf(op.getB().getType());
  ArrayRef<int64_t> c = op.getC().getType().getShape();
  unsigned axisN = isa<SharedType>(op.getB().getType()) && !op.getTransposed() ? 0 : 1;
  if (a.size() == 2 && b.size() == 2 && a[0] == c[0] && b[1 - axisN] == a[1] && b[axisN] == c[1])
    return success();
  return op.emitOpError("C1: expected M x K, ")
         << (axisN == 0 ? "N x K" : "K x N") << " and M x N, got " << op.getA().getType() << ", "
         << op.getB().getType() << " and " << op.getC().getType();
}

/// C6
static LogicalResult verifySharedA(MmaOp op, SharedType a, const dl::layout::Instruction &row,
                                   int64_t warpsM) {
  if (!row.b.inRegisters() || bitsOf(row.input) != 16 || isa<SharedType>(op.getB().getType()))
    return op.emitOpError(
               "C6: expected mma.sync with factors of 16 bits and b in registers beside ")
           << a << ", got " << row.name << " and " << op.getB().getType();
  if (a.getShape()[0] % (row.m * warpsM) != 0 || a.getShape()[1] % row.k != 0)
    return op.emitOpError("C6: expected a with a multiple of ")
           << row.m * warpsM << " rows and of " << row.k << " columns, got " << a;
  return success();
}

static LogicalResult verifyHilo(MmaOp op, const dl::layout::Instruction &row) { // C7
  if (op.getHilo() && bitsOf(row.input) != 16)
    return op.emitOpError("C7: expected factors of 16 bits for hilo, got ") << row.name;
  if (!op.getRest())
    return success();
  Type shared = isa<SharedType>(op.getA().getType()) ? op.getA().getType() : op.getB().getType();
  if (op.getHilo() && op.getRest().getType() == shared)
    return success();
  return op.emitOpError("C7: expected a rest like the factor in shared memory, with hilo, got ")
         << op.getRest().getType() << " for " << shared;
}

/// C3. `hilo` makes of a factor in registers two of the row's type.
static LogicalResult verifyElements(MmaOp op, const dl::layout::Instruction &row) {
  auto isInput = [&](Type type) {
    Type element = elementOf(type);
    return op.getHilo() && isa<RankedTensorType>(type) ? element.isF32()
                                                       : isElement(element, row.input);
  };
  Type a = op.getA().getType(), b = op.getB().getType(), c = elementOf(op.getC().getType());
  if (isInput(a) && isInput(b) && isElement(c, row.accumulator))
    return success();
  InFlightDiagnostic error = op.emitOpError("C3: expected inputs of ");
  error << dl::layout::stringify(row.input);
  if (op.getHilo())
    error << ", in registers of f32,";
  return error << " and accumulators of " << dl::layout::stringify(row.accumulator) << ", got "
               << elementOf(a) << ", " << elementOf(b) << " and " << c;
}

LogicalResult MmaOp::verify() {
  FailureOr<FragmentAttr> fa = fragmentOf(*this, getA().getType(), "a"),
                          fb = fragmentOf(*this, getB().getType(), "b"),
                          fc = fragmentOf(*this, getC().getType(), "c");
  if (failed(fa) || failed(fb) || failed(fc) || failed(verifyFragments(*this, *fa, *fb, *fc)))
    return failure();
  const dl::layout::Instruction *row =
      llvm::cantFail(dl::layout::findInstruction(fc->getInstruction()));
  auto sharedA = dyn_cast<SharedType>(getA().getType());
  auto sharedB = dyn_cast<SharedType>(getB().getType());
  if (!row->b.inRegisters() && !sharedB)
    return emitOpError("C2: expected b in shared memory for ") << row->name;
  if (getTransposed() && (!sharedB || bitsOf(row->input) != 16))
    return emitOpError("C5: expected a shared b with elements of 16 bits to be transposed, got ")
           << getB().getType() << " for " << row->name;
  if (failed(verifyShapes(*this)) || failed(verifyHilo(*this, *row)) ||
      failed(verifyElements(*this, *row)))
    return failure();
  if (sharedA && failed(verifySharedA(*this, sharedA, *row, fc->getWarps()[0])))
    return failure();
  return sharedB ? verifyShared(*this, sharedB, *row, fc->getWarps()[1]) : success();
}

LogicalResult TransposeOp::verify() {
  RankedTensorType from = getValue().getType(), to = getResult().getType();
  if (from.getRank() != 2 || to.getRank() != 2 || from.getDimSize(0) != to.getDimSize(1) ||
      from.getDimSize(1) != to.getDimSize(0) || from.getElementType() != to.getElementType())
    return emitOpError("C1: expected M x N and N x M of one element type, got ")
           << from << " and " << to;
  return success();
}

/// Of `wide`, whose rows are those of tensors like `narrow` in turn.
static LogicalResult verifyInterleaved(Operation *op, RankedTensorType wide,
                                       RankedTensorType narrow) {
  if (wide.getElementType() != narrow.getElementType() || wide.getRank() != narrow.getRank() ||
      wide.getRank() == 0 || // C1
      wide.getShape().drop_front() != narrow.getShape().drop_front() ||
      wide.getDimSize(0) % narrow.getDimSize(0) != 0)
    return op->emitOpError("C1: expected tensors that differ in their number of rows only, one a "
                           "multiple of the other, got ")
           << wide << " and " << narrow;
  if (!dl::layout::interleavedRegisters(llvm::cantFail(getLayout(wide)), // C2
                                        llvm::cantFail(getLayout(narrow))))
    return op->emitOpError("C2: expected threads to hold the same rows, got ")
           << wide << " and " << narrow;
  return success();
}

LogicalResult InterleaveOp::verify() {
  if (getValues().empty())
    return emitOpError("C1: expected at least one operand");
  auto narrow = cast<RankedTensorType>(getValues().front().getType());
  RankedTensorType wide = getResult().getType();
  if (failed(verifyInterleaved(*this, wide, narrow)))
    return failure();
  if (wide.getDimSize(0) != int64_t(getValues().size()) * narrow.getDimSize(0))
    return emitOpError("C1: expected ")
           << getValues().size() * narrow.getDimSize(0) << " rows for " << getValues().size()
           << " of " << narrow << ", got " << wide;
  return success();
}

LogicalResult PickOp::verify() {
  RankedTensorType wide = getValue().getType(), narrow = getResult().getType();
  if (failed(verifyInterleaved(*this, wide, narrow)))
    return failure();
  int64_t count = wide.getDimSize(0) / narrow.getDimSize(0);
  if (int64_t which = getWhich(); which < 0 || which >= count)
    return emitOpError("C1: expected a row below ") << count << ", got " << which;
  return success();
}

LogicalResult GramOp::verify() {
  auto a = getA().getType();
  if (a.getShape().size() != 2 || !(a.getElementType().isBF16() || a.getElementType().isF16()))
    return emitOpError("C1: expected C x K of bf16 or f16, got ") << a;
  int64_t rows = a.getShape()[0], depth = a.getShape()[1];
  if (getX().empty() || getX().size() != getGram().size())
    return emitOpError("C1: expected one result per x and at least one, got ")
           << getGram().size() << " for " << getX().size();
  auto isLikeA = [&](Value factor) {
    auto type = cast<SharedType>(factor.getType());
    return type.getShape() == a.getShape() && type.getElementType() == a.getElementType();
  };
  for (Value x : getX())
    if (!isLikeA(x))
      return emitOpError("C1: expected x as a, ") << a << ", got " << x.getType();
  size_t rests = getARest() ? getX().size() : 0;
  if (getXRest().size() != rests)
    return emitOpError("C4: expected ") << rests << " rests of x, got " << getXRest().size();
  for (unsigned i = 0; i < rests; ++i)
    if (!isLikeA(getXRest()[i]) || !isLikeA(getARest()))
      return emitOpError("C4: expected rests like a, ")
             << a << ", got " << getXRest()[i].getType() << " and " << getARest().getType();
  for (Value gram : getGram())
    if (auto type = cast<SharedType>(gram.getType());
        type.getShape() != ArrayRef<int64_t>{rows, rows} || !type.getElementType().isF32())
      return emitOpError("C1: expected a result of ")
             << rows << " x " << rows << " f32, got " << type;
  if (rows % 16 != 0 || depth % 16 != 0)
    return emitOpError("C2: expected multiples of 16, got ") << a;
  if (std::optional<int64_t> half = getHalf(); half && (*half <= 0 || !llvm::isPowerOf2_64(*half) ||
                                                        rows % (2 * *half) != 0 || getDiagonal()))
    return emitOpError("C3: expected half to be a power of two that divides ")
           << rows / 2 << ", got " << *half;
  return success();
}

LogicalResult DecayedGramOp::verify() {
  RankedTensorType a = getA().getType();
  bool fits = a.getRank() == 2 && a.getDimSize(0) % 16 == 0 && a.getDimSize(1) % 16 == 0;
  if (!fits || getX().empty() || getX().size() != getGrams().size())
    return emitOpError("C1: expected C x K in multiples of 16 and one result per x, got ")
           << a << " and " << getGrams().size() << " for " << getX().size();
  for (Value x : getX())
    if (x.getType() != a)
      return emitOpError("C1: expected x of ") << a << ", got " << x.getType();
  if (getDecay() && getDecay().getType() != a && getDecay().getType() != sliceType(a, 1))
    return emitOpError("C2: expected a decay of ")
           << a << " or " << sliceType(a, 1) << ", got " << getDecay().getType();
  for (Value gram : getGrams()) {
    auto type = cast<RankedTensorType>(gram.getType());
    if (type.getShape() != ArrayRef<int64_t>{a.getDimSize(0), a.getDimSize(0)} ||
        type != getGrams().front().getType())
      return emitOpError("C3: expected results of one type, ")
             << a.getDimSize(0) << " x " << a.getDimSize(0) << ", got " << type;
  }
  if (getInclusive().size() != getX().size())
    return emitOpError("C4: expected ") << getX().size() << " flags, got " << getInclusive().size();
  if (!getProduct().isBF16() && !getProduct().isF16())
    return emitOpError("C5: expected products of bf16 or f16, got ") << getProduct();
  return success();
}

LogicalResult InvertUnitLowerOp::verify() {
  RankedTensorType type = getValue().getType();
  int64_t rows = type.getRank() == 2 ? type.getDimSize(0) : 0;
  if (rows < 16 || rows > 128 || !llvm::isPowerOf2_64(rows) || type.getDimSize(1) != rows)
    return emitOpError("C1: expected 16, 32, 64 or 128 rows and as many columns, got ") << type;
  return success();
}
