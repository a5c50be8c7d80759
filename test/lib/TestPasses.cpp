//===- TestPasses.cpp - Passes that only tests use ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/lib/TestPasses.h"

void dl::test::registerPasses() { registerNormalFormPass(); }
