//===- RowTest.cpp - Rows: lengths, slots, flags; checked mode ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchFixture.h"

using namespace dl::test;

namespace {

class RowTest : public LaunchTest {
protected:
  void SetUp() override { prepare(makeManifest(), DLK_PLAN_CHECKED); }

  /// The state of value head 0 in a slot of state_out.
  float stateAt(int64_t slot) { return tensors[SOut].memory[slot * tensors[SOut].strides[0]]; }
  /// Output of value head 0 for token `index` of all entries.
  float outputAt(int64_t index) { return tensors[O].memory[index * tensors[O].strides[1]]; }
  /// The state after `tokens` tokens.
  static double expected(int tokens, double state = 1) {
    for (int t = 0; t < tokens; ++t)
      state = std::exp(-0.5) * state + 0.25 * 2;
    return state;
  }
  void clearOutputs() { std::fill(tensors[O].memory.begin(), tensors[O].memory.end(), NAN); }
};

/// Slots of one index type, given in all forms that a caller may choose.
template <typename Index> class SlotArrays : public RowTest {
protected:
  void SetUp() override {
    prepare(makeManifest(sizeof(Index) == 8 ? "i64" : "i32"), DLK_PLAN_CHECKED);
  }
};
using IndexTypes = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(SlotArrays, IndexTypes);

TYPED_TEST(SlotArrays, OneOrTwoDimensionsAnyStride) {
  auto &tensors = this->tensors;
  auto expectStates = [&](const char *what) {
    std::fill(tensors[SOut].memory.begin(), tensors[SOut].memory.end(), 7.0f);
    ASSERT_EQ(this->launch(), DLK_OK) << what << ": " << dlk_last_error();
    for (int64_t slot : {1, 3})
      EXPECT_NEAR(this->stateAt(slot), this->expected(3), 1e-5) << what;
    for (int64_t slot : {0, 2})
      EXPECT_EQ(this->stateAt(slot), 7.0f) << what;
  };
  tensors[Destinations].template set<TypeParam>({3, 1});
  expectStates("1-D");
  tensors[Destinations].template set<TypeParam>({3, 1}, 1);
  expectStates("2-D");
  // A column of a table.
  tensors[Destinations].template set<TypeParam>({3, 9, 9, 1});
  tensors[Destinations].shape[0] = 2;
  tensors[Destinations].strides[0] = 3;
  expectStates("1-D, strided");
  tensors[Destinations].template set<TypeParam>({9, 3, 9, 1}, 2);
  tensors[Destinations].shape[1] = 1;
  tensors[Destinations].view.byte_offset = sizeof(TypeParam);
  expectStates("2-D, strided");
}

TYPED_TEST(SlotArrays, StatesAfterEachToken) {
  auto &tensors = this->tensors;
  // Two rows of three tokens, entries lie with the row as the fast dimension.
  tensors[SOut].init({8, 2, 4, 8}, 7.0f);
  tensors[Destinations].template set<TypeParam>({0, 5, 1, -1, 2, 6}, 2);
  tensors[Destinations].shape = {2, 3};
  tensors[Destinations].strides = {1, 2};
  tensors[Destinations].view.shape = tensors[Destinations].shape.data();
  tensors[Destinations].view.strides = tensors[Destinations].strides.data();
  ASSERT_EQ(this->launch(), DLK_OK) << dlk_last_error();
  for (int t = 0; t < 3; ++t)
    EXPECT_NEAR(this->stateAt(t), this->expected(t + 1), 1e-5);
  EXPECT_NEAR(this->stateAt(5), this->expected(1), 1e-5);
  EXPECT_NEAR(this->stateAt(6), this->expected(3), 1e-5);
  EXPECT_EQ(this->stateAt(3), 7.0f);
}

TYPED_TEST(SlotArrays, AcceptedTokensChooseTheStart) {
  auto &tensors = this->tensors;
  for (int64_t slot = 0; slot < 4; ++slot)
    std::fill_n(tensors[SIn].memory.begin() + slot * 64, 64, float(slot));
  tensors[Sources].template set<TypeParam>({1, 2, 3, 0}, 2);
  tensors[Accepted].template set<TypeParam>({2, 1});
  tensors[Flags].template set<uint8_t>({1, 0});
  ASSERT_EQ(this->launch(), DLK_OK) << dlk_last_error();
  EXPECT_NEAR(this->stateAt(0), this->expected(3, 2), 1e-5);
  EXPECT_NEAR(this->stateAt(1), this->expected(3, 0), 1e-5); // a zero state
  tensors[Accepted].template set<TypeParam>({2, 3});
  tensors[Flags].view = {};
  this->clearOutputs();
  this->expectError("argument 'num_accepted_tokens' row 1: expected 1 to 2, got 3");
  // Which entry counts in a null row does not matter.
  tensors[Sources].template set<TypeParam>({1, 2, -1, -1}, 2);
  EXPECT_EQ(this->launch(), DLK_OK) << dlk_last_error();
}

TYPED_TEST(SlotArrays, RowsOfTheirOwnLengths) {
  auto &tensors = this->tensors;
  this->setSizes(1, 6, 1, 2);
  tensors[SIn].init({3, 2, 4, 8}, 1.0f);
  tensors[SOut].init({5, 2, 4, 8}, 7.0f);                // another number of slots
  tensors[Starts].template set<TypeParam>({0, 4, 4, 5}); // token 5 belongs to no row
  tensors[Destinations].template set<TypeParam>({4, 0, 2});
  ASSERT_EQ(this->launch(), DLK_OK) << dlk_last_error();
  EXPECT_NEAR(this->stateAt(4), this->expected(4), 1e-5);
  EXPECT_EQ(this->stateAt(0), 1.0f); // copied
  EXPECT_NEAR(this->stateAt(2), this->expected(1), 1e-5);
  EXPECT_EQ(this->stateAt(1), 7.0f);
  EXPECT_EQ(this->outputAt(0), this->outputAt(4));
  EXPECT_TRUE(std::isnan(this->outputAt(5)));

  this->clearOutputs();
  tensors[Starts].template set<TypeParam>({1, 4, 4, 5});
  this->expectError("argument 'cu_seqlens' row 0: expected 0, got 1");
  tensors[Starts].template set<TypeParam>({0, 4, 3, 5});
  this->expectError("argument 'cu_seqlens' row 1: expected its end at 4 or later, got 3");
  tensors[Starts].template set<TypeParam>({0, 4, 4, 7});
  this->expectError("argument 'cu_seqlens' row 2: expected its end at T = 6 or before, got 7");
}

TEST_F(RowTest, CountsRows) {
  setSizes(1, 6, 1, 2);
  tensors[Starts].set({0, 2, 4, 6});
  tensors[Destinations].set({0, 1});
  expectError("argument 'cu_seqlens' dimension 0: expected (N+1) = 3 as in 'dst_slots', got 4");
  tensors[Destinations].view = {};
  tensors[Starts].shape[0] = 0;
  expectError("argument 'cu_seqlens' dimension 0: expected at least 1, got 0");
  setSizes(2, 3, 1, 2);
  tensors[Starts].set({0, 3, 6});
  expectError("argument 'cu_seqlens': expected B = 1 where rows lie in one batch entry, got B = 2 "
              "in 'q'");
  tensors[Starts].view = {};
  tensors[Flags].set<uint8_t>({1, 1, 1});
  expectError("argument 'has_initial_state': expected N = B = 2 as in 'q', got N = 3");
}

TEST_F(RowTest, EmptyTensorsNeedNoMemory) {
  setSizes(1, 0, 1, 2);
  for (int i : {Q, K, V, G, O})
    tensors[i].view.data = nullptr;
  // Two rows without tokens: their states move.
  tensors[Starts].set({0, 0, 0});
  tensors[Destinations].set({2, 1});
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(stateAt(2), 1.0f);
  EXPECT_EQ(stateAt(0), 7.0f);
  // No rows: nothing moves. An empty array is one that is given.
  tensors[Starts].set({0});
  tensors[Destinations].view = {};
  std::fill(tensors[SOut].memory.begin(), tensors[SOut].memory.end(), 7.0f);
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(stateAt(0), 7.0f);
  setSizes(2, 3, 1, 2);
  tensors[Sources].set({});
  tensors[Sources].view.data = nullptr;
  expectError("argument 'src_slots': expected N = B = 2 as in 'q', got N = 0");
}

TEST_F(RowTest, TakesFlagsOfBothTypes) {
  tensors[Flags].set<uint8_t>({1, 0});
  ASSERT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_NEAR(stateAt(0), expected(3), 1e-5);
  EXPECT_NEAR(stateAt(1), expected(3, 0), 1e-5);
  tensors[Flags].view.dtype = {6, 8, 1}; // DLPack's bool
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  clearOutputs();
  tensors[Flags].set({1, 0});
  expectError("argument 'has_initial_state' dtype: expected u8, got i32");
  tensors[Flags].view = {};
  tensors[Q].view.dtype = {6, 8, 1};
  expectError("argument 'q' dtype: expected f32, got bool");
}

TEST_F(RowTest, RefusesRanks) {
  tensors[Sources].set({0, 1}, 1);
  tensors[Sources].view.ndim = 0;
  expectError("argument 'src_slots' rank: expected 1 to 2, got 0");
  tensors[Sources].view.ndim = 3;
  expectError("argument 'src_slots' rank: expected 1 to 2, got 3");
}

TEST_F(RowTest, CheckedModeReadsSlots) {
  tensors[Sources].set({1, 4});
  tensors[Destinations].set({1, 2});
  expectError("argument 'src_slots' row 1: expected a slot below 4, got 4");
  tensors[Sources].set({1, 0});
  tensors[Destinations].set({2, 2});
  expectError("argument 'dst_slots' row 1: expected a slot of its own, got 2, which row 0 writes "
              "too");
  tensors[Destinations].set({4, 2});
  expectError("argument 'dst_slots' row 0: expected a slot below 4, got 4");
  // A null row names no slot, but one beyond the pool is a mistake all the same.
  tensors[Destinations].set({2, -5});
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  clearOutputs();
  tensors[Sources].set({1, 9});
  expectError("argument 'src_slots' row 1: expected a slot below 4, got 9");
}

TEST_F(RowTest, CheckedModeFindsReadersOfWhatIsWritten) {
  // One pool: row 1 may not write what row 0 reads. Two pools: it may.
  tensors[Sources].set({1, 0});
  tensors[Destinations].set({2, 1});
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  clearOutputs();
  tensors[SOut].view = tensors[SIn].view;
  expectError(
      "argument 'dst_slots' row 1: expected a slot that no other row reads, got 1, which row "
      "0 reads");
  // Row 0 starts from zero and reads nothing.
  tensors[Flags].set<uint8_t>({0, 1});
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  // Its own slot a row may write.
  tensors[Flags].view = {};
  tensors[Destinations].set({1, 0});
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
}

TEST_F(RowTest, CheckedModeReadsEntries) {
  tensors[Sources].set({0, 1});
  tensors[Destinations].set({2, 3, -1, -1}, 2);
  expectError("argument 'dst_slots' row 0: expected at most 2 tokens, one per entry, got 3");
  setSizes(2, 2, 1, 2);
  tensors[Destinations].set({2, 3, 1, 2}, 2);
  expectError("argument 'dst_slots' row 1 entry 1: expected a slot of its own, got 2, which row 0 "
              "entry 0 writes too");
  tensors[Destinations].set({2, 4, 1, 0}, 2);
  expectError("argument 'dst_slots' row 0 entry 1: expected a slot below 4, got 4");
  // Entries beyond a row's tokens are not looked at.
  setSizes(1, 3, 1, 2);
  tensors[SIn].init({4, 2, 4, 8}, 1.0f);
  tensors[SOut].init({4, 2, 4, 8}, 7.0f);
  tensors[Starts].set({0, 1, 3});
  tensors[Destinations].set({2, 99, 1, 0}, 2);
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(stateAt(3), 7.0f);
}

TEST_F(RowTest, CheckedModeNeedsRows) {
  auto manifest = makeManifest();
  auto &kernel = manifest["kernels"][0];
  kernel["args"].erase(kernel["args"].begin() + Sources, kernel["args"].end());
  kernel["grid"][0] = "B";
  manifest["symbols"].erase(4);
  dlk_package_close(package);
  const std::string bytes = makePackage(manifest, {kernelObject(), ""});
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
      << dlk_last_error();
  dlk_plan *other = nullptr;
  const dlk_kernel *handle = dlk_kernel_at(package, 0);
  EXPECT_EQ(dlk_prepare(handle, {DLK_DEVICE_CPU, 0}, DLK_PLAN_CHECKED, &other), DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(), "kernel 'gla.decode.4x8.kv.f32.f32': DLK_PLAN_CHECKED: expected a "
                                 "package with rows N, got one without");
  EXPECT_EQ(dlk_prepare(handle, {DLK_DEVICE_CPU, 0}, 0, &other), DLK_OK) << dlk_last_error();
  dlk_plan_release(other);
}

} // namespace
