//===- Target.cpp - The table of chips ------------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers are from the CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability", unless a comment says otherwise; bandwidths from the data sheets of the parts named.
//
//===----------------------------------------------------------------------===//
#include "compiler/Target/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace dl::target;
using llvm::ArrayRef;
using llvm::StringRef;

namespace {

constexpr int64_t KiB = 1024;

// Ampere and later: tensor cores by warp and asynchronous copies by thread, on every chip in the
// table.
constexpr StringRef kAmpere[] = {"mma.sync", "ldmatrix", "cp.async", "bf16", "tf32"};
// Hopper adds tensor cores by warpgroup, bulk copies with barriers that count bytes, clusters, and
// registers dealt out again between warps.
constexpr StringRef kHopper[] = {"mma.sync", "ldmatrix", "cp.async",   "bf16",
                                 "tf32",     "wgmma",    "tma",        "mbarrier",
                                 "cluster",  "stmatrix", "setmaxnreg", "pdl"};
// Data-centre Blackwell replaced wgmma by instructions on tensor memory, which nothing here uses
// yet.
constexpr StringRef kBlackwell[] = {"mma.sync", "ldmatrix", "cp.async", "bf16",  "tf32", "tma",
                                    "mbarrier", "cluster",  "stmatrix", "f32x2", "pdl"};
// The emulation runs every fragment and swizzle through the same tables; its barriers order all
// memory.
constexpr StringRef kHost[] = {"mma.sync", "ldmatrix", "cp.async", "bf16", "tf32", "wgmma", "tma"};

// ptxFeature is the lowest PTX version that knows the chip (and what we emit), so that old drivers
// can compile it: PTX 7.0 is CUDA 11.0, 7.1 CUDA 11.1, 7.8 CUDA 11.8, 8.0 CUDA 12.0, 8.6 CUDA 12.7,
// 8.7 CUDA 12.8, 8.8 CUDA 12.9.
constexpr Target kTargets[] = {
    // A block of the host is one call. 1024 threads and 227 KiB are the most any chip below allows,
    // so whatever is built for one of them also runs here; the rest keeps occupancy models defined.
    {"cpu", "", "", 0, 32, 1, 0, 1024, 1024, 1, 227 * KiB, 228 * KiB, 1 * KiB, 65536, 255, kHost},

    // A100 80 GB: 108 SMs. 164 KiB of shared memory on an SM, 1 KiB of it kept back for each block.
    {"sm_80", "sm_80", "+ptx70", 80, 32, 108, 2039, 1024, 2048, 32, 163 * KiB, 164 * KiB, 1 * KiB,
     65536, 255, kAmpere},

    // A10, RTX 30: 72 SMs on A10. Half the threads and 100 KiB of shared memory on an SM.
    {"sm_86", "sm_86", "+ptx71", 86, 32, 72, 600, 1024, 1536, 16, 99 * KiB, 100 * KiB, 1 * KiB,
     65536, 255, kAmpere},

    // L4 (58), L40S (142), RTX 40: the SM of sm_86 with 24 blocks; L40S is the serving part.
    {"sm_89", "sm_89", "+ptx78", 89, 32, 142, 864, 1024, 1536, 24, 99 * KiB, 100 * KiB, 1 * KiB,
     65536, 255, kAmpere},

    // H200, and H100 SXM with 3350 GB/s: 132 SMs, 228 KiB of shared memory on each. The "a" set
    // (wgmma, setmaxnreg)
    // runs on compute capability 9.0 alone.
    {"sm_90a", "sm_90a", "+ptx80", 90, 32, 132, 4800, 1024, 2048, 32, 227 * KiB, 228 * KiB, 1 * KiB,
     65536, 255, kHopper, "NVIDIA H200"},

    // B200 and B300: 148 SMs. The family-specific "f" set runs on 10.0 and 10.3; it needs PTX 8.8.
    {"sm_100f", "sm_100f", "+ptx88", 100, 32, 148, 8000, 1024, 2048, 32, 227 * KiB, 228 * KiB,
     1 * KiB, 65536, 255, kBlackwell},

    // B300 alone: the SM of B200.
    {"sm_103a", "sm_103a", "+ptx88", 103, 32, 148, 8000, 1024, 2048, 32, 227 * KiB, 228 * KiB,
     1 * KiB, 65536, 255, kBlackwell},

    // RTX 50 and RTX PRO 6000 Blackwell (188 SMs): the small shared memory of sm_89. The "f" set
    // runs on 12.0 and 12.1.
    {"sm_120f", "sm_120f", "+ptx88", 120, 32, 188, 1792, 1024, 1536, 24, 99 * KiB, 100 * KiB,
     1 * KiB, 65536, 255, kBlackwell},

    // DGX Spark (GB10, 48 SMs): the SM of sm_120.
    {"sm_121a", "sm_121a", "+ptx88", 121, 32, 48, 273, 1024, 1536, 24, 99 * KiB, 100 * KiB, 1 * KiB,
     65536, 255, kBlackwell},
};

// The chips engines serve on, and the CPU so that every package can be checked anywhere.
constexpr StringRef kDefaultTargets[] = {"cpu", "sm_80", "sm_90a"};

} // namespace

bool Target::isPortable() const { return isGPU() && llvm::isDigit(name.back()); }

bool Target::has(StringRef feature) const { return llvm::is_contained(features, feature); }

ArrayRef<Target> dl::target::targets() { return kTargets; }

ArrayRef<StringRef> dl::target::defaultTargets() { return kDefaultTargets; }

llvm::Expected<const Target *> dl::target::findTarget(StringRef name) {
  for (const Target &row : kTargets)
    if (row.name == name)
      return &row;
  auto names = llvm::map_range(kTargets, [](const Target &row) { return row.name; });
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "expected a target among " +
                                                                     llvm::join(names, ", ") +
                                                                     ", got \"" + name + "\"");
}

int64_t dl::target::blocksPerSM(const Target &target, int64_t threads, int64_t registersPerThread,
                                int64_t sharedBytes) {
  if (threads < 1 || threads > target.maxThreadsPerBlock ||
      registersPerThread > target.registersPerThread || registersPerThread < 0 || sharedBytes < 0 ||
      sharedBytes > target.sharedPerBlock)
    return 0;
  auto roundUp = [](int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
  };
  // Registers are dealt out to warps in pieces of 256, i.e. 8 for each thread; shared memory in 128
  // bytes.
  int64_t warps = roundUp(threads, target.warpSize) / target.warpSize;
  int64_t registers =
      warps * target.warpSize * roundUp(std::max<int64_t>(registersPerThread, 1), 8);
  int64_t shared = roundUp(sharedBytes + target.sharedReserved, 128);
  return std::min({target.maxBlocksPerSM, target.maxThreadsPerSM / (warps * target.warpSize),
                   target.registersPerSM / registers, target.sharedPerSM / shared});
}
