//===- PackageTest.cpp - Opening packages and finding kernels -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackageBuilder.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>

using namespace dl::test;
using nlohmann::json;

namespace {

/// Opens bytes and returns "status: message", or "" on success.
std::string openError(const std::string &bytes) {
  dlk_package *package = nullptr;
  dlk_status status = dlk_package_open_memory(bytes.data(), bytes.size(), &package);
  EXPECT_EQ(package == nullptr, status != DLK_OK);
  dlk_package_close(package);
  return status == DLK_OK ? "" : std::string(dlk_status_name(status)) + ": " + dlk_last_error();
}

/// The default package with its header changed.
std::string withHeader(const std::function<void(DlkHeader &)> &edit) {
  std::string bytes = makeDefaultPackage();
  DlkHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  edit(header);
  std::memcpy(&bytes[0], &header, sizeof(header));
  return bytes;
}

/// The error of the default package with its manifest changed.
std::string manifestError(const std::function<void(json &)> &edit) {
  json manifest = makeManifest();
  edit(manifest);
  return openError(makePackage(manifest, {kernelObject(), "// spec\n"}));
}

std::string kernelError(const std::function<void(json &)> &edit) {
  return manifestError([&](json &manifest) { edit(manifest["kernels"][0]); });
}

TEST(Package, Opens) {
  std::string bytes = makeDefaultPackage();
  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
      << dlk_last_error();
  EXPECT_STREQ(dlk_package_operator(package), "gla");
  EXPECT_STREQ(dlk_package_spec(package, nullptr), "// spec\n");
  size_t size = 0;
  EXPECT_EQ(json::parse(dlk_package_manifest(package, &size))["operator"], "gla");
  EXPECT_GT(size, 100u);

  ASSERT_EQ(dlk_kernel_count(package), 1);
  EXPECT_EQ(dlk_kernel_at(package, 1), nullptr);
  EXPECT_EQ(dlk_kernel_at(package, -1), nullptr);
  const dlk_kernel *kernel = dlk_kernel_at(package, 0);
  dlk_kernel_info info;
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  EXPECT_STREQ(info.kind, "decode");
  EXPECT_EQ(info.value_dim, 8);
  EXPECT_EQ(info.num_args, 12);
  EXPECT_EQ(info.num_scalars, 2);
  EXPECT_EQ(info.pdl, 0);
  EXPECT_STREQ(info.index_type, "i32");
  dlk_arg_info arg;
  ASSERT_EQ(dlk_kernel_get_arg(kernel, 6, &arg), DLK_OK);
  EXPECT_EQ(arg.role, DLK_ROLE_STATE_OUT);
  EXPECT_EQ(arg.written, 1);
  EXPECT_STREQ(arg.shape[0], "pool_out");
  EXPECT_EQ(arg.min_rank, 4);
  EXPECT_EQ(arg.stride[1], 0);
  EXPECT_EQ(arg.stride[2], 8);
  ASSERT_EQ(dlk_kernel_get_arg(kernel, 7, &arg), DLK_OK);
  EXPECT_EQ(arg.rank, 2);
  EXPECT_EQ(arg.min_rank, 1);
  ASSERT_EQ(dlk_kernel_get_arg(kernel, 9, &arg), DLK_OK);
  EXPECT_EQ(arg.role, DLK_ROLE_ROW_STARTS);
  EXPECT_STREQ(arg.shape[0], "(N+1)");
  EXPECT_EQ(dlk_kernel_get_arg(kernel, 12, &arg), DLK_INVALID_ARGUMENT);
  dlk_scalar_info scalar;
  ASSERT_EQ(dlk_kernel_get_scalar(kernel, 0, &scalar), DLK_OK);
  EXPECT_STREQ(scalar.name, "scale");
  EXPECT_EQ(scalar.default_value, 0.5);
  dlk_package_close(package);
  dlk_package_close(nullptr);
}

TEST(Package, OpensFiles) {
  std::string path = ::testing::TempDir() + "dl_package_test.dlk";
  std::string bytes = makeDefaultPackage();
  FILE *file = std::fopen(path.c_str(), "wb");
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  dlk_package *package = nullptr;
  EXPECT_EQ(dlk_package_open_file(path.c_str(), &package), DLK_OK) << dlk_last_error();
  dlk_package_close(package);
  std::remove(path.c_str());
  EXPECT_EQ(dlk_package_open_file(path.c_str(), &package), DLK_IO_ERROR);
  EXPECT_EQ(dlk_last_error(), "cannot open '" + path + "': No such file or directory");
  EXPECT_EQ(dlk_package_open_file("/", &package), DLK_IO_ERROR);
  EXPECT_EQ(dlk_package_open_file(nullptr, &package), DLK_INVALID_ARGUMENT);
}

TEST(Package, RefusesDamage) {
  std::string bytes = makeDefaultPackage();
  EXPECT_EQ(openError(""), "bad package: truncated package: expected at least 64 bytes, got 0");
  EXPECT_EQ(openError(bytes.substr(0, 63)),
            "bad package: truncated package: expected at least 64 bytes, got 63");
  EXPECT_EQ(openError(bytes.substr(0, bytes.size() - 1)),
            "bad package: truncated package: expected " + std::to_string(bytes.size()) +
                " bytes, got " + std::to_string(bytes.size() - 1));
  std::string damaged = bytes;
  damaged.back() ^= 1;
  EXPECT_EQ(openError(damaged).find("bad package: manifest hash: expected "), 0u);
  damaged = bytes;
  damaged[64] ^= 1;
  EXPECT_EQ(openError(damaged).find("bad package: blobs[0] hash: expected "), 0u);
}

TEST(Package, SurvivesEveryTruncationAndManyFlips) {
  std::string bytes = makePackage(makeManifest(), {"code", "spec"});
  for (size_t length = 0; length < bytes.size(); length += 7)
    EXPECT_NE(openError(bytes.substr(0, length)), "");
  for (size_t i = 0; i < bytes.size() * 8; i += 5) {
    std::string damaged = bytes;
    damaged[i / 8] ^= char(1 << i % 8);
    openError(damaged); // padding may change; nothing may crash
  }
}

TEST(Package, RefusesHeaders) {
  EXPECT_EQ(openError(withHeader([](DlkHeader &h) { h.magic[6] = '\n'; })),
            "bad package: not a package: it does not start with 'DLKPKG'");
  EXPECT_EQ(openError(withHeader([](DlkHeader &h) { h.version = 1; })),
            "bad package: package format: expected version 6, got 1");
  EXPECT_EQ(openError(withHeader([](DlkHeader &h) { h.header_bytes = 128; })),
            "bad package: package header: expected 64 bytes, got 128");
  for (uint64_t offset : {uint64_t(0), uint64_t(1) << 40, UINT64_MAX})
    EXPECT_NE(openError(withHeader([&](DlkHeader &h) { h.manifest_offset = offset; })), "");
  EXPECT_NE(openError(withHeader([](DlkHeader &h) { h.manifest_bytes = UINT64_MAX; })), "");
}

TEST(Package, RefusesGarbageManifests) {
  for (const char *text : {"", "{", "\xff\xfe", "{\"format\":1} trailing"})
    EXPECT_EQ(openError(makePackageFromText(text, {})),
              "bad package: the manifest is not valid JSON");
  EXPECT_EQ(openError(makePackageFromText("[1]", {})),
            "bad package: manifest: expected an object, got array");
  EXPECT_EQ(openError(makePackageFromText("{}", {})), "bad package: format: missing");
  EXPECT_EQ(openError(makePackageFromText(std::string(200000, '['), {})),
            "bad package: the manifest is not valid JSON");
}

TEST(Package, RefusesWrongMembers) {
  EXPECT_EQ(manifestError([](json &m) { m["format"] = 1; }),
            "bad package: format: expected an integer in [6, 6], got 1");
  EXPECT_EQ(manifestError([](json &m) { m["operator"] = 7; }),
            "bad package: operator: expected text, got number");
  EXPECT_EQ(manifestError([](json &m) { m["symbols"] = {"B", "B"}; }),
            "bad package: symbols[1]: expected a new name, got 'B'");
  EXPECT_EQ(manifestError([](json &m) { m.erase("kernels"); }), "bad package: kernels: missing");
  EXPECT_EQ(manifestError([](json &m) { m["spec"] = 2; }),
            "bad package: spec: expected an integer in [0, 1], got 2");
  EXPECT_EQ(manifestError([](json &m) {
              m["blobs"] = json::array({{{"offset", 64}, {"bytes", 1 << 30}, {"hash", ""}}});
            }).find("bad package: blobs[0]: bytes 64 + 1073741824 lie outside the file of "),
            0u);
  EXPECT_EQ(
      manifestError([](json &m) {
        m["blobs"] = json::array({{{"offset", -64}, {"bytes", 1}, {"hash", ""}}});
      }),
      "bad package: blobs[0].offset: expected an integer in [64, 9223372036854775807], got -64");
}

TEST(Package, RefusesWrongKernels) {
  EXPECT_EQ(kernelError([](json &k) { k["blob"] = 2; }),
            "bad package: kernels[0].blob: expected an integer in [0, 1], got 2");
  EXPECT_EQ(kernelError([](json &k) { k["format"] = "elf"; }),
            "bad package: kernels[0].format: expected one of cubin, ptx, so; got 'elf'");
  EXPECT_EQ(kernelError([](json &k) { k["format"] = "ptx"; }),
            "bad package: kernels[0].format: expected 'so' for the target cpu and only there");
  EXPECT_EQ(kernelError([](json &k) { k["grid"][1] = "HX"; }),
            "bad package: kernels[0].grid[1]: unknown symbol 'HX'");
  EXPECT_EQ(kernelError([](json &k) { k["index_type"] = "u8"; }),
            "bad package: kernels[0].index_type: expected one of i32, i64; got 'u8'");
  EXPECT_EQ(kernelError([](json &k) { k["param_bytes"] = 100000; }),
            "bad package: kernels[0].param_bytes: expected an integer in [0, 4000], got 100000");
  EXPECT_EQ(kernelError([](json &k) { k["name"] = std::string("a\0b", 3); }),
            "bad package: kernels[0].name: expected text without zero characters");
}

/// The first kernel with a variant, edited by `edit`.
static std::string variantError(const std::function<void(json &)> &edit) {
  return manifestError([&](json &manifest) {
    json variant = manifest["kernels"][0];
    variant["name"] = "variant";
    variant["variant_of"] = manifest["kernels"][0]["name"];
    variant["when"] = {{{"expr", "N"}, {"max", 4}}};
    edit(variant);
    manifest["kernels"] = {manifest["kernels"][0], variant};
  });
}

TEST(Package, ChecksVariants) {
  EXPECT_EQ(variantError([](json &v) { v["args"][0]["align"] = 4; }), "");
  EXPECT_EQ(variantError([](json &v) { v.erase("when"); }),
            "bad package: kernels[1].when: missing");
  EXPECT_EQ(variantError([](json &v) { v["when"][0]["expr"] = "X"; }),
            "bad package: kernels[1].when[0].expr: unknown symbol 'X'");
  EXPECT_EQ(variantError([](json &v) { v["variant_of"] = "variant"; }),
            "bad package: kernels[1].variant_of: expected the name of another kernel for cpu that "
            "is no variant and prepares none, got 'variant'");
  const std::string others = "bad package: kernels[1].variant_of: expected a kernel with the same "
                             "arguments, scalars and requirements, 'gla.decode.4x8.kv.f32.f32' has "
                             "others";
  EXPECT_EQ(variantError([](json &v) { v["args"][0]["name"] = "query"; }), others);
  EXPECT_EQ(variantError([](json &v) { v["args"][0]["align"] = 16; }), others);
  EXPECT_EQ(variantError([](json &v) { v["args"].erase(11); }), others);
  EXPECT_EQ(variantError([](json &v) { v["scalars"][0]["default"] = 0.25; }), others);
  EXPECT_EQ(variantError([](json &v) { v["param_bytes"] = 280; }), others);
  EXPECT_EQ(variantError([](json &v) { v.erase("requires"); }), others);
}

TEST(Package, RefusesWrongArguments) {
  auto argError = [](const std::function<void(json &)> &edit) {
    return kernelError([&](json &kernel) { edit(kernel["args"][0]); });
  };
  EXPECT_EQ(argError([](json &a) { a["dtype"] = "f8"; }),
            "bad package: kernels[0].args[0].dtype: expected one of f64, f32, f16, bf16, i64, i32, "
            "u8; got 'f8'");
  EXPECT_EQ(
      argError([](json &a) { a["pointer"] = 268; }),
      "bad package: kernels[0].args[0].pointer: expected a multiple of 8 with room for 8 bytes "
      "in param_bytes = 272, got 268");
  EXPECT_EQ(
      argError([](json &a) { a["pointer"] = 272; }),
      "bad package: kernels[0].args[0].pointer: expected a multiple of 8 with room for 8 bytes "
      "in param_bytes = 272, got 272");
  EXPECT_EQ(argError([](json &a) { a["strides"][1] = 8; }),
            "bad package: kernels[0].args[0].strides[1]: overlaps another parameter at byte 8");
  EXPECT_EQ(argError([](json &a) { a["strides"] = {8, 16}; }),
            "bad package: kernels[0].args[0].strides: expected one entry per dimension");
  EXPECT_EQ(argError([](json &a) { a["access"] = "w"; }),
            "bad package: kernels[0].args[0].access: expected r for the role input");
  EXPECT_EQ(argError([](json &a) { a["align"] = 12; }),
            "bad package: kernels[0].args[0].align: expected a power of two, got 12");
  EXPECT_EQ(argError([](json &a) { a["shape"][3] = 0; }),
            "bad package: kernels[0].args[0].shape[3]: expected a positive number, got 0");
}

TEST(Package, RefusesWrongSymbols) {
  auto symbolError = [](const char *name, const std::function<void(json &)> &edit) {
    return manifestError([&](json &manifest) {
      for (json &symbol : manifest["symbols"])
        if (symbol.is_object() && symbol["name"] == name)
          edit(symbol);
    });
  };
  EXPECT_EQ(symbolError("N", [](json &s) { s["min"] = 2; }),
            "bad package: symbols[4].min: expected an integer in [0, 1], got 2");
  EXPECT_EQ(symbolError("N", [](json &s) { s["default"] = "rows"; }),
            "bad package: symbols[4].default: unknown symbol 'rows'");
  EXPECT_EQ(symbolError("N", [](json &s) { s.erase("name"); }),
            "bad package: symbols[4].name: missing");
  const char *circle = "bad package: symbols[4]: expected a default of symbols that stand before "
                       "it or have none, got '";
  EXPECT_EQ(symbolError("N", [](json &s) { s["default"] = "N"; }), circle + std::string("N'"));
  EXPECT_EQ(symbolError("N", [](json &s) { s["default"] = {"add", "B", "src_width"}; }),
            circle + std::string("src_width'"));
  EXPECT_EQ(symbolError("src_width", [](json &s) { s["default"] = {"mul", "N", "HV"}; }), "");
  // Without a default, or with one that is not known either, an argument must show the size.
  const std::string unknown = "bad package: kernels[0].args[7].shape: 'N' is not a dimension of "
                              "any argument that must be given";
  EXPECT_EQ(symbolError("N", [](json &s) { s.erase("default"); }), unknown);
  EXPECT_EQ(manifestError([](json &m) {
              m["symbols"].push_back("X");
              m["symbols"][4]["default"] = "X";
            }),
            unknown);
  EXPECT_EQ(manifestError([](json &m) {
              for (int i = 0; i < 8; ++i)
                m["symbols"].push_back("X" + std::to_string(i));
            }),
            "bad package: symbols: expected at most 16 symbols");
}

TEST(Package, RefusesWrongRowArrays) {
  auto argError = [](int index, const std::function<void(json &)> &edit) {
    return kernelError([&](json &kernel) { edit(kernel["args"][index]); });
  };
  const std::string slots = "bad package: kernels[0].args[7]: expected i32 or i64 and the shape "
                            "[\"N\"] or [\"N\", symbol] for the role slots_in";
  EXPECT_EQ(argError(7, [](json &a) { a["dtype"] = "u8"; }), slots);
  EXPECT_EQ(argError(7, [](json &a) { a["shape"][0] = "B"; }), slots);
  EXPECT_EQ(argError(7, [](json &a) { a["shape"][1] = 2; }), slots);
  EXPECT_EQ(argError(9, [](json &a) { a["shape"][0] = "N"; }),
            "bad package: kernels[0].args[9]: expected i32 or i64 and the shape "
            "[[\"add\", \"N\", 1]] for the role row_starts");
  EXPECT_EQ(argError(10, [](json &a) { a["dtype"] = "i32"; }),
            "bad package: kernels[0].args[10]: expected u8 and the shape [\"N\"] for the role "
            "row_flags");
  EXPECT_EQ(argError(8, [](json &a) { a["role"] = "slots_in"; }),
            "bad package: kernels[0].args[8].role: expected one argument of the role slots_in");
  EXPECT_EQ(argError(7, [](json &a) { a["min_rank"] = 3; }),
            "bad package: kernels[0].args[7].min_rank: expected an integer in [0, 2], got 3");
  EXPECT_EQ(argError(5, [](json &a) { a["shape"][0] = 7; }),
            "bad package: kernels[0].args[5].shape: expected a symbol as the first dimension of a "
            "state or a log");
}

class FindTest : public ::testing::Test {
protected:
  void SetUp() override {
    json manifest = makeManifest();
    json bf16 = manifest["kernels"][0];
    bf16["name"] = "second";
    bf16["io_type"] = "bf16";
    bf16["index_type"] = "i64";
    json cubin = manifest["kernels"][0];
    cubin["name"] = "third";
    cubin["kind"] = "prefill";
    cubin["target"] = "sm_90a";
    cubin["format"] = "cubin";
    manifest["kernels"].push_back(bf16);
    manifest["kernels"].push_back(cubin);
    std::string bytes = makePackage(manifest, {kernelObject(), ""});
    ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
        << dlk_last_error();
  }
  void TearDown() override { dlk_package_close(package); }

