//===- HostKernel.h - Compiles a tile kernel and calls it -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef TEST_UNIT_TILETOCPU_HOSTKERNEL_H
#define TEST_UNIT_TILETOCPU_HOSTKERNEL_H

#include "compiler/Layout/Layout.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace dl::test {

/// One kernel from its text, lowered by convert-tile-to-cpu and compiled in process. A failure of
/// any step fails the test and leaves calls without effect.
class HostKernel {
public:
  explicit HostKernel(const std::string &text);

  /// Runs block (x, y, z) with the parameter struct made of `words`: pointers, strides (one
  /// per argument: two share a word) and scalars.
  void run(std::vector<uint64_t> words, uint32_t x = 0, uint32_t y = 0, uint32_t z = 0);

  int64_t scratchBytes = 0;

private:
  llvm::Error compile(const std::string &text);

  std::unique_ptr<llvm::orc::LLJIT> jit;
  int32_t (*entry)(const void *, const uint32_t *, void *) = nullptr;
};

template <typename T> uint64_t word(T *pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// Numbers that are not kind: all of them have a full mantissa, some are negative.
std::vector<float> randomFloats(size_t count, uint32_t seed = 1);

uint16_t toBF16(float value);
float fromBF16(uint16_t bits);

/// Text of "#name = #tile.blocked<...>".
std::string blockedText(const std::string &name, const layout::BlockedParams &params);

} // namespace dl::test

#endif // TEST_UNIT_TILETOCPU_HOSTKERNEL_H
