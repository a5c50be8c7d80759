//===- Compile.h - One kernel from a spec ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_COMPILE_H
#define COMPILER_PACKAGE_COMPILE_H

#include "compiler/Package/Assembler.h"
#include "compiler/Target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace dl::package {

/// Everything that is fixed when a kernel is compiled.
struct KernelRequest {
  std::string symbol;          ///< of the linattn.operator, or of a tile.kernel given as such
  std::string kind = "decode"; ///< what it does for an engine; "tile" for a tile.kernel
  std::string schedule = "recurrent";
  const target::Target *target = nullptr;
  int64_t keyDim = 128, valueDim = 128;
  std::string stateLayout = "kv", stateType = "f32", ioType = "bf16";
  std::string indexType = "i32";
  std::vector<std::string> set;   ///< NAME=VALUE
  std::vector<std::string> types; ///< NAME=TYPE of single arguments, sorted
  int64_t valueTile = 0, keyLanes = 0, keyWarps = 0,
          minBlocks = 0; ///< of the schedule; 0: chosen

  int64_t chunk = 0;                 ///< prefill: rows taken at a time; 0: chosen
  int64_t partBlocks = 0;            ///< prefill: blocks that prepare a part, at least; 0: chosen
  int64_t checkpoints = 0;           ///< prefill: tokens between those of a row; 0: none
  std::string products = "mma.sync"; ///< prefill: instructions of the walk's products, or "wgmma"
  std::string precision = "auto";    ///< prefill: of products; bf16, hilo or auto
  std::string part = "all"; ///< prefill: "all" it does, or "walk" behind a kernel that "prepare"s

  // Of the kernels of a log, see isLog().
  int64_t window = 0;          ///< W; 0: settleWindows() proposes it
  int64_t maxTokens = 4;       ///< tokens of a step's row, at most
  std::string logType = "f32"; ///< of what is computed and logged: f32 or bf16

  std::string variant; ///< "", or the name of a variant for launches of certain sizes

  /// gdn.decode.128x128.kv.f32.bf16, followed by what is not usual: .i64, .beta-f32, .few.
  /// A prefill for which the chunk was chosen adds it, and the distance of checkpoints: .c64,
  /// .every64. Kernels of a log add the window and
  /// the tokens of a step: .w16t4, and .logbf16 where it is not f32.
  std::string name() const;
  /// Whether it keeps states as a base and a log: plan, append, merge, materialize.
  bool isLog() const;
};

/// How far to go.
enum class Stage { Tile, LLVM, PTX, Binary };

struct CompiledKernel {
  std::string name;
  std::string text;   ///< what the stage asked for, as text; empty for Binary
  std::string binary; ///< cubin or host object; empty where there is no assembler
  std::string ptx;    ///< for GPU targets
  Resources resources;
  int64_t threads = 0, sharedBytes = 0, scratchBytes = 0;
  int64_t minBlocks = 0;  ///< resident blocks per SM the register budget allows
  int64_t stateBytes = 0; ///< of state a block holds in registers
  int64_t keyWarps = 0;   ///< warps that share the sum over K
  double seconds = 0, assemblerSeconds = 0;
  llvm::json::Object manifest; ///< all fields of the kernel but format and blob
};

/// A spec file: source text and the names of what can be compiled in it.
struct Spec {
  std::string path, text;
  std::vector<std::string> operators, kernels;
};
/// Parses and verifies. On failure `diagnostics` says why.
mlir::FailureOr<Spec> readSpec(llvm::StringRef path, std::string &diagnostics);
/// The same for text in memory; `path` stands for it in messages.
mlir::FailureOr<Spec> parseSpec(std::string text, llvm::StringRef path, std::string &diagnostics);

/// Whether the operator has the options that the request sets and the arguments that it gives types
/// to. Errors are one line.
llvm::Error checkSettings(const Spec &spec, const KernelRequest &request);

/// Whether the operator allows the schedules of all kernels asked for. Otherwise fails, after a
/// diagnostic for each op in the way, before anything is compiled. Requests differ in no settings.
mlir::LogicalResult checkLegal(const Spec &spec, llvm::ArrayRef<KernelRequest> requests,
                               std::string &diagnostics);

/// Gives the kernels of a log that have no window the one that the traffic model proposes, from
/// what the operator logs and the sizes and types of the request. So kernels that differ in nothing
/// but kind and target have the same one. Fails, after diagnostics, where a log is not legal.
mlir::LogicalResult settleWindows(const Spec &spec, llvm::MutableArrayRef<KernelRequest> requests,
                                  std::string &diagnostics);

/// The operator with options set, as MLIR text and as reference graph.
struct Prepared {
  std::string text;
  llvm::json::Object reference, options;
};
mlir::FailureOr<Prepared> prepareSpec(const Spec &spec, const KernelRequest &request,
                                      std::string &diagnostics);

/// The operator with options set as formulas, with the class of its step, what each legal schedule
/// computes and why others are not legal, and, for the sizes, types and targets of the requests,
/// what a log would cost. Requests differ in these alone.
mlir::FailureOr<std::string> explainSpec(const Spec &spec, llvm::ArrayRef<KernelRequest> requests,
                                         std::string &diagnostics);
/// The same facts for programs.
mlir::FailureOr<llvm::json::Value> explainSpecAsJson(const Spec &spec,
                                                     llvm::ArrayRef<KernelRequest> requests,
                                                     std::string &diagnostics);

/// Compiles one kernel; thread-safe. A kernel that spills is compiled again for fewer resident
/// blocks; one that still spills is an error.
mlir::FailureOr<CompiledKernel> compileKernel(const Spec &spec, const KernelRequest &request,
                                              Stage stage, std::string &diagnostics);

/// The kernels that stand in for `usual`, compiled as `request` asks for, where the launch's grid
/// is small or large. They are there for speed: one that does not compile is left out. Empty where
/// the schedule is forced.
std::vector<CompiledKernel> compileVariants(const Spec &spec, const KernelRequest &request,
                                            const CompiledKernel &usual);

} // namespace dl::package

#endif // COMPILER_PACKAGE_COMPILE_H
