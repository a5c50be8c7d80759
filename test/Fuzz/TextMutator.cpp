//===- TextMutator.cpp - Changes to MLIR text, token by token -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextMutator.h"

#include <algorithm>
#include <cctype>
#include <fstream>

using namespace dl::test;

namespace {
struct Token {
  size_t begin, end;
  char kind; // '%', '@', '!', '#', '"', '0': number, '.': name of an op, 'a': word, or punctuation
};
} // namespace

static bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

static Token readToken(const std::string &text, size_t begin) {
  const char first = text[begin];
  size_t end = begin + 1;
  auto skipWord = [&] {
    while (end < text.size() && (isWord(text[end]) || text[end] == '.' || text[end] == '$'))
      ++end;
  };
  if (first == '"') {
    while (end < text.size() && text[end] != '"' && text[end] != '\n')
      ++end;
    return {begin, std::min(end + 1, text.size()), '"'};
  }
  if (first == '%' || first == '@' || first == '!' || first == '#' || first == '^') {
    skipWord();
    return {begin, end, first};
  }
  if (!isWord(first))
    return {begin, end, first};
  skipWord();
  if (std::isdigit(static_cast<unsigned char>(first)))
    return {begin, end, '0'};
  return {begin, end, text.find('.', begin) < end ? '.' : 'a'};
}

/// All tokens outside comments.
static std::vector<Token> tokensOf(const std::string &text) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[at]))) {
      ++at;
    } else if (text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      tokens.push_back(readToken(text, at));
      at = tokens.back().end;
    }
  }
  return tokens;
}

static std::string makeNumber(std::minstd_rand &random) {
  static const char *numbers[] = {"0",
                                  "1",
                                  "-1",
                                  "2",
                                  "3",
                                  "4",
                                  "16",
                                  "32",
                                  "64",
                                  "65536",
                                  "2147483648",
                                  "0.0",
                                  "-0.0",
                                  "0.5",
                                  "-5.0",
                                  "1.0e38",
                                  "1.0e-45",
                                  "0x7FC00000",
                                  "1.0e60",
                                  "1024",
                                  "true",
                                  "false",
                                  "0x7F800000",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "18446744073709551616"};
  return numbers[random() % std::size(numbers)];
}

std::string TextMutator::mutateTokens(const std::string &text, std::minstd_rand &random) const {
  const std::vector<Token> tokens = tokensOf(text);
  if (tokens.empty())
    return text;
  const Token target = tokens[random() % tokens.size()];
  auto spelling = [&](const Token &token) {
    return text.substr(token.begin, token.end - token.begin);
  };
  // A token of the same kind, from elsewhere in the text or from the dictionary.
  auto makeSimilar = [&] {
    std::vector<std::string> candidates;
    for (const Token &token : tokens)
      if (token.kind == target.kind)
        candidates.push_back(spelling(token));
    if (random() % 2)
      for (const std::string &word : words)
        if (readToken(word, 0).kind == target.kind)
          candidates.push_back(word);
    return candidates[random() % candidates.size()];
  };
  std::string middle;
  switch (random() % 8) {
  case 0:
    break; // dropped
  case 1:
    middle = spelling(target) + " " + spelling(target);
    break;
  case 2:
    middle = words[random() % words.size()];
    break;
  case 3:
    middle = spelling(target) + " " + words[random() % words.size()];
    break;
  default:
    middle = target.kind == '0' && random() % 2 ? makeNumber(random) : makeSimilar();
  }
  return text.substr(0, target.begin) + middle + text.substr(target.end);
}

std::string TextMutator::mutateLines(const std::string &text, std::minstd_rand &random) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty())
    return text;
  const size_t from = random() % lines.size(), to = random() % lines.size();
  switch (random() % 4) {
  case 0:
    lines.erase(lines.begin() + from);
    break;
  case 1:
    lines.insert(lines.begin() + to, std::string(lines[from]));
    break;
  case 2:
    std::swap(lines[from], lines[to]);
    break;
  default: // a run of lines
    lines.erase(lines.begin() + std::min(from, to),
                lines.begin() + std::min(std::max(from, to), std::min(from, to) + 4));
  }
  std::string result;
  for (const std::string &line : lines)
    result += line + '\n';
  return result;
}

std::string TextMutator::mutate(const std::string &text, std::minstd_rand &random) const {
  std::string result = text;
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
    result = random() % 5 ? mutateTokens(result, random) : mutateLines(result, random);
  return result;
}

std::vector<std::string> dl::test::readDictionary(const char *path) {
  std::vector<std::string> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() < 3 || line.front() != '"' || line.back() != '"')
      continue;
    std::string word;
    for (size_t i = 1; i + 1 < line.size(); ++i) {
      if (line[i] == '\\' && i + 2 < line.size())
        ++i;
      word += line[i];
    }
    words.push_back(word);
  }
  return words;
}
