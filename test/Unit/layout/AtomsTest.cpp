//===- AtomsTest.cpp - Fragments against the PTX ISA ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "compiler/Layout/Atoms.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <map>

using namespace dl::layout;
using llvm::SmallVector;

namespace {

const Instruction &find(llvm::StringRef name) {
  llvm::Expected<const Instruction *> row = findInstruction(name);
  if (!row) {
    ADD_FAILURE() << llvm::toString(row.takeError());
    return instructions().front();
  }
  return **row;
}

/// One tile of an operand, no repeats.
RegisterLayout tile(llvm::StringRef name, Operand operand) {
  const Instruction &row = find(name);
  const Fragment &f = row.operand(operand);
  llvm::Expected<RegisterLayout> layout = atom({f.rows, f.cols}, row, {operand, 1, 1, 0});
  if (!layout) {
    ADD_FAILURE() << name.str() << ": " << llvm::toString(layout.takeError());
    return {};
  }
  return *layout;
}

template <typename Fn>
void expectFragment(const RegisterLayout &layout, int64_t threads, int64_t elements, Fn formula) {
  ASSERT_EQ(layout.numThreads, threads);
  ASSERT_EQ(layout.numRegisters, elements);
  for (int64_t t = 0; t < threads; ++t)
    for (int64_t i = 0; i < elements; ++i)
      ASSERT_EQ(layout.coordinate(t, i), formula(t, i)) << "thread " << t << " element " << i;
}

} // namespace

// The formulas below keep the words of the PTX ISA: groupID = %laneid >> 2, threadID_in_group =
// %laneid % 4.

TEST(Atoms, MmaM16N8K16) {
  for (llvm::StringRef name : {"mma.m16n8k16.bf16", "mma.m16n8k16.f16"}) {
    expectFragment(tile(name, Operand::A), 32, 8, [](int64_t laneid, int64_t i) {
      int64_t groupID = laneid >> 2, threadID_in_group = laneid % 4;
      int64_t row = (0 <= i && i < 2) || (4 <= i && i < 6) ? groupID : groupID + 8;
      int64_t col = i < 4 ? threadID_in_group * 2 + (i & 1) : threadID_in_group * 2 + (i & 1) + 8;
      return Coordinate{row, col};
    });
    expectFragment(tile(name, Operand::B), 32, 4, [](int64_t laneid, int64_t i) {
      int64_t groupID = laneid >> 2, threadID_in_group = laneid % 4;
      int64_t row = i < 2 ? threadID_in_group * 2 + (i & 1) : threadID_in_group * 2 + (i & 1) + 8;
      return Coordinate{row, groupID};
    });
    expectFragment(tile(name, Operand::C), 32, 4, [](int64_t laneid, int64_t i) {
      int64_t groupID = laneid >> 2, threadID_in_group = laneid % 4;
      int64_t row = i < 2 ? groupID : groupID + 8;
      return Coordinate{row, threadID_in_group * 2 + (i & 1)};
    });
  }
}

TEST(Atoms, MmaM16N8K8Tf32) {
  expectFragment(tile("mma.m16n8k8.tf32", Operand::A), 32, 4, [](int64_t laneid, int64_t i) {
    int64_t groupID = laneid >> 2, threadID_in_group = laneid % 4;
    int64_t row = i == 0 || i == 2 ? groupID : groupID + 8;
    int64_t col = i == 0 || i == 1 ? threadID_in_group : threadID_in_group + 4;
    return Coordinate{row, col};
  });
  expectFragment(tile("mma.m16n8k8.tf32", Operand::B), 32, 2, [](int64_t laneid, int64_t i) {
    int64_t groupID = laneid >> 2, threadID_in_group = laneid % 4;
    return Coordinate{i == 0 ? threadID_in_group : threadID_in_group + 4, groupID};
  });
  EXPECT_EQ(tile("mma.m16n8k8.tf32", Operand::C), tile("mma.m16n8k16.bf16", Operand::C));
}

TEST(Atoms, WgmmaAccumulator) {
  for (int64_t n = 8; n <= 256; n += 8)
    for (llvm::StringRef rest : {"k16.bf16", "k16.f16", "k8.tf32"})
      expectFragment(tile(("wgmma.m64n" + llvm::Twine(n) + rest).str(), Operand::C), 128, n / 2,
                     [](int64_t t, int64_t i) {
                       // warp w of the warpgroup holds rows 16w .. 16w+15; d0, d1 then d2, d3 eight
                       // rows below; then 8 columns on.
                       int64_t row = 16 * (t / 32) + t % 32 / 4 + (i % 4 < 2 ? 0 : 8);
                       int64_t col = 8 * (i / 4) + 2 * (t % 4) + (i & 1);
                       return Coordinate{row, col};
                     });
}

