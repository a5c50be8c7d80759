//===- LogTest.cpp - Kernels that keep states as a base and a log ---------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the runtime knows of them: roles, the numbers that belong together, memory. The kernel does
// nothing. test/Integration has those that are compiled.
//
//===----------------------------------------------------------------------===//

#include "LaunchFixture.h"

#include <functional>

using namespace dl::test;
using nlohmann::json;

namespace {
enum LogArg { Input, Output, Base, RingK, RingV, RingG, Table, NumLogArgs };
}

/// A tensor whose address and strides lie at `offset` of the parameters, which moves on. Behind
/// `packed` dimensions strides are fixed.
static json tensor(const char *name, const char *role, const json &shape, size_t packed,
                   const char *access, int &offset, const char *dtype = "f32") {
  json result = {
      {"name", name},     {"role", role},      {"dtype", dtype}, {"shape", shape},
      {"access", access}, {"pointer", offset}, {"align", 4},     {"strides", json::array()}};
  offset += 8;
  int64_t stride = 1;
  std::vector<json> strides(shape.size());
  for (size_t i = shape.size(); i-- > packed;) {
    strides[i] = stride == 1 ? json() : json{{"fixed", stride}};
    stride *= shape[i].get<int64_t>();
  }
  for (size_t i = 0; i < packed; ++i, offset += 4)
    strides[i] = offset;
  offset = (offset + 7) / 8 * 8;
  result["strides"] = strides;
  return result;
}

/// The default package with a kernel that appends to a log in place of its own: W = 16, T_max = 4.
static json makeLogManifest() {
  json manifest = makeManifest();
  manifest["symbols"].push_back("slots");
  json &kernel = manifest["kernels"][0];
  int offset = 0;
  kernel["kind"] = "append";
  kernel["entry"] = "test_nothing";
  kernel["window"] = 16;
  kernel["max_tokens"] = 4;
  kernel["ring"] = 20;
  kernel["args"] = {tensor("q", "input", {"B", "T", "HQ", 4}, 3, "r", offset),
                    tensor("o", "output", {"B", "T", "HV", 8}, 3, "w", offset),
                    tensor("S", "state", {"slots", "HV", 4, 8}, 2, "rw", offset),
                    tensor("log_k", "log", {"slots", "HQ", 20, 4}, 2, "rw", offset),
                    tensor("log_value", "log", {"slots", "HV", 20, 8}, 2, "rw", offset),
                    tensor("log_decay", "log", {"slots", "HV", 20}, 2, "rw", offset),
                    tensor("descriptors", "descriptors", {"N", 12}, 1, "r", offset, "i32")};
  kernel["scalars"] = json::array(
      {{{"name", "N"}, {"dtype", "i32"}, {"offset", offset}, {"value", "N"}},
       {{"name", "slots"}, {"dtype", "i32"}, {"offset", offset + 4}, {"value", "slots"}}});
  kernel["param_bytes"] = offset + 8;
  return manifest;
}

static json makePlanManifest() {
  json manifest = makeLogManifest();
  json &kernel = manifest["kernels"][0];
  int offset = 0;
  kernel["kind"] = "plan";
  kernel["grid"] = {"N", 1, 1};
  kernel["requires"] = json::array();
  kernel["args"] = {tensor("src_slots", "slots_in", json::array({"N"}), 1, "r", offset, "i32"),
                    tensor("flush", "flush", json::array({"N"}), 1, "r", offset, "u8"),
                    tensor("cursors", "cursors", {"slots", 4}, 1, "rw", offset, "i32"),
                    tensor("descriptors", "descriptors", {"N", 12}, 1, "w", offset, "i32")};
  kernel["scalars"] = json::array();
  kernel["param_bytes"] = offset;
  return manifest;
}

/// The error of a package whose kernel was changed.
static std::string kernelError(json manifest, const std::function<void(json &)> &edit) {
  edit(manifest["kernels"][0]);
  std::string bytes = makePackage(std::move(manifest), {kernelObject(), "// spec\n"});
  dlk_package *package = nullptr;
  dlk_status status = dlk_package_open_memory(bytes.data(), bytes.size(), &package);
  dlk_package_close(package);
  return status == DLK_OK ? "" : dlk_last_error();
}

