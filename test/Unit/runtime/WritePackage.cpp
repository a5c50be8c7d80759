//===- WritePackage.cpp - Writes the test package to a file ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// dl-write-test-package FILE [ENTRY]: ENTRY replaces the kernel's entry point, e.g. with one that
// computes wrong results; test_prepared comes with the kernel that prepares it.
//
//===----------------------------------------------------------------------===//
#include "PackageBuilder.h"

#include <fstream>
#include <iostream>

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: dl-write-test-package FILE [ENTRY]\n";
    return 2;
  }
  const bool isPrepared = argc > 2 && std::string(argv[2]) == "test_prepared";
  nlohmann::json manifest =
      isPrepared ? dl::test::makePreparedManifest() : dl::test::makeManifest();
  if (argc > 2)
    manifest["kernels"][0]["entry"] = argv[2];
  std::ofstream file(argv[1], std::ios::binary);
  file << dl::test::makePackage(manifest, {dl::test::kernelObject(), "// spec\n"});
  return file.good() ? 0 : 1;
}
