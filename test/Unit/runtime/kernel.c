/*===- kernel.c - A host kernel for the runtime's tests -------------------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * S <- e^g S + k v^T, o = scale S^T q; all f32, state [pool, HV, K, V]. One block per row and value
 * head. Follows the contract of dl/abi.h as a compiled kernel does, with rows of their own lengths,
 * rows that start from zero, and states kept after each token.
 *
 *===----------------------------------------------------------------------===*/
#include "dl/abi.h"

#include <math.h>
#include <string.h>

enum { K = 4, V = 8 };

typedef struct Tensor4 {
  float *data;
  uint32_t strides[3]; /* row, token, head; elements are packed */
} Tensor4;

typedef struct Pool {
  float *data;
  uint32_t slot, head;
} Pool;

/* An array with one or more entries per row; null if the caller gives none. */
typedef struct Slots {
  const void *data;
  uint32_t row, entry;
} Slots;

typedef struct RowArray {
  const void *data;
  uint32_t row;
} RowArray;

typedef struct Params {
  Tensor4 q, k, v, g, o;
  Pool in, out;
  Slots sources, destinations;
  RowArray starts, flags, accepted;
  float scale;
  int32_t first_slot, tokens, ratio;
  int64_t pool_in, pool_out;
  int32_t src_width, dst_width;
} Params;
DLK_STATIC_ASSERT(sizeof(Params) == 272, "as in PackageBuilder.cpp");

static float *at(const Tensor4 *t, int64_t row, int64_t token, int64_t head) {
  return t->data + row * t->strides[0] + token * t->strides[1] + head * t->strides[2];
}

static int64_t load(const void *data, int64_t index, int is64) {
  return is64 ? ((const int64_t *)data)[index] : ((const int32_t *)data)[index];
}

/* Where a row's tokens lie, the slot that it starts from, and whether it is null. */
typedef struct Row {
  int64_t entry, first, tokens, source;
  int is_null, is_fresh;
} Row;

static int64_t destination_of(const Params *p, int64_t row, int64_t entry, int is64) {
  const Slots *slots = &p->destinations;
  return slots->data ? load(slots->data, row * slots->row + entry * slots->entry, is64) : row;
}

static Row find_row(const Params *p, int64_t n, int is64) {
  Row row = {n, 0, p->tokens, n, 0, 0};
  if (p->starts.data) {
    row.entry = 0;
    row.first = load(p->starts.data, n * p->starts.row, is64);
    row.tokens = load(p->starts.data, (n + 1) * p->starts.row, is64) - row.first;
  }
  int64_t accepted = p->accepted.data ? load(p->accepted.data, n * p->accepted.row, is64) : 1;
  accepted = accepted < 1 ? 1 : accepted > p->src_width ? p->src_width : accepted;
  if (p->sources.data)
    row.source =
        load(p->sources.data, n * p->sources.row + (accepted - 1) * p->sources.entry, is64);
  row.is_null = row.source < p->first_slot || row.source >= p->pool_in;
  if (p->dst_width == 1) {
    const int64_t destination = destination_of(p, n, 0, is64);
    row.is_null |= destination < p->first_slot || destination >= p->pool_out;
  }
  row.is_fresh = p->flags.data && !((const uint8_t *)p->flags.data)[n * p->flags.row];
  return row;
}

static void keep(const Params *p, int64_t slot, int64_t head, float (*state)[V]) {
  if (slot >= p->first_slot && slot < p->pool_out)
    memcpy(p->out.data + slot * p->out.slot + head * p->out.head, state, K * V * sizeof(float));
}

static void step(const Params *p, const Row *row, int64_t t, int64_t head, float (*state)[V]) {
  const int64_t token = row->first + t, key_head = head / p->ratio;
  const float *q = at(&p->q, row->entry, token, key_head);
  const float *k = at(&p->k, row->entry, token, key_head);
  const float *v = at(&p->v, row->entry, token, head);
  const float decay = expf(*at(&p->g, row->entry, token, head));
  float *o = at(&p->o, row->entry, token, head);
  for (int j = 0; j < V; ++j) {
    float sum = 0;
    for (int i = 0; i < K; ++i) {
      state[i][j] = decay * state[i][j] + k[i] * v[j];
      sum += q[i] * state[i][j];
    }
    o[j] = p->scale * sum;
  }
}

static int32_t decode(const Params *p, const uint32_t *block, void *scratch, int is64) {
  const int64_t n = block[0], head = block[1];
  const Row row = find_row(p, n, is64);
  float (*state)[V] = (float (*)[V])scratch;
  if (row.is_null) {
    for (int64_t t = 0; t < row.tokens; ++t)
      memset(at(&p->o, row.entry, row.first + t, head), 0, V * sizeof(float));
    return 0;
  }
  if (row.is_fresh)
    memset(state, 0, K * V * sizeof(float));
  else
    memcpy(state, p->in.data + row.source * p->in.slot + head * p->in.head, K * V * sizeof(float));
  for (int64_t t = 0; t < row.tokens; ++t) {
    step(p, &row, t, head, state);
    if (p->dst_width > 1)
      keep(p, destination_of(p, n, t, is64), head, state);
  }
  if (p->dst_width == 1)
    keep(p, destination_of(p, n, 0, is64), head, state);
  return 0;
}

int32_t test_decode(const void *params, const uint32_t *block, void *scratch) {
  return decode((const Params *)params, block, scratch, 0);
}

int32_t test_decode_i64(const void *params, const uint32_t *block, void *scratch) {
  return decode((const Params *)params, block, scratch, 1);
}

/* The same kernel in two launches: the first leaves the scale in a workspace, per chunk and head.
 */
typedef struct PreparedParams {
  Params usual;
  uint8_t *workspace;
  uint32_t chunk, head;
} PreparedParams;
DLK_STATIC_ASSERT(sizeof(PreparedParams) == 288, "as in PackageBuilder.cpp");

static uint8_t *workspace_of(const PreparedParams *p, const uint32_t *block) {
  return p->workspace + block[0] * p->chunk + block[1] * p->head;
}

int32_t test_prepare(const void *params, const uint32_t *block, void *scratch) {
  const PreparedParams *p = (const PreparedParams *)params;
  (void)scratch;
  memcpy(workspace_of(p, block), &p->usual.scale, sizeof(float));
  return 0;
}

int32_t test_prepared(const void *params, const uint32_t *block, void *scratch) {
  const PreparedParams *p = (const PreparedParams *)params;
  Params usual = p->usual;
  memcpy(&usual.scale, workspace_of(p, block), sizeof(float));
  return decode(&usual, block, scratch, 0);
}

/* For tests of what a launch checks before. */
int32_t test_nothing(const void *params, const uint32_t *block, void *scratch) {
  (void)params, (void)block, (void)scratch;
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
  const int64_t destination = destination_of(p, block[0], 0, 0);
  if (block[1] == 0 && destination >= p->first_slot)
    p->out.data[destination * p->out.slot] += 1;
  return result;
}
