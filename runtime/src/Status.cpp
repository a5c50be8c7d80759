//===- Status.cpp - Status codes and the last error message ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "Status.h"

#include <cstdarg>
#include <cstdio>

using namespace dl::runtime;

static thread_local char lastMessage[1024];

dlk_status dl::runtime::fail(dlk_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(lastMessage, sizeof(lastMessage), format, arguments);
  va_end(arguments);
  // Names in messages come from files: keep the promise of one line.
  for (char *c = lastMessage; *c; ++c)
    if (static_cast<unsigned char>(*c) < ' ' || *c == '\x7f')
      *c = ' ';
  return status;
}

const char *dl::runtime::lastError() { return lastMessage; }
