//===- WriteSeeds.cpp - What package_fuzzer starts from -------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// dl-write-fuzz-seeds FOLDER: writes manifests and a package made from the test package.
//
//===----------------------------------------------------------------------===//
#include "PackageBuilder.h"

#include <cstring>
#include <fstream>
#include <iostream>

using nlohmann::json;

/// The manifest that a package holds, with the table of its blobs.
static std::string manifestOf(const std::string &package) {
  DlkHeader header;
  std::memcpy(&header, package.data(), sizeof(header));
  return package.substr(header.manifest_offset, header.manifest_bytes);
}

/// The default manifest with more of what a manifest may hold.
static json makeRichManifest() {
  json manifest = dl::test::makeManifest();
  json &kernel = manifest["kernels"][0];
  kernel["param_bytes"] = 288;
  json workspace = {{"name", "scratch"}, {"role", "workspace"}, {"dtype", "u8"},
                    {"access", "rw"},    {"pointer", 272},      {"align", 64}};
  workspace["shape"] = {json{"mul", "B", "HV", json{"ceildiv", "T", 16}}, 64};
  workspace["strides"] = {json{{"fixed", 64}}, nullptr};
  kernel["args"].push_back(workspace);
  kernel["scalars"].push_back({{"name", "count"},
                               {"dtype", "i64"},
                               {"offset", 280},
                               {"value", {"max", "B", {"sub", "T", 1}}}});
  kernel["requires"].push_back(
      {{"expr", {"min", "B", "T"}}, {"min", 1}, {"max", 4096}, {"message", "few"}});
  json other = kernel;
  other["target"] = "sm_90a";
  other["format"] = "cubin";
  manifest["kernels"].push_back(other);
  // Ops of the reference graph that the default one lacks.
  json &nodes = manifest["reference"]["nodes"];
  auto add = [&](const char *op, json args, const char *axis) {
    nodes.push_back({{"op", op}, {"args", args}, {"axis", axis}, {"group", "value_head"}});
  };
  nodes.push_back({{"op", "constant"}, {"value", 0.5}, {"axis", "scalar"}}); // 11
  add("reduce", json::array({2}), "scalar");                                 // 12
  add("cmp", {11, 12}, "scalar");                                            // 13
  nodes.back()["pred"] = "ogt";
  add("select", {13, 11, 12}, "scalar");                                         // 14
  add("fma", {11, 12, 14}, "scalar");                                            // 15
  add("exp", json::array({15}), "scalar");                                       // 16
  nodes.push_back({{"op", "constant"}, {"value", "-inf"}, {"axis", "uniform"}}); // 17
  return manifest;
}

/// Kernels that belong to another one: what is prepared, in parts, with a variant for few rows.
static json makeLinkedManifest() {
  json manifest = dl::test::makePartsManifest();
  manifest.erase("reference");
  json variant = manifest["kernels"][0];
  variant["name"] = "few";
  variant["variant_of"] = manifest["kernels"][0]["name"];
  variant["when"] = {{{"expr", {"mul", "N", "HV"}}, {"max", 4}}};
  manifest["kernels"].push_back(variant);
  return manifest;
}

/// As little as a kernel can be, with an expression wherever one can stand.
static json makeSmallManifest() {
  json manifest = dl::test::makeManifest();
  manifest.erase("reference");
  json &kernel = manifest["kernels"][0];
  const json q = kernel["args"][0], v = kernel["args"][2], state = kernel["args"][5];
  kernel["args"] = {q, v, state};
  kernel["args"][1]["shape"] = {json{"div", "T", 2}, json{"sub", "B", 1}, json{"max", "HV", 3}, 8};
  kernel["scalars"] = json::array({kernel["scalars"][3]});
  kernel["grid"] = {json{"ceildiv", "B", 4}, json{"mod", "HV", 8}, json{"add", 1, "T"}};
  return manifest;
}

/// A reference graph alone.
static json makeReferenceManifest() {
  json manifest = makeRichManifest();
  manifest["kernels"] = json::array();
  return manifest;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: dl-write-fuzz-seeds FOLDER\n";
    return 2;
  }
  const std::vector<std::string> blobs = {"code", "// spec\n"};
  const std::string package = dl::test::makePackage(dl::test::makeManifest(), blobs);
  bool ok = true;
  auto write = [&](const char *name, const std::string &bytes) {
    std::ofstream file(std::string(argv[1]) + "/" + name, std::ios::binary);
    file << bytes;
    ok &= file.good();
  };
  write("package.dlk", package);
  write("manifest.json", manifestOf(package));
  write("rich.json", manifestOf(dl::test::makePackage(makeRichManifest(), blobs)));
  write("linked.json", manifestOf(dl::test::makePackage(makeLinkedManifest(), blobs)));
  write("small.json", manifestOf(dl::test::makePackage(makeSmallManifest(), blobs)));
  write("reference.json", manifestOf(dl::test::makePackage(makeReferenceManifest(), blobs)));
  if (!ok)
    std::cerr << "dl-write-fuzz-seeds: cannot write to " << argv[1] << '\n';
  return ok ? 0 : 1;
}
