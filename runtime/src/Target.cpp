//===- Target.cpp - Which kernel runs on which chip -----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

using namespace dl::runtime;

bool dl::runtime::parseCudaTarget(const std::string &text, CudaTarget &target) {
  if (text.compare(0, 3, "sm_") != 0)
    return false;
  size_t end = 3;
  int capability = 0;
  for (; end < text.size() && end < 7 && text[end] >= '0' && text[end] <= '9'; ++end)
    capability = capability * 10 + (text[end] - '0');
  if (end < 5)
    return false;
  char suffix = end < text.size() ? text[end++] : 0;
  if (end != text.size() || (suffix && suffix != 'a' && suffix != 'f'))
    return false;
  target = {capability, suffix};
  return true;
}

int dl::runtime::rankCudaTarget(const CudaTarget &target, dlk_format format, int capability) {
  bool isSameMajor = target.capability / 10 == capability / 10;
  bool runs = target.capability <= capability;
  if (target.suffix == 'a')
    runs = target.capability == capability;
  else if (target.suffix == 'f' || format == DLK_FORMAT_CUBIN)
    runs = runs && isSameMajor;
  if (!runs || format == DLK_FORMAT_SO)
    return 0;
  int rank = 4 * target.capability + (target.suffix == 'a' ? 2 : target.suffix == 'f' ? 1 : 0) + 1;
  if (format == DLK_FORMAT_CUBIN)
    rank += target.capability == capability ? 200000 : 100000;
  return rank;
}
