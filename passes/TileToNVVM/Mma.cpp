//===- Mma.cpp - Tensor-core products of a lowered kernel -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile.mma is its instruction, repeated over the fragments in the operands' registers:
//
//   for k, i, j:   c(i, j) += a(i, k) b(k, j)
//
// K is outermost, so neighbouring instructions do not wait for each other, and each accumulator
// sees K in ascending order. Fragment (i, j) is a run of registers (compiler/Layout/Atoms.h); where
// the hardware wants 16-bit elements in pairs, elements 2i and 2i + 1 of the run share a word.
//
// Padding along M and N only reaches padding of the result. Padding along K would reach all of it,
// so there both factors become zero (a zero on one side alone does not help against a NaN).
//
// With `hilo` a factor is two, hi and lo, and an instruction three at most: hi hi, lo hi, hi lo.
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "passes/TileToNVVM/MmaSync.h"
#include "passes/TileToNVVM/Product.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;
using dl::layout::ElementKind;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The registers of a factor, zero where they lie beyond the end of axis K.
KernelLowering::Registers KernelLowering::withoutPadding(Value factor, unsigned axisK) {
  auto type = cast<RankedTensorType>(factor.getType());
  layout::RegisterLayout layout = llvm::cantFail(getLayout(type));
  Registers values = distributed(factor);
  if (!layout.isPadded(axisK))
    return values;
  int64_t size = layout.shape[axisK], reach = 0; // reach: the largest base of a thread
  for (const layout::Digit &digit : layout.digitsOf(layout::Source::Thread, axisK))
    reach += (digit.mod - 1) * digit.stride;
  Value base = threadBase(layout, axisK);
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type.getElementType()));
  for (auto [reg, value] : llvm::enumerate(values)) {
    int64_t offset = layout.offsetOfRegister(reg)[axisK];
    if (reach + offset < size)
      continue;
    if (offset >= size) {
      value = zero;
      continue;
    }
    Value inside =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, base, i32(size - offset));
    value = arith::SelectOp::create(builder, loc, inside, value, zero);
  }
  return values;
}

/// What rounding takes from f32 elements, in the row's type, which become what they round to.
KernelLowering::Registers KernelLowering::splitFactor(Registers &elements,
                                                      const layout::Instruction &row) {
  Type f32 = builder.getF32Type();
  Type narrow = row.input == ElementKind::BF16 ? Type(builder.getBF16Type()) : builder.getF16Type();
  Registers rests;
  for (Value &element : elements) {
    Value high = arith::TruncFOp::create(builder, loc, narrow, element);
    Value rounded = arith::ExtFOp::create(builder, loc, f32, high);
    rests.push_back(arith::TruncFOp::create(builder, loc, narrow,
                                            arith::SubFOp::create(builder, loc, element, rounded)));
    element = high;
  }
  return rests;
}

/// A factor in registers: a, whose K is axis 1, or b. One of f32 is two of the row's type.
void KernelLowering::setFactor(Value factor, unsigned axisK, Product &product) {
  const layout::Instruction &row = product.row;
  Registers elements = withoutPadding(factor, axisK), rests;
  if (bitsOf(row.input) == 16 && elements.front().getType().isF32())
    rests = splitFactor(elements, row);
  (axisK == 1 ? product.a : product.b) = packWords(elements, row);
  if (!rests.empty())
    (axisK == 1 ? product.restA : product.restB) = packWords(rests, row);
}

