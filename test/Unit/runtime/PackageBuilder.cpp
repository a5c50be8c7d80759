//===- PackageBuilder.cpp - Packages written by hand, for tests -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackageBuilder.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <iterator>

using nlohmann::json;

static json tensor(const char *name, const char *role, json shape, int pointer, json strides,
                   const char *access = "r", const char *dtype = "f32") {
  return {{"name", name},     {"role", role},       {"dtype", dtype},     {"shape", shape},
          {"access", access}, {"pointer", pointer}, {"strides", strides}, {"align", 4}};
}

/// An array with an entry per row, which the caller need not give.
static json rowArray(const char *name, const char *role, json shape, int pointer, json strides,
                     const std::string &dtype) {
  json array =
      tensor(name, role, std::move(shape), pointer, std::move(strides), "r", dtype.c_str());
  array["align"] = 1;
  array["nullable"] = true;
  return array;
}

static json slotArray(const char *name, const char *role, const char *width, int pointer,
                      const std::string &dtype) {
  json array = rowArray(name, role, {"N", width}, pointer, {pointer + 8, pointer + 12}, dtype);
  array["min_rank"] = 1;
  return array;
}

static json makeKernel(const std::string &indexType) {
  json poolIn = {"pool_in", "HV", 4, 8}, poolOut = {"pool_out", "HV", 4, 8};
  json starts = json::array({json::array({"add", "N", 1})}), rows = json::array({"N"});
  auto computed = [](const char *name, const char *dtype, int offset, json value) {
    return json{{"name", name}, {"dtype", dtype}, {"offset", offset}, {"value", std::move(value)}};
  };
  return {{"name", "gla.decode.4x8.kv.f32.f32"},
          {"kind", "decode"},
          {"target", "cpu"},
          {"format", "so"},
          {"blob", 0},
          {"entry", indexType == "i64" ? "test_decode_i64" : "test_decode"},
          {"dims", {{"K", 4}, {"V", 8}}},
          {"state_layout", "kv"},
          {"state_type", "f32"},
          {"io_type", "f32"},
          {"index_type", indexType},
          {"schedule", "recurrent"},
          {"threads", 1},
          {"scratch_bytes", 4 * 8 * 4},
          {"grid", {"N", "HV", 1}},
          {"requires", json::array({{{"expr", {"mod", "HV", "HQ"}},
                                     {"equals", 0},
                                     {"message", "HV must be a multiple of HQ"}}})},
          {"param_bytes", 272},
          {"args",
           {tensor("q", "input", {"B", "T", "HQ", 4}, 0, {8, 12, 16, nullptr}),
            tensor("k", "input", {"B", "T", "HQ", 4}, 24, {32, 36, 40, nullptr}),
            tensor("v", "input", {"B", "T", "HV", 8}, 48, {56, 60, 64, nullptr}),
            tensor("g", "input", {"B", "T", "HV"}, 72, {80, 84, 88}),
            tensor("o", "output", {"B", "T", "HV", 8}, 96, {104, 108, 112, nullptr}, "w"),
            tensor("S", "state_in", poolIn, 120, {128, 132, {{"fixed", 8}}, nullptr}),
            tensor("S", "state_out", poolOut, 136, {144, 148, {{"fixed", 8}}, nullptr}, "w"),
            slotArray("src_slots", "slots_in", "src_width", 152, indexType),
            slotArray("dst_slots", "slots_out", "dst_width", 168, indexType),
            rowArray("cu_seqlens", "row_starts", starts, 184, json::array({192}), indexType),
            rowArray("has_initial_state", "row_flags", rows, 200, json::array({208}), "u8"),
            rowArray("num_accepted_tokens", "accepted", rows, 216, json::array({224}), indexType)}},
          {"scalars",
           {{{"name", "scale"}, {"dtype", "f32"}, {"offset", 232}, {"default", 0.5}},
            {{"name", "first_slot"}, {"dtype", "i32"}, {"offset", 236}, {"default", 0}},
            computed("T", "i32", 240, "T"),
            computed("ratio", "i32", 244, {"div", "HV", "HQ"}),
            computed("pool_in", "i64", 248, "pool_in"),
            computed("pool_out", "i64", 256, "pool_out"),
            computed("src_width", "i32", 264, "src_width"),
            computed("dst_width", "i32", 268, "dst_width")}}};
}

