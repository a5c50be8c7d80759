//===- Atoms.cpp - The instruction table ----------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fragments are from the PTX ISA: "Matrix fragments for mma.m16n8k16 with floating point type",
// "... mma.m16n8k8" (.tf32) and "Register fragments for wgmma.mma_async.m64nNk16 / m64nNk8". The
// tests hold the formulas in its words.
//
//===----------------------------------------------------------------------===//
#include "compiler/Layout/Atoms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <vector>

using namespace dl::layout;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;

StringRef dl::layout::stringify(Operand operand) {
  return operand == Operand::A ? "A" : operand == Operand::B ? "B" : "C";
}

StringRef dl::layout::stringify(ElementKind kind) {
  switch (kind) {
  case ElementKind::BF16:
    return "bf16";
  case ElementKind::F16:
    return "f16";
  case ElementKind::TF32:
    return "tf32";
  case ElementKind::F32:
    return "f32";
  }
  return "";
}

int64_t dl::layout::bitsOf(ElementKind kind) {
  return kind == ElementKind::BF16 || kind == ElementKind::F16 ? 16 : 32;
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

static Digit thread(int64_t div, int64_t mod, unsigned axis, int64_t stride) {
  return {Source::Thread, div, mod, axis, stride};
}
static Digit reg(int64_t div, int64_t mod, unsigned axis, int64_t stride) {
  return {Source::Register, div, mod, axis, stride};
}

// A, 16-bit elements, 16 x 16 for each warp: element i of lane l is at row l/4 + 8 (i/2 % 2),
// column 2 (l%4) + i%2 + 8 (i/4).
static Fragment a16(int64_t warps) {
  Fragment f{
      16 * warps,
      16,
      8,
      {reg(1, 2, 1, 1), reg(2, 2, 0, 8), reg(4, 2, 1, 8), thread(1, 4, 1, 2), thread(4, 8, 0, 1)}};
  if (warps > 1)
    f.digits.push_back(thread(32, warps, 0, 16));
  return f;
}

// A, 32-bit elements, 16 x 8 for each warp: row l/4 + 8 (i%2), column l%4 + 4 (i/2).
static Fragment a32(int64_t warps) {
  Fragment f{
      16 * warps, 8, 4, {reg(1, 2, 0, 8), reg(2, 2, 1, 4), thread(1, 4, 1, 1), thread(4, 8, 0, 1)}};
  if (warps > 1)
    f.digits.push_back(thread(32, warps, 0, 16));
  return f;
}

// B, 16-bit elements, 16 x n: row 2 (l%4) + i%2 + 8 (i/2 % 2), column l/4 + 8 (i/4).
static Fragment b16(int64_t n) {
  Fragment f{
      16, n, n / 2, {reg(1, 2, 0, 1), reg(2, 2, 0, 8), thread(1, 4, 0, 2), thread(4, 8, 1, 1)}};
  if (n > 8)
    f.digits.push_back(reg(4, n / 8, 1, 8));
  return f;
}

// B, 32-bit elements, 8 x 8: row l%4 + 4 i, column l/4.
static Fragment b32() {
  return {8, 8, 2, {reg(1, 2, 0, 4), thread(1, 4, 0, 1), thread(4, 8, 1, 1)}};
}

// C, 32-bit accumulators, 16 x n for each warp: row l/4 + 8 (i/2 % 2), column 2 (l%4) + i%2 + 8
// (i/4).
static Fragment c32(int64_t warps, int64_t n) {
  Fragment f{16 * warps, n, n / 2, {reg(1, 2, 1, 1), reg(2, 2, 0, 8)}};
  if (n > 8)
    f.digits.push_back(reg(4, n / 8, 1, 8));
  f.digits.append({thread(1, 4, 1, 2), thread(4, 8, 0, 1)});
  if (warps > 1)
    f.digits.push_back(thread(32, warps, 0, 16));
  return f;
}

// B of wgmma is read from shared memory by descriptor (Shared.h): a shape without a fragment.
static Fragment inSharedMemory(int64_t rows, int64_t cols) { return {rows, cols, 0, {}}; }

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static std::vector<Instruction> buildTable() {
  using Kind = ElementKind;
  std::vector<Instruction> rows = {
      // name             feature      A, B        C, D    M   N  K  warps A    B      C
      {"mma.m16n8k16.bf16", "mma.sync", Kind::BF16, Kind::F32, 16, 8, 16, 1, a16(1), b16(8),
       c32(1, 8)},
      {"mma.m16n8k16.f16", "mma.sync", Kind::F16, Kind::F32, 16, 8, 16, 1, a16(1), b16(8),
       c32(1, 8)},
      // Two instructions side by side: as many columns as rows, so that accumulators are,
      // transposed,
      // factors of the same warp.
      {"mma.m16n16k16.bf16", "mma.sync", Kind::BF16, Kind::F32, 16, 16, 16, 1, a16(1), b16(16),
       c32(1, 16)},
      {"mma.m16n8k8.tf32", "mma.sync", Kind::TF32, Kind::F32, 16, 8, 8, 1, a32(1), b32(),
       c32(1, 8)},
  };
  for (Kind kind : {Kind::BF16, Kind::F16, Kind::TF32}) {
    int64_t k = 256 / bitsOf(kind); // 32 bytes of K in each instruction
    for (int64_t n = 8; n <= 256; n += 8)
      rows.push_back({("wgmma.m64n" + Twine(n) + "k" + Twine(k) + "." + stringify(kind)).str(),
                      "wgmma", kind, Kind::F32, 64, n, k, 4, kind == Kind::TF32 ? a32(4) : a16(4),
                      inSharedMemory(k, n), c32(4, n)});
  }
  return rows;
}

ArrayRef<Instruction> dl::layout::instructions() {
  static const std::vector<Instruction> table = buildTable();
  return table;
}

Expected<const Instruction *> dl::layout::findInstruction(StringRef name) {
  for (const Instruction &row : instructions())
    if (row.name == name)
      return &row;
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "expected mma.m16n8k16.{bf16,f16}, mma.m16n16k16.bf16, "
                                 "mma.m16n8k8.tf32, wgmma.m64nNk16.{bf16,f16} or "
                                 "wgmma.m64nNk8.tf32 with N = 8, 16 .. 256, got \"" +
                                     name + "\"");
}

