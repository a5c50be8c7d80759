//===- Reference.h - The step of an operator as an expression graph ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_REFERENCE_H
#define COMPILER_PACKAGE_REFERENCE_H

#include "dialects/LinAttn/IR/LinAttn.h"
#include "llvm/Support/JSON.h"

namespace dl::package {

/// The prepared operator (options set, ops expanded) as the JSON graph the runtime's fp64 evaluator
/// interprets; format in runtime/README.md. Ops without a form there are diagnosed.
mlir::FailureOr<llvm::json::Object> emitReference(linattn::OperatorOp op, int64_t keyDim);

} // namespace dl::package

#endif // COMPILER_PACKAGE_REFERENCE_H
