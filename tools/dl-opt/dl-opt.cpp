//===- dl-opt.cpp - Runs passes on a spec and prints the IR ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Help.h"
#include "compiler/Pipelines/Pipelines.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#ifdef DL_INCLUDE_TESTS
#include "test/lib/TestPasses.h"
#endif

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  dl::registerDialects(registry);
  dl::registerPasses();
#ifdef DL_INCLUDE_TESTS
  dl::test::registerPasses();
#endif
  std::string header =
      mlir::registerCLIOptions("Runs passes of dl on a spec and prints the IR\n", registry);
  if (dl::opt::printHelp(llvm::ArrayRef(argv, argc)))
    return EXIT_SUCCESS;
  auto [input, output] = mlir::parseCLIOptions(argc, argv, header);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
