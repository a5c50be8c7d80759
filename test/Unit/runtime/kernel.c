/*===- kernel.c - A host kernel for the runtime's tests -------------------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * S <- e^g S + k v^T, o = scale S^T q; all f32, state [slots, HV, K, V]. One block per row and
 * value head. Follows the contract of dl/abi.h as a compiled kernel does.
 *
 *===----------------------------------------------------------------------===*/
#include "dl/abi.h"

#include <math.h>
#include <string.h>

enum { K = 4, V = 8 };

typedef struct Tensor4 {
  float *data;
  int64_t strides[3]; /* row, token, head; elements are packed */
} Tensor4;

typedef struct Pool {
  float *data;
  int64_t slot, head;
} Pool;

typedef struct Params {
  Tensor4 q, k, v, g, o;
  Pool in, out;
  const int32_t *sources, *destinations;
  float scale;
  int32_t first_slot, tokens, ratio;
} Params;
DLK_STATIC_ASSERT(sizeof(Params) == 240, "as in PackageBuilder.cpp");

static float *at(const Tensor4 *t, int64_t row, int64_t token, int64_t head) {
  return t->data + row * t->strides[0] + token * t->strides[1] + head * t->strides[2];
}

int32_t test_decode(const void *params, const uint32_t *block, void *scratch) {
  const Params *p = (const Params *)params;
  const int64_t row = block[0], head = block[1], key_head = head / p->ratio;
  const int32_t source = p->sources ? p->sources[row] : (int32_t)row;
  const int32_t destination = p->destinations ? p->destinations[row] : (int32_t)row;
  float (*state)[V] = (float (*)[V])scratch;
  if (source < p->first_slot || destination < p->first_slot) {
    for (int64_t t = 0; t < p->tokens; ++t)
      memset(at(&p->o, row, t, head), 0, V * sizeof(float));
    return 0;
  }
  memcpy(state, p->in.data + source * p->in.slot + head * p->in.head, K * V * sizeof(float));
  for (int64_t t = 0; t < p->tokens; ++t) {
    const float *q = at(&p->q, row, t, key_head), *k = at(&p->k, row, t, key_head);
    const float *v = at(&p->v, row, t, head);
    const float decay = expf(*at(&p->g, row, t, head));
    float *o = at(&p->o, row, t, head);
    for (int j = 0; j < V; ++j) {
      float sum = 0;
      for (int i = 0; i < K; ++i) {
        state[i][j] = decay * state[i][j] + k[i] * v[j];
        sum += q[i] * state[i][j];
      }
      o[j] = p->scale * sum;
    }
  }
  memcpy(p->out.data + destination * p->out.slot + head * p->out.head, state,
         K * V * sizeof(float));
  return 0;
}

/* Fails in every block. */
int32_t test_failing(const void *params, const uint32_t *block, void *scratch) {
  (void)params, (void)block, (void)scratch;
  return 42;
}

/* Right but for one state element: `dl-run verify` must notice. */
int32_t test_wrong(const void *params, const uint32_t *block, void *scratch) {
  const Params *p = (const Params *)params;
  int32_t result = test_decode(params, block, scratch);
  const int32_t destination = p->destinations ? p->destinations[block[0]] : (int32_t)block[0];
  if (block[1] == 0 && destination >= p->first_slot)
    p->out.data[destination * p->out.slot] += 1;
  return result;
}
