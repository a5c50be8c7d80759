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

/// Whether the device has kernels with products by wgmma.
bool hasWgmma();

/// What packages' names have behind them where a prefill is cut in another way: chunks of another
/// size, or one kernel instead of two. Those that there are on the device; the first is "".
std::vector<std::string> prefillForms();

/// f(operator, layout) for the packages of these names and all forms. Layouts take turns.
template <typename Function> void forForms(const std::vector<std::string> &names, Function f) {
  bool isOdd = false;
  for (const std::string &name : names)
    for (const std::string &form : prefillForms()) {
      const Operator op = prefillOf(name + form);
      const std::string layout = (isOdd = !isOdd) ? "kv" : "vk";
      SCOPED_TRACE(op.package + " " + layout);
      f(op, layout);
    }
}

/// Fills the log decays of a precomputed gate, or of RWKV-6.
void setDecays(Problem &problem, const std::function<double(size_t)> &value);

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_PREFILL_H
