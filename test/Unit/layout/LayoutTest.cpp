//===- LayoutTest.cpp - Digit maps and blocked layouts --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "compiler/Layout/Layout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <set>
#include <vector>

using namespace dl::layout;
using llvm::SmallVector;

namespace {

RegisterLayout make(llvm::ArrayRef<int64_t> shape, const BlockedParams &params) {
  llvm::Expected<RegisterLayout> layout = blocked(shape, params);
  if (!layout) {
    ADD_FAILURE() << llvm::toString(layout.takeError());
    return {};
  }
  return *layout;
}

std::string errorOf(llvm::ArrayRef<int64_t> shape, const BlockedParams &params) {
  llvm::Expected<RegisterLayout> layout = blocked(shape, params);
  return layout ? "" : llvm::toString(layout.takeError());
}

/// Layouts of the sizes that matter: head dims that are no powers of two, dims that need padding,
/// odd warp counts.
std::vector<RegisterLayout> grid() {
  std::vector<RegisterLayout> layouts;
  for (int64_t rows : {1, 40, 96, 192})
    for (int64_t columns : {8, 40, 128})
      for (int64_t warps : {1, 3, 6, 12})
        for (int64_t lanes : {4, 32})
          for (bool rowsFast : {false, true}) {
            BlockedParams p;
            p.perThread = {rows == 40 ? 2 : 1, 4};
            p.lanes = {32 / lanes, lanes};
            p.warps = {warps % 3 == 0 ? 3 : 1, warps / (warps % 3 == 0 ? 3 : 1)};
            p.order = rowsFast ? SmallVector<unsigned, 4>{0, 1} : SmallVector<unsigned, 4>{1, 0};
            p.numWarps = columns == 8 ? 2 * warps : 0;
            layouts.push_back(make({rows, columns}, p));
          }
  BlockedParams vector{{4}, {32}, {3}, {0}, 6};
  layouts.push_back(make({192}, vector));
  layouts.push_back(make({40}, vector));
  BlockedParams cube{{2, 1, 4}, {1, 4, 8}, {2, 3, 1}, {2, 1, 0}, 0};
  layouts.push_back(make({5, 40, 96}, cube));
  layouts.push_back(*replicated({3, 5}, 3));
  layouts.push_back(*replicated({}, 2));
  return layouts;
}

std::string text(const RegisterLayout &layout) {
  std::string s;
  llvm::raw_string_ostream os(s);
  layout.print(os);
  return s;
}

template <typename Fn> void forEachPlace(const RegisterLayout &layout, Fn fn) {
  for (int64_t t = 0; t < layout.numThreads; ++t)
    for (int64_t r = 0; r < layout.numRegisters; ++r)
      fn(t, r);
}

} // namespace

TEST(Layout, BlockedFollowsItsFormula) {
  BlockedParams p{{2, 4}, {4, 8}, {3, 2}, {1, 0}, 12};
  RegisterLayout layout = make({96, 192}, p);
  EXPECT_EQ(layout.numThreads, 12 * 32);
  ASSERT_EQ(layout.numRegisters, (2 * 4) * (4 * 3)); // ceil(96 / 24) x ceil(192 / 64) reps
  forEachPlace(layout, [&](int64_t t, int64_t r) {
    int64_t lane = t % 32, warp = t / 32 % 6;
    int64_t e1 = r % 4, e0 = r / 4 % 2, rep1 = r / 8 % 3, rep0 = r / 24;
    int64_t row = ((rep0 * 3 + warp / 2) * 4 + lane / 8) * 2 + e0;
    int64_t column = ((rep1 * 2 + warp % 2) * 8 + lane % 8) * 4 + e1;
    ASSERT_EQ(layout.coordinate(t, r), (Coordinate{row, column})) << t << " " << r;
  });
}