TEST(LogPackage, SaysWhatItsKernelsAgreeOn) {
  std::string bytes = makePackage(makeLogManifest(), {kernelObject(), "// spec\n"});
  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
      << dlk_last_error();
  dlk_kernel_info info = {};
  ASSERT_EQ(dlk_kernel_get_info(dlk_kernel_at(package, 0), &info), DLK_OK);
  EXPECT_EQ(info.window, 16);
  EXPECT_EQ(info.max_tokens, 4);
  EXPECT_EQ(info.ring, 20);
  dlk_arg_info arg = {};
  for (auto [index, role, read, written] : {std::tuple(Output, DLK_ROLE_OUTPUT, 0, 1),
                                            {Base, DLK_ROLE_STATE, 1, 1},
                                            {RingK, DLK_ROLE_LOG, 1, 1},
                                            {Table, DLK_ROLE_DESCRIPTORS, 1, 0}}) {
    ASSERT_EQ(dlk_kernel_get_arg(dlk_kernel_at(package, 0), index, &arg), DLK_OK);
    EXPECT_EQ(arg.role, role);
    EXPECT_EQ(arg.read, read) << arg.name;
    EXPECT_EQ(arg.written, written) << arg.name;
  }
  dlk_package_close(package);
}

TEST(LogPackage, RefusesWrongMembers) {
  auto append = [](const std::function<void(json &)> &edit) {
    return kernelError(makeLogManifest(), edit);
  };
  auto plan = [](const std::function<void(json &)> &edit) {
    return kernelError(makePlanManifest(), edit);
  };
  EXPECT_EQ(append([](json &) {}), "");
  EXPECT_EQ(plan([](json &) {}), "");
  EXPECT_EQ(append([](json &k) { k.erase("window"); }), "kernels[0].window: missing");
  EXPECT_EQ(append([](json &k) { k["ring"] = 19; }),
            "kernels[0].ring: expected at least max(window, max-tokens) + max-tokens = 20, got 19");
  EXPECT_EQ(append([](json &k) { k["max_tokens"] = 0; }),
            "kernels[0].max_tokens: expected an integer in [1, 2147483647], got 0");
  EXPECT_EQ(append([](json &k) { k["args"][Base]["access"] = "r"; }),
            "kernels[0].args[2].access: expected w or rw for the role state");
  EXPECT_EQ(append([](json &k) { k["args"][RingK]["shape"][0] = 7; }),
            "kernels[0].args[3].shape: expected a symbol as the first dimension of a state or a "
            "log");
  EXPECT_EQ(append([](json &k) { k["args"][Table]["shape"][1] = 11; }),
            "kernels[0].args[6]: expected i32 and the shape [\"N\", 12] for the role descriptors");
  EXPECT_EQ(plan([](json &k) { k["args"][3]["dtype"] = "i64"; }),
            "kernels[0].args[3]: expected i32 and the shape [\"N\", 12] for the role descriptors");
  EXPECT_EQ(plan([](json &k) { k["args"][2]["shape"][0] = 3; }),
            "kernels[0].args[2]: expected i32 and the shape [symbol, 4] for the role cursors");
  EXPECT_EQ(plan([](json &k) { k["args"][1]["dtype"] = "i32"; }),
            "kernels[0].args[1]: expected u8 and the shape [\"N\"] for the role flush");
  EXPECT_EQ(plan([](json &k) { k["args"][0]["role"] = "cursors"; }),
            "kernels[0].args[0]: expected i32 and the shape [symbol, 4] for the role cursors");
  EXPECT_EQ(plan([](json &k) { k["args"].erase(2); }),
            "kernels[0].args: expected an argument of the role cursors beside descriptors");
}

