//===- LogNumbers.h - Tokens of any operator, and its recurrence ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers under the names of a kernel's arguments, as the types of their storage hold them, and the
// hand-written recurrence of test/Reference that they are for, token by token in double precision.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_LOGNUMBERS_H
#define DL_TEST_INTEGRATION_LOGNUMBERS_H

#include "test/Reference/Affine.h"
#include "test/Reference/Random.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dl::test {
using namespace recurrence;

/// An operator of examples/ with the options of a package.
struct LogOperator {
  std::string name;
  Gate gate = Gate::Softplus;
  double lowerBound = -5;
  bool normalize = true;
  Beta beta = Beta::Logit;
  double betaFactor = 1;
};
/// Options are parts of the package's name: "gdn-plain-w16t4".
LogOperator logOperator(const std::string &name, const std::string &package);
/// Whether there is a recurrence for it.
bool isKnownOperator(const std::string &name);

using Numbers = std::map<std::string, Tensor>;

struct Tokens {
  int64_t B = 0, T = 0;
  Numbers inputs; ///< [B, T, heads...]

  int64_t count() const { return B * T; }
};

/// Tokens `list` of `tokens`, flattened, in a batch of B; -1 is a token of NaN.
Tokens tokensOf(const Tokens &tokens, const std::vector<int64_t> &list, int64_t B = 1);
/// `count` tokens from `first` on.
Tokens tokensOf(const Tokens &tokens, int64_t first, int64_t count);

/// A number for an input or a parameter: mostly mild, now and then a decay or a strength at its
/// ends.
double drawNumber(const LogOperator &op, const std::string &name, int64_t K, Random &random);

class Oracle {
public:
  Oracle(LogOperator op, Sizes n) : op(std::move(op)), n(n) {}

  /// Moves the states of the value heads on by one token, and returns its output [HV][V].
  std::vector<Vector> step(const Tokens &tokens, int64_t token, std::vector<Matrix> &states) const;
  /// The token for each value head.
  std::vector<AffineToken> affine(const Tokens &tokens, int64_t token) const;

  LogOperator op;
  Sizes n; ///< B = T = 1
  Numbers params;
  std::optional<double> scale;

private:
  template <typename Function> void visit(const Tokens &tokens, int64_t token, Function f) const;
};

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_LOGNUMBERS_H
