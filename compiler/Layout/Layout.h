//===- Layout.h - Where each element of a distributed tensor lives --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor of a thread block is spread over the registers of its threads. A layout is the one pure
// function that says how:
//
//   coordinate(thread, register) -> (c0, c1, ...)
//
// Conversions, masks, reductions, vector widths, the CPU lowering and every fragment of a
// tensor-core instruction follow from it. It is stored as a list of *digits*. Write the thread
// number and the register number as mixed-radix numbers (like days, hours, minutes); each digit of
// them moves one coordinate by a fixed stride:
//
//   digit = (source, div, mod, axis, stride):   coordinate[axis] += ((source / div) % mod) * stride
//
// Example: 16 x 8 accumulators of mma.m16n8k16, 32 threads with 4 registers each (PTX ISA: thread l
// holds rows l/4 and l/4 + 8, columns 2(l%4) and 2(l%4) + 1):
//
//   source    div mod axis stride                 l / 4         -> row  (8 values, stride 1)
//   thread      4   8    0      1                 l % 4         -> column pair (4 values, stride 2)
//   thread      1   4    1      2                 register % 2  -> column within the pair
//   register    1   2    1      1                 register / 2  -> upper or lower half (stride 8)
//   register    2   2    0      8
//
// Sort the digits of one axis by stride and they chain: 1*8 = 8 and 8*2 = 16 rows; 1*2 = 2 and 2*4
// = 8 columns. This is the invariant `verify` checks: on every axis the strides are 1, m0, m0*m1,
// ... . So each coordinate below `covered` has exactly one tuple of digits and the layout is a
// bijection by construction, for any radix: 3 warps, 96 columns and 40 rows are as good as powers
// of two (linear maps over GF(2) cannot express them).
//
// Three consequences used everywhere:
//  * Digits only add, hence coordinate(t, r) = baseOfThread(t) + offsetOfRegister(r). Generated
//    code computes one base per thread; the register part is a constant.
//  * Thread digits that move no coordinate (`replicaDigits`) are copies: such threads hold equal
//    values. The copy with all of them zero is the owner, which stores.
//  * Leaving out the digits of an axis is the layout of the tensor reduced along this axis
//    (`slice`): its register digits disappear, its thread digits become replica digits.
//
// A coordinate may lie beyond the tensor's shape (covered > shape): padding. Such registers hold
// unspecified values; loads fill them with zeros, stores leave them out, reductions skip them.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LAYOUT_LAYOUT_H
#define COMPILER_LAYOUT_LAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace dl::layout {

/// Threads of a warp. The same on every target, the CPU's emulation included.
constexpr int64_t kWarpSize = 32;

enum class Source : uint8_t { Thread, Register };

/// The value ((index(source) / div) % mod) contributes stride * value to coordinate[axis].
struct Digit {
  Source source = Source::Thread;
  int64_t div = 1, mod = 1;
  unsigned axis = 0;
  int64_t stride = 1;

  int64_t value(int64_t index) const { return index / div % mod; }
  bool operator==(const Digit &o) const {
    return source == o.source && div == o.div && mod == o.mod && axis == o.axis &&
           stride == o.stride;
  }
};

/// A digit of the thread number alone: (thread / div) % mod.
struct ThreadDigit {
  int64_t div = 1, mod = 1;
  int64_t value(int64_t thread) const { return thread / div % mod; }
  bool operator==(const ThreadDigit &o) const { return div == o.div && mod == o.mod; }
};

using Coordinate = llvm::SmallVector<int64_t, 4>;

struct RegisterLayout {
  llvm::SmallVector<int64_t, 4> shape; ///< Logical shape; coordinates beyond it are padding.
  int64_t numThreads = 0, numRegisters = 0;
  llvm::SmallVector<Digit, 8> digits;

  unsigned rank() const { return shape.size(); }
  bool operator==(const RegisterLayout &o) const {
    return shape == o.shape && numThreads == o.numThreads && numRegisters == o.numRegisters &&
           digits == o.digits;
  }
  bool operator!=(const RegisterLayout &o) const { return !(*this == o); }

  /// The pure function. Equals baseOfThread(thread) + offsetOfRegister(reg).
  Coordinate coordinate(int64_t thread, int64_t reg) const;
  Coordinate baseOfThread(int64_t thread) const;
  Coordinate offsetOfRegister(int64_t reg) const;