namespace {
class LogLaunchTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string bytes = makePackage(makeLogManifest(), {kernelObject(), "// spec\n"});
    ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
        << dlk_last_error();
    ASSERT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, DLK_PLAN_CHECKED, &plan),
              DLK_OK)
        << dlk_last_error();
    tensors[Input].init({2, 3, 1, 4});
    tensors[Output].init({2, 3, 2, 8});
    tensors[Base].init({5, 2, 4, 8});
    tensors[RingK].init({5, 1, 20, 4});
    tensors[RingV].init({5, 2, 20, 8});
    tensors[RingG].init({5, 2, 20});
    tensors[Table].init({2, 12});
    tensors[Table].view.dtype = dlk_dtype_data_type(DLK_I32);
  }
  void TearDown() override {
    dlk_plan_release(plan);
    dlk_package_close(package);
  }

  std::string complaint() {
    dlk_tensor views[NumLogArgs];
    for (int i = 0; i < NumLogArgs; ++i)
      views[i] = tensors[i].view;
    return dlk_launch(plan, views, NumLogArgs, nullptr, 0, nullptr) == DLK_OK ? ""
                                                                              : dlk_last_error();
  }

  /// Puts the argument's slots into pages of `pitch` elements, `offset` behind their starts.
  void putInPages(LogArg arg, std::vector<float> &pages, int64_t pitch, int64_t offset) {
    tensors[arg].strides[0] = pitch;
    tensors[arg].view.data = pages.data() + offset;
  }

  dlk_package *package = nullptr;
  dlk_plan *plan = nullptr;
  Tensor tensors[NumLogArgs];
};
} // namespace

/// What descriptors hold is verified where they are made, shapes are wherever they are used.
TEST_F(LogLaunchTest, CheckedModeLooksAtShapes) {
  std::fill(tensors[Table].memory.begin(), tensors[Table].memory.end(), NAN);
  EXPECT_EQ(complaint(), "");
  tensors[RingK].shape[0] = 4;
  EXPECT_EQ(complaint(), "argument 'log_k' dimension 0: expected slots = 5 as in 'S', got 4");
  tensors[RingK].shape = {5, 1, 19, 4};
  EXPECT_EQ(complaint(), "argument 'log_k' dimension 2: expected 20, got 19");
}

/// Tokens of a row lie in an entry of its own, or in one for all.
TEST_F(LogLaunchTest, RowsInOneEntryOrInTheirOwn) {
  tensors[Input].init({1, 7, 1, 4});
  tensors[Output].init({1, 7, 2, 8});
  EXPECT_EQ(complaint(), "");
  tensors[Input].init({3, 1, 1, 4});
  tensors[Output].init({3, 1, 2, 8});
  EXPECT_EQ(complaint(), "argument 'descriptors': expected N = B = 3 as in 'q', got N = 2");
}

TEST_F(LogLaunchTest, NeedsMemoryOfItsOwn) {
  const std::pair<int, const char *> names[] = {{Output, "'o'"},        {Base, "'S'"},
                                                {RingK, "'log_k'"},     {RingV, "'log_value'"},
                                                {RingG, "'log_decay'"}, {Table, "'descriptors'"}};
  for (const auto &[second, secondName] : names)
    for (const auto &[first, firstName] : names) {
      if (first >= second)
        continue;
      void *kept = tensors[second].view.data;
      tensors[second].view.data = tensors[first].view.data;
      EXPECT_EQ(complaint(), std::string("argument ") + firstName +
                                 ": expected memory of its own, got memory that overlaps " +
                                 secondName);
      tensors[second].view.data = kept;
    }
  EXPECT_EQ(complaint(), "");
}

/// One page per slot: the base, then its rings.
TEST_F(LogLaunchTest, BaseAndRingsMayShareAPage) {
  constexpr int64_t base = 2 * 4 * 8, ringK = 20 * 4, ringV = 2 * 20 * 8, ringG = 2 * 20;
  constexpr int64_t pitch = base + ringK + ringV + ringG;
  std::vector<float> pages(5 * pitch);
  putInPages(Base, pages, pitch, 0);
  putInPages(RingK, pages, pitch, base);
  putInPages(RingV, pages, pitch, base + ringK);
  putInPages(RingG, pages, pitch, base + ringK + ringV);
  EXPECT_EQ(complaint(), "");
  // One number too early; one page of one too small a pitch.
  putInPages(RingK, pages, pitch, base - 1);
  EXPECT_EQ(complaint(),
            "argument 'S': expected memory of its own, got memory that overlaps 'log_k'");
  putInPages(RingK, pages, pitch, base);
  putInPages(RingV, pages, pitch - 1, base + ringK);
  EXPECT_EQ(complaint(),
            "argument 'S': expected memory of its own, got memory that overlaps 'log_value'");
}
