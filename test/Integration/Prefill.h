//===- Prefill.h - What tests of prefill kernels have in common -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_PREFILL_H
#define DL_TEST_INTEGRATION_PREFILL_H

#include "test/Integration/Decode.h"

namespace dl::test {

/// Of a package's name, OPERATOR-OPTION-..., as the build makes them.
Operator prefillOf(const std::string &package);

/// The three with their default options, and `suffix` behind their packages' names.
std::vector<Operator> prefillOperators(const std::string &suffix = "");

/// f(operator, layout) for the three and both layouts of the state.
template <typename Function> void forPrefills(const std::string &suffix, Function f) {
  for (const Operator &op : prefillOperators(suffix))
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(op.package + " " + layout);
      f(op, std::string(layout));
    }
}
template <typename Function> void forPrefills(Function f) { forPrefills("", f); }

/// Options of packages that change how a prefill is cut, not what it computes.
inline const char *const prefillForms[] = {"",       "-c16",       "-c64",       "-c128",
                                           "-fused", "-fused-c16", "-fused-c64", "-fused-c128"};

/// Fills the log decays of a precomputed gate, or of RWKV-6.
void setDecays(Problem &problem, const std::function<double(size_t)> &value);

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_PREFILL_H