  /// The name of the kernel found on the CPU, or the error.
  std::string find(const dlk_query &query) {
    const dlk_kernel *kernel = nullptr;
    if (dlk_find(package, &query, {DLK_DEVICE_CPU, 0}, &kernel) != DLK_OK)
      return dlk_last_error();
    dlk_kernel_info info;
    dlk_kernel_get_info(kernel, &info);
    return info.name;
  }

  dlk_package *package = nullptr;
};

TEST_F(FindTest, FindsByCondition) {
  dlk_query query = {};
  EXPECT_EQ(find(query), "gla.decode.4x8.kv.f32.f32");
  query.io_type = "bf16";
  EXPECT_EQ(find(query), "second");
  query.io_type = nullptr;
  query.index_type = "i64";
  EXPECT_EQ(find(query), "second");
  query.index_type = "i16";
  EXPECT_EQ(find(query), "no such kernel: expected the index_type to be one of i32, i64, got i16");
  query.index_type = nullptr;
  query.name = "second";
  EXPECT_EQ(find(query), "second");
  query.name = "fourth";
  EXPECT_EQ(find(query), "no such kernel: expected the name to be one of "
                         "gla.decode.4x8.kv.f32.f32, second, third, got fourth");
  query.name = nullptr;
  query.kind = "prefill";
  EXPECT_EQ(find(query), "no such kernel: expected a device for one of sm_90a, got cpu");
  query.kind = "merge";
  EXPECT_EQ(find(query),
            "no such kernel: expected the kind to be one of decode, prefill, got merge");
  query.kind = "decode";
  query.value_dim = 9;
  EXPECT_EQ(find(query), "no such kernel: expected the value_dim to be one of 8, got 9");
}

TEST_F(FindTest, Supported) {
  const dlk_kernel *kernel = dlk_kernel_at(package, 0);
  const dlk_device cpu = {DLK_DEVICE_CPU, 0};
  char reason[256] = "x";
  EXPECT_EQ(dlk_supported(kernel, cpu, nullptr, 0, reason, sizeof(reason)), DLK_OK);
  EXPECT_STREQ(reason, "");
  dlk_size sizes[] = {{"B", 2}, {"T", 1}, {"HQ", 2}, {"HV", 3}, {"pool_in", 2}, {"pool_out", 2}};
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 6, reason, sizeof(reason)), DLK_UNSUPPORTED);
  EXPECT_STREQ(reason,
               "kernel 'gla.decode.4x8.kv.f32.f32': HV must be a multiple of HQ, got HV = 3, "
               "HQ = 2");
  sizes[3].value = int64_t(1) << 40;
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 6, reason, sizeof(reason)), DLK_UNSUPPORTED);
  EXPECT_STREQ(reason,
               "kernel 'gla.decode.4x8.kv.f32.f32': grid y: expected 1 to 2147483647 blocks, "
               "got 1099511627776 (HV = 1099511627776)");
  sizes[3].value = 4;
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 6, nullptr, 0), DLK_OK);
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 2, reason, 8), DLK_UNSUPPORTED);
  EXPECT_STREQ(reason, "kernel ");
  // No rows: success without a grid. Other sizes have to be positive.
  sizes[0].value = 0;
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 6, nullptr, 0), DLK_OK) << dlk_last_error();
  sizes[0].value = -1;
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 6, reason, sizeof(reason)), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(reason, "size 'B': expected 0 or more, got -1");
  sizes[0].value = 2;
  sizes[2].value = 0;
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 6, reason, sizeof(reason)), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(reason, "size 'HQ': expected 1 or more, got 0");
  sizes[2].value = 2;
  sizes[1].symbol = "X";
  EXPECT_EQ(dlk_supported(kernel, cpu, sizes, 2, reason, sizeof(reason)), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(reason, "size 'X': the package has no such symbol");
  EXPECT_EQ(dlk_supported(dlk_kernel_at(package, 2), cpu, nullptr, 0, reason, sizeof(reason)),
            DLK_UNSUPPORTED);
  EXPECT_STREQ(reason, "kernel 'third' is for sm_90a, not for cpu");
}

