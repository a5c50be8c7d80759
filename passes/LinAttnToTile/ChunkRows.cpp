//===- ChunkRows.cpp - Tokens of several writes as rows of one write each ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkRows.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dl;

/// Writes of its own token that a read sees.
static unsigned writesSeen(const analysis::StepAnalysis &step, const analysis::Read &read) {
  return llvm::count_if(step.writes, [&](const analysis::Write &w) { return step.sees(read, w); });
}

std::pair<unsigned, unsigned> ChunkRows::ownDecays(const analysis::Read &read,
                                                   ChunkPlace place) const {
  bool isBehind = matrices[place.matrix].inclusive.value_or(true);
  unsigned begin = decaysBegin(place.row);
  return {begin, isBehind ? begin : read.clock};
}

/// In the first matrix that has room and the read's clock.
ChunkPlace ChunkRows::place(const analysis::StepAnalysis &step, unsigned number, unsigned row) {
  const analysis::Read &read = step.reads[number];
  std::optional<bool> inclusive;
  if (decaysBegin(row) != decaysEnd(row))
    inclusive = read.clock == decaysEnd(row);
  unsigned seen = writesSeen(step, read), unseen = row > seen ? row - seen : 0;
  for (auto [i, matrix] : llvm::enumerate(matrices)) {
    if (matrix.reads[row] == number)
      return {unsigned(i), row};
    if (matrix.reads[row] || (inclusive && matrix.inclusive.value_or(*inclusive) != *inclusive))
      continue;
    matrix.reads[row] = number;
    matrix.unseen[row] = unseen;
    if (inclusive)
      matrix.inclusive = inclusive;
    return {unsigned(i), row};
  }
  Matrix matrix;
  matrix.reads.resize(count);
  matrix.unseen.resize(count);
  matrix.reads[row] = number;
  matrix.unseen[row] = unseen;
  matrix.inclusive = inclusive;
  matrices.push_back(std::move(matrix));
  return {unsigned(matrices.size() - 1), row};
}

ChunkRows ChunkRows::of(const analysis::StepAnalysis &step) {
  ChunkRows rows;
  unsigned writes = step.writes.size(), decays = step.states.front().decays.size();
  rows.count = llvm::PowerOf2Ceil(writes);
  for (unsigned row = 0; row < rows.count; ++row)
    rows.ends.push_back(row + 1 < writes ? step.writes[row].clock : decays);
  // Outputs later: what enters writes fills as few matrices as it can.
  for (auto [row, write] : llvm::enumerate(step.writes))
    for (const analysis::ReadTerm &term : write.value.reads)
      rows.feedback[{unsigned(row), term.read}] = rows.place(step, term.read, row);
  for (auto [number, read] : llvm::enumerate(step.reads))
    if (read.isOutput)
      rows.outputs[number] = rows.place(step, number, std::min(writesSeen(step, read), writes - 1));
  return rows;
}
