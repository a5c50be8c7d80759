//===- LogProtocol.h - Append, merge and materialize, executable ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The other half of the protocol of LogProtocol.md: what one layer's kernels do
// with the descriptors of LogPlan.h. One pool here is one value head of one layer;
// all heads and layers run from the same descriptors. Plain fp64, with hooks that
// round what is stored, so that the growth of errors can be studied.
//
// A state is a base and the entries of a log. Entry i has the rank-one terms
// a_i b_i^T of one token and the clock Lambda_i: the log decay of the tokens since
// the base, its own included. After entry n, with D(x) = diag(e^x),
//
//   S = D(Lambda_n) base + sum_{i <= n} D(Lambda_n - Lambda_i) a_i b_i^T
//
// so the newest entry's clock is all that a new token has to know, and any prefix
// of a log is a log: a rejected draft is an entry that nobody counts.
//
// Decisions, and why:
//
// - Everything is seen as it is stored: the base after rounding, so that a merge in
//   an append equals a merge followed by an append to the bit; and b and the clock
//   of the tokens before in the same step, so that a correction makes up for the
//   rounding of the ones before it and a step of T tokens means T steps of one.
// - A checkpoint is taken of the source as the row found it, hence before the
//   row's merge, and is rounded like a base: a row that starts from it is the row
//   that would have merged there.
// - A merge with the step's token (Merge::After) computes that token as any other
//   append would; only then is the base written, and nothing into the ring.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_LOGPROTOCOL_H
#define DL_TEST_REFERENCE_LOGPROTOCOL_H

#include "test/Reference/Affine.h"
#include "test/Reference/LogPlan.h"

#include <cstdint>
#include <vector>

namespace dl::deltalog {

using recurrence::AffineToken;
using recurrence::Matrix;
using recurrence::Vector;

/// How a number is kept in memory. Range is not modelled, only precision.
enum class Format {
  F64,
  F32,
  BF16,
  HiLo, ///< the sum of two bf16
};

/// `x` as `format` keeps it, to nearest even.
double stored(Format format, double x);
Vector stored(Format format, Vector x);

struct Storage {
  Format base = Format::F64;
  Format a = Format::F64;
  Format b = Format::F64;
  Format clock = Format::F64;
};

/// What the log keeps of one token. A scalar decay is one number on the device.
struct Entry {
  struct Term {
    Vector a;
    Vector b;
  };
  std::vector<Term> terms; ///< one per write of the operator
  Vector clock;            ///< [K] log decay since the base
};

/// The memory of one value head of one layer.
struct Pool {
  Pool(const Limits &limits, int64_t slots, int64_t K, int64_t V, const Storage &storage = {});

  int64_t slots() const { return static_cast<int64_t>(base.size()); }

  Limits limits;
  Storage storage;
  std::vector<Matrix> base;             ///< [slots]
  std::vector<std::vector<Entry>> ring; ///< [slots][R]
};

/// One launch per layer: checkpoints, merges, and the step's tokens, which
/// descriptors name by their place in `tokens`. The outputs of tokens that belong
/// to no row stay as they are; those of null rows become zero.
void append(Pool &pool, const std::vector<Descriptor> &descriptors,
            const std::vector<AffineToken> &tokens, std::vector<Vector> &outputs);

/// The same for a step whose rows have no tokens.
void merge(Pool &pool, const std::vector<Descriptor> &descriptors);

/// The dense state of a slot between two steps, unrounded: after the first `count`
/// entries since the base as the slot's last step left it. Reads only. Throws
/// std::invalid_argument unless that many are in the ring, drafts included.
Matrix materialize(const Pool &pool, const Cursor &cursor, int64_t slot, int64_t count);

} // namespace dl::deltalog

#endif // DL_TEST_REFERENCE_LOGPROTOCOL_H
