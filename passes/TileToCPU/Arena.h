//===- Arena.h - Scratch memory of one emulated block ---------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Distributed tensors live at fixed offsets of the scratch memory. A buffer is counted by the
// values that are in it; when the last of them is dead its bytes may hold another one. Program
// order decides what is dead (a loop is one op of the block around it), so no analysis is needed
// beyond counting uses.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETOCPU_ARENA_H
#define PASSES_TILETOCPU_ARENA_H

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace dl::tile {

class Arena {
public:
  struct Buffer {
    int64_t offset = 0, bytes = 0;
    int64_t holders = 0;
  };

  /// A buffer with one holder, aligned to 64 bytes.
  Buffer *allocate(int64_t bytes);
  void retain(Buffer *buffer) { ++buffer->holders; }
  void release(Buffer *buffer);

  /// The most that was ever in use.
  int64_t getBytes() const { return end; }

private:
  std::map<int64_t, int64_t> free; ///< offset -> bytes, no two adjacent
  std::vector<std::unique_ptr<Buffer>> buffers;
  int64_t end = 0;
};

} // namespace dl::tile

#endif // PASSES_TILETOCPU_ARENA_H