TEST(Layout, EveryCoordinateOncePerReplica) {
  for (const RegisterLayout &layout : grid()) {
    ASSERT_FALSE(layout.verify()) << text(layout);
    int64_t box = 1;
    for (unsigned axis = 0; axis < layout.rank(); ++axis) {
      box *= layout.covered(axis);
      EXPECT_GE(layout.covered(axis), layout.shape[axis]) << text(layout);
    }
    std::vector<int64_t> copies(box, 0), owners(box, 0);
    forEachPlace(layout, [&](int64_t t, int64_t r) {
      int64_t place = 0;
      for (auto [axis, c] : llvm::enumerate(layout.coordinate(t, r))) {
        ASSERT_TRUE(c >= 0 && c < layout.covered(axis)) << text(layout);
        place = place * layout.covered(axis) + c;
      }
      ++copies[place];
      owners[place] += layout.isOwner(t);
    });
    EXPECT_EQ(copies, std::vector<int64_t>(box, layout.replication())) << text(layout);
    EXPECT_EQ(owners, std::vector<int64_t>(box, 1)) << text(layout);
  }
}

TEST(Layout, FindInvertsCoordinate) {
  for (const RegisterLayout &layout : grid())
    forEachPlace(layout, [&](int64_t t, int64_t r) {
      Coordinate c = layout.coordinate(t, r);
      auto [owner, reg] = layout.find(c);
      ASSERT_TRUE(layout.isOwner(owner));
      ASSERT_EQ(reg, r);
      ASSERT_EQ(layout.coordinate(owner, reg), c);
    });
}

TEST(Layout, ThreadAndRegisterPartsAdd) {
  for (const RegisterLayout &layout : grid())
    forEachPlace(layout, [&](int64_t t, int64_t r) {
      Coordinate sum = layout.baseOfThread(t);
      for (auto [c, offset] : llvm::zip(sum, layout.offsetOfRegister(r)))
        c += offset;
      ASSERT_EQ(sum, layout.coordinate(t, r));
      for (unsigned axis = 0; axis < layout.rank(); ++axis) {
        int64_t base = 0; // what generated code computes
        for (const Digit &d : layout.digitsOf(Source::Thread, axis))
          base += t / d.div % d.mod * d.stride;
        ASSERT_EQ(base, layout.baseOfThread(t)[axis]);
      }
    });
}

TEST(Layout, SliceAgreesWithItsParent) {
  for (const RegisterLayout &layout : grid())
    for (unsigned axis = 0; axis < layout.rank(); ++axis) {
      RegisterLayout slice = layout.slice(axis);
      ASSERT_FALSE(slice.verify()) << text(slice);
      SmallVector<int64_t> registers = layout.sliceRegisters(axis);
      std::set<int64_t> used(registers.begin(), registers.end());
      EXPECT_EQ(static_cast<int64_t>(used.size()), slice.numRegisters);
      forEachPlace(layout, [&](int64_t t, int64_t r) {
        Coordinate expected = layout.coordinate(t, r);
        expected.erase(expected.begin() + axis);
        ASSERT_EQ(slice.coordinate(t, registers[r]), expected) << text(layout);
      });
    }
}

