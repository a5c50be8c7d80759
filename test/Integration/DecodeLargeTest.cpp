//===- DecodeLargeTest.cpp - Offsets that 32 bits do not hold -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A few states and tokens, far apart in a memory of gigabytes. The host gives pages to what is
// touched alone; a GPU needs all of it, and one with less is not asked.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"

#include <cstring>
#include <random>
#include <sys/mman.h>

using namespace dl::test;

namespace {
/// Memory of which little is touched.
class Vast {
public:
  explicit Vast(size_t bytes) : bytes(bytes) {
    if (const cuda::Driver *driver = Device::get().driver) {
      size_t free = 0, total = 0;
      cuda::DevicePtr pointer = 0;
      if (driver->memGetInfo(&free, &total) == 0 && free > bytes + (size_t(1) << 30) &&
          driver->memAlloc(&pointer, bytes) == 0)
        start = reinterpret_cast<unsigned char *>(pointer);
      return;
    }
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED)
      start = static_cast<unsigned char *>(mapped);
  }
  ~Vast() {
    if (!start)
      return;
    if (const cuda::Driver *driver = Device::get().driver)
      driver->memFree(reinterpret_cast<cuda::DevicePtr>(start));
    else
      munmap(start, bytes);
  }
  Vast(const Vast &) = delete;
  Vast &operator=(const Vast &) = delete;

  bool isThere() const { return start; }
  unsigned char *data() const { return start; }

private:
  size_t bytes;
  unsigned char *start = nullptr;
};

void toDevice(void *to, const void *from, size_t bytes) {
  if (const cuda::Driver *driver = Device::get().driver)
    ASSERT_EQ(driver->memcpyHtoD(reinterpret_cast<cuda::DevicePtr>(to), from, bytes), 0);
  else
    std::memcpy(to, from, bytes);
}

void toHost(void *to, const void *from, size_t bytes) {
  if (const cuda::Driver *driver = Device::get().driver)
    ASSERT_EQ(driver->memcpyDtoH(to, reinterpret_cast<cuda::DevicePtr>(from), bytes), 0);
  else
    std::memcpy(to, from, bytes);
}

/// Arguments of a prepared that lie in a vast memory while it is launched.
class FarAway {
public:
  FarAway(Prepared &prepared, const Vast &vast) : prepared(prepared), vast(vast) {}

  /// `far`: the argument's view into the vast memory; entry n of its first dimension is entry
  /// `entries[n]` there, or n.
  void move(Argument &argument, Argument far, std::vector<int64_t> entries = {}) {
    far.elsewhere = vast.data();
    moves.push_back({&argument, argument, far, std::move(entries)});
    argument = far;
    forRuns(moves.back(), [&](size_t near, size_t place, size_t bytes) {
      toDevice(vast.data() + place, &far.memory->image[near], bytes);
    });
  }

  Outcome launchAndCollect() {
    prepared.launch();
    if (Device::get().driver)
      EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0) << "the kernel failed";
    std::vector<unsigned char> run;
    for (const Move &move : moves) {
      forRuns(move, [&](size_t near, size_t place, size_t bytes) {
        run.resize(bytes);
        toHost(run.data(), vast.data() + place, bytes);
        toDevice(static_cast<unsigned char *>(move.near.memory->data()) + near, run.data(), bytes);
      });
      *move.argument = move.near;
    }
    return prepared.collect();
  }

private:
  struct Move {
    Argument *argument, near, far;
    std::vector<int64_t> entries;
  };

  /// f(place near, place far, bytes) for runs of elements that are contiguous in both.
  template <typename Function> static void forRuns(const Move &move, Function f) {
    const Argument &near = move.near, &far = move.far;
    const bool isContiguous = near.strides.back() == 1 && far.strides.back() == 1;
    const int64_t run = isContiguous ? near.shape.back() : 1, count = near.numElements();
    const int64_t entry = count / near.shape[0];
    for (int64_t n = 0; n < count; n += run) {
      const int64_t index = move.entries.empty() ? n : move.entries[n / entry] * entry + n % entry;
      f(near.place(n), far.place(index), run * dlk_dtype_bytes(near.info.dtype));
    }
  }

  Prepared &prepared;
  const Vast &vast;
  std::vector<Move> moves;
};

