/*===- dlk.h - Load and launch compiled kernels: the public C API ---------===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 *   open -> find -> prepare -> launch, launch, ... -> release -> close
 *
 * C11. Every function that can fail returns a dlk_status; dlk_last_error() then holds one line that
 * names the argument, what was given and what is allowed. Nothing here exits, aborts or throws. All
 * functions may be called from several threads at once; one plan may be launched from several
 * threads.
 *
 * dlk_prepare() does everything that allocates, loads or compiles. dlk_launch() on a CUDA device
 * only checks its arguments and calls cuLaunchKernel or cuLaunchKernelEx, twice if the kernel is
 * prepared by another one: no allocation, no synchronisation, no loading (but see
 * DLK_PLAN_CHECKED), so it is legal in stream capture.
 *
 *===----------------------------------------------------------------------===*/
#ifndef DL_DLK_H
#define DL_DLK_H

#include "dl/abi.h"

#if defined(_WIN32)
#error "POSIX systems only"
#endif
#define DLK_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/*===----------------------------------------------------------------------===*
 * Errors
 *===----------------------------------------------------------------------===*/

typedef enum dlk_status {
  DLK_OK = 0,
  DLK_INVALID_ARGUMENT =
      1,                /* the caller's argument breaks a documented rule; nothing was launched */
  DLK_IO_ERROR = 2,     /* the file cannot be read */
  DLK_BAD_PACKAGE = 3,  /* truncated, corrupt, or of another version */
  DLK_NOT_FOUND = 4,    /* the package has no such kernel */
  DLK_UNSUPPORTED = 5,  /* the kernel cannot run on this device or with these sizes */
  DLK_DEVICE_ERROR = 6, /* the driver, the dynamic loader or the kernel reported an error */
  DLK_OUT_OF_MEMORY = 7
} dlk_status;

/* The message of the last call on this thread that returned something else than DLK_OK. Never NULL.
 * Valid until the next failing call on this thread. */
DLK_API const char *dlk_last_error(void);

/* "ok", "invalid argument", ... */
DLK_API const char *dlk_status_name(dlk_status status);

/* Version of the runtime, "0.1.0", and the package format that it reads. */
DLK_API const char *dlk_runtime_version(void);
DLK_API uint32_t dlk_format_version(void);

/*===----------------------------------------------------------------------===*
 * Devices and tensor views: layouts identical to DLPack's DLDevice, DLDataType and DLTensor
 *===----------------------------------------------------------------------===*/

enum { DLK_DEVICE_CPU = 1, DLK_DEVICE_CUDA = 2 }; /* kDLCPU, kDLCUDA */

typedef struct dlk_device {
  int32_t type; /* DLK_DEVICE_CPU or DLK_DEVICE_CUDA */
  int32_t id;   /* CUDA ordinal; 0 for the CPU */
} dlk_device;

typedef struct dlk_data_type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* always 1 */
} dlk_data_type;

typedef struct dlk_tensor {
  void *data; /* device memory; NULL only for a nullable argument, or where a size is 0 */
  dlk_device device;
  int32_t ndim;
  dlk_data_type dtype;
  const int64_t *shape;   /* ndim sizes */
  const int64_t *strides; /* ndim strides in elements; NULL = contiguous, last dimension fastest */
  uint64_t byte_offset;   /* added to data */
} dlk_tensor;

DLK_STATIC_ASSERT(sizeof(void *) == 8, "64-bit platforms only");
DLK_STATIC_ASSERT(sizeof(dlk_tensor) == 48, "size of DLTensor");
DLK_STATIC_ASSERT(offsetof(dlk_tensor, device) == 8, "DLTensor.device");
DLK_STATIC_ASSERT(offsetof(dlk_tensor, ndim) == 16, "DLTensor.ndim");
DLK_STATIC_ASSERT(offsetof(dlk_tensor, dtype) == 20, "DLTensor.dtype");
DLK_STATIC_ASSERT(offsetof(dlk_tensor, shape) == 24, "DLTensor.shape");
DLK_STATIC_ASSERT(offsetof(dlk_tensor, strides) == 32, "DLTensor.strides");
DLK_STATIC_ASSERT(offsetof(dlk_tensor, byte_offset) == 40, "DLTensor.byte_offset");

/* Reads "cpu" or "cuda:N" ("cuda" = "cuda:0"). Does not touch the device.
 * Errors: DLK_INVALID_ARGUMENT for any other text. */