// Adds up a weight of each coordinate along an axis the way the lowerings do. The weights are
// arbitrary 64-bit numbers, so every thread arrives at their sum only if it met each coordinate
// exactly once.
TEST(Layout, ReductionStepsCoverTheAxisOnce) {
  auto weight = [](int64_t c) {
    uint64_t x = (static_cast<uint64_t>(c) + 1) * 0x9E3779B97F4A7C15;
    return (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9;
  };
  for (const RegisterLayout &layout : grid())
    for (unsigned axis = 0; axis < layout.rank(); ++axis) {
      uint64_t expected = 0;
      for (int64_t c = 0; c < layout.covered(axis); ++c)
        expected += weight(c);
      for (const SmallVector<int64_t> &group : layout.reductionGroups(axis)) {
        std::vector<uint64_t> held(layout.numThreads, 0);
        for (int64_t t = 0; t < layout.numThreads; ++t)
          for (int64_t r : group)
            held[t] += weight(layout.coordinate(t, r)[axis]);
        for (int64_t mask : layout.reductionLaneMasks(axis)) {
          std::vector<uint64_t> before = held;
          for (int64_t t = 0; t < layout.numThreads; ++t)
            held[t] += before[t ^ mask];
        }
        for (const ThreadDigit &d : layout.reductionWarpDigits(axis)) {
          std::vector<uint64_t> before = held;
          for (int64_t t = 0; t < layout.numThreads; ++t) {
            held[t] = 0;
            for (int64_t v = 0; v < d.mod; ++v)
              held[t] += before[t + (v - d.value(t)) * d.div];
          }
        }
        ASSERT_EQ(held, std::vector<uint64_t>(layout.numThreads, expected)) << text(layout);
      }
    }
}

TEST(Layout, ReductionGroupsAscend) {
  for (const RegisterLayout &layout : grid())
    for (unsigned axis = 0; axis < layout.rank(); ++axis)
      for (const SmallVector<int64_t> &group : layout.reductionGroups(axis))
        for (size_t i = 1; i < group.size(); ++i)
          ASSERT_LT(layout.offsetOfRegister(group[i - 1])[axis],
                    layout.offsetOfRegister(group[i])[axis]);
}

TEST(Layout, ContiguousRegistersIsTheLongestRun) {
  for (const RegisterLayout &layout : grid())
    for (unsigned axis = 0; axis < layout.rank(); ++axis) {
      int64_t longest = 1;
      for (int64_t v = 2; v <= layout.numRegisters; ++v) {
        if (layout.numRegisters % v != 0)
          continue;
        bool consecutive = true;
        for (int64_t r = 0; r < layout.numRegisters; ++r) {
          Coordinate c = layout.offsetOfRegister(r - r % v);
          c[axis] += r % v;
          consecutive &= c == layout.offsetOfRegister(r);
        }
        if (consecutive)
          longest = v;
      }
      ASSERT_EQ(layout.contiguousRegisters(axis), longest) << text(layout) << " axis " << axis;
    }
}

// In each thread pieces of a run are neighbours that start at multiples of their length; no longer
// ones divide the run.
TEST(Layout, PiecesOfRunsLieInOneThread) {
  for (const RegisterLayout &layout : grid())
    for (unsigned axis = 0; axis < layout.rank(); ++axis) {
      auto isWhole = [&](int64_t length) {
        Coordinate last(layout.rank(), 0), first = last;
        bool whole = true;
        for (; last[axis] < layout.covered(axis); ++last[axis]) {
          first[axis] = last[axis] / length * length;
          whole &= layout.find(first).first == layout.find(last).first;
        }
        return whole;
      };
      for (int64_t run : {1, 3, 4, 12, 16, 24}) {
        int64_t longest = 1;
        for (int64_t length = 2; length <= run; ++length)
          if (run % length == 0 && isWhole(length))
            longest = length;
        ASSERT_EQ(layout.pieceOfRun(axis, run), longest)
            << text(layout) << " axis " << axis << " run " << run;
      }
    }
}

// By the definition, for all threads and registers.
TEST(Layout, FloorsThatAdd) {
  for (const RegisterLayout &layout : grid())
    for (unsigned axis = 0; axis < layout.rank(); ++axis)
      for (int64_t run : {1, 2, 3, 4, 8, 24}) {
        bool adds = true;
        forEachPlace(layout, [&](int64_t t, int64_t r) {
          adds &= layout.coordinate(t, r)[axis] / run ==
                  layout.baseOfThread(t)[axis] / run + layout.offsetOfRegister(r)[axis] / run;
        });
        ASSERT_EQ(layout.addsWithin(axis, run), adds)
            << text(layout) << " axis " << axis << " " << run;
      }
}

/// `count` rows for each row of the layout.
static void expectInterleaved(const RegisterLayout &wide, const RegisterLayout &narrow,
                              int64_t count) {
  auto places = interleavedRegisters(wide, narrow);
  ASSERT_TRUE(places) << text(wide) << text(narrow);
  ASSERT_EQ(int64_t(places->size()), count * narrow.numRegisters);
  forEachPlace(wide, [&](int64_t t, int64_t r) {
    auto [which, reg] = (*places)[r];
    Coordinate c = narrow.coordinate(t, reg);
    c[0] = c[0] * count + which;
    ASSERT_EQ(wide.coordinate(t, r), c) << t << " " << r;
  });
}

TEST(Layout, RowsInTurnStayInTheirThreads) {
  for (int64_t count : {1, 2, 3, 4, 8})
    for (int64_t perThread : {1, 2, 4}) {
      const BlockedParams narrow{{perThread, 3}, {1, 32}, {4, 1}, {1, 0}, 8},
          wide{{count * perThread, 3}, {1, 32}, {4, 1}, {1, 0}, 8};
      const int64_t rows = 4 * perThread;
      const RegisterLayout a = make({count * rows, 96}, wide), b = make({rows, 96}, narrow);
      expectInterleaved(a, b, count);
      expectInterleaved(a.slice(1), b.slice(1), count);
    }
}

TEST(Layout, OtherRowsAreNotInTurn) {
  const BlockedParams rows{{4, 1}, {1, 32}, {4, 1}, {1, 0}, 0},
      doubled{{8, 1}, {1, 32}, {4, 1}, {1, 0}, 0};
  const RegisterLayout narrow = make({16, 32}, rows), wide = make({32, 32}, doubled);
  expectInterleaved(wide, narrow, 2);
  EXPECT_FALSE(interleavedRegisters(narrow, wide));                    // fewer rows
  EXPECT_FALSE(interleavedRegisters(make({32, 32}, rows), narrow));    // repeats of four apart
  EXPECT_FALSE(interleavedRegisters(make({24, 32}, doubled), narrow)); // no multiple
  EXPECT_FALSE(interleavedRegisters(make({32, 64}, doubled), narrow)); // other columns
  EXPECT_FALSE(interleavedRegisters(wide.slice(1), narrow));           // other axes
  EXPECT_FALSE(interleavedRegisters(*replicated({}, 4), *replicated({}, 4)));
  // Three rows, padded to four: six have no place for what is made of the fourth.
  EXPECT_FALSE(interleavedRegisters(make({6, 32}, {{6, 1}, {1, 32}, {1, 1}, {1, 0}, 4}),
                                    make({3, 32}, {{4, 1}, {1, 32}, {1, 1}, {1, 0}, 4})));
}

TEST(Layout, PaddingIsSeen) {
  RegisterLayout layout = make({40, 96}, {{1, 4}, {4, 8}, {3, 1}, {1, 0}, 0});
  EXPECT_EQ(layout.covered(0), 48);
  EXPECT_EQ(layout.covered(1), 96);
  EXPECT_TRUE(layout.isPadded(0));
  EXPECT_FALSE(layout.isPadded(1));
  EXPECT_TRUE(layout.isPadded());
  EXPECT_TRUE(layout.isInBounds({39, 95}));
  EXPECT_FALSE(layout.isInBounds({40, 0}));
  EXPECT_FALSE(layout.isInBounds({-1, 0}));
}

TEST(Layout, ReplicasAreSplitAtTheWarp) {
  // A vector along the columns of a matrix: 4 lanes and 3 warps of rows become copies, and so do
  // the 2 spare warps.
  RegisterLayout matrix = make({12, 32}, {{1, 4}, {4, 8}, {3, 1}, {1, 0}, 6});
  RegisterLayout row = matrix.slice(0);
  EXPECT_EQ(row.replication(), 4 * 6);
  EXPECT_EQ(row.replicaDigits(), (SmallVector<ThreadDigit>{{8, 4}, {32, 6}}));
  EXPECT_TRUE(row.isOwner(7));
  EXPECT_FALSE(row.isOwner(8));
  EXPECT_FALSE(row.isOwner(32));
  EXPECT_EQ(matrix.replicaDigits(), (SmallVector<ThreadDigit>{{96, 2}}));
}

TEST(Layout, PermutedRenamesAxes) {
  RegisterLayout layout = make({5, 40, 96}, {{2, 1, 4}, {1, 4, 8}, {2, 3, 1}, {2, 1, 0}, 0});
  RegisterLayout moved = layout.permuted({2, 0, 1});
  ASSERT_FALSE(moved.verify());
  EXPECT_EQ(moved.shape, (SmallVector<int64_t, 4>{96, 5, 40}));
  forEachPlace(layout, [&](int64_t t, int64_t r) {
    Coordinate c = layout.coordinate(t, r);
    ASSERT_EQ(moved.coordinate(t, r), (Coordinate{c[2], c[0], c[1]}));
  });
}

TEST(Layout, PrintReadsAsDigits) {
  EXPECT_EQ(
      text(make({8, 16}, {{1, 4}, {8, 4}, {1, 1}, {1, 0}, 0})),
      "8x16 over 32 threads x 4 registers: thread/1%4 -> 4 on axis 1, thread/4%8 -> 1 on axis 0, "
      "register/1%4 -> 1 on axis 1");
}

TEST(Layout, BlockedRefusesWithAReason) {
  BlockedParams good{{1, 4}, {4, 8}, {2, 1}, {1, 0}, 0};
  EXPECT_EQ(errorOf({64, 64}, good), "");
  auto with = [&](auto change) {
    BlockedParams p = good;
    change(p);
    return p;
  };
  EXPECT_EQ(errorOf({64}, good),
            "expected 1 values of per-thread elements, one for each axis, got 2");
  EXPECT_EQ(errorOf({64, 0}, good), "expected extents between 1 and 1048576, got 0 on axis 1");
  EXPECT_EQ(errorOf({1, 1, 1, 1, 1}, good), "expected at most 4 axes, got 5");
  EXPECT_EQ(errorOf({64, 64}, with([](auto &p) { p.lanes = {4, 4}; })),
            "expected lanes that multiply to 32, got 16");
  EXPECT_EQ(errorOf({64, 64}, with([](auto &p) { p.lanes = {-4, -8}; })),
            "expected lanes between 1 and 65536, got -4");
  EXPECT_EQ(errorOf({64, 64}, with([](auto &p) { p.order = {1, 1}; })),
            "expected an order that names each of the 2 axes once");
  EXPECT_EQ(errorOf({64, 64}, with([](auto &p) { p.numWarps = 3; })),
            "expected a number of warps that is a multiple of 2, got 3");
  EXPECT_EQ(errorOf({64, 64}, with([](auto &p) { p.warps = {8, 8}; })),
            "expected whole warps of 32 threads, at most 1024 threads, got 2048");
  EXPECT_EQ(errorOf({64, 64}, with([](auto &p) { p.numWarps = INT64_MAX - 1; })),
            "expected whole warps of 32 threads, at most 1024 threads, got 9223372036854775807");
  EXPECT_EQ(errorOf({1024, 8192}, good),
            "expected between 1 and 65536 registers for each thread, got 131072");
}

TEST(Layout, VerifyFindsBrokenDigits) {
  auto errorWith = [](auto change) {
    RegisterLayout layout = make({8, 16}, {{1, 4}, {8, 4}, {1, 1}, {1, 0}, 0});
    change(layout);
    return llvm::toString(layout.verify());
  };
  EXPECT_EQ(errorWith([](auto &l) { l.digits[2].stride = 2; }),
            "expected a digit of stride 1 on axis 1, got 2");
  EXPECT_EQ(errorWith([](auto &l) { l.digits[2].axis = 2; }),
            "expected digits to move axes below 2, got axis 2");
  EXPECT_EQ(errorWith([](auto &l) { l.numRegisters = 8; }),
            "expected digits of the register number to multiply to 8, got 4");
  EXPECT_EQ(errorWith([](auto &l) { l.digits[1].div = 2; }),
            "expected a digit of the thread number at div a multiple of 4, got 2");
  EXPECT_EQ(errorWith([](auto &l) { l.digits[1].mod = 3; }),
            "expected digits of the thread number to divide 32, got 12");
  EXPECT_EQ(errorWith([](auto &l) { l.shape[0] = 9; }),
            "expected digits that cover all 9 coordinates of axis 0, got 8");
  EXPECT_EQ(errorWith([](auto &l) { l.digits[0].div = 0; }),
            "expected a digit of the thread number with 1 <= div and 2 <= mod, both at most 32, "
            "got div 0 and mod 4");
  EXPECT_EQ(errorWith([](auto &l) {
              l.numThreads = 96;
              l.digits[1].mod = 24;
            }),
            "expected digits of the thread number to be either of the lane or of the warp, got div "
            "4 and mod 24");
}

TEST(Layout, ReplicatedHoldsEverything) {
  RegisterLayout layout = *replicated({3, 5}, 3);
  EXPECT_EQ(layout.replication(), 96);
  EXPECT_EQ(layout.coordinate(50, 7), (Coordinate{1, 2}));
  llvm::Expected<RegisterLayout> large = replicated({70000}, 1);
  ASSERT_FALSE(large);
  EXPECT_EQ(llvm::toString(large.takeError()),
            "expected between 1 and 65536 registers for each thread, got 70000");
  RegisterLayout scalar = *replicated({}, 2);
  EXPECT_EQ(scalar.numRegisters, 1);
  EXPECT_EQ(scalar.replication(), 64);
}
