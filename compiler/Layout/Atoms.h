//===- Atoms.h - Tensor-core instructions as rows of a table --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An instruction D[M,N] = A[M,K] B[K,N] + C[M,N] is one row: shape, element types, required feature
// and, for each operand held in registers, the fragment: a few digits (Layout.h) that say which
// elements each lane holds. Everything else - how many registers, which coordinate, how often the
// instruction repeats over a tensor - is computed. A new instruction is a new row; what it looks
// like in PTX is known to the lowering alone.
//
// Registers count *elements*. Where the hardware packs two 16-bit elements in a 32-bit register,
// elements 2j and 2j+1 of the fragment are the low and high half of the j-th operand register.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LAYOUT_ATOMS_H
#define COMPILER_LAYOUT_ATOMS_H

#include "compiler/Layout/Layout.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace dl::layout {

/// A and B are the factors, C stands for both accumulator and result.
enum class Operand : uint8_t { A, B, C };
llvm::StringRef stringify(Operand operand);

enum class ElementKind : uint8_t { BF16, F16, TF32, F32 };
llvm::StringRef stringify(ElementKind kind);
/// Bits an element occupies in registers and memory (TF32 sits in 32).
int64_t bitsOf(ElementKind kind);

/// The operand's tile is rows x cols: A: M x K, B: K x N, C: M x N. No digits: the operand is read
/// from shared memory.
struct Fragment {
  int64_t rows = 0, cols = 0;
  int64_t registers = 0; ///< elements held by each thread
  llvm::SmallVector<Digit, 8> digits;
  bool inRegisters() const { return registers != 0; }
};

struct Instruction {
  std::string name;        ///< "mma.m16n8k16.bf16", "wgmma.m64n128k16.bf16"
  llvm::StringRef feature; ///< what the target's feature list must contain: "mma.sync", "wgmma"
  ElementKind input, accumulator;
  int64_t m = 0, n = 0, k = 0;
  int64_t warps = 1; ///< warps that issue it together
  Fragment a, b, c;

  const Fragment &operand(Operand which) const {
    return which == Operand::A ? a : which == Operand::B ? b : c;
  }
};

/// All rows: mma.sync ones and wgmma.m64nNk{16,8} for every N = 8, 16 .. 256.
llvm::ArrayRef<Instruction> instructions();
/// By name; the error lists what exists.
llvm::Expected<const Instruction *> findInstruction(llvm::StringRef name);

/// The operand's layout when the instruction is repeated over `shape` by warpsM x warpsN groups of
/// instruction.warps warps, the M groups fastest: group = m + warpsM * n. Along each axis
///   coordinate = ((rep * groups + g) * tile) + fragment coordinate,   rep = ceil(shape / (tile *
///   groups)),
/// where only M is split over M groups and only N over N groups: A is replicated over the N groups,
/// B over the M groups and the K axis is never split. Registers: the fragment fastest, then the
/// repeats of axis 1, then those of axis 0. numWarps = 0 means all warps are used; a larger
/// multiple adds warps that hold copies.
struct AtomParams {
  Operand operand = Operand::C;
  int64_t warpsM = 1, warpsN = 1;
  int64_t numWarps = 0;
};
llvm::Expected<RegisterLayout> atom(llvm::ArrayRef<int64_t> shape, const Instruction &instruction,
                                    const AtomParams &params);

/// How often the operand's tile repeats in the registers of a thread, {axis 0, axis 1}. The
/// fragment of repeat (i, j) is registers [(i * repeats[1] + j) * fragment.registers, +
/// fragment.registers).
llvm::SmallVector<int64_t, 2> repeats(llvm::ArrayRef<int64_t> shape, const Instruction &instruction,
                                      const AtomParams &params);

/// ldmatrix moves 8 x 8 matrices of 16-bit elements from shared memory: each matrix is eight
/// 16-byte rows; lane l of the instruction gives the address of row l % 8 of matrix l / 8 and
/// receives, of each matrix, the elements (l / 4, 2 (l % 4) + {0, 1}) - or with .trans the same of
/// the transposed matrix.
struct LdMatrix {
  int64_t matrices = 1;    ///< x1, x2 or x4: the largest that divides the registers
  bool transposed = false; ///< .trans
  unsigned rowAxis =
      0; ///< axis along which the eight rows run; the other one is contiguous in memory
};
/// Whether (and how) a register layout of 16-bit elements can be loaded by ldmatrix from memory
/// that is contiguous along `contiguousAxis`. Instruction number i fills registers [2 * matrices *
/// i, 2 * matrices * (i + 1)).
std::optional<LdMatrix> ldmatrixFor(const RegisterLayout &layout, unsigned contiguousAxis);
/// The coordinate of the first element of the row whose address `thread` supplies to instruction
/// number `index`.
Coordinate ldmatrixRow(const RegisterLayout &layout, const LdMatrix &how, int64_t thread,
                       int64_t index);

} // namespace dl::layout

#endif // COMPILER_LAYOUT_ATOMS_H
