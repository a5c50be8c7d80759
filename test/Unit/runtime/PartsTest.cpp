//===- PartsTest.cpp - Kernels launched for one part after the other ------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The package of makePartsManifest() is launched in T - 1 parts.
//
//===----------------------------------------------------------------------===//

#include "PreparationFixture.h"

#include <cstring>
#include <functional>

using namespace dl::test;
using nlohmann::json;

namespace {

std::string openError(const json &manifest) {
  const std::string bytes = makePackage(manifest, {kernelObject(), ""});
  dlk_package *package = nullptr;
  const dlk_status status = dlk_package_open_memory(bytes.data(), bytes.size(), &package);
  dlk_package_close(package);
  return status == DLK_OK ? "" : dlk_last_error();
}

/// The error of opening the package with both kernels, or one, edited.
std::string openError(const std::function<void(json &kernel)> &edit, int only = -1) {
  json manifest = makePartsManifest();
  for (int i : {Main, Prepare})
    if (only < 0 || only == i)
      edit(manifest["kernels"][i]);
  return openError(manifest);
}

TEST(Parts, AreChecked) {
  constexpr int part = 8; // among the scalars
  const std::string at = "kernels[0].scalars[8].";
  EXPECT_EQ(openError([](json &) {}), "");
  for (const char *dtype : {"i64", "f32"})
    EXPECT_EQ(openError([&](json &k) {
                k["scalars"][part]["dtype"] = dtype;
                k["scalars"][part]["offset"] = 288;
              }),
              at + "dtype: expected i32 for the number of a part");
  EXPECT_EQ(openError([](json &k) { k["scalars"][part]["value"] = 2; }),
            at + "parts: expected one scalar that counts parts, and it without 'value'");
  EXPECT_EQ(openError([](json &k) {
              k["scalars"].push_back(k["scalars"][part]);
              k["scalars"][9]["name"] = "second";
              k["scalars"][9]["offset"] = 292;
            }),
            "kernels[0].scalars[9].parts: expected one scalar that counts parts, and "
            "it without 'value'");
  EXPECT_EQ(openError([](json &k) { k["scalars"][part]["parts"] = "X"; }),
            at + "parts: unknown symbol 'X'");
  json manifest = makePartsManifest(); // a symbol that no argument's shape binds
  manifest["symbols"].push_back("W");
  manifest["kernels"][Main]["scalars"][part]["parts"] = {"add", "W", 1};
  EXPECT_EQ(openError(manifest),
            at + "parts: 'W' is not a dimension of any argument that must be given");
}

TEST(Parts, AreThoseOfTheWholePackage) {
  const std::string others = "kernels[1].prepares: expected a kernel with the same "
                             "arguments and scalars, 'gla.decode.4x8.kv.f32.f32' has others";
  EXPECT_EQ(openError([](json &p) { p["scalars"][8]["parts"] = "T"; }, Prepare), others);
  EXPECT_EQ(openError([](json &p) { p["scalars"].erase(8); }, Prepare), others);
}

/// Launches on the CPU.
class PartsTest : public PreparationTest {
protected:
  void SetUp() override { prepare(makePartsManifest()); }
};

TEST_F(PartsTest, TheCallerDoesNotGiveThePart) {
  dlk_kernel_info info;
  ASSERT_EQ(dlk_kernel_get_info(dlk_kernel_at(package, Main), &info), DLK_OK);
  EXPECT_EQ(info.num_scalars, 2);
  setWorkspace({2, 2, 24});
  EXPECT_EQ(launchPrepared({{"part", 1}}), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(),
               "scalar 'part': kernel 'gla.decode.4x8.kv.f32.f32' has no such scalar");
  EXPECT_EQ(launchPrepared(), DLK_OK) << dlk_last_error();
  EXPECT_FALSE(std::isnan(tensors[O].memory[0]));
}

/// No parts is nothing to do; too many, or fewer than none, are refused before anything happens.
TEST_F(PartsTest, HowManyThereMayBe) {
  setSizes(2, 1, 1, 2);
  setWorkspace({2, 2, 24});
  EXPECT_EQ(launchPrepared(), DLK_OK) << dlk_last_error();
  EXPECT_TRUE(std::isnan(tensors[O].memory[0]));
  setSizes(1, 1025, 1, 2);
  setWorkspace({33, 2, 24});
  EXPECT_EQ(launchPrepared(), DLK_OK) << dlk_last_error();
  EXPECT_FALSE(std::isnan(tensors[O].memory[0]));
  setSizes(1, 1026, 1, 2);
  setWorkspace({33, 2, 24});
  expectRefusal("scalar 'part': expected 0 to 1024 parts, got 1025", DLK_UNSUPPORTED);
  setSizes(2, 0, 1, 2);
  setWorkspace({2, 2, 24});
  expectRefusal("scalar 'part': expected 0 to 1024 parts, got -1", DLK_UNSUPPORTED);
}

/// On the fake driver: blocks of 8 threads, 16 of the preparation, three parts.
class PartsDriverTest : public PreparedDriverTest {
protected:
  void SetUp() override {
    setUpFor(makePartsManifest());
    setPdl(true, true);
  }
  void setPdl(bool main, bool preparation) {
    for (json &kernel : manifest["kernels"])
      kernel["pdl"] = kernel.contains("prepares") ? preparation : main;
  }

