//===- PackageBuilder.h - Packages written by hand, for tests -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_UNIT_RUNTIME_PACKAGEBUILDER_H
#define DL_TEST_UNIT_RUNTIME_PACKAGEBUILDER_H

#include "dl/dlk.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dl::test {

/// The manifest of a package with the kernel of kernel.c: gated linear attention with K = 4 and V =
/// 8 in f32; slots and the like are of `indexType`, i32 or i64.
nlohmann::json makeManifest(const std::string &indexType = "i32");

/// The same with the scale taken from a workspace of a few bytes per chunk of 32 tokens and head,
/// and a second kernel, "prepare", that puts it there before.
nlohmann::json makePreparedManifest();

/// The same in T - 1 parts: launches that differ in the scalar "part".
nlohmann::json makePartsManifest();

/// The bytes of a package. Fills in "blobs"; the manifest is otherwise written as it is, right or
/// wrong.
std::string makePackage(nlohmann::json manifest, const std::vector<std::string> &blobs);

/// As above with text in the manifest's place.
std::string makePackageFromText(const std::string &manifest, const std::vector<std::string> &blobs);

/// The shared object of kernel.c.
const std::string &kernelObject();

/// makePackage(makeManifest(), {kernelObject(), spec text})
std::string makeDefaultPackage();

} // namespace dl::test

#endif // DL_TEST_UNIT_RUNTIME_PACKAGEBUILDER_H