//===----------------------------------------------------------------------===//
// Repetition over a tensor
//===----------------------------------------------------------------------===//

namespace {
/// Along each axis of an operand: groups of warps and the divisor of the thread number that counts
/// them.
struct Split {
  int64_t groups[2] = {1, 1};
  int64_t div[2] = {1, 1};
};
} // namespace

static Split splitOf(const Instruction &instruction, const AtomParams &p) {
  int64_t threads = kWarpSize * instruction.warps;
  Split s;
  if (p.operand != Operand::B) // axis 0 is M
    s.groups[0] = p.warpsM, s.div[0] = threads;
  if (p.operand != Operand::A) // axis 1 is N
    s.groups[1] = p.warpsN, s.div[1] = threads * p.warpsM;
  return s;
}

SmallVector<int64_t, 2> dl::layout::repeats(ArrayRef<int64_t> shape, const Instruction &instruction,
                                            const AtomParams &params) {
  const Fragment &f = instruction.operand(params.operand);
  Split s = splitOf(instruction, params);
  auto ceilDiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  return {ceilDiv(shape[0], f.rows * s.groups[0]), ceilDiv(shape[1], f.cols * s.groups[1])};
}

static Error checkAtom(ArrayRef<int64_t> shape, const Instruction &instruction,
                       const AtomParams &p) {
  auto fail = [](const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  if (shape.size() != 2)
    return fail("expected 2 axes, got " + Twine(shape.size()));
  constexpr int64_t most = int64_t(1) << 20; // as for every layout
  if (shape[0] < 1 || shape[1] < 1 || shape[0] > most || shape[1] > most)
    return fail("expected extents between 1 and 1048576, got " + Twine(shape[0]) + " x " +
                Twine(shape[1]));
  if (!instruction.operand(p.operand).inRegisters())
    return fail("expected an operand held in registers, got " + stringify(p.operand) + " of " +
                instruction.name + ", which is read from shared memory");
  if (p.warpsM < 1 || p.warpsM > 32 || p.warpsN < 1 || p.warpsN > 32)
    return fail("expected between 1 and 32 groups of warps along M and N, got " + Twine(p.warpsM) +
                " and " + Twine(p.warpsN));
  int64_t warps = instruction.warps * p.warpsM * p.warpsN;
  if (p.numWarps < 0 || p.numWarps % warps != 0)
    return fail("expected a number of warps that is a multiple of " + Twine(warps) + ", got " +
                Twine(p.numWarps));
  return Error::success();
}

Expected<RegisterLayout> dl::layout::atom(ArrayRef<int64_t> shape, const Instruction &instruction,
                                          const AtomParams &p) {
  if (Error e = checkAtom(shape, instruction, p))
    return std::move(e);
  const Fragment &f = instruction.operand(p.operand);
  Split s = splitOf(instruction, p);
  SmallVector<int64_t, 2> reps = repeats(shape, instruction, p);
  RegisterLayout layout;
  layout.shape.assign(shape.begin(), shape.end());
  layout.numThreads = kWarpSize * std::max(instruction.warps * p.warpsM * p.warpsN, p.numWarps);
  layout.digits.append(f.digits.begin(), f.digits.end());
  layout.numRegisters = f.registers;
  const int64_t tile[2] = {f.rows, f.cols};
  for (unsigned axis : {1u, 0u}) {
    if (reps[axis] > 1)
      layout.digits.push_back(
          reg(layout.numRegisters, reps[axis], axis, tile[axis] * s.groups[axis]));
    layout.numRegisters *= reps[axis];
    if (s.groups[axis] > 1)
      layout.digits.push_back(thread(s.div[axis], s.groups[axis], axis, tile[axis]));
  }
  if (Error e = layout.verify())
    return std::move(e);
  return layout;
}

//===----------------------------------------------------------------------===//
// ldmatrix
//===----------------------------------------------------------------------===//

std::optional<LdMatrix> dl::layout::ldmatrixFor(const RegisterLayout &layout,
                                                unsigned contiguousAxis) {
  if (layout.rank() != 2)
    return std::nullopt;
  // Lanes of a row of the fragment (pairs along `pairs`), and its eight rows along the other axis.
  auto holds = [&](unsigned pairs) {
    return llvm::is_contained(layout.digits, reg(1, 2, pairs, 1)) &&
           llvm::is_contained(layout.digits, thread(1, 4, pairs, 2)) &&
           llvm::is_contained(layout.digits, thread(4, 8, 1 - pairs, 1));
  };
  LdMatrix how;
  how.rowAxis = 1 - contiguousAxis;
  how.transposed = holds(how.rowAxis);
  if (!how.transposed && !holds(contiguousAxis))
    return std::nullopt;
  int64_t matrices = layout.numRegisters / 2;
  how.matrices = matrices % 4 == 0 ? 4 : matrices % 2 == 0 ? 2 : 1;
  return how;
}

Coordinate dl::layout::ldmatrixRow(const RegisterLayout &layout, const LdMatrix &how,
                                   int64_t thread, int64_t index) {
  int64_t lane = thread % kWarpSize;
  int64_t matrix = how.matrices * index + lane / 8 % how.matrices;
  Coordinate row = layout.coordinate(thread - lane, 2 * matrix);
  row[how.rowAxis] += lane % 8;
  return row;
}
