//===- Arena.cpp - Scratch memory of one emulated block -------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToCPU/Arena.h"
#include <algorithm>

using namespace dl::tile;

Arena::Buffer *Arena::allocate(int64_t bytes) {
  bytes = (std::max<int64_t>(bytes, 1) + 63) / 64 * 64;
  buffers.push_back(std::make_unique<Buffer>());
  Buffer *buffer = buffers.back().get();
  *buffer = {end, bytes, 1};
  auto hole =
      std::find_if(free.begin(), free.end(), [&](auto &entry) { return entry.second >= bytes; });
  if (hole == free.end()) {
    end += bytes;
    return buffer;
  }
  auto [offset, size] = *hole;
  buffer->offset = offset;
  free.erase(hole);
  if (size > bytes)
    free[offset + bytes] = size - bytes;
  return buffer;
}

void Arena::release(Buffer *buffer) {
  if (--buffer->holders > 0)
    return;
  auto [entry, isNew] = free.emplace(buffer->offset, buffer->bytes);
  auto next = std::next(entry);
  if (next != free.end() && entry->first + entry->second == next->first) {
    entry->second += next->second;
    free.erase(next);
  }
  if (entry == free.begin())
    return;
  auto previous = std::prev(entry);
  if (previous->first + previous->second == entry->first) {
    previous->second += entry->second;
    free.erase(entry);
  }
}
