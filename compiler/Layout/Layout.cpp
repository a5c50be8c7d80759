//===- Layout.cpp - Digit maps, blocked layouts ---------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "compiler/Layout/Layout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <numeric>

using namespace dl::layout;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::SmallVector;
using llvm::Twine;

namespace {

// 1024 threads is the hardware's limit for a block, the others are far beyond any register file.
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxRegisters = int64_t(1) << 16;
constexpr int64_t kMaxExtent = int64_t(1) << 20;

Error fail(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The product of two counts, or the largest number where that leaves 64 bits: too many either way.
int64_t times(int64_t a, int64_t b) {
  int64_t result;
  return llvm::MulOverflow(a, b, result) ? INT64_MAX : result;
}

int64_t product(ArrayRef<int64_t> values) {
  int64_t p = 1;
  for (int64_t v : values)
    p = times(p, v);
  return p;
}

Error checkShape(ArrayRef<int64_t> shape) {
  if (shape.size() > 4)
    return fail("expected at most 4 axes, got " + Twine(shape.size()));
  for (auto [axis, extent] : llvm::enumerate(shape))
    if (extent < 1 || extent > kMaxExtent)
      return fail("expected extents between 1 and " + Twine(kMaxExtent) + ", got " + Twine(extent) +
                  " on axis " + Twine(axis));
  return Error::success();
}

Error checkFactors(llvm::StringRef name, ArrayRef<int64_t> factors, size_t rank) {
  if (factors.size() != rank)
    return fail("expected " + Twine(rank) + " values of " + name + ", one for each axis, got " +
                Twine(factors.size()));
  for (int64_t f : factors)
    if (f < 1 || f > kMaxRegisters)
      return fail("expected " + name + " between 1 and " + Twine(kMaxRegisters) + ", got " +
                  Twine(f));
  return Error::success();
}

// Digits of one source in ascending order must form a mixed-radix number below `count`: each div a
// multiple of the div * mod before it. Register digits leave no gaps; gaps between thread digits
// are replicas.
Error checkRadix(ArrayRef<Digit> digits, int64_t count, bool gaps, llvm::StringRef name) {
  int64_t next = 1;
  for (const Digit &d : digits) {
    if (d.div < 1 || d.mod < 2 || d.div > count || d.mod > count)
      return fail("expected a digit of the " + name +
                  " number with 1 <= div and 2 <= mod, both at most " + Twine(count) +
                  ", got div " + Twine(d.div) + " and mod " + Twine(d.mod));
    if (gaps ? d.div % next != 0 : d.div != next)
      return fail("expected a digit of the " + name + " number at div " +
                  (gaps ? "a multiple of " : "") + Twine(next) + ", got " + Twine(d.div));
    next = d.div * d.mod;
  }
  if (gaps ? count % next != 0 : count != next)
    return fail("expected digits of the " + name + " number to " +
                (gaps ? "divide " : "multiply to ") + Twine(count) + ", got " + Twine(next));
  return Error::success();
}

} // namespace

//===----------------------------------------------------------------------===//
// The pure function
//===----------------------------------------------------------------------===//

static Coordinate sumDigits(const RegisterLayout &layout, Source source, int64_t index) {
  Coordinate coord(layout.rank(), 0);
  for (const Digit &d : layout.digits)
    if (d.source == source)
      coord[d.axis] += d.value(index) * d.stride;
  return coord;
}

Coordinate RegisterLayout::baseOfThread(int64_t thread) const {
  return sumDigits(*this, Source::Thread, thread);
}

Coordinate RegisterLayout::offsetOfRegister(int64_t reg) const {
  return sumDigits(*this, Source::Register, reg);
}

Coordinate RegisterLayout::coordinate(int64_t thread, int64_t reg) const {
  Coordinate coord = baseOfThread(thread);
  for (auto [c, offset] : llvm::zip(coord, offsetOfRegister(reg)))
    c += offset;
  return coord;
}

bool RegisterLayout::addsWithin(unsigned axis, int64_t run) const {
  int64_t byThread = 0, byRegister = 0;
  for (int64_t thread = 0; thread < numThreads; ++thread)
    byThread = std::max(byThread, baseOfThread(thread)[axis] % run);
  for (int64_t reg = 0; reg < numRegisters; ++reg)
    byRegister = std::max(byRegister, offsetOfRegister(reg)[axis] % run);
  return byThread + byRegister < run;
}

std::pair<int64_t, int64_t> RegisterLayout::find(ArrayRef<int64_t> coord) const {
  int64_t thread = 0, reg = 0;
  for (const Digit &d : digits)
    (d.source == Source::Thread ? thread : reg) += coord[d.axis] / d.stride % d.mod * d.div;
  return {thread, reg};
}

//===----------------------------------------------------------------------===//
// Digits, coverage, replicas
//===----------------------------------------------------------------------===//

SmallVector<Digit> RegisterLayout::digitsOf(Source source) const {
  SmallVector<Digit> result;
  llvm::copy_if(digits, std::back_inserter(result),
                [&](const Digit &d) { return d.source == source; });
  llvm::sort(result, [](const Digit &a, const Digit &b) { return a.div < b.div; });
  return result;
}

SmallVector<Digit> RegisterLayout::digitsOf(Source source, unsigned axis) const {
  SmallVector<Digit> result = digitsOf(source);
  llvm::erase_if(result, [&](const Digit &d) { return d.axis != axis; });
  return result;
}

int64_t RegisterLayout::covered(unsigned axis) const {
  int64_t extent =
      1; // The strides chain, so the largest coordinate is the product of the radices less one.
  for (const Digit &d : digits)
    if (d.axis == axis)
      extent *= d.mod;
  return extent;
}

bool RegisterLayout::isPadded() const {
  return llvm::any_of(llvm::seq<unsigned>(0, rank()),
                      [&](unsigned axis) { return isPadded(axis); });
}

bool RegisterLayout::isInBounds(ArrayRef<int64_t> coord) const {
  return llvm::all_of(llvm::zip(coord, shape), [](auto pair) {
    return std::get<0>(pair) >= 0 && std::get<0>(pair) < std::get<1>(pair);
  });
}

SmallVector<ThreadDigit> RegisterLayout::replicaDigits() const {
  SmallVector<ThreadDigit> replicas;
  int64_t next = 1;
  auto gapUpTo = [&](int64_t div) {
    // Split at the warp boundary: what is done across lanes is not done across warps.
    if (next < kWarpSize && div > kWarpSize) {
      replicas.push_back({next, kWarpSize / next});
      next = kWarpSize;
    }
    if (div > next)
      replicas.push_back({next, div / next});
  };
  for (const Digit &d : digitsOf(Source::Thread)) {
    gapUpTo(d.div);
    next = d.div * d.mod;
  }
  gapUpTo(numThreads);
  return replicas;
}

int64_t RegisterLayout::replication() const {
  int64_t copies = 1;
  for (const ThreadDigit &d : replicaDigits())
    copies *= d.mod;
  return copies;
}

bool RegisterLayout::isOwner(int64_t thread) const {
  return llvm::all_of(replicaDigits(), [&](const ThreadDigit &d) { return d.value(thread) == 0; });
}

int64_t RegisterLayout::contiguousRegisters(unsigned axis) const {
  int64_t run = 1;
  for (const Digit &d : digitsOf(Source::Register)) {
    if (d.axis != axis || d.div != run || d.stride != run)
      break;
    run *= d.mod;
  }
  return run;
}

// The strides of thread digits are multiples of the smallest, below which all digits are of the
// register.
int64_t RegisterLayout::pieceOfRun(unsigned axis, int64_t run) const {
  int64_t piece = run;
  for (const Digit &d : digitsOf(Source::Thread, axis))
    piece = std::gcd(piece, d.stride);
  return piece;
}

//===----------------------------------------------------------------------===//
// Slices and reductions
//===----------------------------------------------------------------------===//

RegisterLayout RegisterLayout::slice(unsigned axis) const {
  RegisterLayout result;
  result.numThreads = numThreads;
  result.shape = shape;
  result.shape.erase(result.shape.begin() + axis);
  result.numRegisters = 1;
  for (Digit d : digitsOf(Source::Register)) {
    if (d.axis == axis)
      continue;
    d.div = result.numRegisters;
    result.numRegisters *= d.mod;
    result.digits.push_back(d);
  }
  for (const Digit &d : digitsOf(Source::Thread))
    if (d.axis != axis)
      result.digits.push_back(d);
  for (Digit &d : result.digits)
    d.axis -= d.axis > axis;
  return result;
}

SmallVector<int64_t> RegisterLayout::sliceRegisters(unsigned axis) const {
  SmallVector<int64_t> result(numRegisters, 0);
  int64_t div = 1;
  for (const Digit &d : digitsOf(Source::Register)) {
    if (d.axis == axis)
      continue;
    for (int64_t reg = 0; reg < numRegisters; ++reg)
      result[reg] += d.value(reg) * div;
    div *= d.mod;
  }
  return result;
}

SmallVector<SmallVector<int64_t>> RegisterLayout::reductionGroups(unsigned axis) const {
  SmallVector<SmallVector<int64_t>> groups(slice(axis).numRegisters);
  for (auto [reg, target] : llvm::enumerate(sliceRegisters(axis)))
    groups[target].push_back(reg);
  for (SmallVector<int64_t> &group : groups)
    llvm::sort(group, [&](int64_t a, int64_t b) {
      return offsetOfRegister(a)[axis] < offsetOfRegister(b)[axis];
    });
  return groups;
}

SmallVector<int64_t> RegisterLayout::reductionLaneMasks(unsigned axis) const {
  SmallVector<int64_t> masks;
  for (const Digit &d : digitsOf(Source::Thread, axis))
    for (int64_t mask = d.div; mask < d.div * d.mod && mask < kWarpSize; mask *= 2)
      masks.push_back(mask);
  return masks;
}

SmallVector<ThreadDigit> RegisterLayout::reductionWarpDigits(unsigned axis) const {
  SmallVector<ThreadDigit> result;
  for (const Digit &d : digitsOf(Source::Thread, axis))
    if (d.div >= kWarpSize)
      result.push_back({d.div, d.mod});
  return result;
}

RegisterLayout RegisterLayout::permuted(ArrayRef<unsigned> perm) const {
  RegisterLayout result = *this;
  for (auto [to, from] : llvm::enumerate(perm)) {
    result.shape[to] = shape[from];
    for (auto [d, original] : llvm::zip(result.digits, digits))
      if (original.axis == from)
        d.axis = to;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Checks and printing
//===----------------------------------------------------------------------===//

Error RegisterLayout::verify() const {
  if (Error e = checkShape(shape))
    return e;
  if (numThreads < kWarpSize || numThreads > kMaxThreads || numThreads % kWarpSize != 0)
    return fail("expected whole warps of 32 threads, at most " + Twine(kMaxThreads) +
                " threads, got " + Twine(numThreads));
  if (numRegisters < 1 || numRegisters > kMaxRegisters)
    return fail("expected between 1 and " + Twine(kMaxRegisters) +
                " registers for each thread, got " + Twine(numRegisters));
  if (Error e = checkRadix(digitsOf(Source::Thread), numThreads, /*gaps=*/true, "thread"))
    return e;
  if (Error e = checkRadix(digitsOf(Source::Register), numRegisters, /*gaps=*/false, "register"))
    return e;
  for (const Digit &d : digits) {
    if (d.axis >= rank())
      return fail("expected digits to move axes below " + Twine(rank()) + ", got axis " +
                  Twine(d.axis));
    if (d.source == Source::Thread &&
        (d.div < kWarpSize ? kWarpSize % (d.div * d.mod) : d.div % kWarpSize) != 0)
      return fail(
          "expected digits of the thread number to be either of the lane or of the warp, got div " +
          Twine(d.div) + " and mod " + Twine(d.mod));
  }
  for (unsigned axis = 0; axis < rank(); ++axis) {
    SmallVector<Digit> chain;
    llvm::copy_if(digits, std::back_inserter(chain),
                  [&](const Digit &d) { return d.axis == axis; });
    llvm::sort(chain, [](const Digit &a, const Digit &b) { return a.stride < b.stride; });
    int64_t next = 1;
    for (const Digit &d : chain) {
      if (d.stride != next)
        return fail("expected a digit of stride " + Twine(next) + " on axis " + Twine(axis) +
                    ", got " + Twine(d.stride));
      next *= d.mod;
    }
    if (next < shape[axis])
      return fail("expected digits that cover all " + Twine(shape[axis]) + " coordinates of axis " +
                  Twine(axis) + ", got " + Twine(next));
  }
  return Error::success();
}

void RegisterLayout::print(llvm::raw_ostream &os) const {
  llvm::interleave(shape, os, "x");
  os << " over " << numThreads << " threads x " << numRegisters << " registers";
  for (const Digit &d : digits) {
    os << (&d == digits.begin() ? ": " : ", ");
    os << (d.source == Source::Thread ? "thread" : "register") << "/" << d.div << "%" << d.mod
       << " -> " << d.stride << " on axis " << d.axis;
  }
}

//===----------------------------------------------------------------------===//
// Constructors
//===----------------------------------------------------------------------===//

static Error checkBlocked(ArrayRef<int64_t> shape, const BlockedParams &p) {
  if (Error e = checkShape(shape))
    return e;
  size_t rank = shape.size();
  for (auto [name, factors] :
       {std::pair<llvm::StringRef, ArrayRef<int64_t>>("per-thread elements", p.perThread),
        {"lanes", p.lanes},
        {"warps", p.warps}})
    if (Error e = checkFactors(name, factors, rank))
      return e;
  SmallVector<unsigned> sorted(p.order.begin(), p.order.end());
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<unsigned>(0, rank)))
    return fail("expected an order that names each of the " + Twine(rank) + " axes once");
  if (product(p.lanes) != kWarpSize)
    return fail("expected lanes that multiply to 32, got " + Twine(product(p.lanes)));
  int64_t warps = product(p.warps);
  if (p.numWarps < 0 || p.numWarps % warps != 0)
    return fail("expected a number of warps that is a multiple of " + Twine(warps) + ", got " +
                Twine(p.numWarps));
  return Error::success();
}

Expected<RegisterLayout> dl::layout::blocked(ArrayRef<int64_t> shape, const BlockedParams &p) {
  if (Error e = checkBlocked(shape, p))
    return std::move(e);
  RegisterLayout layout;
  layout.shape.assign(shape.begin(), shape.end());
  layout.numThreads = times(kWarpSize, std::max(product(p.warps), p.numWarps));
  layout.numRegisters = 1;
  auto add = [&](Source source, int64_t &div, int64_t mod, unsigned axis, int64_t stride) {
    if (mod > 1)
      layout.digits.push_back({source, div, mod, axis, stride});
    div = times(div, mod);
  };
  int64_t lane = 1, warp = kWarpSize;
  for (unsigned axis : p.order)
    add(Source::Thread, lane, p.lanes[axis], axis, p.perThread[axis]);
  for (unsigned axis : p.order)
    add(Source::Thread, warp, p.warps[axis], axis, p.perThread[axis] * p.lanes[axis]);
  for (unsigned axis : p.order)
    add(Source::Register, layout.numRegisters, p.perThread[axis], axis, 1);
  for (unsigned axis : p.order) {
    int64_t tile = p.perThread[axis] * p.lanes[axis] * p.warps[axis];
    add(Source::Register, layout.numRegisters, ceilDiv(shape[axis], tile), axis, tile);
  }
  if (Error e = layout.verify())
    return std::move(e);
  return layout;
}

Expected<RegisterLayout> dl::layout::replicated(ArrayRef<int64_t> shape, int64_t numWarps) {
  if (Error e = checkShape(shape))
    return std::move(e);
  RegisterLayout layout;
  layout.shape.assign(shape.begin(), shape.end());
  layout.numThreads = times(kWarpSize, numWarps);
  layout.numRegisters = 1;
  for (unsigned axis = shape.size(); axis-- > 0;) {
    if (shape[axis] > 1)
      layout.digits.push_back({Source::Register, layout.numRegisters, shape[axis], axis, 1});
    layout.numRegisters = times(layout.numRegisters, shape[axis]);
  }
  if (Error e = layout.verify())
    return std::move(e);
  return layout;
}

std::optional<SmallVector<std::pair<int64_t, int64_t>>>
dl::layout::interleavedRegisters(const RegisterLayout &wide, const RegisterLayout &narrow) {
  if (wide.rank() == 0 || wide.rank() != narrow.rank() || wide.numThreads != narrow.numThreads ||
      narrow.shape[0] == 0 || wide.shape[0] % narrow.shape[0] != 0 ||
      ArrayRef(wide.shape).drop_front() != ArrayRef(narrow.shape).drop_front())
    return std::nullopt;
  int64_t count = wide.shape[0] / narrow.shape[0];
  // Padding too: a register of `narrow` that none of `wide` is made of would have no value.
  if (wide.numRegisters != count * narrow.numRegisters)
    return std::nullopt;
  for (int64_t thread = 0; thread < wide.numThreads; ++thread) {
    Coordinate base = narrow.baseOfThread(thread);
    base[0] *= count;
    if (wide.baseOfThread(thread) != base)
      return std::nullopt;
  }
  SmallVector<Coordinate> offsets;
  for (int64_t reg = 0; reg < narrow.numRegisters; ++reg)
    offsets.push_back(narrow.offsetOfRegister(reg));
  SmallVector<std::pair<int64_t, int64_t>> result;
  for (int64_t reg = 0; reg < wide.numRegisters; ++reg) {
    Coordinate offset = wide.offsetOfRegister(reg);
    int64_t which = offset[0] % count;
    offset[0] /= count;
    const Coordinate *found = llvm::find(offsets, offset);
    if (found == offsets.end())
      return std::nullopt;
    result.push_back({which, found - offsets.begin()});
  }
  return result;
}