DLK_API dlk_status dlk_device_parse(const char *text, dlk_device *device);

/* The DLPack data type of a dlk_dtype (DLPack's bool is also taken for u8), its name ("bf16") and
 * its size in bytes. */
DLK_API dlk_data_type dlk_dtype_data_type(dlk_dtype dtype);
DLK_API const char *dlk_dtype_name(dlk_dtype dtype);
DLK_API uint32_t dlk_dtype_bytes(dlk_dtype dtype);
DLK_API const char *dlk_role_name(dlk_role role);

/*===----------------------------------------------------------------------===*
 * Packages
 *===----------------------------------------------------------------------===*/

typedef struct dlk_package dlk_package;
typedef struct dlk_kernel dlk_kernel; /* owned by its package */

/* Reads a package and checks its header, hashes and manifest; runs nothing. The hashes find damage,
 * not malice: kernels are native code, so open only packages that you trust as much as a shared
 * library. Errors: DLK_IO_ERROR (path, reason), DLK_BAD_PACKAGE, DLK_OUT_OF_MEMORY; *package is
 * then NULL. */
DLK_API dlk_status dlk_package_open_file(const char *path, dlk_package **package);

/* The same from memory; the bytes are copied and may be freed afterwards. */
DLK_API dlk_status dlk_package_open_memory(const void *data, size_t bytes, dlk_package **package);

/* Closes the package; its kernel handles become invalid, plans made from it stay valid. NULL is
 * ignored. */
DLK_API void dlk_package_close(dlk_package *package);

/* The manifest, zero-terminated JSON text; valid until the package is closed. bytes may be NULL. */
DLK_API const char *dlk_package_manifest(const dlk_package *package, size_t *bytes);

/* The operator's name, and the text of the spec that was compiled ("" if the package holds none).
 */
DLK_API const char *dlk_package_operator(const dlk_package *package);
DLK_API const char *dlk_package_spec(const dlk_package *package, size_t *bytes);

/*===----------------------------------------------------------------------===*
 * Kernels
 *===----------------------------------------------------------------------===*/

/* Strings are valid until the package is closed. */
typedef struct dlk_kernel_info {
  const char *name;
  const char *kind;   /* "decode"; of a log "plan", "append", "merge", "materialize" */
  const char *target; /* "sm_90a", "sm_80", "cpu" */
  dlk_format format;
  const char *schedule;
  int64_t key_dim, value_dim; /* K, V */
  const char *state_layout;   /* "kv": [pool, HV, K, V], "vk": [pool, HV, V, K] */
  const char *state_type;
  const char *io_type;
  uint32_t threads, shared_bytes, registers, spill_bytes;
  int32_t num_args, num_scalars;
  int32_t pdl;            /* 1: may be launched with DLK_PLAN_PDL */
  const char *index_type; /* of slot arrays and the like: "i32", "i64" */
  /* "", or the name of the kernel that this one stands in for at certain sizes: a plan of that one
   * holds this one too, and a launch takes the one that is for its sizes. A plan of this one alone
   * launches it at any size. */
  const char *variant_of;
  /* Of kernels that keep states as a base and a log: entries before a merge, tokens of a step's row
   * at most, entries of a slot's ring. Kernels that work on one pool have the same. Others: 0. */
  int32_t window, max_tokens, ring;
  /* "", or the name of the kernel that this one prepares, into its workspace: a plan of that one
   * holds this one too, and a launch launches both. A plan of this one alone launches it alone. */
  const char *prepares;
} dlk_kernel_info;

typedef struct dlk_arg_info {
  const char *name;
  dlk_role role;
  dlk_dtype dtype;
  int32_t rank;
  int32_t min_rank; /* trailing dimensions that a view leaves out have size 1 */
  uint32_t align;   /* bytes; of the data and of every free stride */
  int32_t nullable;
  int32_t written; /* 1 if the kernel writes it */
  /* Per dimension: "B", "128", "(N+1)". */
  const char *shape[DLK_MAX_RANK];
  /* Per dimension: 0 = any stride, else the stride in elements that the view must have (ignored
   * where the size is 1). */
  int64_t stride[DLK_MAX_RANK];
  int32_t read; /* 1 if the kernel reads it; what is read and written is updated in place */
} dlk_arg_info;

/* A scalar that the caller may give at launch. */
typedef struct dlk_scalar_info {
  const char *name;
  dlk_dtype dtype;
  int32_t has_default;
  double default_value;
} dlk_scalar_info;