TEST(Atoms, WgmmaA) {
  expectFragment(tile("wgmma.m64n96k16.bf16", Operand::A), 128, 8, [](int64_t t, int64_t i) {
    int64_t row = 16 * (t / 32) + t % 32 / 4 + ((0 <= i && i < 2) || (4 <= i && i < 6) ? 0 : 8);
    int64_t col = 2 * (t % 4) + (i & 1) + (i < 4 ? 0 : 8);
    return Coordinate{row, col};
  });
  expectFragment(tile("wgmma.m64n96k8.tf32", Operand::A), 128, 4, [](int64_t t, int64_t i) {
    int64_t row = 16 * (t / 32) + t % 32 / 4 + (i == 0 || i == 2 ? 0 : 8);
    return Coordinate{row, t % 4 + (i < 2 ? 0 : 4)};
  });
}

TEST(Atoms, EveryFragmentCoversItsTileOnce) {
  for (const Instruction &row : instructions())
    for (Operand operand : {Operand::A, Operand::B, Operand::C}) {
      const Fragment &f = row.operand(operand);
      if (!f.inRegisters())
        continue;
      RegisterLayout layout = tile(row.name, operand);
      std::map<Coordinate, int64_t> count;
      for (int64_t t = 0; t < layout.numThreads; ++t)
        for (int64_t r = 0; r < layout.numRegisters; ++r)
          ++count[layout.coordinate(t, r)];
      EXPECT_EQ(static_cast<int64_t>(count.size()), f.rows * f.cols) << row.name;
      for (auto &[coord, times] : count) {
        EXPECT_TRUE(layout.isInBounds(coord)) << row.name;
        EXPECT_EQ(times, 1) << row.name;
      }
      EXPECT_EQ(f.rows, operand == Operand::B ? row.k : row.m);
      EXPECT_EQ(f.cols, operand == Operand::A ? row.k : row.n);
    }
}

TEST(Atoms, TableIsConsistent) {
  for (const Instruction &row : instructions()) {
    EXPECT_EQ(&find(row.name), &row) << "names are unique";
    EXPECT_EQ(row.k * bitsOf(row.input), 256) << "32 bytes of K";
    bool warpgroup = row.feature == "wgmma";
    EXPECT_TRUE(warpgroup || row.feature == "mma.sync");
    EXPECT_EQ(row.warps, warpgroup ? 4 : 1);
    EXPECT_EQ(row.b.inRegisters(), !warpgroup);
  }
  llvm::Expected<const Instruction *> none = findInstruction("mma.m8n8k4.f64");
  ASSERT_FALSE(none);
  EXPECT_EQ(llvm::toString(none.takeError()),
            "expected mma.m16n8k16.{bf16,f16}, mma.m16n16k16.bf16, mma.m16n8k8.tf32, "
            "wgmma.m64nNk16.{bf16,f16} or "
            "wgmma.m64nNk8.tf32 with N = 8, "
            "16 .. 256, got \"mma.m8n8k4.f64\"");
}