  /// Digits in ascending order of div: those of a source, or those of a source that move `axis`.
  /// Code generation emits base[axis] = sum over digitsOf(Thread, axis) of ((thread / div) % mod) *
  /// stride.
  llvm::SmallVector<Digit> digitsOf(Source source) const;
  llvm::SmallVector<Digit> digitsOf(Source source, unsigned axis) const;

  /// 1 + the largest coordinate; all of 0 .. covered-1 occur.
  int64_t covered(unsigned axis) const;
  bool isPadded(unsigned axis) const { return covered(axis) != shape[axis]; }
  bool isPadded() const;
  bool isInBounds(llvm::ArrayRef<int64_t> coord) const;

  /// How many threads hold each element, which digits tell them apart, and which of them stores.
  int64_t replication() const;
  llvm::SmallVector<ThreadDigit> replicaDigits() const;
  bool isOwner(int64_t thread) const;

  /// The longest v dividing numRegisters such that in every aligned group of v registers the
  /// coordinates along `axis` are consecutive and the others are equal: the width of a vector
  /// access in elements (still to be limited by bytes).
  int64_t contiguousRegisters(unsigned axis) const;

  /// Whether floor(c / run) of a coordinate c along `axis` is that of its thread's share plus that
  /// of its register's.
  bool addsWithin(unsigned axis, int64_t run) const;

  /// Cut runs of `run` neighbours along `axis`, which start at its multiples, into equal pieces
  /// each of which one thread holds: the largest length there is.
  int64_t pieceOfRun(unsigned axis, int64_t run) const;

  /// The layout of the tensor reduced along `axis`, and for each register here its register there.
  RegisterLayout slice(unsigned axis) const;
  llvm::SmallVector<int64_t> sliceRegisters(unsigned axis) const;

  /// Which registers of one thread a reduction along `axis` adds up: one group for each register of
  /// slice(axis), each in ascending order of the coordinate along `axis`.
  llvm::SmallVector<llvm::SmallVector<int64_t>> reductionGroups(unsigned axis) const;
  /// Lanes to combine along `axis`: xor masks of the butterfly, ascending. (Lane digits are powers
  /// of two.)
  llvm::SmallVector<int64_t> reductionLaneMasks(unsigned axis) const;
  /// Warps to combine along `axis`: digits of the thread number with div a multiple of 32,
  /// ascending. Sums add the warps in ascending order, the first digit fastest.
  llvm::SmallVector<ThreadDigit> reductionWarpDigits(unsigned axis) const;

  /// The same distribution with axes renamed: axis i of the result is axis perm[i] of this layout.
  RegisterLayout permuted(llvm::ArrayRef<unsigned> perm) const;
  RegisterLayout transposed() const { return permuted({1, 0}); }

  /// The element's place by coordinate: a thread (the owner) and register holding it. Inverse of
  /// `coordinate`. `coord` must be below `covered` on every axis.
  std::pair<int64_t, int64_t> find(llvm::ArrayRef<int64_t> coord) const;

  /// Checks the invariants above. All constructors return verified layouts; call it on a layout
  /// built by hand.
  llvm::Error verify() const;
  void print(llvm::raw_ostream &os) const;
};

/// A regular distribution. Along each axis
///   coordinate = ((rep * warps + w) * lanes + l) * perThread + e,   rep < ceil(shape / (perThread
///   * lanes * warps)).
/// order[0] is the fastest axis for everything: lanes in a warp, warps in the block, then among
/// registers first the elements e of all axes, then the reps of all axes. numWarps = 0 means
/// product(warps); a larger multiple of it adds warps that hold copies.
struct BlockedParams {
  llvm::SmallVector<int64_t, 4> perThread, lanes, warps;
  llvm::SmallVector<unsigned, 4> order;
  int64_t numWarps = 0;
};
llvm::Expected<RegisterLayout> blocked(llvm::ArrayRef<int64_t> shape, const BlockedParams &params);

/// Of tensors with row n i + j of `wide` the row i of a j-th tensor laid out like `narrow`: for
/// each register of `wide`, j and the register there, the same in every thread. Nothing where a
/// thread holds other rows of one than of the other.
std::optional<llvm::SmallVector<std::pair<int64_t, int64_t>>>
interleavedRegisters(const RegisterLayout &wide, const RegisterLayout &narrow);

/// A tensor every thread holds whole: numRegisters = product(shape), the last axis fastest.
llvm::Expected<RegisterLayout> replicated(llvm::ArrayRef<int64_t> shape, int64_t numWarps);

} // namespace dl::layout

#endif // COMPILER_LAYOUT_LAYOUT_H
