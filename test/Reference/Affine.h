//===- Affine.h - What a token does to a state, the same for all operators ===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A token decays the state by one factor per key channel and adds a few rank-one
// terms a b^T. Its b is known in part before any state is seen (d) and depends
// linearly on what the token reads (feedback); so does its output:
//
//   b_w = d_w + sum_r feedback_{w,r} read_r        o = local + sum_r weight_r read_r
//
// where read_r = S^T x_r sees the state before or after the decay, and after so
// many of the token's own writes. Everything but the state and the reads is
// token-local. This is what a log can hold, so the model of the log knows no
// operator; each operator below only says what its token is.
//
// ElementwiseDecay has no such form: its decay is not one factor per key channel.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_AFFINE_H
#define DL_TEST_REFERENCE_AFFINE_H

#include "test/Reference/Additive.h"
#include "test/Reference/Algebra.h"
#include "test/Reference/DeltaRule.h"
#include "test/Reference/RWKV.h"

#include <cstdint>
#include <vector>

namespace dl::recurrence {

/// One token of one value head.
struct AffineToken {
  struct Read {
    Vector x;
    bool beforeDecay = false; ///< sees the state as the token found it
    int64_t writesSeen = 0;   ///< how many of the token's own writes it sees
    double weight = 0.0;      ///< in the output; 0 for a pure feedback read
  };
  struct Write {
    Vector a;
    Vector d;
    std::vector<double> feedback; ///< one factor per read; reads not named have none
  };

  Vector decay; ///< [K] log decay: a scalar is repeated, no decay is zeros
  /// In the order in which they happen. A read that feeds a write comes before it.
  std::vector<Read> reads;
  std::vector<Write> writes; ///< in order; as many for every token of an operator
  Vector local;              ///< [V]
};

/// Moves `S` on by one token and gives its output: the meaning of the form, one
/// event after the other.
Vector step(const AffineToken &token, Matrix &S);

/// The token at `p` in the affine form.
AffineToken affine(const DeltaNet &x, Place p);
AffineToken affine(const GatedDeltaNet &x, Place p);
AffineToken affine(const KimiDeltaAttention &x, Place p);
AffineToken affine(const GatedDeltaProduct &x, Place p);
AffineToken affine(const GatedDeltaNet2 &x, Place p);
AffineToken affine(const Comba &x, Place p);
AffineToken affine(const TwoKeyDelta &x, Place p);
AffineToken affine(const GatedLinearAttention &x, Place p);
AffineToken affine(const Retention &x, Place p);
AffineToken affine(const HGRN2 &x, Place p);
AffineToken affine(const Mamba2 &x, Place p);
AffineToken affine(const RWKV6 &x, Place p);
AffineToken affine(const RWKV7 &x, Place p);

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_AFFINE_H