// Repeats and warps: checked against the documented formula for each operand.
TEST(Atoms, RepeatsOverWarpsAndRegisters) {
  const Instruction &row = find("mma.m16n8k16.bf16");
  const int64_t m = 96, n = 40, k = 48; // n is padded with two groups: 3 repeats of 16 columns
  auto layoutOf = [&](llvm::ArrayRef<int64_t> shape, Operand operand) {
    return *atom(shape, row, {operand, 3, 2, 12});
  };
  RegisterLayout a = layoutOf({m, k}, Operand::A), b = layoutOf({k, n}, Operand::B),
                 c = layoutOf({m, n}, Operand::C);
  EXPECT_EQ(repeats({m, k}, row, {Operand::A, 3, 2, 12}), (SmallVector<int64_t, 2>{2, 3}));
  EXPECT_EQ(repeats({k, n}, row, {Operand::B, 3, 2, 12}), (SmallVector<int64_t, 2>{3, 3}));
  EXPECT_EQ(repeats({m, n}, row, {Operand::C, 3, 2, 12}), (SmallVector<int64_t, 2>{2, 3}));
  RegisterLayout fa = tile(row.name, Operand::A), fb = tile(row.name, Operand::B),
                 fc = tile(row.name, Operand::C);
  auto expect = [](const RegisterLayout &layout, const RegisterLayout &fragment, auto tileOrigin) {
    ASSERT_EQ(layout.numThreads, 12 * 32);
    for (int64_t t = 0; t < layout.numThreads; ++t)
      for (int64_t r = 0; r < layout.numRegisters; ++r) {
        Coordinate expected = fragment.coordinate(t % 32, r % fragment.numRegisters);
        Coordinate origin = tileOrigin(t / 32 % 6 % 3, t / 32 % 6 / 3, r / fragment.numRegisters);
        ASSERT_EQ(layout.coordinate(t, r),
                  (Coordinate{expected[0] + origin[0], expected[1] + origin[1]}));
      }
  };
  expect(a, fa, [](int64_t warpM, int64_t, int64_t rep) {
    return Coordinate{(rep / 3 * 3 + warpM) * 16, rep % 3 * 16};
  });
  expect(b, fb, [](int64_t, int64_t warpN, int64_t rep) {
    return Coordinate{rep / 3 * 16, (rep % 3 * 2 + warpN) * 8};
  });
  expect(c, fc, [](int64_t warpM, int64_t warpN, int64_t rep) {
    return Coordinate{(rep / 3 * 3 + warpM) * 16, (rep % 3 * 2 + warpN) * 8};
  });
  EXPECT_EQ(a.replication(), 4); // 2 groups along N, 2 sets of spare warps
  EXPECT_EQ(b.replication(), 6);
  EXPECT_EQ(c.replication(), 2);
  EXPECT_TRUE(c.isPadded(1));
}

// What the lowering of a product relies on: at each repeat the three fragments of a thread meet in
// one instruction.
TEST(Atoms, FragmentsOfAProductMeet) {
  for (llvm::StringRef name : {"mma.m16n8k16.bf16", "mma.m16n8k8.tf32"}) {
    const Instruction &row = find(name);
    const int64_t m = 64, n = 32, k = 32;
    RegisterLayout a = *atom({m, k}, row, {Operand::A, 2, 2, 0}),
                   b = *atom({k, n}, row, {Operand::B, 2, 2, 0}),
                   c = *atom({m, n}, row, {Operand::C, 2, 2, 0});
    auto ra = repeats({m, k}, row, {Operand::A, 2, 2, 0}),
         rb = repeats({k, n}, row, {Operand::B, 2, 2, 0});
    for (int64_t warp = 0; warp < 4; ++warp)
      for (int64_t i = 0; i < ra[0]; ++i)
        for (int64_t j = 0; j < rb[1]; ++j)
          for (int64_t s = 0; s < ra[1]; ++s) {
            Coordinate ca = a.coordinate(32 * warp, (i * ra[1] + s) * row.a.registers);
            Coordinate cb = b.coordinate(32 * warp, (s * rb[1] + j) * row.b.registers);
            Coordinate cc = c.coordinate(32 * warp, (i * rb[1] + j) * row.c.registers);
            ASSERT_EQ(ca[0], cc[0]);
            ASSERT_EQ(cb[1], cc[1]);
            ASSERT_EQ(ca[1], cb[0]);
          }
  }
}

TEST(Atoms, AtomRefusesWithAReason) {
  auto errorOf = [](llvm::ArrayRef<int64_t> shape, llvm::StringRef name, const AtomParams &p) {
    llvm::Expected<RegisterLayout> layout = atom(shape, find(name), p);
    return layout ? "" : llvm::toString(layout.takeError());
  };
  EXPECT_EQ(errorOf({64}, "mma.m16n8k16.bf16", {}), "expected 2 axes, got 1");
  EXPECT_EQ(errorOf({64, 0}, "mma.m16n8k16.bf16", {}),
            "expected extents between 1 and 1048576, got 64 x 0");
  EXPECT_EQ(errorOf({64, 64}, "wgmma.m64n64k16.bf16", {Operand::B, 1, 1, 0}),
            "expected an operand held in registers, got B of wgmma.m64n64k16.bf16, which is read "
            "from shared memory");
  EXPECT_EQ(errorOf({64, 64}, "mma.m16n8k16.bf16", {Operand::C, 0, 1, 0}),
            "expected between 1 and 32 groups of warps along M and N, got 0 and 1");
  EXPECT_EQ(errorOf({64, 64}, "wgmma.m64n64k16.bf16", {Operand::C, 2, 1, 4}),
            "expected a number of warps that is a multiple of 8, got 4");
  EXPECT_EQ(errorOf({64, 64}, "wgmma.m64n64k16.bf16", {Operand::C, 5, 2, 0}),
            "expected whole warps of 32 threads, at most 1024 threads, got 1280");
}

