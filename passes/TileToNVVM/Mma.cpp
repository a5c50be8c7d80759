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
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNVVM/MmaSync.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;
using dl::layout::ElementKind;

/// One tile.mma: the instruction, how often it repeats in the registers of a thread, and its
/// operands as words that the instruction takes.
struct KernelLowering::Product {
  const layout::Instruction &row;
  int64_t warpsM, warpsN; ///< groups of warps that share M and N
  int64_t m, n, k;        ///< repeats
  Registers a, b, c;      ///< b is empty if it is read from shared memory

  ValueRange fragment(const Registers &words, int64_t number, int64_t of) const {
    int64_t size = words.size() / of;
    return ValueRange(words).slice(number * size, size);
  }
  ValueRange fragmentA(int64_t i, int64_t l) const { return fragment(a, i * k + l, m * k); }
  ValueRange fragmentB(int64_t l, int64_t j) const { return fragment(b, l * n + j, k * n); }
  ValueRange fragmentC(int64_t i, int64_t j) const { return fragment(c, i * n + j, m * n); }
  void accumulate(int64_t i, int64_t j, ValueRange values) {
    llvm::copy(values, c.begin() + (i * n + j) * values.size());
  }
};

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

/// The factor's words: pairs of 16-bit elements, or single elements rounded to tf32.
KernelLowering::Registers KernelLowering::factorWords(Value factor, unsigned axisK,
                                                      const layout::Instruction &row) {
  Registers elements = withoutPadding(factor, axisK), words;
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
  for (int64_t l = 0; l < product.k; ++l)
    for (int64_t i = 0; i < product.m; ++i)
      for (int64_t j = 0; j < product.n; ++j)
        product.accumulate(i, j,
                           mmaSync(product.row, product.fragmentA(i, l), product.fragmentB(l, j),
                                   product.fragmentC(i, j)));
}

/// B comes in pairs of fragments, each right before its products: all of it need not fit in
/// registers. The four 8 x 8 matrices of a pair are the halves of k of its first fragment, then
/// those of its second.
void KernelLowering::emitMmaSync(Product &product, TypedValue<SharedType> buffer, bool transposed) {
  const layout::Instruction &row = product.row;
  Value fragment = multiplyAdd(threadDigit(16, 2), product.warpsN, {});
  if (product.warpsN > 1)
    fragment = arith::AddIOp::create(
        builder, loc, fragment, threadDigit(layout::kWarpSize * product.warpsM, product.warpsN));
  // A fragment is eight rows that are its columns, or one chunk of rows along k.
  Chunks chunks = transposed ? makeChunks(buffer, threadDigit(1, 16), fragment,
                                          llvm::PowerOf2Ceil(2 * product.warpsN) - 1)
                             : makeChunks(buffer, multiplyAdd(fragment, row.n, threadDigit(1, 8)),
                                          threadDigit(8, 2), /*chunkBits=*/1);
  for (int64_t l = 0; l < product.k; ++l)
    for (int64_t j = 0; j < product.n; j += 2) {
      int64_t count = std::min<int64_t>(2, product.n - j), step = j * product.warpsN;
      Registers b = transposed ? loadMatrices(chunks, l * row.k, step, 2 * count, true)
                               : loadMatrices(chunks, step * row.n, 2 * l, 2 * count, false);
      for (int64_t i = 0; i < product.m; ++i)
        for (int64_t t = 0; t < count; ++t)
          product.accumulate(i, j + t,
                             mmaSync(row, product.fragmentA(i, l), ValueRange(b).slice(2 * t, 2),
                                     product.fragmentC(i, j + t)));
    }
}

/// A comes fragment by fragment: rows 0-7 and 8-15 of its first half of k, then of its second.
void KernelLowering::emitMmaSyncOfA(Product &product, TypedValue<SharedType> buffer) {
  const layout::Instruction &row = product.row;
  Value first = threadDigit(1, 16);
  if (product.warpsM > 1)
    first = multiplyAdd(threadDigit(layout::kWarpSize, product.warpsM), row.m, first);
  Chunks chunks = makeChunks(buffer, first, threadDigit(16, 2), /*chunkBits=*/1);
  for (int64_t l = 0; l < product.k; ++l)
    for (int64_t i = 0; i < product.m; ++i) {
      Registers a = loadMatrices(chunks, i * product.warpsM * row.m, 2 * l, 4, false);
      for (int64_t j = 0; j < product.n; ++j)
        product.accumulate(i, j, mmaSync(row, a, product.fragmentB(l, j), product.fragmentC(i, j)));
    }
}

//===----------------------------------------------------------------------===//
// wgmma
//===----------------------------------------------------------------------===//

