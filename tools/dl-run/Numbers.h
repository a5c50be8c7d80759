//===- Numbers.h - Storage types and strided tensors on the host --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DLRUN_NUMBERS_H
#define DL_TOOLS_DLRUN_NUMBERS_H

#include "dl/dlk.h"

#include <cmath>
#include <cstring>
#include <vector>

namespace dl::run {

/// Bits of a float rounded to nearest even to a format of 8 (bf16) or 5 (f16) exponent bits.
inline uint16_t toBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value))
    return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline uint16_t toFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value))
    return 0x7fff;
  if (magnitude >= 65520.0f)
    return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  if (magnitude == 0 || exponent < -13) // below 2^-14: subnormal, units of 2^-24
    return static_cast<uint16_t>(sign | int(std::nearbyint(std::ldexp(magnitude, 24))));
  // 11 significant bits; a carry into the exponent comes out right.
  int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + (units - 1024)));
}

inline float fromFloat16(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                : exponent == 0 ? std::ldexp(float(mantissa), -24)
                                : std::ldexp(float(1024 + mantissa), exponent - 25);
  return bits & 0x8000 ? -value : value;
}

/// Writes `value`, rounded to the type.
inline void encode(dlk_dtype dtype, double value, void *to) {
  auto store = [&](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  switch (dtype) {
  case DLK_F64:
    return store(value);
  case DLK_F32:
    return store(static_cast<float>(value));
  case DLK_F16:
    return store(toFloat16(static_cast<float>(value)));
  case DLK_BF16:
    return store(toBFloat16(static_cast<float>(value)));
  case DLK_I64:
    return store(static_cast<int64_t>(value));
  case DLK_I32:
    return store(static_cast<int32_t>(value));
  case DLK_U8:
    return store(static_cast<uint8_t>(value));
  }
}

inline double decode(dlk_dtype dtype, const void *from) {
  auto load = [&](auto typed) {
    std::memcpy(&typed, from, sizeof(typed));
    return typed;
  };
  switch (dtype) {
  case DLK_F64:
    return load(double());
  case DLK_F32:
    return load(float());
  case DLK_F16:
    return fromFloat16(load(uint16_t()));
  case DLK_BF16: {
    uint32_t bits = uint32_t(load(uint16_t())) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  case DLK_I64:
    return static_cast<double>(load(int64_t()));
  case DLK_I32:
    return load(int32_t());
  case DLK_U8:
    return load(uint8_t());
  }
  return 0;
}

/// `value` as it is after storing it.
inline double roundTo(dlk_dtype dtype, double value) {
  char bytes[8];
  encode(dtype, value, bytes);
  return decode(dtype, bytes);
}

inline int64_t numElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Where element `n`, counted row-major over the shape, lies: in elements from the first.
inline int64_t elementOffset(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                             int64_t n) {
  int64_t offset = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    offset += n % shape[i] * strides[i];
    n /= shape[i];
  }
  return offset;
}

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_NUMBERS_H
