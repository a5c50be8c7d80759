//===- ChunkRows.h - Tokens of several writes as rows of one write each ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A token with n writes is n rows of a chunk's matrices, one for each write, in the order of the
// path; where n is no power of two, rows that write nothing fill up. Row j decays by what lies
// between write j - 1 and write j, the last one of all writes also by what comes after it. A read
// stands in the row of the write behind it, or of the last one, in a matrix of reads: as few
// matrices as there are reads for one row, or clocks within it.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKROWS_H
#define PASSES_LINATTNTOTILE_CHUNKROWS_H

#include "passes/Analysis/StepAnalysis.h"

namespace dl {

/// Where a read stands.
struct ChunkPlace {
  unsigned matrix = 0, row = 0;
};

struct ChunkRows {
  /// A matrix of reads, a token's rows of it.
  struct Matrix {
    llvm::SmallVector<std::optional<unsigned>> reads; ///< number of the read, if there is one
    llvm::SmallVector<unsigned> unseen; ///< rows of its own token before this one that it misses
    std::optional<bool> inclusive; ///< behind the decays of its row, or before them; none: either
  };

  /// Of a step that chunkwise kernels serve (Served.h).
  static ChunkRows of(const analysis::StepAnalysis &step);

  /// The decays of a row: numbers from `begin` to before `end`.
  unsigned decaysBegin(unsigned row) const { return row == 0 ? 0 : ends[row - 1]; }
  unsigned decaysEnd(unsigned row) const { return ends[row]; }
  /// Numbers of the decays that a read's key takes of its row.
  std::pair<unsigned, unsigned> ownDecays(const analysis::Read &read, ChunkPlace place) const;

  unsigned count = 1; ///< n, a power of two
  llvm::SmallVector<Matrix> matrices;
  llvm::DenseMap<unsigned, ChunkPlace> outputs; ///< by the number of an output read
  /// By the numbers of a write and of a read that enters it.
  llvm::DenseMap<std::pair<unsigned, unsigned>, ChunkPlace> feedback;

private:
  ChunkPlace place(const analysis::StepAnalysis &step, unsigned read, unsigned row);

  llvm::SmallVector<unsigned> ends;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKROWS_H
