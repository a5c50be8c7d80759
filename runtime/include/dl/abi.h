/*===- abi.h - What the package writer and the runtime agree on -----------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Plain C11, no dependencies. The compiler's package writer includes this header and nothing else
 * of the runtime. runtime/README.md describes the manifest.
 *
 *===----------------------------------------------------------------------===*/
#ifndef DL_ABI_H
#define DL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define DLK_STATIC_ASSERT static_assert
extern "C" {
#else
#define DLK_STATIC_ASSERT _Static_assert
#endif

/* A text-mode transfer damages the last two bytes, as in PNG. */
#define DLK_MAGIC "DLKPKG\r\n"
#define DLK_MAGIC_BYTES 8
#define DLK_FORMAT_VERSION 6u
#define DLK_BLOB_ALIGNMENT 64u

/* Limits that a reader enforces, so that a launch can work on the stack. */
#define DLK_MAX_RANK 8
#define DLK_MAX_SYMBOLS 16
#define DLK_MAX_ARGS 64
#define DLK_MAX_SCALARS 64
#define DLK_MAX_PARAM_BYTES 4000u
#define DLK_MAX_EXPRESSION_NODES 64

/* The first 64 bytes of a package, little-endian. Blobs and the manifest follow in any order. */
typedef struct DlkHeader {
  char magic[DLK_MAGIC_BYTES];
  uint32_t version;          /* DLK_FORMAT_VERSION */
  uint32_t header_bytes;     /* sizeof(DlkHeader) */
  uint64_t file_bytes;       /* of the whole file */
  uint64_t manifest_offset;  /* from the start of the file */
  uint64_t manifest_bytes;   /* UTF-8 JSON, no terminating zero */
  uint64_t manifest_hash_lo; /* XXH3-128, seed 0, of the manifest's bytes */
  uint64_t manifest_hash_hi;
  uint64_t reserved; /* 0 */
} DlkHeader;

DLK_STATIC_ASSERT(sizeof(DlkHeader) == 64, "the header is 64 bytes");
DLK_STATIC_ASSERT(offsetof(DlkHeader, file_bytes) == 16, "file_bytes at 16");
DLK_STATIC_ASSERT(offsetof(DlkHeader, manifest_hash_lo) == 40, "manifest_hash_lo at 40");

/* Names in the manifest: X(enumerator, text). N counts rows: entries of a batch, or sequences that
 * lie one behind the other in entry 0. Arrays with an entry per row are i32 or i64. From "state"
 * on: of kernels that keep states as a base and a log (test/Reference/LogProtocol.md). */
#define DLK_FOR_EACH_ROLE(X)                                                                       \
  X(INPUT, "input")           /* per token: [B, T, heads, dim] */                                  \
  X(PARAM, "param")           /* per head: [heads, dim] */                                         \
  X(OUTPUT, "output")         /* per token and value head */                                       \
  X(STATE_IN, "state_in")     /* pool [pool_in, HV, ...], read through slots_in */                 \
  X(STATE_OUT, "state_out")   /* pool, written through slots_out; may be state_in's memory */      \
  X(SLOTS_IN, "slots_in")     /* [N, src_width] or [N]; null = row index */                        \
  X(SLOTS_OUT, "slots_out")   /* [N, dst_width] or [N]; null = row index */                        \
  X(WORKSPACE, "workspace")   /* scratch memory owned by the caller */                             \
  X(ROW_STARTS, "row_starts") /* [N + 1]: where rows begin in entry 0; null = row n is entry n */  \
  X(ROW_FLAGS, "row_flags")   /* [N], u8: 0 = the row starts from a zero state; null = all 1 */    \
  X(ACCEPTED, "accepted")     /* [N]: the row starts from slots_in[n, accepted - 1]; null = 1 */   \
  X(STATE, "state")           /* pool of bases [slots, HV, ...], merged in place */                \
  X(LOG, "log")               /* ring of entries [slots, heads, R, ...] */                         \
  X(CURSORS, "cursors")       /* i32 [slots, 4]: where each slot's log stands */                   \
  X(DESCRIPTORS, "descriptors")               /* i32 [N, 12]: what a step does to each row */      \
  X(FLUSH, "flush")                           /* [N], u8: not 0 = merge first; null = all 0 */     \
  X(CHECKPOINT_SLOTS, "checkpoint_slots")     /* [N] or [N, width]; null = none */                 \
  X(CHECKPOINT_OFFSETS, "checkpoint_offsets") /* [N]; null = all 0; of a prefill, its interval */  \
  X(COUNTS, "counts")                         /* [N]: entries since the base; null = all */

/* X(enumerator, text, DLPack type code, bits) */
#define DLK_FOR_EACH_DTYPE(X)                                                                      \
  X(F64, "f64", 2, 64)                                                                             \
  X(F32, "f32", 2, 32)                                                                             \
  X(F16, "f16", 2, 16)                                                                             \
  X(BF16, "bf16", 4, 16)                                                                           \
  X(I64, "i64", 0, 64)                                                                             \
  X(I32, "i32", 0, 32)                                                                             \
  X(U8, "u8", 1, 8)

/* X(enumerator, text) */
#define DLK_FOR_EACH_FORMAT(X)                                                                     \
  X(CUBIN, "cubin")                                                                                \
  X(PTX, "ptx")                                                                                    \
  X(SO, "so")

typedef enum dlk_role {
#define X(NAME, TEXT) DLK_ROLE_##NAME,
  DLK_FOR_EACH_ROLE(X)
#undef X
} dlk_role;

typedef enum dlk_dtype {
#define X(NAME, TEXT, CODE, BITS) DLK_##NAME,
  DLK_FOR_EACH_DTYPE(X)
#undef X
} dlk_dtype;

typedef enum dlk_format {
#define X(NAME, TEXT) DLK_FORMAT_##NAME,
  DLK_FOR_EACH_FORMAT(X)
#undef X
} dlk_format;

/* Entry point of a kernel in a host shared object ("format": "so"): runs one block of the grid.
 * `scratch` holds the kernel's scratch_bytes, 64-byte aligned, contents undefined. Returns 0, or a
 * kernel-defined error. */
typedef int32_t (*dlk_cpu_entry)(const void *params, const uint32_t block[3], void *scratch);

#ifdef __cplusplus
}
#endif
#endif /* DL_ABI_H */
