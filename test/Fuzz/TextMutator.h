//===- TextMutator.h - Changes to MLIR text, token by token ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_FUZZ_TEXTMUTATOR_H
#define DL_TEST_FUZZ_TEXTMUTATOR_H

#include <random>
#include <string>
#include <vector>

namespace dl::test {

/// Exchanges, repeats and drops tokens and lines of MLIR text, so that much of it stays legal.
class TextMutator {
public:
  /// `words` are tokens to put in.
  explicit TextMutator(std::vector<std::string> words) : words(std::move(words)) {}

  std::string mutate(const std::string &text, std::minstd_rand &random) const;

private:
  std::string mutateTokens(const std::string &text, std::minstd_rand &random) const;
  static std::string mutateLines(const std::string &text, std::minstd_rand &random);

  std::vector<std::string> words;
};

/// The strings of a dictionary in libFuzzer's format.
std::vector<std::string> readDictionary(const char *path);

} // namespace dl::test

#endif // DL_TEST_FUZZ_TEXTMUTATOR_H
