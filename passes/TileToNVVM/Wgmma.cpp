//===- Wgmma.cpp - Products that run beside the threads that issued them --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// wgmma reads its first factor from registers, its second one from shared memory and works on the
// accumulators while the warps go on. Nothing waits for a product but the first use of its result,
// a barrier, behind which others may overwrite what it reads, and the end of a block of code. So
// the order of ops in a schedule says what overlaps: two products of one factor run one behind the
// other, and what lies between a product and the use of its result costs no time.
//
// Products end in the order in which they were issued, each a group of its own.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNVVM/Product.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;
using dl::layout::ElementKind;

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Inline assembly that rewrites `tied` in place, or has `results` of its own, and reads `inputs`:
/// the operands are $0 .. for the results, `tied` again for their old values, then the inputs.
KernelLowering::Registers KernelLowering::inlineAssembly(StringRef text, ValueRange tied,
                                                         ValueRange inputs, TypeRange results) {
  auto letter = [](Type type) {
    return type.isF32()                                             ? "f"
           : type.isInteger(16)                                     ? "h"
           : type.isInteger(64) || isa<LLVM::LLVMPointerType>(type) ? "l"
                                                                    : "r";
  };
  std::string constraints;
  llvm::raw_string_ostream os(constraints);
  SmallVector<Type> types(results.empty() ? TypeRange(tied) : results);
  for (Type type : types)
    os << (results.empty() ? "=" : "=&") << letter(type) << ',';
  for (size_t i = 0; i < tied.size(); ++i)
    os << i << ',';
  for (Type type : inputs.getTypes())
    os << letter(type) << ',';
  os << "~{memory}";
  SmallVector<Value> operands(tied);
  llvm::append_range(operands, inputs);
  Type type = types.empty() ? Type() : types.front();
  if (types.size() > 1)
    type = LLVM::LLVMStructType::getLiteral(builder.getContext(), types);
  auto assembly = LLVM::InlineAsmOp::create(
      builder, loc, type, operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  if (types.size() <= 1)
    return Registers(assembly->getResults());
  return unpackStruct(assembly.getRes());
}

std::string dl::tile::operandList(size_t first, size_t count) {
  std::string list = "{";
  for (size_t i = first; i < first + count; ++i)
    list += (i == first ? "$" : ", $") + std::to_string(i);
  return list + "}";
}

/// Accumulators at $0, their old values unless the instruction starts with zeros, then the words of
/// A and the descriptor of B. The scale of the old accumulators must be a predicate; the factors'
/// signs are immediates, as is the transposition of B, which 32-bit elements do not have.
static std::string wgmmaText(const layout::Instruction &row, size_t words, bool fromZero,
                             bool transposed) {
  const size_t accumulators = row.c.registers, first = fromZero ? accumulators : 2 * accumulators;
  StringRef input = stringify(row.input);
  std::string shape =
      ("m" + Twine(row.m) + "n" + Twine(row.n) + "k" + Twine(row.k) + ".f32.").str();
  std::string major = row.input == ElementKind::TF32 ? "" : transposed ? ", 1" : ", 0";
  return "{\n.reg .pred p;\nsetp.ne.b32 p, " + std::string(fromZero ? "0" : "1") +
         ", 0;\nwgmma.mma_async.sync.aligned." + shape + input.str() + "." + input.str() + " " +
         operandList(0, accumulators) + ", " + operandList(first, words) + ", $" +
         std::to_string(first + words) + ", p, 1, 1" + major + ";\n}";
}

/// The descriptor of the buffer's start for this thread's group of warps along N.
Value KernelLowering::wgmmaDescriptorOf(TypedValue<SharedType> buffer, const Product &product) {
  layout::SharedLayout shared = llvm::cantFail(getLayout(buffer.getType()));
  Value address =
      LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), bufferPointer(buffer));
  if (product.warpsN > 1) {
    int64_t step = llvm::cantFail(wgmmaStart(shared, product.major(), product.row.n, /*k=*/0));
    Value group =
        threadDigit(layout::kWarpSize * product.row.warps * product.warpsM, product.warpsN);
    address = arith::AddIOp::create(builder, loc, address,
                                    toI64(arith::MulIOp::create(builder, loc, group, i32(step))));
  }
  Value field = arith::AndIOp::create(
      builder, loc, arith::ShRUIOp::create(builder, loc, address, i64(4)), i64(0x3FFF));
  uint64_t rest = llvm::cantFail(wgmmaDescriptor(shared, product.major())).bits();
  return arith::OrIOp::create(builder, loc, field, i64(static_cast<int64_t>(rest)));
}

