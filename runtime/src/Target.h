//===- Target.h - Which kernel runs on which chip -------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_TARGET_H
#define DL_RUNTIME_TARGET_H

#include "dl/dlk.h"

#include <string>

namespace dl::runtime {

/// A CUDA target: "sm_90" (90), "sm_90a" (that chip only), "sm_100f" (that family from there on).
struct CudaTarget {
  int capability = 0;
  char suffix = 0; // 0, 'a' or 'f'
};

/// Reads "sm_N[a|f]"; returns false for any other text.
bool parseCudaTarget(const std::string &text, CudaTarget &target);

/// How well code fits a chip of the given compute capability: 0 = it does not run there; more is
/// better. Machine code for exactly this chip beats that of its family, which beats PTX.
int rankCudaTarget(const CudaTarget &target, dlk_format format, int capability);

} // namespace dl::runtime

#endif // DL_RUNTIME_TARGET_H
