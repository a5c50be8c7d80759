//===- ReferenceCases.h - Specs beside their hand-written recurrences -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_REFERENCECASES_H
#define DL_TEST_INTEGRATION_REFERENCECASES_H

#include "test/Reference/Recurrence.h"

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace dl::recurrence {

/// One spec with its options set, random arguments under the spec's names, and
/// what the hand-written recurrence makes of the same numbers.
struct Case {
  std::string spec;                  ///< path in the source tree
  std::vector<std::string> settings; ///< options, NAME=VALUE
  Sizes sizes;
  std::map<std::string, Tensor> tensors; ///< inputs [B, T, heads, dims], params [heads, dims]
  std::map<std::string, double> scalars; ///< params that are the same for all heads
  Tensor S;                              ///< [B, HV, K, V] before the first token
  Result expected;

  /// "examples/x.mlir gate=softplus", for messages.
  std::string name() const;
};

/// What GoogleTest prints for a case.
inline void PrintTo(const Case &test, std::ostream *os) { *os << test.name(); }

/// The shipped operators in all their gate forms, and the specs under test/.
std::vector<Case> referenceCases();

} // namespace dl::recurrence

#endif // DL_TEST_INTEGRATION_REFERENCECASES_H