/// Issues all instructions at once. The hardware reads and writes the registers between fence and
/// wait, which no compiler can see; so they pass through the fence and through assembly behind the
/// wait, and nothing that computes or uses them can move in between.
void KernelLowering::emitWgmma(Product &product, MmaOp op, TypedValue<SharedType> buffer,
                               bool isBehind) {
  const layout::Instruction &row = product.row;
  layout::SharedLayout shared = llvm::cantFail(getLayout(buffer.getType()));
  const Value descriptor = wgmmaDescriptorOf(buffer, product);
  Value rest;
  if (op.getRest())
    rest = wgmmaDescriptorOf(cast<TypedValue<SharedType>>(op.getRest()), product);
  // Zeros need no registers, and of another product they are still at work.
  size_t count = product.fromZero || isBehind ? 0 : product.c.size();
  Registers all(product.c.begin(), product.c.begin() + count);
  llvm::append_range(all, product.a);
  llvm::append_range(all, product.restA);
  all = inlineAssembly("wgmma.fence.sync.aligned;", all, {});
  ValueRange fenced(all);
  llvm::copy(fenced.take_front(count), product.c.begin());
  llvm::copy(fenced.drop_front(count).take_front(product.a.size()), product.a.begin());
  llvm::copy(fenced.drop_front(count + product.a.size()), product.restA.begin());
  const size_t words = product.a.size() / (product.m * product.k);
  const SmallVector<Type> sums(row.c.registers, builder.getF32Type());
  auto addAll = [&](auto fragmentA, Value b, bool isFirst) {
    for (int64_t l = 0; l < product.k; ++l)
      for (int64_t i = 0; i < product.m; ++i)
        for (int64_t j = 0; j < product.n; ++j) {
          int64_t start = llvm::cantFail(
              wgmmaStart(shared, product.major(), j * product.warpsN * row.n, l * row.k));
          // The address field cannot overflow: shared memory is smaller than its 2^18 bytes.
          Value at = arith::AddIOp::create(builder, loc, b, i64(start >> 4));
          SmallVector<Value> inputs((product.*fragmentA)(i, l));
          inputs.push_back(at);
          bool fromZero = isFirst && product.fromZero && l == 0;
          std::string text = wgmmaText(row, words, fromZero, product.isTransposed);
          product.accumulate(i, j,
                             fromZero ? inlineAssembly(text, {}, inputs, sums)
                                      : inlineAssembly(text, product.fragmentC(i, j), inputs));
        }
  };
  addAll(&Product::fragmentA, descriptor, /*isFirst=*/true);
  if (!product.restA.empty())
    addAll(&Product::restOfA, descriptor, /*isFirst=*/false);
  if (rest)
    addAll(&Product::fragmentA, rest, /*isFirst=*/false);
  NVVM::WgmmaGroupSyncAlignedOp::create(builder, loc);
}

//===----------------------------------------------------------------------===//
// What runs
//===----------------------------------------------------------------------===//

/// Only this product adds to the result of one that is still running: they need not wait for each
/// other.
bool KernelLowering::takeRunning(MmaOp op) {
  auto found = llvm::find_if(running, [&](const Running &r) { return r.result == op.getC(); });
  if (found == running.end() || !op.getC().hasOneUse())
    return false;
  found->result = {};
  return true;
}

void KernelLowering::finishProducts(size_t count) {
  if (count == 0)
    return;
  Registers all;
  for (const Running &product : ArrayRef(running).take_front(count)) {
    if (product.result)
      llvm::append_range(all, registers.find(product.result)->second);
    llvm::append_range(all, product.factor);
  }
  // Apart, so that where LLVM copies the registers for the second one the first has waited.
  NVVM::WgmmaWaitGroupSyncOp::create(builder, loc, running.size() - count);
  all = inlineAssembly("", all, {});
  ValueRange rest(all);
  for (const Running &product : ArrayRef(running).take_front(count)) {
    if (product.result) {
      Registers &result = registers.find(product.result)->second;
      llvm::copy(rest.take_front(result.size()), result.begin());
      rest = rest.drop_front(result.size());
    }
    rest = rest.drop_front(product.factor.size());
  }
  running.erase(running.begin(), running.begin() + count);
}

void KernelLowering::finishProduct(Value result) {
  auto found = llvm::find_if(running, [&](const Running &r) { return r.result == result; });
  if (found != running.end())
    finishProducts(found - running.begin() + 1);
}
