//===- Target.h - The chips kernels are built for -------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only place that names chips. A target is a row of numbers and features; schedules read them
// and never compare names or versions. The CPU is a row like the others: the host emulates one
// thread block at a time, so its limits are those a block may assume anywhere.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_TARGET_TARGET_H
#define COMPILER_TARGET_TARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace dl::target {

struct Target {
  llvm::StringRef name;       ///< as given to --target
  llvm::StringRef chip;       ///< LLVM's -mcpu; empty: the host
  llvm::StringRef ptxFeature; ///< LLVM's -mattr, the PTX version; empty: no PTX
  int64_t computeCapability;  ///< 10 * major + minor, what the driver reports; 0: the host
  int64_t warpSize;
  int64_t smCount;   ///< of the usual part, for models of occupancy only
  int64_t memoryGBs; ///< its memory bandwidth, 10^9 bytes per second; 0: no model of it
  int64_t maxThreadsPerBlock;
  int64_t maxThreadsPerSM;
  int64_t maxBlocksPerSM;
  int64_t sharedPerBlock; ///< bytes, with the opt-in
  int64_t sharedPerSM;    ///< bytes, of which each block also takes sharedReserved
  int64_t sharedReserved; ///< bytes the system takes of each block
  int64_t registersPerSM; ///< 32-bit
  int64_t registersPerThread;
  llvm::ArrayRef<llvm::StringRef> features; ///< "mma.sync", "cp.async", "wgmma", "tma", ...
  llvm::StringRef measuredOn =
      {}; ///< the device that times in tables of the schedules are from, if any

  bool isGPU() const { return computeCapability != 0; }
  /// Whether newer chips run its PTX: that of an "a" or "f" target is for one chip or family.
  bool isPortable() const;
  bool has(llvm::StringRef feature) const;
  /// "90a" of sm_90a: what ptxas and fatbinary call the architecture.
  llvm::StringRef arch() const {
    return chip.drop_while([](char c) { return c != '_'; }).drop_front();
  }
};

/// All rows, the order of --help.
llvm::ArrayRef<Target> targets();
/// By name; the error lists the known names.
llvm::Expected<const Target *> findTarget(llvm::StringRef name);
/// What dl-compile builds for without --target.
llvm::ArrayRef<llvm::StringRef> defaultTargets();

/// How many blocks of this shape are resident on one SM at once: 0 if one does not fit.
int64_t blocksPerSM(const Target &target, int64_t threads, int64_t registersPerThread,
                    int64_t sharedBytes);

} // namespace dl::target

#endif // COMPILER_TARGET_TARGET_H