DLK_API int32_t dlk_kernel_count(const dlk_package *package);

/* Kernel number `index`, NULL if out of range. */
DLK_API const dlk_kernel *dlk_kernel_at(const dlk_package *package, int32_t index);

/* Errors: DLK_INVALID_ARGUMENT if kernel or info is NULL, or the index is out of range. */
DLK_API dlk_status dlk_kernel_get_info(const dlk_kernel *kernel, dlk_kernel_info *info);
DLK_API dlk_status dlk_kernel_get_arg(const dlk_kernel *kernel, int32_t index, dlk_arg_info *info);
DLK_API dlk_status dlk_kernel_get_scalar(const dlk_kernel *kernel, int32_t index,
                                         dlk_scalar_info *info);

/* What to look for; zero-initialise, then fill in. NULL or 0 = any. */
typedef struct dlk_query {
  const char *name;         /* the whole name; kernels of one name differ in target only */
  const char *kind;         /* "decode" */
  const char *target;       /* pins the target, e.g. "sm_80"; it must still run on the device */
  int64_t key_dim;          /* K */
  int64_t value_dim;        /* V */
  const char *state_layout; /* "kv", "vk" */
  const char *state_type;   /* "f32", "bf16" */
  const char *io_type;      /* "bf16", "f16", "f32" */
  const char *index_type;   /* "i32", "i64" */
  int32_t no_ptx;           /* 1: refuse kernels that the driver would have to compile */
} dlk_query;

/* The best kernel for the device: machine code for exactly this chip before that of its family
 * before PTX; among equals the first in the package. Errors: DLK_NOT_FOUND (says which condition
 * left no kernel), DLK_DEVICE_ERROR (no such device). */
DLK_API dlk_status dlk_find(const dlk_package *package, const dlk_query *query, dlk_device device,
                            const dlk_kernel **kernel);

/* A run-time size, e.g. {"B", 64}. Symbols: B entries of the batch, T tokens of an entry, HQ key
 * heads, HV value heads, N rows, pool_in and pool_out slots of the pools that are read and written,
 * src_width and dst_width entries per row of the slot arrays, slots those of the pools of a log.
 * The package says what a size is that is not given (N = B, widths 1) and how small it may be (B,
 * T, N 0, others 1). */
typedef struct dlk_size {
  const char *symbol;
  int64_t value;
} dlk_size;

/* Whether the kernel, and the one that prepares it, run on the device and with the sizes (none: the
 * device alone is asked about). Returns DLK_OK; DLK_UNSUPPORTED; DLK_INVALID_ARGUMENT for sizes
 * that are unknown, repeated or too small; DLK_DEVICE_ERROR if there is no such device. `reason`
 * (may be NULL) gets the message, cut to reason_bytes. Loads nothing. */
DLK_API dlk_status dlk_supported(const dlk_kernel *kernel, dlk_device device, const dlk_size *sizes,
                                 int32_t num_sizes, char *reason, size_t reason_bytes);

/* Bytes of workspace that the sizes need: 0 unless an argument has the role DLK_ROLE_WORKSPACE. It
 * may hold anything before a launch, and holds nothing of use after it: launches one behind the
 * other may share it, launches that may overlap may not. Computed in 64 bits. Errors:
 * DLK_INVALID_ARGUMENT (a size is missing or too small), DLK_UNSUPPORTED (beyond 64 bits). */
DLK_API dlk_status dlk_workspace_bytes(const dlk_kernel *kernel, const dlk_size *sizes,
                                       int32_t num_sizes, uint64_t *bytes);

/* Shape of argument `index` for these sizes: DLK_MAX_RANK entries, of which `rank` are set. State
 * pools need pool_in or pool_out among the sizes. Errors as dlk_workspace_bytes. */
DLK_API dlk_status dlk_arg_shape(const dlk_kernel *kernel, int32_t index, const dlk_size *sizes,
                                 int32_t num_sizes, int64_t shape[DLK_MAX_RANK]);

/*===----------------------------------------------------------------------===*
 * Plans
 *===----------------------------------------------------------------------===*/

typedef struct dlk_plan dlk_plan; /* a kernel, loaded on one device; immutable */