static json makeReference() {
  auto port = [](const char *name, const char *axis, const char *group) {
    return json{{"name", name}, {"axis", axis}, {"group", group}};
  };
  auto node = [](const char *op, json args, const char *axis) {
    return json{{"op", op}, {"args", args}, {"axis", axis}, {"group", "value_head"}};
  };
  auto input = [](const char *name, const char *axis) {
    return json{{"op", "input"}, {"name", name}, {"axis", axis}};
  };
  return {{"inputs",
           {port("q", "key", "key_head"), port("k", "key", "key_head"),
            port("v", "value", "value_head"), port("g", "scalar", "value_head")}},
          {"params", json::array({{{"name", "scale"}, {"axis", "uniform"}, {"default", 0.5}}})},
          {"states", json::array({"S"})},
          {"outputs", json::array({"o"})},
          {"nodes",
           {input("q", "key"),                                         // 0
            input("k", "key"),                                         // 1
            input("v", "value"),                                       // 2
            input("g", "scalar"),                                      // 3
            {{"op", "param"}, {"name", "scale"}, {"axis", "uniform"}}, // 4
            {{"op", "state"}, {"index", 0}, {"axis", "state"}},        // 5
            node("decay", {5, 3}, "state"),                            // 6
            node("write", {6, 1, 2}, "state"),                         // 7
            node("read", {7, 0}, "value"),                             // 8
            node("broadcast", json::array({4}), "value"),              // 9
            node("mul", {8, 9}, "value")}},                            // 10
          {"yield", {{"states", json::array({7})}, {"outputs", json::array({10})}}}};
}

static json makeSymbols() {
  auto symbol = [](const char *name, int minimum) {
    return json{{"name", name}, {"min", minimum}};
  };
  json rows = symbol("N", 0), sources = symbol("src_width", 1),
       destinations = symbol("dst_width", 1);
  rows["default"] = "B";
  sources["default"] = destinations["default"] = 1;
  return {symbol("B", 0), symbol("T", 0), "HQ",    "HV",        rows,
          "pool_in",      "pool_out",     sources, destinations};
}

json dl::test::makeManifest(const std::string &indexType) {
  return {{"format", 6},
          {"generator", "PackageBuilder"},
          {"operator", "gla"},
          {"options", json::object()},
          {"spec", 1},
          {"symbols", makeSymbols()},
          {"reference", makeReference()},
          {"kernels", json::array({makeKernel(indexType)})}};
}

json dl::test::makePreparedManifest() {
  json manifest = makeManifest(), &kernels = manifest["kernels"];
  json chunks = {"add", {"div", {"mul", "B", "T"}, 32}, "N"};
  json &kernel = kernels[0];
  kernel["args"].push_back(
      tensor("workspace", "workspace", {chunks, "HV", 24}, 272, {280, 284, nullptr}, "w", "u8"));
  kernel["param_bytes"] = 288;
  kernel["entry"] = "test_prepared";
  json preparation = kernel;
  preparation["name"] = "prepare";
  preparation["prepares"] = kernel["name"];
  preparation["entry"] = "test_prepare";
  preparation["grid"] = {chunks, "HV", 1};
  preparation.erase("requires");
  kernels.push_back(preparation);
  return manifest;
}

json dl::test::makePartsManifest() {
  json manifest = makePreparedManifest();
  for (json &kernel : manifest["kernels"]) {
    kernel["scalars"].push_back(
        {{"name", "part"}, {"dtype", "i32"}, {"offset", 288}, {"parts", {"sub", "T", 1}}});
    kernel["param_bytes"] = 296;
  }
  return manifest;
}

static XXH128_hash_t hashOf(const std::string &bytes) {
  return XXH3_128bits(bytes.data(), bytes.size());
}

/// Header and blobs, and the "blobs" member for them.
static std::string layBlobs(const std::vector<std::string> &blobs, json &table) {
  std::string file(sizeof(DlkHeader), '\0');
  table = json::array();
  for (const std::string &blob : blobs) {
    file.resize((file.size() + DLK_BLOB_ALIGNMENT - 1) / DLK_BLOB_ALIGNMENT * DLK_BLOB_ALIGNMENT);
    XXH128_hash_t hash = hashOf(blob);
    char text[33];
    std::snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hash.high64,
                  (unsigned long long)hash.low64);
    table.push_back({{"offset", file.size()}, {"bytes", blob.size()}, {"hash", text}});
    file += blob;
  }
  return file;
}

static std::string finish(std::string file, const std::string &manifest) {
  XXH128_hash_t hash = hashOf(manifest);
  DlkHeader header = {};
  std::memcpy(header.magic, DLK_MAGIC, DLK_MAGIC_BYTES);
  header.version = DLK_FORMAT_VERSION;
  header.header_bytes = sizeof(header);
  header.manifest_offset = file.size();
  header.manifest_bytes = manifest.size();
  header.manifest_hash_lo = hash.low64;
  header.manifest_hash_hi = hash.high64;
  file += manifest;
  header.file_bytes = file.size();
  std::memcpy(&file[0], &header, sizeof(header));
  return file;
}

std::string dl::test::makePackage(json manifest, const std::vector<std::string> &blobs) {
  json table;
  std::string file = layBlobs(blobs, table);
  if (!manifest.contains("blobs"))
    manifest["blobs"] = table;
  return finish(std::move(file), manifest.dump());
}

std::string dl::test::makePackageFromText(const std::string &manifest,
                                          const std::vector<std::string> &blobs) {
  json table;
  return finish(layBlobs(blobs, table), manifest);
}

const std::string &dl::test::kernelObject() {
  static const std::string object = [] {
    std::ifstream file(DL_TEST_KERNEL, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return object;
}

std::string dl::test::makeDefaultPackage() {
  return makePackage(makeManifest(), {kernelObject(), "// spec\n"});
}
