//===- Status.h - Status codes and the last error message -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef DL_RUNTIME_STATUS_H
#define DL_RUNTIME_STATUS_H

#include "dl/dlk.h"

namespace dl::runtime {

/// Stores a one-line message for this thread (cut to a fixed buffer: nothing is allocated) and
/// returns the status.
[[gnu::format(printf, 2, 3)]] dlk_status fail(dlk_status status, const char *format, ...);

/// The message of the last fail() on this thread.
const char *lastError();

/// Runs `body` and turns what it throws into a status: nothing may leave the C API as an exception.
template <typename Body> dlk_status guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    // The libraries in use throw std::bad_alloc only; everything else is checked before.
    return fail(DLK_OUT_OF_MEMORY, "out of memory");
  }
}

} // namespace dl::runtime

#endif // DL_RUNTIME_STATUS_H