  static int partOf(const FakeLaunch &launch) {
    int32_t part = -1;
    std::memcpy(&part, launch.params + 288, sizeof(part));
    return part;
  }

  /// "p0 w0* p1": preparation or walk, its part, and whether it may start early.
  std::string launches() {
    std::string text;
    for (int i = 0; i < fake_num_launches; ++i) {
      const FakeLaunch &launch = fake_launches[i];
      text += (i ? " " : "") + std::string(launch.block[0] == 16 ? "p" : "w") +
              std::to_string(partOf(launch));
      if (launch.num_attributes) {
        EXPECT_EQ(launch.attribute, 6) << "programmatic stream serialization";
        EXPECT_EQ(launch.value, 1);
        text += "*";
      }
    }
    return text;
  }

  /// What is launched for two rows of four tokens.
  std::string launchThree(uint32_t flags = 0) {
    EXPECT_EQ(open(flags), DLK_OK) << dlk_last_error();
    setRows(2, 4);
    EXPECT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
    return launches();
  }
};

/// Each walk behind its preparation, each later preparation behind the walk before.
TEST_F(PartsDriverTest, OneAfterTheOther) {
  EXPECT_EQ(launchThree(), "p0 w0* p1* w1* p2* w2*");
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(fake_launches[i].stream, &stream);
    EXPECT_EQ(std::memcmp(fake_launches[i].params, fake_launches[0].params, 288), 0)
        << "nothing else differs";
  }
}

TEST_F(PartsDriverTest, TheFirstMayStartEarlyIfThePlanSaysSo) {
  EXPECT_EQ(launchThree(DLK_PLAN_PDL), "p0* w0* p1* w1* p2* w2*");
}

TEST_F(PartsDriverTest, KernelsThatDoNotWaitStartLate) {
  setPdl(true, false);
  EXPECT_EQ(launchThree(), "p0 w0* p1 w1* p2 w2*");
  setPdl(false, true);
  EXPECT_EQ(launchThree(), "p0 w0 p1* w1 p2* w2");
  setPdl(false, false);
  EXPECT_EQ(launchThree(), "p0 w0 p1 w1 p2 w2");
}

TEST_F(PartsDriverTest, OlderDevicesStartThemLate) {
  fake_cuda.capability[0] = 80;
  EXPECT_EQ(launchThree(), "p0 w0 p1 w1 p2 w2");
}

TEST_F(PartsDriverTest, OnePartOrNone) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(2, 2);
  EXPECT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(launches(), "p0 w0*");
  fake_clear_log();
  setRows(2, 1);
  EXPECT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_STREQ(fake_log(), "");
}

TEST_F(PartsDriverTest, TooManyPartsLaunchNothing) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(1, 1026);
  EXPECT_EQ(launchOnStream(), DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(), "scalar 'part': expected 0 to 1024 parts, got 1025");
  EXPECT_STREQ(fake_log(), "");
}

/// Of a variant too: parts are those of the sizes.
TEST_F(PartsDriverTest, AVariantIsLaunchedInParts) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(1, 3);
  ASSERT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(launches(), "p0 w0* p1* w1*");
  EXPECT_EQ(fake_launches[1].block[0], 4u);
}

/// A kernel that is prepared by none, but counts parts.
TEST_F(PartsDriverTest, APreparationAloneIsLaunchedInParts) {
  ASSERT_EQ(open(0, Prepare), DLK_OK) << dlk_last_error();
  setRows(2, 4);
  ASSERT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(launches(), "p0 p1 p2");
}

TEST_F(PartsDriverTest, AFailureEndsTheLaunches) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(2, 4);
  const char *done[] = {"", "p0", "p0 w0*", "p0 w0* p1*"};
  for (int before = 0; before < 4; ++before) {
    fake_clear_log();
    fake_cuda.launches_left = before;
    EXPECT_EQ(launchOnStream(), DLK_DEVICE_ERROR);
    EXPECT_STREQ(dlk_last_error(), "cuda:0: the launch failed with CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(launches(), done[before]);
    EXPECT_EQ(fake_count("cuLaunchKernel") + fake_count("cuLaunchKernelEx"), before + 1);
  }
}

} // namespace