/// A factor's words: pairs of 16-bit elements, or single elements rounded to tf32.
KernelLowering::Registers KernelLowering::packWords(ValueRange elements,
                                                    const layout::Instruction &row) {
  Registers words;
  if (row.input == ElementKind::TF32) {
    for (Value element : elements)
      words.push_back(NVVM::ConvertFloatToTF32Op::create(builder, loc, builder.getI32Type(),
                                                         element, NVVM::FPRoundingMode::RNA));
    return words;
  }
  auto pairType = VectorType::get(2, elements.front().getType());
  // nvvm.mma.sync knows f16 as vectors; everything else takes plain words.
  bool asVector = row.input == ElementKind::F16 && row.b.inRegisters();
  for (size_t i = 0; i < elements.size(); i += 2) {
    Value pair = LLVM::PoisonOp::create(builder, loc, pairType);
    for (size_t j : {0, 1})
      pair = LLVM::InsertElementOp::create(builder, loc, pair, elements[i + j], i32(j));
    words.push_back(asVector ? pair
                             : LLVM::BitcastOp::create(builder, loc, builder.getI32Type(), pair));
  }
  return words;
}

KernelLowering::Registers KernelLowering::unpackStruct(Value value) {
  Registers parts;
  for (size_t i = 0; i < cast<LLVM::LLVMStructType>(value.getType()).getBody().size(); ++i)
    parts.push_back(LLVM::ExtractValueOp::create(builder, loc, value, i));
  return parts;
}

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

void KernelLowering::emitMmaSync(Product &product) {
  auto addAll = [&](auto fragmentA, auto fragmentB, int64_t l) {
    for (int64_t i = 0; i < product.m; ++i)
      for (int64_t j = 0; j < product.n; ++j)
        product.accumulate(i, j,
                           mmaSync(product.row, (product.*fragmentA)(i, l),
                                   (product.*fragmentB)(l, j), product.fragmentC(i, j)));
  };
  for (int64_t l = 0; l < product.k; ++l) {
    addAll(&Product::fragmentA, &Product::fragmentB, l);
    if (product.restA.empty())
      continue;
    addAll(&Product::restOfA, &Product::fragmentB, l);
    addAll(&Product::fragmentA, &Product::restOfB, l);
  }
}

/// B comes in pairs of fragments, each right before its products: all of it need not fit in
/// registers. The four 8 x 8 matrices of a pair are the halves of k of its first fragment, then
/// those of its second.
void KernelLowering::emitMmaSync(Product &product, MmaOp op, TypedValue<SharedType> buffer) {
  const layout::Instruction &row = product.row;
  const bool transposed = product.isTransposed;
  Value fragment = multiplyAdd(threadDigit(16, 2), product.warpsN, {});
  if (product.warpsN > 1)
    fragment = arith::AddIOp::create(
        builder, loc, fragment, threadDigit(layout::kWarpSize * product.warpsM, product.warpsN));
  // A fragment is eight rows that are its columns, or one chunk of rows along k.
  auto chunksOf = [&](TypedValue<SharedType> buffer) {
    return transposed ? makeChunks(buffer, threadDigit(1, 16), fragment,
                                   llvm::PowerOf2Ceil(2 * product.warpsN) - 1)
                      : makeChunks(buffer, multiplyAdd(fragment, row.n, threadDigit(1, 8)),
                                   threadDigit(8, 2), /*chunkBits=*/1);
  };
  Chunks chunks = chunksOf(buffer);
  std::optional<Chunks> rests;
  if (op.getRest())
    rests = chunksOf(cast<TypedValue<SharedType>>(op.getRest()));
  for (int64_t l = 0; l < product.k; ++l)
    for (int64_t j = 0; j < product.n; j += 2) {
      int64_t count = std::min<int64_t>(2, product.n - j), step = j * product.warpsN;
      auto load = [&](Chunks &from) {
        return transposed ? loadMatrices(from, l * row.k, step, 2 * count, true)
                          : loadMatrices(from, step * row.n, 2 * l, 2 * count, false);
      };
      auto addAll = [&](auto fragmentA, ValueRange b) {
        for (int64_t i = 0; i < product.m; ++i)
          for (int64_t t = 0; t < count; ++t)
            product.accumulate(i, j + t,
                               mmaSync(row, (product.*fragmentA)(i, l), b.slice(2 * t, 2),
                                       product.fragmentC(i, j + t)));
      };
      Registers b = load(chunks);
      addAll(&Product::fragmentA, b);
      if (!product.restA.empty())
        addAll(&Product::restOfA, b);
      if (rests)
        addAll(&Product::fragmentA, load(*rests));
    }
}

