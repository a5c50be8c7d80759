//===- Manifest.h - What a package says about its kernels -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_MANIFEST_H
#define DL_RUNTIME_MANIFEST_H

#include "Expression.h"
#include "dl/dlk.h"

#include <string>
#include <vector>

namespace dl::runtime {

/// A byte range of the file and its XXH3-128.
struct Blob {
  uint64_t offset = 0, bytes = 0;
  uint64_t hashLow = 0, hashHigh = 0;
};

/// How a run-time size behaves where a launch does not show it.
struct SymbolRule {
  Expression defaultValue; // empty: none; evaluated in the order of the symbols
  int64_t minimum = 1;
};

/// One dimension of a tensor argument.
struct Dimension {
  Expression size;
  int32_t symbol = -1;      // the symbol that the dimension binds: size - `offset`
  int64_t offset = 0;       // 0 for a plain symbol
  int64_t fixedStride = 0;  // elements; 0 = free, then the launch stores the stride at strideOffset
  int32_t strideOffset = 0; // bytes, in the parameter struct
  std::string text;
};

struct Argument {
  std::string name;
  std::string label; // for messages: 'q', or 'S' (state_in) where two arguments share a name
  dlk_role role = DLK_ROLE_INPUT;
  dlk_dtype dtype = DLK_F32;
  bool read = true, written = false, nullable = false;
  uint32_t align = 1;
  int32_t pointerOffset = 0;
  std::vector<Dimension> dims;
  int32_t minRank = 0; // trailing dimensions beyond it may be missing from a view
};

/// A number in the parameter struct: given by the caller, or computed from the sizes.
struct Scalar {
  std::string name;
  dlk_dtype dtype = DLK_F32;
  int32_t offset = 0;
  bool fromCaller = false, hasDefault = false;
  double defaultValue = 0;
  Expression value; // if not from the caller; of a part, how many there are
};

/// Sizes that the kernel supports: low <= expression <= high.
struct Requirement {
  Expression expression;
  int64_t low = INT64_MIN, high = INT64_MAX;
  std::string message;
};

struct Kernel {
  std::string name, kind, target, schedule, stateLayout, stateType, ioType, indexType, entry;
  dlk_format format = DLK_FORMAT_SO;
  uint32_t blob = 0;
  int64_t keyDim = 0, valueDim = 0;
  uint32_t threads = 1, sharedBytes = 0, registers = 0, spillBytes = 0, scratchBytes = 0;
  uint32_t paramBytes = 0;
  Expression grid[3];
  std::vector<Requirement> requirements;
  std::vector<Argument> args;
  std::vector<Scalar> scalars;
  std::vector<int32_t> callerScalars;          // indices into scalars
  int32_t partScalar = -1;                     // index of the one that counts launches; or -1
  int32_t numRequiredArgs = 0;                 // all up to the last one that may not be null
  bool pdl = false;                            // waits for the kernel before it on the stream
  std::string variantOf;                       // "", or the kernel that this one stands in for
  std::vector<Requirement> when;               // if these hold
  std::vector<int32_t> variants;               // indices of the kernels that stand in for this one
  std::string prepares;                        // "", or the kernel that this one is launched before
  int32_t preparation = -1;                    // index of the kernel that is launched before; or -1
  int32_t window = 0, maxTokens = 0, ring = 0; // of a log; 0: none
  int32_t checkpointInterval = 0;              // tokens between those of a prefill; 0: none
  // Indices into args.
  int32_t slotsIn = -1, slotsOut = -1, rowStarts = -1, rowFlags = -1, accepted = -1;
  int32_t cursors = -1, descriptors = -1, flush = -1;
  int32_t checkpointSlots = -1, checkpointOffsets = -1, counts = -1;

  /// The scalar that counts launches, or null.
  const Scalar *part() const { return partScalar < 0 ? nullptr : &scalars[partScalar]; }
  /// Belongs to no other kernel.
  bool standsAlone() const { return variantOf.empty() && prepares.empty(); }
  /// Writes the descriptors that other kernels of a log follow.
  bool plansLog() const { return descriptors >= 0 && args[descriptors].written; }
  /// Does what descriptors say, which were checked when they were made.
  bool followsLog() const { return descriptors >= 0 && !args[descriptors].written; }
};

struct Manifest {
  std::string operatorName, generator;
  SymbolNames symbols;
  std::vector<SymbolRule> symbolRules;
  int32_t rowSymbol = -1, batchSymbol = -1, tokenSymbol = -1; // "N", "B", "T", or -1
  int32_t specBlob = -1;
  std::vector<Kernel> kernels;
  std::vector<Blob> blobs;
};

/// Reads and checks a manifest that belongs to a file of `fileBytes`. On failure returns false;
/// `error` then names the offending member.
bool parseManifest(const char *text, size_t bytes, uint64_t fileBytes, Manifest &manifest,
                   std::string &error);

} // namespace dl::runtime

#endif // DL_RUNTIME_MANIFEST_H
