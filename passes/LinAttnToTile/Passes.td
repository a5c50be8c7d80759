//===- Passes.td - From an operator to programs of thread blocks ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_PASSES
#define PASSES_LINATTNTOTILE_PASSES

include "mlir/Pass/PassBase.td"

/// What all kernels of an operator are compiled for, and how they are scheduled.
defvar kScheduleOptions = [
  Option<"keyDim", "key-dim", "int64_t", "128", "K, the key dimension">,
  Option<"valueDim", "value-dim", "int64_t", "128", "V, the value dimension">,
  Option<"stateLayout", "state-layout", "std::string", "\"kv\"", "kv or vk: axes of the state in memory, the last one contiguous">,
  Option<"stateType", "state-type", "std::string", "\"f32\"", "storage type of the state: f32, bf16 or f16">,
  Option<"ioType", "io-type", "std::string", "\"bf16\"", "f32, bf16 or f16: inputs and outputs that the operator does not pin">,
  Option<"indexType", "index-type", "std::string", "\"i32\"", "i32 or i64: slot numbers and token counts">,
  ListOption<"argumentTypes", "types", "std::string", "NAME=TYPE: storage types of single inputs, outputs and per-head parameters">,
  Option<"startsEarly", "starts-early", "bool", "false", "let a launch overlap the end of the one before it (tile.grid_wait)">,
  Option<"bytesInFlight", "bytes-in-flight", "int64_t", "98304", "bytes of state that an SM should have on the way at once, a fact of the chip">,
  Option<"valueTile", "value-tile", "int64_t", "0", "columns of V per block; 0: chosen by the model">,
  Option<"keyLanes", "key-lanes", "int64_t", "0", "lanes that share the sum over K (layout kv); 0: chosen by the model">,
  Option<"keyWarps", "key-warps", "int64_t", "0", "warps that share the sum over K (layout kv); 0: chosen by the model">,
  Option<"minBlocks", "min-blocks", "int64_t", "0", "resident blocks the register budget is set for; 0: chosen by the model">
];

def ScheduleRecurrent : Pass<"linattn-schedule-recurrent", "::mlir::ModuleOp"> {
  let summary = "Token by token with the state in registers: one tile.kernel per operator";
  let description = [{
    Replaces each `linattn.operator` (options set, ops expanded) by the `tile.kernel` that runs T >= 1 tokens of every row.
    A block owns one row, one value head and a tile of V; K is never split between blocks. Per token, in affine form:

    1. token-local maths, key vectors in a layout of their own;
    2. one pass over the state tile for all reads whose query does not depend on another read:
       (x e^G)^T S0, where G sums the decays before the read;
    3. earlier writes of the same token, added as (x . a e^G) b;
    4. outputs are stored;
    5. the new state e^G S0 + sum of (a e^G) b^T.

    So the state is read once and written once, and the sum over K is one fixed tree. Decays may lie along any axis; steps
    that are not affine in the state are legal too, since each read's result is used as it is.

    Which tokens a row has, the state it starts from and the states it leaves come from arrays in device memory, all of
    which may be left out: `cu_seqlens`, `src_slots`, `dst_slots`, `has_initial_state`, `num_accepted_tokens` (Row.h).
    Rows without a start slot or a destination, which are those below `first_slot` or past the pool, are null: outputs
    zero, no state touched.

    Example: `test/Transforms/schedule-recurrent.mlir`.
  }];
  let options = kScheduleOptions;
  let dependentDialects = ["::dl::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::gpu::GPUDialect", "::mlir::memref::MemRefDialect"];
}