/// A comes fragment by fragment: rows 0-7 and 8-15 of its first half of k, then of its second.
void KernelLowering::emitMmaSyncOfA(Product &product, MmaOp op, TypedValue<SharedType> buffer) {
  const layout::Instruction &row = product.row;
  Value first = threadDigit(1, 16);
  if (product.warpsM > 1)
    first = multiplyAdd(threadDigit(layout::kWarpSize, product.warpsM), row.m, first);
  auto chunksOf = [&](TypedValue<SharedType> buffer) {
    return makeChunks(buffer, first, threadDigit(16, 2), /*chunkBits=*/1);
  };
  Chunks chunks = chunksOf(buffer);
  std::optional<Chunks> rests;
  if (op.getRest())
    rests = chunksOf(cast<TypedValue<SharedType>>(op.getRest()));
  for (int64_t l = 0; l < product.k; ++l)
    for (int64_t i = 0; i < product.m; ++i) {
      auto load = [&](Chunks &from) {
        return loadMatrices(from, i * product.warpsM * row.m, 2 * l, 4, false);
      };
      auto addAll = [&](ValueRange a, auto fragmentB) {
        for (int64_t j = 0; j < product.n; ++j)
          product.accumulate(i, j,
                             mmaSync(row, a, (product.*fragmentB)(l, j), product.fragmentC(i, j)));
      };
      Registers a = load(chunks);
      addAll(a, &Product::fragmentB);
      if (!product.restB.empty())
        addAll(a, &Product::restOfB);
      if (rests)
        addAll(load(*rests), &Product::fragmentB);
    }
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerMma(MmaOp op) {
  auto fragment = cast<FragmentAttr>(op.getC().getType().getEncoding());
  const layout::Instruction &row =
      *llvm::cantFail(layout::findInstruction(fragment.getInstruction()));
  Product product{row, fragment.getWarps()[0], fragment.getWarps()[1], 1, 1, 1, {}, {}, {}, {}, {}};
  auto repeatsOf = [&](layout::Operand operand, RankedTensorType type) {
    return layout::repeats(type.getShape(), row, {operand, product.warpsM, product.warpsN});
  };
  auto ofC = repeatsOf(layout::Operand::C, op.getC().getType());
  product.m = ofC[0], product.n = ofC[1];
  auto buffer = dyn_cast<TypedValue<SharedType>>(op.getB());
  auto bufferA = dyn_cast<TypedValue<SharedType>>(op.getA());
  if (bufferA) {
    product.k = bufferA.getType().getShape()[1] / row.k;
  } else {
    auto type = cast<RankedTensorType>(op.getA().getType());
    product.k = repeatsOf(layout::Operand::A, type)[1];
    setFactor(op.getA(), /*axisK=*/1, product);
  }
  bool isBehind = row.feature == "wgmma" && takeRunning(op);
  product.c = isBehind ? registers.find(op.getC())->second : distributed(op.getC());
  product.isTransposed = op.getTransposed();
  product.fromZero = matchPattern(op.getC(), m_AnyZeroFloat());
  if (bufferA) {
    setFactor(op.getB(), /*axisK=*/0, product);
    emitMmaSyncOfA(product, op, bufferA);
  } else if (row.feature == "mma.sync" && buffer) {
    emitMmaSync(product, op, buffer);
  } else if (row.feature == "mma.sync") {
    setFactor(op.getB(), /*axisK=*/0, product);
    emitMmaSync(product);
  } else if (row.feature == "wgmma" && buffer) {
    emitWgmma(product, op, buffer, isBehind);
    llvm::append_range(product.a, product.restA);
    running.push_back({op.getResult(), product.a});
  } else {
    return op.emitOpError(
               "expected an instruction of mma.sync or of wgmma with b in shared memory, got ")
           << row.name << " of " << row.feature;
  }
  registers[op.getResult()] = std::move(product.c);
  return success();
}
