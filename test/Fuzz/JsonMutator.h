//===- JsonMutator.h - Changes to JSON texts that leave them JSON ---------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_FUZZ_JSONMUTATOR_H
#define DL_TEST_FUZZ_JSONMUTATOR_H

#include <random>
#include <string>

namespace dl::test {

/// Changes a few values, members or elements somewhere in the text. Text that is not JSON is given
/// back as it is.
std::string mutateJson(const std::string &text, std::minstd_rand &random);

} // namespace dl::test

#endif // DL_TEST_FUZZ_JSONMUTATOR_H
