//===- TestPasses.h - Passes that only tests use --------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_LIB_TESTPASSES_H
#define DL_TEST_LIB_TESTPASSES_H

namespace dl::test {

/// All of them; dl-opt calls it where tests are built.
void registerPasses();

void registerNormalFormPass();

} // namespace dl::test

#endif // DL_TEST_LIB_TESTPASSES_H
