//===- HostObject.h - Kernels of the cpu target as a shared object ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_HOSTOBJECT_H
#define COMPILER_PACKAGE_HOSTOBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace dl::package {

/// Compiles a module in the LLVM dialect for x86-64-v3 and links it with the system's linker. The
/// object needs nothing but the C maths library, which the runtime makes visible before it loads
/// one. Diagnostics go to the module.
mlir::FailureOr<std::string> emitHostObject(mlir::ModuleOp module);

/// The LLVM IR such an object is made of, optimised.
mlir::FailureOr<std::string> emitHostIR(mlir::ModuleOp module);

} // namespace dl::package

#endif // COMPILER_PACKAGE_HOSTOBJECT_H
