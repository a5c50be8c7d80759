//===- JsonReader.cpp - Typed access to untrusted JSON --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"

using namespace dl::runtime;

void JsonReader::fail(const std::string &message) const {
  if (error->empty())
    *error = (path.empty() ? "manifest" : path) + ": " + message;
}

JsonReader JsonReader::find(const char *key) const {
  std::string memberPath = path.empty() ? key : path + "." + key;
  if (!value)
    return {nullptr, std::move(memberPath), *error};
  if (!value->is_object()) {
    fail(std::string("expected an object, got ") + value->type_name());
    return {nullptr, std::move(memberPath), *error};
  }
  auto it = value->find(key);
  const nlohmann::json *member = it == value->end() || it->is_null() ? nullptr : &*it;
  return {member, std::move(memberPath), *error};
}

JsonReader JsonReader::at(const char *key) const {
  JsonReader member = find(key);
  if (!member)
    member.fail("missing");
  return member;
}

size_t JsonReader::size() const {
  if (!value)
    return 0;
  if (value->is_array())
    return value->size();
  fail(std::string("expected an array, got ") + value->type_name());
  return 0;
}

JsonReader JsonReader::operator[](size_t index) const {
  std::string elementPath = path + "[" + std::to_string(index) + "]";
  if (index < size())
    return {&(*value)[index], std::move(elementPath), *error};
  JsonReader element(nullptr, std::move(elementPath), *error);
  element.fail("missing");
  return element;
}

std::string JsonReader::text() const {
  if (!value)
    return "";
  if (value->is_string()) {
    const std::string &text = value->get_ref<const std::string &>();
    // Text becomes C strings: a zero inside would cut it silently.
    if (text.find('\0') == std::string::npos)
      return text;
    fail("expected text without zero characters");
    return "";
  }
  fail(std::string("expected text, got ") + value->type_name());
  return "";
}

int64_t JsonReader::integer(int64_t low, int64_t high) const {
  if (!value)
    return low;
  std::string range = "[" + std::to_string(low) + ", " + std::to_string(high) + "]";
  bool tooLarge = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t(INT64_MAX);
  if (!value->is_number_integer() || tooLarge) {
    fail("expected an integer in " + range + ", got " +
         (tooLarge ? value->dump() : value->type_name()));
    return low;
  }
  int64_t number = value->get<int64_t>();
  if (number >= low && number <= high)
    return number;
  fail("expected an integer in " + range + ", got " + std::to_string(number));
  return low;
}

double JsonReader::number() const {
  if (!value)
    return 0;
  if (value->is_number())
    return value->get<double>();
  fail(std::string("expected a number, got ") + value->type_name());
  return 0;
}

bool JsonReader::flag() const {
  if (!value)
    return false;
  if (value->is_boolean())
    return value->get<bool>();
  fail(std::string("expected true or false, got ") + value->type_name());
  return false;
}

int JsonReader::choice(std::initializer_list<const char *> names) const {
  std::string given = text();
  std::string allowed;
  int index = 0;
  for (const char *name : names) {
    if (given == name)
      return index;
    allowed += (index++ ? ", " : "") + std::string(name);
  }
  if (value)
    fail("expected one of " + allowed + "; got '" + given + "'");
  return 0;
}
