//===- JsonMutator.cpp - Changes to JSON texts that leave them JSON -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonMutator.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

using nlohmann::json;

namespace {
class Mutator {
public:
  explicit Mutator(std::minstd_rand &random) : random(random) {}
  void change(json &root);

private:
  size_t below(size_t count) { return random() % count; }
  /// All values of the tree that lie at most `levels` deep: what is written is printed by
  /// recursion.
  void collect(json &value, int levels, std::vector<json *> &values);
  json makeValue();
  json makeNumber(const json &old);
  void changeElements(json &container, const json &other);

  std::minstd_rand &random;
};
} // namespace

void Mutator::collect(json &value, int levels, std::vector<json *> &values) {
  values.push_back(&value);
  if (levels > 0 && value.is_structured())
    for (json &child : value)
      collect(child, levels - 1, values);
}

json Mutator::makeNumber(const json &old) {
  static const int64_t edges[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  8,
                                  16,
                                  63,
                                  64,
                                  65,
                                  127,
                                  128,
                                  240,
                                  1024,
                                  1025,
                                  4000,
                                  4001,
                                  -1,
                                  -2,
                                  INT32_MAX,
                                  int64_t(INT32_MAX) + 1,
                                  INT32_MIN,
                                  int64_t(1) << 40,
                                  INT64_MAX,
                                  INT64_MAX - 1,
                                  INT64_MIN};
  switch (below(8)) {
  case 6:
  case 7:
    return below(2); // what divides, counts or sizes most often goes wrong with
  case 0:
    return old.is_number_integer() ? json(int64_t(old.get<uint64_t>() + 1)) : json(1);
  case 1:
    return old.is_number_integer() ? json(int64_t(old.get<uint64_t>() - 1)) : json(-1);
  case 2: {
    static const double numbers[] = {0.5, -0.0, 1e308, -1e308, 5e-324, 1e18, 9.3e18, 2147483648.0};
    return numbers[below(std::size(numbers))];
  }
  case 3:
    return UINT64_MAX - below(2);
  default:
    return edges[below(std::size(edges))];
  }
}

json Mutator::makeValue() {
  // Names that the readers know, and some that they do not.
  static const char *texts[] = {
      "",           "B",         "T",         "HQ",      "HV",      "pool_out",  "K",
      "V",          "cpu",       "so",        "ptx",     "cubin",   "sm_90a",    "kv",
      "vk",         "decode",    "f64",       "f32",     "f16",     "bf16",      "i64",
      "i32",        "u8",        "input",     "param",   "output",  "state_in",  "state_out",
      "slots_in",   "slots_out", "r",         "w",       "rw",      "workspace", "add",
      "sub",        "mul",       "div",       "mod",     "ceildiv", "min",       "max",
      "uniform",    "scalar",    "key",       "value",   "state",   "key_value", "key_head",
      "value_head", "constant",  "select",    "fma",     "cmp",     "oeq",       "read",
      "write",      "decay",     "broadcast", "reduce",  "exp",     "inf",       "-inf",
      "%s%n",       "\xc3\xa9",  "a\"b",      "N",       "pool_in", "default",   "min_rank",
      "row_starts", "row_flags", "accepted",  "log",     "cursors", "flush",     "counts",
      "slots",      "window",    "ring",      "prepare", "few"};
  switch (below(8)) {
  case 0:
    return nullptr;
  case 1:
    return below(2) == 0;
  case 2:
    return json::array();
  case 3:
    return json::object();
  case 4:
    return std::string("zero\0inside", 11);
  case 5:
    return makeNumber(nullptr);
  default:
    return texts[below(std::size(texts))];
  }
}

void Mutator::changeElements(json &container, const json &other) {
  if (container.is_array()) {
    size_t at = container.empty() ? 0 : below(container.size());
    switch (below(4)) {
    case 0:
      if (!container.empty())
        container.erase(container.begin() + at);
      return;
    case 1:
      // Many copies: limits on counts.
      for (size_t copies = below(4) ? 1 : below(70); copies > 0 && !container.empty(); --copies)
        container.push_back(json(container[at]));
      return;
    case 2:
      container.insert(container.begin() + at, makeValue());
      return;
    default:
      container.insert(container.begin() + at, other);
      return;
    }
  }
  if (container.empty())
    return;
  auto member = std::next(container.begin(), below(container.size()));
  if (below(2))
    container.erase(member);
  else
    *member = other;
}

void Mutator::change(json &root) {
  std::vector<json *> values;
  collect(root, 24, values);
  json &target = *values[below(values.size())];
  json other = *values[below(values.size())]; // a copy: `target` may lie inside
  if (other.dump(-1, ' ', false, json::error_handler_t::replace).size() > 1024)
    other = makeValue();
  if (target.is_structured() && below(4)) {
    changeElements(target, other);
    return;
  }
  switch (below(4)) {
  case 0:
    target = makeValue();
    return;
  case 1:
    target = other;
    return;
  default:
    target = target.is_number() ? makeNumber(target) : makeValue();
    return;
  }
}

std::string dl::test::mutateJson(const std::string &text, std::minstd_rand &random) {
  json root = json::parse(text, nullptr, false);
  if (root.is_discarded())
    return text;
  Mutator mutator(random);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
    mutator.change(root);
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}