/// Random bytes in a vast memory, where a kernel that cuts off an offset would write.
class Canary {
public:
  Canary(unsigned char *place, size_t bytes) : place(place), bytes(bytes) {
    std::minstd_rand random(1);
    for (unsigned char &byte : this->bytes)
      byte = static_cast<unsigned char>(random() >> 8);
    toDevice(place, this->bytes.data(), bytes);
  }
  bool isAlive() const {
    std::vector<unsigned char> now(bytes.size());
    toHost(now.data(), place, now.size());
    return now == bytes;
  }

private:
  unsigned char *place;
  std::vector<unsigned char> bytes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

static constexpr int64_t numSlots = 8192, slotStride = 540672, slotElements = 32 * 128 * 128;

/// Where the slots would be if elements or bytes were counted in 31 or 32 bits.
static std::set<size_t> wrappedPlaces(const std::vector<int64_t> &slots) {
  std::set<size_t> places;
  for (int64_t slot : slots)
    for (int bits : {31, 32})
      for (size_t unit : {1, 4}) {
        const size_t place = size_t(slot * slotStride) * 4 / unit % (size_t(1) << bits) * unit;
        const bool isUsed = std::any_of(slots.begin(), slots.end(), [&](int64_t other) {
          const size_t used = other * slotStride * 4;
          return place < used + slotElements * 4 && used < place + slotElements * 4;
        });
        if (!isUsed)
          places.insert(place);
      }
  return places;
}

/// Slots on both sides of 2^31 elements, and beyond 2^32.
TEST(DecodeLarge, SlotsBeyond32BitsR035) {
  const Vast vast(size_t(numSlots) * slotStride * 4);
  if (!vast.isThere())
    GTEST_SKIP() << "no 17.7 GB";
  const std::vector<int64_t> slots = {3971, 3972, 8191};
  for (const auto &[name, layout] :
       {std::pair("gdn", "kv"), {"gdn", "vk"}, {"kda", "kv"}, {"rwkv6", "vk"}}) {
    SCOPED_TRACE(std::string(name) + " " + layout);
    Problem problem = makeProblem(operatorOf(name), {3, 1, 16, 32, 128, 128}, layout);
    problem.sources = problem.destinations = {0, 1, 2};
    Prepared prepared(problem);
    FarAway states(prepared, vast);
    std::vector<Canary> canaries;
    for (size_t place : wrappedPlaces(slots))
      canaries.emplace_back(vast.data() + place, slotElements * 4);
    EXPECT_GE(canaries.size(), 3u);
    for (const char *name : {"src_slots", "dst_slots"}) {
      Argument &array = find(prepared.arguments, name);
      for (size_t row = 0; row < slots.size(); ++row)
        array.set(row, double(slots[row]));
      array.memory->upload();
    }
    for (Argument &argument : prepared.arguments)
      if (argument.info.role == DLK_ROLE_STATE_IN || argument.info.role == DLK_ROLE_STATE_OUT) {
        Argument far = argument;
        far.shape[0] = numSlots;
        far.strides = {slotStride, 128 * 128, 128, 1};
        far.byteOffset = 0;
        states.move(argument, far, slots);
      }
    check(problem, states.launchAndCollect());
    for (const Canary &canary : canaries)
      EXPECT_TRUE(canary.isAlive());
  }
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Index times stride passes 2^31 and 2^32 elements along the batch, the tokens, the heads.
TEST(DecodeLarge, TokensBeyond32BitsR040) {
  constexpr int64_t stride = 1200000000; // a multiple of all alignments
  const Vast vast((4 * stride + 65536) * 2);
  if (!vast.isThere())
    GTEST_SKIP() << "no 9.6 GB";
  for (const Operator &op : shippedOperators())
    for (const char *layout : {"kv", "vk"})
      for (int axis : {0, 1, 2}) {
        SCOPED_TRACE(op.package + " " + layout + " axis " + std::to_string(axis));
        const Sizes sizes[] = {{5, 1, 2, 4, 64, 64}, {1, 5, 2, 4, 64, 64}, {1, 2, 5, 5, 64, 64}};
        Problem problem = makeProblem(op, sizes[axis], layout, 1, 5);
        if (axis == 1)
          problem.starts = {0, 2, 5};
        Prepared prepared(problem);
        FarAway tokens(prepared, vast);
        int64_t column = 0;
        for (Argument &argument : prepared.arguments)
          if (argument.info.role == DLK_ROLE_INPUT || argument.info.role == DLK_ROLE_OUTPUT) {
            ASSERT_EQ(dlk_dtype_bytes(argument.info.dtype), 2u);
            Argument far = argument;
            int64_t inner = 1;
            for (int i = int(far.shape.size()); i-- > 0;) {
              far.strides[i] = i == axis ? stride : inner;
              inner *= i == axis ? 1 : far.shape[i];
            }
            far.byteOffset = column * 2;
            column += (inner + 63) / 64 * 64;
            tokens.move(argument, far);
          }
        check(problem, tokens.launchAndCollect());
      }
}
