//===- kernel.cu - The device twin of kernel.c ----------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// kernel.ptx beside this file is made of it, so that the tests need no CUDA compiler:
//   nvcc -ptx -arch=compute_80 -O3 kernel.cu -o - |
//     sed '/^\/\//d; /^$/d; /used_bytes_mask/d; s/^\.version .*/.version 7.0/' > kernel.ptx
// The version is one that all drivers in question take.
//
//===----------------------------------------------------------------------===//
#include <stdint.h>

constexpr int K = 4, V = 8;

struct Tensor4 {
  float *data;
  uint32_t strides[3];
  __device__ float *at(int64_t row, int64_t token, int64_t head) const {
    return data + row * strides[0] + token * strides[1] + head * strides[2];
  }
};

struct Pool {
  float *data;
  uint32_t slot, head;
};

struct Slots {
  const void *data;
  uint32_t row, entry;
};

struct RowArray {
  const void *data;
  uint32_t row;
};

struct Params {
  Tensor4 q, k, v, g, o;
  Pool in, out;
  Slots sources, destinations;
  RowArray starts, flags, accepted;
  float scale;
  int32_t first_slot, tokens, ratio;
  int64_t pool_in, pool_out;
  int32_t src_width, dst_width;
};

template <typename Index> struct Kernel {
  static __device__ int64_t load(const void *data, int64_t index) {
    return static_cast<const Index *>(data)[index];
  }

  static __device__ int64_t destination(const Params &p, int64_t row, int64_t entry) {
    const Slots &slots = p.destinations;
    return slots.data ? load(slots.data, row * slots.row + entry * slots.entry) : row;
  }

  static __device__ void keep(const Params &p, int64_t slot, const float *state) {
    if (slot >= p.first_slot && slot < p.pool_out)
      for (int i = 0; i < K; ++i)
        p.out.data[slot * p.out.slot + blockIdx.y * p.out.head + i * V + threadIdx.x] = state[i];
  }

  static __device__ bool isNull(const Params &p, int64_t row, int64_t source) {
    if (source < p.first_slot || source >= p.pool_in)
      return true;
    const int64_t slot = destination(p, row, 0);
    return p.dst_width == 1 && (slot < p.first_slot || slot >= p.pool_out);
  }

  static __device__ void run(const Params &p) {
    const int64_t row = blockIdx.x;
    const int head = blockIdx.y, column = threadIdx.x;
    int64_t entry = row, first = 0, tokens = p.tokens, accepted = 1, source = row;
    if (p.starts.data) {
      entry = 0;
      first = load(p.starts.data, row * p.starts.row);
      tokens = load(p.starts.data, (row + 1) * p.starts.row) - first;
    }
    if (p.accepted.data)
      accepted = load(p.accepted.data, row * p.accepted.row);
    accepted = accepted < 1 ? 1 : accepted > p.src_width ? p.src_width : accepted;
    if (p.sources.data)
      source = load(p.sources.data, row * p.sources.row + (accepted - 1) * p.sources.entry);
    const bool null = isNull(p, row, source);
    const bool fresh =
        p.flags.data && !static_cast<const uint8_t *>(p.flags.data)[row * p.flags.row];
    float state[K] = {};
    for (int i = 0; i < K && !null && !fresh; ++i)
      state[i] = p.in.data[source * p.in.slot + head * p.in.head + i * V + column];
    for (int64_t t = 0; t < tokens; ++t) {
      float sum = 0;
      if (!null) {
        const int64_t at = first + t;
        const float decay = expf(*p.g.at(entry, at, head)), v = p.v.at(entry, at, head)[column];
        const float *q = p.q.at(entry, at, head / p.ratio), *k = p.k.at(entry, at, head / p.ratio);
        for (int i = 0; i < K; ++i) {
          state[i] = decay * state[i] + k[i] * v;
          sum += q[i] * state[i];
        }
        if (p.dst_width > 1)
          keep(p, destination(p, row, t), state);
      }
      p.o.at(entry, first + t, head)[column] = p.scale * sum;
    }
    if (!null && p.dst_width == 1)
      keep(p, destination(p, row, 0), state);
  }
};

// One block of V threads per row and value head; a thread has one column of the state.
extern "C" __global__ void test_decode(Params p) {
  extern __shared__ float unused[]; // for launches with dynamic shared memory
  (void)unused;
  Kernel<int32_t>::run(p);
}

extern "C" __global__ void test_decode_i64(Params p) { Kernel<int64_t>::run(p); }
