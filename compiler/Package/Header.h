//===- Header.h - What a launcher needs to know of kernels, as C ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_HEADER_H
#define COMPILER_PACKAGE_HEADER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace dl::package {

/// A C11 (and C++11) header for engines that launch kernels themselves: for each kernel its
/// parameter struct, with offsets asserted, and for each of its targets block, shared memory and
/// grid as macros. `kernels` are manifest entries; `stem`, the file's name, makes the include
/// guard.
std::string emitHeader(llvm::StringRef stem, llvm::ArrayRef<const llvm::json::Object *> kernels);

} // namespace dl::package

#endif // COMPILER_PACKAGE_HEADER_H