TEST_F(FindTest, ShapesAndWorkspace) {
  const dlk_kernel *kernel = dlk_kernel_at(package, 0);
  dlk_size sizes[] = {{"B", 2}, {"T", 3}, {"HQ", 2}, {"HV", 4}, {"pool_in", 5}, {"N", 7}};
  int64_t shape[DLK_MAX_RANK] = {};
  ASSERT_EQ(dlk_arg_shape(kernel, 5, sizes, 5, shape), DLK_OK);
  EXPECT_EQ(shape[0], 5);
  EXPECT_EQ(shape[1], 4);
  EXPECT_EQ(shape[3], 8);
  EXPECT_EQ(dlk_arg_shape(kernel, 5, sizes, 4, shape), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(),
               "argument 'S' (state_in) dimension 0: pool_in: a size is not known");
  ASSERT_EQ(dlk_arg_shape(kernel, 9, sizes, 5, shape), DLK_OK) << dlk_last_error();
  EXPECT_EQ(shape[0], 3); // N = B by default
  ASSERT_EQ(dlk_arg_shape(kernel, 9, sizes, 6, shape), DLK_OK) << dlk_last_error();
  EXPECT_EQ(shape[0], 8);
  ASSERT_EQ(dlk_arg_shape(kernel, 7, sizes, 6, shape), DLK_OK) << dlk_last_error();
  EXPECT_EQ(shape[0], 7);
  EXPECT_EQ(shape[1], 1);
  uint64_t bytes = 1;
  EXPECT_EQ(dlk_workspace_bytes(kernel, sizes, 5, &bytes), DLK_OK);
  EXPECT_EQ(bytes, 0u);
}