//===----------------------------------------------------------------------===//
// ldmatrix
//===----------------------------------------------------------------------===//

// Runs ldmatrix by its definition on a memory that holds each element's own coordinate.
static void expectLdmatrix(const RegisterLayout &layout, unsigned contiguousAxis, bool transposed,
                           int64_t matrices) {
  std::optional<LdMatrix> how = ldmatrixFor(layout, contiguousAxis);
  ASSERT_TRUE(how);
  EXPECT_EQ(how->transposed, transposed);
  EXPECT_EQ(how->matrices, matrices);
  for (int64_t t = 0; t < layout.numThreads; ++t)
    for (int64_t r = 0; r < layout.numRegisters; ++r) {
      int64_t lane = t % 32, warp = t - lane, index = r / 2 / matrices, matrix = r / 2 % matrices;
      int64_t row = lane / 4, column = 2 * (lane % 4) + r % 2; // of the matrix as received
      if (transposed)
        std::swap(row, column);
      Coordinate c = ldmatrixRow(layout, *how, warp + 8 * matrix + row, index);
      EXPECT_EQ(c[contiguousAxis] % 8, 0) << "rows of 16 bytes at their alignment";
      c[contiguousAxis] += column;
      ASSERT_EQ(c, layout.coordinate(t, r)) << "thread " << t << " element " << r;
    }
}

TEST(Atoms, LdmatrixLoadsFragments) {
  const Instruction &mma = find("mma.m16n8k16.bf16"), &wgmma = find("wgmma.m64n64k16.bf16");
  expectLdmatrix(*atom({64, 96}, mma, {Operand::A, 2, 2, 0}), 1, false, 4);
  expectLdmatrix(*atom({64, 96}, mma, {Operand::A, 2, 2, 0}), 0, true, 4);
  expectLdmatrix(*atom({16, 24}, mma, {Operand::B, 1, 1, 0}), 0, false, 2);
  expectLdmatrix(*atom({16, 24}, mma, {Operand::B, 1, 1, 0}), 1, true, 2);
  expectLdmatrix(*atom({64, 48}, mma, {Operand::B, 2, 3, 0}), 1, true, 4);
  expectLdmatrix(atom({64, 48}, mma, {Operand::B, 2, 3, 0})->transposed(), 1, false, 4);
  expectLdmatrix(*atom({128, 48}, wgmma, {Operand::A, 2, 1, 0}), 1, false, 4);
}

TEST(Atoms, LdmatrixRefusesOtherLayouts) {
  EXPECT_FALSE(ldmatrixFor(*atom({16, 16}, find("mma.m16n8k8.tf32"), {Operand::A, 1, 1, 0}), 1));
  EXPECT_FALSE(ldmatrixFor(*blocked({16, 64}, {{1, 4}, {4, 8}, {1, 1}, {1, 0}, 0}), 1));
  EXPECT_FALSE(ldmatrixFor(*replicated({16}, 1), 0));
}

// Columns of accumulators are neighbours in pairs, and pairs are dealt to four lanes.
TEST(Atoms, ColumnsOfAccumulatorsAdd) {
  const Instruction &row = find("mma.m16n8k16.bf16");
  const RegisterLayout sum = llvm::cantFail(atom({32, 64}, row, {Operand::C, 2, 1, 0}));
  for (int64_t run : {1, 2, 4, 8, 16, 32})
    EXPECT_TRUE(sum.addsWithin(1, run)) << run;
  EXPECT_FALSE(sum.addsWithin(1, 3));
  EXPECT_FALSE(sum.addsWithin(1, 6));
  // Rows are eight apart, doubled or not.
  EXPECT_FALSE(interleavedRegisters(sum, tile("mma.m16n8k16.bf16", Operand::C)));
  EXPECT_FALSE(
      interleavedRegisters(sum, llvm::cantFail(atom({16, 64}, row, {Operand::C, 2, 1, 0}))));
  EXPECT_TRUE(interleavedRegisters(sum, sum));
}