def ScheduleChunkwise : Pass<"linattn-schedule-chunkwise", "::mlir::ModuleOp"> {
  let summary = "C tokens at a time by matrix products: one tile.kernel per operator";
  let description = [{
    Replaces each `linattn.operator` (options set, ops expanded) by the `tile.kernel` that runs the tokens of every row in
    chunks of C rows: a token has one for each of its writes, their number rounded up to a power of two. A block owns one row, one value head and a tile of V and walks the row's chunks with the state in the
    accumulators of a matrix instruction, transposed. Per chunk, from the affine normal form (passes/Analysis):

    1. token-local maths for all tokens, and its results in rows;
    2. `tile.decayed_gram`: for each read, x_t . a_s e^(decays in between) with every earlier row's write;
    3. `tile.invert_unit_lower`: where writes depend on reads, they solve a triangular system (I - gamma N) B = D + gamma X S0;
    4. reads of the state before the chunk, writes, outputs N B + X S0 and the new state e^G S0 + A^T B, by `tile.mma`
       with factors in bf16 and sums in f32.

    How precise factors are is an attribute of each product. What rounding takes from the factors of writes enters later
    writes by the factor (gamma) with which these read: where the analysis proves that it is 1 at most, factors are bf16.
    Where it proves another bound, `hilo` makes two bf16 of each factor of the Grams, of gamma X S0, of the system's
    solution, of A^T B and of N B, which leaves X S0 of the outputs; likewise with any bound where K is below 32. Where
    nothing bounds gamma, which is so if it is an input of which the operator does not promise a `linattn.bound`, factors
    are bf16. `precision` forces one or the other.

    With `part=prepare` and `part=walk` that becomes two kernels with the same arguments. Steps 1 to 3 do not depend on the
    state: the first kernel does them for all chunks at once and leaves their factors in a workspace, the second one
    walks the chunks and copies the factors of the next one while it multiplies with those of this one. Both take one
    part of the chunks after the other, so that a part is prepared while the one before it is walked.

    With `checkpoints=I` the kernel takes `checkpoint_slots` [N, M] and `checkpoint_offsets` [N]: row n leaves in slot j the
    state after offset + j I of its tokens, or from I on in steps of I where there are no offsets. Its chunks lie so that
    one ends there, so with states in f32 a prompt that goes on from a checkpoint gives the same bits as in one launch.

    Steps 2 and 3 are ops until `--tile-expand-gram`, so that a kernel reads like its mathematics. Tokens behind the end of
    a row neither decay, read nor write. Which rows, states and slots there are is as in `--linattn-schedule-recurrent`,
    except that only a row's last state is kept.

    An operator whose step is not affine is refused, at the op that forbids it; so are, so far, several states, decays
    along value, more than 8 writes per token, and a decay between a write and a read before it that a later write needs.

    Example: `test/Transforms/schedule-chunkwise.mlir`.
  }];
  let options = kScheduleOptions # [
    Option<"chunk", "chunk", "int64_t", "0", "C, rows taken at a time, one per write of a token: 16, 32, 64 or 128; 0: chosen by the model">,
    Option<"partBlocks", "part-blocks", "int64_t", "0", "blocks that prepare a part of the chunks, at least; 0: chosen by the model">,
    Option<"checkpoints", "checkpoints", "int64_t", "0", "tokens between the states of a row that are left in slots of their own, a multiple of the chunk's; 0: none are">,
    Option<"products", "products", "std::string", "\"mma.sync\"", "instructions of the walk's products: mma.sync or wgmma">,
    Option<"precision", "precision", "std::string", "\"auto\"", "bf16, hilo: two bf16 for each factor of products that enter writes; auto: by the factor of feedback">,
    Option<"part", "part", "std::string", "\"all\"", "all, or of the same work in two kernels prepare or walk">
  ];
  let dependentDialects = ["::dl::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::gpu::GPUDialect", "::mlir::memref::MemRefDialect"];
}

def ScheduleLog : Pass<"linattn-schedule-log", "::mlir::ModuleOp"> {
  let summary = "States as a base and a log of updates: one tile.kernel per operator, of the kind that is asked for";
  let description = [{
    Replaces each `linattn.operator` (options set, ops expanded) by one of the `tile.kernel`s that keep its states as a
    dense base and a ring of entries, one per token (`test/Reference/LogProtocol.md`):

    - `plan`: what a step does to each slot's log, in integers, the same for all layers. One block per row reads the row's
      arrays and the cursor of its slot and writes a descriptor and the cursors of the slots that the row writes. Numbers in
      memory are clamped to what is there; a row that breaks a limit is null.
    - `append`: what a row's descriptor says, in this order: a checkpoint of the source as found; a merge into the
      destination; the row's tokens, each of which becomes an entry; or a merge with its only token.
    - `merge`: the same for rows without tokens.
    - `materialize`: writes the dense states after so many entries, to any memory.

    Blocks and layouts of state and keys are those of `--linattn-schedule-recurrent`, so the sum over K is the same tree, and
    a token on an empty log gives the same bits. Beside its tile of the base a block holds the entries as two matrices, A
    (entries x K) and B (entries x columns of V), decayed to the present token: `tile.ring_load` brings them, a read is
    `tile.dot` with the base and, on the same sums, with B, whose vector is A x; a token's decay is multiplied into A and its
    write inserted as a row (`tile.insert`), and a merge is `tile.rank_update` of the decayed base. Log decays are clamped at
    -104 before they are summed.

    What an entry holds is the analysis's answer (`passes/Analysis/LogEntry.h`), in which form the traffic model's
    (`compiler/Schedule/Log.h`). Each field is an argument `log_...`, [slots, heads, R] and K, V or no numbers per entry. An
    operator whose step allows no log is refused, at the op that forbids it.

    Example: `test/Transforms/schedule-log-plan.mlir`.
  }];
  let options = kScheduleOptions # [
    Option<"kernel", "kernel", "std::string", "\"plan\"", "plan, append, merge or materialize">,
    Option<"window", "window", "int64_t", "16", "W, entries of a log before it is merged">,
    Option<"maxTokens", "max-tokens", "int64_t", "4", "T_max, tokens that a row of a step has at most, 1 to 16">,
    Option<"logType", "log-type", "std::string", "\"f32\"", "f32 or bf16: numbers of an entry that are computed">
  ];
  let dependentDialects = ["::dl::tile::TileDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::gpu::GPUDialect", "::mlir::memref::MemRefDialect"];
}

#endif // PASSES_LINATTNTOTILE_PASSES