/// Inline assembly that rewrites `tied` in place and reads `inputs`: the operands are $0 .. for the
/// results, the same again for their old values, then the inputs.
KernelLowering::Registers KernelLowering::inlineAssembly(StringRef text, ValueRange tied,
                                                         ValueRange inputs) {
  auto letter = [](Value value) {
    Type type = value.getType();
    return type.isF32()                                             ? "f"
           : type.isInteger(16)                                     ? "h"
           : type.isInteger(64) || isa<LLVM::LLVMPointerType>(type) ? "l"
                                                                    : "r";
  };
  std::string constraints;
  llvm::raw_string_ostream os(constraints);
  for (Value value : tied)
    os << '=' << letter(value) << ',';
  for (size_t i = 0; i < tied.size(); ++i)
    os << i << ',';
  for (Value value : inputs)
    os << letter(value) << ',';
  os << "~{memory}";
  SmallVector<Value> operands(tied);
  llvm::append_range(operands, inputs);
  Type type = tied.front().getType();
  if (tied.size() > 1)
    type =
        LLVM::LLVMStructType::getLiteral(builder.getContext(), SmallVector<Type>(tied.getTypes()));
  auto assembly = LLVM::InlineAsmOp::create(
      builder, loc, type, operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  if (tied.size() == 1)
    return {assembly.getRes()};
  return unpackStruct(assembly.getRes());
}

std::string dl::tile::operandList(size_t first, size_t count) {
  std::string list = "{";
  for (size_t i = first; i < first + count; ++i)
    list += (i == first ? "$" : ", $") + std::to_string(i);
  return list + "}";
}

/// Accumulators at $0, their old values, then the words of A and the descriptor of B. The scale of
/// the old accumulators must be a predicate; the factors' signs are immediates, as is the
/// transposition of B, which 32-bit elements do not have.
static std::string wgmmaText(const layout::Instruction &row, size_t accumulators, size_t words) {
  StringRef input = stringify(row.input);
  std::string shape =
      ("m" + Twine(row.m) + "n" + Twine(row.n) + "k" + Twine(row.k) + ".f32.").str();
  return "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned." + shape +
         input.str() + "." + input.str() + " " + operandList(0, accumulators) + ", " +
         operandList(2 * accumulators, words) + ", $" + std::to_string(2 * accumulators + words) +
         ", p, 1, 1" + (row.input == ElementKind::TF32 ? "" : ", 0") + ";\n}";
}

/// The descriptor of the buffer's start for this thread's group of warps along N.
Value KernelLowering::wgmmaDescriptorOf(TypedValue<SharedType> buffer, const Product &product) {
  layout::SharedLayout shared = llvm::cantFail(getLayout(buffer.getType()));
  Value address =
      LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), bufferPointer(buffer));
  if (product.warpsN > 1) {
    int64_t step = llvm::cantFail(wgmmaStart(shared, layout::Major::K, product.row.n, /*k=*/0));
    Value group =
        threadDigit(layout::kWarpSize * product.row.warps * product.warpsM, product.warpsN);
    address = arith::AddIOp::create(builder, loc, address,
                                    toI64(arith::MulIOp::create(builder, loc, group, i32(step))));
  }
  Value field = arith::AndIOp::create(
      builder, loc, arith::ShRUIOp::create(builder, loc, address, i64(4)), i64(0x3FFF));
  uint64_t rest = llvm::cantFail(wgmmaDescriptor(shared, layout::Major::K)).bits();
  return arith::OrIOp::create(builder, loc, field, i64(static_cast<int64_t>(rest)));
}

/// Issues all instructions at once and waits for them. The hardware reads and writes the registers
/// between fence and wait, which no compiler can see; so they pass through both, and nothing that
/// computes or uses them can move in between.
void KernelLowering::emitWgmma(Product &product, TypedValue<SharedType> buffer) {
  const layout::Instruction &row = product.row;
  layout::SharedLayout shared = llvm::cantFail(getLayout(buffer.getType()));
  Value descriptor = wgmmaDescriptorOf(buffer, product);
  Registers all = product.c;
  llvm::append_range(all, product.a);
  all = inlineAssembly("wgmma.fence.sync.aligned;", all, {});
  size_t count = product.c.size();
  product.c.assign(all.begin(), all.begin() + count);
  product.a.assign(all.begin() + count, all.end());
  std::string text = wgmmaText(row, row.c.registers, product.a.size() / (product.m * product.k));
  for (int64_t l = 0; l < product.k; ++l)
    for (int64_t i = 0; i < product.m; ++i)
      for (int64_t j = 0; j < product.n; ++j) {
        int64_t start = llvm::cantFail(
            wgmmaStart(shared, layout::Major::K, j * product.warpsN * row.n, l * row.k));
        // The address field cannot overflow: shared memory is smaller than its 2^18 bytes.
        Value at = arith::AddIOp::create(builder, loc, descriptor, i64(start >> 4));
        SmallVector<Value> inputs(product.fragmentA(i, l));
        inputs.push_back(at);
        product.accumulate(i, j, inlineAssembly(text, product.fragmentC(i, j), inputs));
      }
  NVVM::WgmmaGroupSyncAlignedOp::create(builder, loc);
  product.c = inlineAssembly("wgmma.wait_group.sync.aligned 0;", product.c, {});
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerMma(MmaOp op) {
  auto fragment = cast<FragmentAttr>(op.getC().getType().getEncoding());
  const layout::Instruction &row =
      *llvm::cantFail(layout::findInstruction(fragment.getInstruction()));
  Product product{row, fragment.getWarps()[0], fragment.getWarps()[1], 1, 1, 1, {}, {}, {}};
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
    product.a = factorWords(op.getA(), /*axisK=*/1, row);
  }
  product.c = distributed(op.getC());
  if (bufferA) {
    product.b = factorWords(op.getB(), /*axisK=*/0, row);
    emitMmaSyncOfA(product, bufferA);
  } else if (row.feature == "mma.sync" && buffer) {
    emitMmaSync(product, buffer, op.getTransposed());
  } else if (row.feature == "mma.sync") {
    product.b = factorWords(op.getB(), /*axisK=*/0, row);
    emitMmaSync(product);
  } else if (row.feature == "wgmma" && buffer) {
    emitWgmma(product, buffer);
  } else {
    return op.emitOpError(
               "expected an instruction of mma.sync or of wgmma with b in shared memory, got ")
           << row.name << " of " << row.feature;
  }
  registers[op.getResult()] = std::move(product.c);
  return success();
}
