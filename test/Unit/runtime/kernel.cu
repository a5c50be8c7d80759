//===- kernel.cu - The device twin of kernel.c ----------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// kernel.ptx beside this file is made of it, so that the tests need no CUDA compiler:
//   nvcc -ptx -arch=compute_80 -O3 kernel.cu -o - | grep -v '^//' > kernel.ptx
//
//===----------------------------------------------------------------------===//
#include <stdint.h>

constexpr int K = 4, V = 8;

struct Tensor4 {
  float *data;
  int64_t strides[3];
  __device__ float *at(int64_t row, int64_t token, int64_t head) const {
    return data + row * strides[0] + token * strides[1] + head * strides[2];
  }
};

struct Pool {
  float *data;
  int64_t slot, head;
};

struct Params {
  Tensor4 q, k, v, g, o;
  Pool in, out;
  const int32_t *sources, *destinations;
  float scale;
  int32_t first_slot, tokens, ratio;
};

// One block of V threads per row and value head; a thread has one column of the state.
extern "C" __global__ void test_decode(Params p) {
  extern __shared__ float unused[]; // for launches with dynamic shared memory
  (void)unused;
  const int row = blockIdx.x, head = blockIdx.y, column = threadIdx.x;
  const int source = p.sources ? p.sources[row] : row;
  const int destination = p.destinations ? p.destinations[row] : row;
  const bool isNull = source < p.first_slot || destination < p.first_slot;
  float state[K] = {};
  if (!isNull)
    for (int i = 0; i < K; ++i)
      state[i] = p.in.data[source * p.in.slot + head * p.in.head + i * V + column];
  for (int t = 0; t < p.tokens; ++t) {
    float sum = 0;
    if (!isNull) {
      const float decay = expf(*p.g.at(row, t, head)), v = p.v.at(row, t, head)[column];
      const float *q = p.q.at(row, t, head / p.ratio), *k = p.k.at(row, t, head / p.ratio);
      for (int i = 0; i < K; ++i) {
        state[i] = decay * state[i] + k[i] * v;
        sum += q[i] * state[i];
      }
    }
    p.o.at(row, t, head)[column] = p.scale * sum;
  }
  if (!isNull)
    for (int i = 0; i < K; ++i)
      p.out.data[destination * p.out.slot + head * p.out.head + i * V + column] = state[i];
}