enum {
  /* A debugging mode: before it starts the kernel, a launch reads the arrays that have an entry per
   * row and refuses those that break the rules below. Allocates, and on CUDA waits for the stream
   * and copies; so it refuses a stream that is capturing. */
  DLK_PLAN_CHECKED = 1,
  /* Refuse PTX instead of letting the driver compile it. */
  DLK_PLAN_NO_PTX = 2,
  /* Programmatic dependent launch: the kernel may start while the one before it on the stream still
   * runs, and waits for it before its first read of inputs, states and arrays with an entry per
   * row; arguments of the role DLK_ROLE_PARAM must have been written before. Legal in stream
   * capture. A kernel that is prepared starts early behind its preparation, and the preparation
   * behind what is before it, if that one waits itself. */
  DLK_PLAN_PDL = 4
};

/* Loads the kernel, its variants and the kernel that prepares them on the device (its primary
 * context) and sets their attributes. Plans of one package share loaded code. Errors:
 * DLK_UNSUPPORTED (wrong device, shared memory or threads beyond the device's limits: both numbers
 * are given; DLK_PLAN_PDL where the kernel, the device or the driver lacks it; DLK_PLAN_CHECKED for
 * a kernel without rows), DLK_DEVICE_ERROR (driver missing or too old, loading failed),
 * DLK_INVALID_ARGUMENT (unknown flag). */
DLK_API dlk_status dlk_prepare(const dlk_kernel *kernel, dlk_device device, uint32_t flags,
                               dlk_plan **plan);

/* Unloads what no other plan uses. Launches under way must have finished. Quiet after a context
 * reset, after fork() and at exit. NULL is ignored. */
DLK_API void dlk_plan_release(dlk_plan *plan);

/* A launch scalar by name; integers must be exact. */
typedef struct dlk_scalar {
  const char *name;
  double value;
} dlk_scalar;

/* Runs the kernel on a CUstream (NULL = the default stream); on the CPU it runs before the call
 * returns and the stream is ignored. `args` are in the order of dlk_kernel_get_arg; those at the
 * end that may be NULL may be left out. Scalars not given take their defaults. A kernel that
 * prepares it is launched before it, with the same arguments, and perhaps both several times, for
 * one part after the other.
 *
 * Refused with DLK_INVALID_ARGUMENT, with nothing launched: a wrong number of arguments; wrong
 * device, dtype, rank or dimension (K and V are fixed; a symbol's value must agree over all
 * arguments and may not be below its least); a stride that is negative, above 2^32 - 1, not the
 * required one, or breaks the alignment; misaligned or missing data; an output that overlaps itself
 * or another argument (state_out may be the very pool of state_in; column slices of one buffer do
 * not overlap); a pool with fewer slots than rows when its slot array is null; an unknown,
 * repeated, missing, inexact or non-finite scalar. With DLK_UNSUPPORTED: sizes that the kernel does
 * not support. N = 0 succeeds and does nothing. T = 0 is launched: rows without tokens keep their
 * states, which may have to be copied to other slots.
 *
 * Rows: without row_starts row n is entry n of the batch, T tokens long, and N must be B. With it
 * row n has the tokens [row_starts[n], row_starts[n + 1]) of entry 0, and B must be 1. A kernel
 * that takes descriptors finds a row's tokens by them: in entry 0 if B is 1, else in entry n.
 *
 * Slots: row n starts from the state in slots_in[n, 0], or in slots_in[n, accepted[n] - 1]; a row
 * flag of 0 makes that a zero state and nothing is read. If slots_out has one entry per row, the
 * state after the row's last token goes there; if it has more, entry t takes the state after token
 * t, and no row may be longer; an entry below the scalar "first_slot" keeps nothing.
 *
 * Null rows: a row whose start slot, or whose one destination, is below "first_slot" or not in the
 * pool reads no state, leaves all states untouched and gets zeros as outputs. The inputs of its
 * first token are loaded all the same, and their values count for nothing.
 *
 * Kernels that keep states as a base and a log: test/Reference/LogProtocol.md has their arguments
 * and the caller's promise, which the checked mode of "plan" verifies for all of them.
 *
 * The caller's promise of the others, which only DLK_PLAN_CHECKED verifies: row_starts begins with
 * 0, never decreases and ends at most at T; accepted is within the entries of slots_in; slots that
 * are used are in their pools; within a launch no slot is written twice, and no row writes a slot
 * that another row reads. */
DLK_API dlk_status dlk_launch(const dlk_plan *plan, const dlk_tensor *args, int32_t num_args,
                              const dlk_scalar *scalars, int32_t num_scalars, void *stream);

#ifdef __cplusplus
}
#endif
#endif /* DL_DLK_H */
