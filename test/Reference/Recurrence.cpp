//===- Recurrence.cpp - What all recurrences share: sizes, heads, tokens --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Recurrence.h"

#include <stdexcept>
#include <string>

namespace dl::recurrence {

static void checkPositive(const char *name, int64_t size) {
  if (size < 1)
    throw std::invalid_argument(std::string(name) + ": expected at least 1, got " +
                                std::to_string(size));
}

void checkSizes(const Sizes &n) {
  checkPositive("B", n.B);
  checkPositive("T", n.T);
  checkPositive("HQ", n.HQ);
  checkPositive("HV", n.HV);
  checkPositive("K", n.K);
  checkPositive("V", n.V);
  if (n.HV % n.HQ != 0)
    throw std::invalid_argument("HV: expected a multiple of HQ = " + std::to_string(n.HQ) +
                                ", got " + std::to_string(n.HV));
}

} // namespace dl::recurrence