TEST_F(FindTest, PrepareRefuses) {
  dlk_plan *plan = nullptr;
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 2), {DLK_DEVICE_CPU, 0}, 0, &plan), DLK_UNSUPPORTED);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {9, 0}, 0, &plan), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(), "device type: expected 1 (cpu) or 2 (cuda), got 9");
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, 64, &plan),
            DLK_INVALID_ARGUMENT);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, DLK_PLAN_PDL, &plan),
            DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(), "kernel 'gla.decode.4x8.kv.f32.f32': DLK_PLAN_PDL: expected a "
                                 "CUDA device of sm_90 or newer, got cpu");
  EXPECT_EQ(plan, nullptr);
  dlk_plan_release(nullptr);
}

TEST(Prepare, RefusesObjectsThatDoNotLoad) {
  std::string bytes = makePackage(makeManifest(), {"not an ELF file", ""});
  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK);
  dlk_plan *plan = nullptr;
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, 0, &plan),
            DLK_DEVICE_ERROR);
  EXPECT_EQ(std::string(dlk_last_error()).find("cpu: cannot load the host object: "), 0u);
  dlk_package_close(package);

  json manifest = makeManifest();
  manifest["kernels"][0]["entry"] = "absent";
  bytes = makePackage(manifest, {kernelObject(), ""});
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, 0, &plan), DLK_BAD_PACKAGE);
  EXPECT_STREQ(dlk_last_error(),
               "kernel 'gla.decode.4x8.kv.f32.f32': the host object has no symbol 'absent'");
  dlk_package_close(package);
}

TEST(Device, Parses) {
  dlk_device device;
  EXPECT_EQ(dlk_device_parse("cpu", &device), DLK_OK);
  EXPECT_EQ(device.type, DLK_DEVICE_CPU);
  EXPECT_EQ(dlk_device_parse("cuda:3", &device), DLK_OK);
  EXPECT_EQ(device.id, 3);
  EXPECT_EQ(dlk_device_parse("cuda", &device), DLK_OK);
  for (const char *text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0"}) {
    EXPECT_EQ(dlk_device_parse(text, &device), DLK_INVALID_ARGUMENT) << text;
    EXPECT_EQ(std::string(dlk_last_error()),
              "device: expected cpu or cuda:N, got '" + std::string(text) + "'");
  }
}

} // namespace
