//===- Options.cpp - The command line of dl-compile ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "compiler/Schedule/Chunkwise.h"
#include "compiler/Schedule/Log.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;
using namespace dl;

namespace {
cl::OptionCategory category("dl-compile options");
template <typename T> using Opt = cl::opt<T>;
using List = cl::list<std::string>;

Opt<std::string> input(cl::Positional, cl::desc("SPEC.mlir (- for standard input)"),
                       cl::cat(category));
Opt<std::string> output("o", cl::value_desc("path"), cl::cat(category),
                        cl::desc("The package or header; with other --emit: a file for one "
                                 "kernel, a directory for several, files OP.KERNEL.TARGET.EXT"));
Opt<std::string> op("op", cl::value_desc("name"), cl::cat(category),
                    cl::desc("Operator to compile (default: the only one in the file)"));
List kernels(
    "kernels", cl::CommaSeparated, cl::value_desc("kind,..."), cl::cat(category),
    cl::desc("Kernels to build (default: decode): prefill, decode, and for states as a base "
             "and a log plan, append (or verify), merge (or fold), materialize"));
List targets("target", cl::CommaSeparated, cl::value_desc("name,..."), cl::cat(category),
             cl::desc("Targets to build for (default: cpu,sm_80,sm_90a); see --list-targets"));
Opt<bool> listTargets("list-targets", cl::cat(category),
                      cl::desc("Print the known targets and exit"));
List dims("dims", cl::CommaSeparated, cl::value_desc("KxV,..."), cl::cat(category),
          cl::desc("Key and value dimension, multiples of 4 from 16 to 256 (default 128x128)"));
List stateLayout("state-layout", cl::CommaSeparated, cl::value_desc("kv|vk"), cl::cat(category),
                 cl::desc("Axes of a state matrix in memory, the last contiguous (default kv)"));
List stateType("state-type", cl::CommaSeparated, cl::value_desc("f32|bf16|f16"), cl::cat(category),
               cl::desc("Storage type of the states (default f32)"));
List
    ioType("io-type", cl::CommaSeparated, cl::value_desc("bf16|f16|f32"), cl::cat(category),
           cl::desc("Storage type of inputs and outputs the operator does not pin (default bf16)"));
List indexType("index-type", cl::CommaSeparated, cl::value_desc("i32|i64"), cl::cat(category),
               cl::desc("Type of slot numbers and token counts in device memory (default i32)"));
List types("type", cl::CommaSeparated, cl::value_desc("NAME=bf16|f16|f32"), cl::cat(category),
           cl::desc("Storage type of one input, output or per-head parameter, before --io-type"));
Opt<std::string>
    window("window", cl::init("0"), cl::value_desc("N"), cl::cat(category),
           cl::desc("Entries of a log before it is merged, up to 1024 (default 0: what "
                    "the traffic model of --explain proposes)"));
Opt<std::string> maxTokens("max-tokens", cl::init("4"), cl::value_desc("N"), cl::cat(category),
                           cl::desc("Tokens of a row, drafts included, that one step can append to "
                                    "a log, 1 to 16 (default 4)"));
Opt<std::string> logType("log-type", cl::init("f32"), cl::value_desc("f32|bf16"), cl::cat(category),
                         cl::desc("Storage type of what is computed for a log; copies of inputs "
                                  "have the inputs' types (default f32)"));
Opt<std::string> chunk("chunk", cl::init("0"), cl::value_desc("N"), cl::cat(category),
                       cl::desc("Tokens that a prefill takes at a time, times the writes of each: "
                                "16, 32, 64 or 128 (default 0: chosen)"));
Opt<std::string> checkpoints("checkpoints", cl::init("0"), cl::value_desc("N"), cl::cat(category),
                             cl::desc("A prefill leaves the state after every N tokens of a row in "
                                      "slots of their own, where checkpoint_slots says so; a "
                                      "multiple of the tokens taken at a time (default 0: none)"));
List set("set", cl::value_desc("NAME=VALUE"), cl::cat(category),
         cl::desc("Set an option that the operator declares (repeatable)"));
List schedules("schedule", cl::value_desc("KERNEL:NAME[,key=n...]"), cl::cat(category),
               cl::desc("Force a kernel's schedule, e.g. "
                        "decode:recurrent,value-tile=64,key-warps=4,min-blocks=3 (0: chosen), or "
                        "prefill:chunkwise,products=wgmma, or "
                        "prefill:chunkwise,precision=hilo: two bf16 for each factor of products "
                        "that enter writes (bf16: one; auto: two where reads enter writes by a "
                        "factor with a known bound above 1, as beta_factor=2 has it; of a raw "
                        "input linattn.bound makes one known)"));
Opt<std::string> emit("emit", cl::init("package"), cl::value_desc("stage"), cl::cat(category),
                      cl::desc("package (default), ptx, cubin, llvm, mlir (the tile level) or "
                               "header (parameter structs and launch constants in C)"));
Opt<bool> explain("explain", cl::cat(category),
                  cl::desc("Print the operator as formulas, what each schedule computes or why it "
                           "is not legal, and what a log would cost, and exit; needs no -o"));
Opt<bool> asJson("json", cl::cat(category),
                 cl::desc("Print the resource table, or what --explain says, as JSON"));
Opt<unsigned> jobs("j", cl::Prefix, cl::init(0), cl::value_desc("N"), cl::cat(category),
                   cl::desc("Kernels compiled at once (default: one per core)"));
} // namespace

static Error unknown(StringRef argument, StringRef given, StringRef allowed) {
  return createStringError(argument + ": expected " + allowed + ", got '" + given + "'");
}

/// The given values, each once, or the default; each must be in `allowed`.
static Expected<std::vector<std::string>> choose(StringRef argument, const List &given,
                                                 StringRef fallback, ArrayRef<StringRef> allowed) {
  std::vector<std::string> values;
  for (const std::string &value : given) {
    if (!is_contained(allowed, value))
      return unknown(argument, value, join(allowed, ", "));
    if (!is_contained(values, value))
      values.push_back(value);
  }
  if (values.empty())
    values.push_back(fallback.str());
  return values;
}

static Error parseDims(CompileOptions &options) {
  std::vector<std::string> given(dims.begin(), dims.end());
  if (given.empty())
    given.push_back("128x128");
  for (StringRef text : given) {
    auto [key, value] = text.split('x');
    int64_t k = 0, v = 0;
    auto legal = [](int64_t dim) { return dim >= 16 && dim <= 256 && dim % 4 == 0; };
    if (key.getAsInteger(10, k) || value.getAsInteger(10, v) || !legal(k) || !legal(v))
      return unknown("--dims", text, "KxV with both multiples of 4 from 16 to 256");
    if (!is_contained(options.dims, std::pair(k, v)))
      options.dims.push_back({k, v});
  }
  return Error::success();
}

/// Kinds of kernels, under the names that engines know as well.
static Error parseKinds(CompileOptions &options) {
  constexpr StringRef kinds[] = {"prefill", "decode", "plan", "append", "merge", "materialize"};
  for (StringRef given : kernels) {
    StringRef kind = given == "verify" ? "append" : given == "fold" ? "merge" : given;
    if (!is_contained(kinds, kind))
      return unknown("--kernels", given,
                     "prefill, decode, plan, append (or verify), merge (or fold), materialize");
    if (!is_contained(options.kinds, kind))
      options.kinds.push_back(kind.str());
  }
  if (options.kinds.empty())
    options.kinds.push_back("decode");
  return Error::success();
}

static Error parseLog(CompileOptions &options) {
  struct Number {
    StringRef argument, text;
    int64_t low, high, *field;
  };
  for (const Number &n :
       {Number{"--window", window, 0, schedule::kMaxWindow, &options.log.window},
        Number{"--max-tokens", maxTokens, 1, schedule::kMaxStepTokens, &options.log.maxTokens}}) {
    if (n.text.getAsInteger(10, *n.field) || *n.field < n.low || *n.field > n.high)
      return unknown(n.argument, n.text,
                     "a number from " + std::to_string(n.low) + " to " + std::to_string(n.high));
  }
  if (logType != "f32" && logType != "bf16")
    return unknown("--log-type", logType, "f32 or bf16");
  options.log.logType = logType;
  return Error::success();
}

static Error parseChunk(CompileOptions &options) {
  if (StringRef(chunk).getAsInteger(10, options.chunk) ||
      !is_contained({0, 16, 32, 64, 128}, options.chunk))
    return unknown("--chunk", chunk, "16, 32, 64, 128 or 0");
  return Error::success();
}

static Error parseCheckpoints(CompileOptions &options) {
  constexpr int64_t most = int64_t(1) << 30;
  if (StringRef(checkpoints).getAsInteger(10, options.checkpoints) || options.checkpoints < 0 ||
      options.checkpoints > most)
    return unknown("--checkpoints", checkpoints, ("a number from 0 to " + Twine(most)).str());
  return Error::success();
}

static Error parseSchedules(CompileOptions &options) {
  for (StringRef text : schedules) {
    SmallVector<StringRef> parts;
    text.split(parts, ',');
    StringRef names[] = {"prefill:chunkwise", "prefill:fused", "decode:recurrent",
                         "append:log",        "merge:log",     "materialize:log"};
    if (!is_contained(names, parts.front()))
      return unknown("--schedule", parts.front(), join(ArrayRef(names), ", "));
    schedule::RecurrentOverrides &forced = options.schedules[parts.front().split(':').first.str()];
    bool isPrefill = parts.front().starts_with("prefill:");
    if (isPrefill)
      options.isFused = parts.front() == "prefill:fused";
    for (StringRef part : ArrayRef(parts).drop_front()) {
      auto [key, digits] = part.split('=');
      if (isPrefill && key == "products") {
        Expected<schedule::Products> products = schedule::parseProducts(digits);
        if (!products)
          return createStringError("--schedule, " + toString(products.takeError()));
        options.products = *products;
        continue;
      }
      if (isPrefill && key == "precision") {
        options.precision = digits.str();
        if (digits != "auto" && !schedule::parsePrecision(digits))
          return unknown("--schedule", part, "precision=bf16, precision=hilo or precision=auto");
        continue;
      }
      bool splits = isPrefill && key == "part-blocks";
      int64_t *field = key == "value-tile"   ? &forced.valueTile
                       : key == "min-blocks" ? &forced.minBlocks
                       : splits              ? &options.partBlocks
                       : isPrefill           ? nullptr
                       : key == "key-lanes"  ? &forced.keyLanes
                       : key == "key-warps"  ? &forced.keyWarps
                                             : nullptr;
      if (!field)
        return unknown("--schedule", key,
                       isPrefill ? "value-tile, min-blocks, part-blocks, products or precision"
                                 : "value-tile, key-lanes, key-warps or min-blocks");
      int64_t most = splits ? 1 << 20 : 1024;
      if (digits.getAsInteger(10, *field) || *field < 0 || *field > most)
        return unknown("--schedule", part, ("a number from 0 to " + Twine(most)).str());
    }
  }
  return Error::success();
}

/// Names are looked at when the spec is known.
static Error parseTypes(CompileOptions &options) {
  StringSet<> seen;
  for (StringRef text : types) {
    auto [name, type] = text.split('=');
    if (name.empty() || (type != "bf16" && type != "f16" && type != "f32"))
      return unknown("--type", text, "NAME=bf16, NAME=f16 or NAME=f32");
    if (!seen.insert(name).second)
      return unknown("--type", text, "each name once");
    options.types.push_back(text.str());
  }
  llvm::sort(options.types); // part of kernels' names
  return Error::success();
}

static Error parseTargets(CompileOptions &options) {
  std::vector<std::string> names(targets.begin(), targets.end());
  if (names.empty())
    for (StringRef name : target::defaultTargets())
      names.push_back(name.str());
  for (StringRef name : names) {
    Expected<const target::Target *> row = target::findTarget(name);
    if (!row)
      return createStringError("--target: " + toString(row.takeError()));
    if (!is_contained(options.targets, *row))
      options.targets.push_back(*row);
  }
  return Error::success();
}

static Error parseEmit(CompileOptions &options) {
  constexpr std::pair<StringRef, Emit> stages[] = {
      {"package", Emit::Package}, {"ptx", Emit::PTX},   {"cubin", Emit::Cubin},
      {"llvm", Emit::LLVM},       {"mlir", Emit::MLIR}, {"header", Emit::Header}};
  for (auto [name, stage] : stages)
    if (name == emit) {
      options.emit = stage;
      return Error::success();
    }
  return unknown("--emit", emit, "package, ptx, cubin, llvm, mlir or header");
}

/// --config=FILE is a response file: one argument per line or more.
static Error readArguments(int argc, char **argv, StringSaver &saver,
                           SmallVectorImpl<const char *> &arguments) {
  for (StringRef argument : ArrayRef(argv, argc)) {
    if (!argument.consume_front("--config=")) {
      arguments.push_back(saver.save(argument).data());
      continue;
    }
    // A response file that is not there would be passed on as an argument.
    if (!sys::fs::is_regular_file(argument))
      return unknown("--config", argument, "a file of arguments");
    arguments.push_back(saver.save("@" + argument).data());
  }
  cl::ExpansionContext expansion(saver.getAllocator(), cl::TokenizeGNUCommandLine);
  if (Error error = expansion.expandResponseFiles(arguments))
    return createStringError("--config: " + toString(std::move(error)));
  return Error::success();
}

static Error parsePaths(CompileOptions &options) {
  options.input = input;
  options.output = output;
  if (options.input.empty())
    return createStringError("expected a spec, SPEC.mlir, or - for standard input, got none");
  if (options.explain)
    return Error::success();
  if (options.output.empty())
    return createStringError("-o: expected a path to write to, got none");
  if ((options.emit == Emit::Package || options.emit == Emit::Header) &&
      sys::fs::is_directory(options.output))
    return unknown("-o", options.output, "a file for the " + emit + ", not a directory");
  return Error::success();
}

/// What LLVM's parser says, without the program's name; it prints some errors itself and then says
/// nothing.
static StringRef firstLineOf(StringRef errors) {
  StringRef line = errors.split('\n').first;
  line.consume_front("dl-compile: ");
  return line;
}

Expected<CompileOptions> dl::parseCommandLine(int argc, char **argv) {
  BumpPtrAllocator allocator;
  StringSaver saver(allocator);
  SmallVector<const char *> arguments;
  if (Error error = readArguments(argc, argv, saver, arguments))
    return error;
  for (StringRef argument : arguments)
    if (argument == "--list-targets") {
      for (const target::Target &row : target::targets())
        outs() << row.name << '\n';
      exit(0);
    }
  cl::HideUnrelatedOptions(category);
  std::string errors;
  raw_string_ostream stream(errors);
  const char *overview =
      "Compiles a linear-attention operator to GPU and CPU kernels, ahead of time.\n\n"
      "  dl-compile gdn.mlir -o gdn.dlk --target=sm_90a,cpu --dims=128x128 --set "
      "gate=precomputed\n\n"
      "--config=FILE reads more arguments from a file.\n";
  if (!cl::ParseCommandLineOptions(arguments.size(), arguments.data(), overview, &stream))
    return createStringError(firstLineOf(errors));

  CompileOptions options;
  options.op = op;
  options.json = asJson;
  options.explain = explain;
  options.jobs = jobs;
  options.set.assign(set.begin(), set.end());
  for (auto parse : {parseKinds, parseDims, parseChunk, parseCheckpoints, parseSchedules, parseLog,
                     parseTypes, parseTargets, parseEmit, parsePaths})
    if (Error error = parse(options))
      return error;
  struct Choice {
    StringRef argument;
    const List &given;
    StringRef fallback;
    std::vector<StringRef> allowed;
    std::vector<std::string> &values;
  };
  for (const Choice &c :
       {Choice{"--state-layout", stateLayout, "kv", {"kv", "vk"}, options.stateLayouts},
        Choice{"--state-type", stateType, "f32", {"f32", "bf16", "f16"}, options.stateTypes},
        Choice{"--io-type", ioType, "bf16", {"bf16", "f16", "f32"}, options.ioTypes},
        Choice{"--index-type", indexType, "i32", {"i32", "i64"}, options.indexTypes}}) {
    Expected<std::vector<std::string>> values = choose(c.argument, c.given, c.fallback, c.allowed);
    if (!values)
      return values.takeError();
    c.values = *values;
  }
  if (options.emit == Emit::Cubin && !package::findAssembler())
    return createStringError("--emit=cubin: no ptxas found: set DL_PTXAS, or put the CUDA "
                             "toolkit's bin directory on PATH");
  return options;
}

/// Finds numbers with which nothing can be scheduled. What depends on the step is found later.
static Error checkSchedules(const CompileOptions &options) {
  schedule::RecurrentProblem problem;
  auto check = [&](StringRef kind, const schedule::RecurrentOverrides &forced) {
    if (kind == "prefill")
      return schedule::planChunkwise(problem, {options.chunk, forced.valueTile, forced.minBlocks,
                                               /*blocksPerPart=*/0, options.products})
          .takeError();
    return schedule::planRecurrent(problem, forced).takeError();
  };
  if (options.checkpoints != 0 && !is_contained(options.kinds, "prefill"))
    return unknown("--checkpoints", join(options.kinds, ","), "prefill among --kernels");
  if (options.products == schedule::Products::Wgmma)
    for (const target::Target *target : options.targets)
      if (!target->has("wgmma"))
        return createStringError("--schedule, products: expected mma.sync for " + target->name +
                                 ", which has no wgmma, got wgmma");
  for (const std::string &kind : options.kinds) {
    auto given = options.schedules.find(kind);
    schedule::RecurrentOverrides forced;
    if (given != options.schedules.end())
      forced = given->second;
    for (auto [key, value] : options.dims)
      for (const std::string &layout : options.stateLayouts)
        for (const std::string &type : options.stateTypes) {
          problem.keyDim = key;
          problem.valueDim = value;
          problem.layout = layout == "vk" ? schedule::StateLayout::VK : schedule::StateLayout::KV;
          problem.stateBytes = type == "f32" ? 4 : 2;
          if (Error error = check(kind, forced))
            return createStringError((kind == "prefill" ? "prefill: " : "--schedule: ") +
                                     toString(std::move(error)));
        }
  }
  return Error::success();
}

/// The request for kernels of one kind.
static package::KernelRequest ofKind(const CompileOptions &options, const std::string &kind,
                                     package::KernelRequest request) {
  request.kind = kind;
  request.schedule = request.isLog() ? "log" : "recurrent";
  if (kind == "prefill") {
    request.chunk = options.chunk;
    request.checkpoints = options.checkpoints;
    request.partBlocks = options.partBlocks;
    request.products = stringify(options.products);
    request.precision = options.precision;
    request.schedule = options.isFused ? "fused" : "chunkwise";
    request.part = options.isFused ? "all" : "walk";
  }
  if (auto forced = options.schedules.find(kind); forced != options.schedules.end()) {
    request.valueTile = forced->second.valueTile;
    request.keyLanes = forced->second.keyLanes;
    request.keyWarps = forced->second.keyWarps;
    request.minBlocks = forced->second.minBlocks;
  }
  return request;
}

Expected<std::vector<package::KernelRequest>> dl::expandRequests(const CompileOptions &options,
                                                                 const package::Spec &spec) {
  std::vector<package::KernelRequest> requests;
  package::KernelRequest request = options.log;
  auto names = [](ArrayRef<std::string> list) {
    return list.empty() ? std::string("none") : join(list, ", ");
  };
  if (spec.operators.empty() && !spec.kernels.empty()) { // hand-written kernels, all of them
    for (auto [argument, values] : {std::pair("--set", &options.set), {"--type", &options.types}})
      if (!values->empty())
        return unknown(argument, values->front(),
                       "no options: " + spec.path + " holds tile kernels");
    request.kind = "tile";
    request.schedule = "none";
    request.keyDim = request.valueDim = 1;
    for (const std::string &kernel : spec.kernels)
      for (const target::Target *row : options.targets) {
        request.symbol = kernel;
        request.target = row;
        requests.push_back(request);
      }
    return requests;
  }
  if (spec.operators.empty())
    return createStringError("expected a linattn.operator or a tile.kernel in " + spec.path +
                             ", found none");
  request.symbol = options.op;
  if (options.op.empty()) {
    if (spec.operators.size() != 1)
      return createStringError("--op: expected the name of one operator in " + spec.path + " (" +
                               names(spec.operators) + "), got none");
    request.symbol = spec.operators.front();
  } else if (!is_contained(spec.operators, options.op)) {
    return unknown("--op", options.op,
                   "an operator in " + spec.path + " (" + names(spec.operators) + ")");
  }
  request.set = options.set;
  request.types = options.types;
  if (Error error = package::checkSettings(spec, request))
    return error;
  if (Error error = checkSchedules(options))
    return error;
  for (const std::string &kind : options.kinds) {
    package::KernelRequest ofThis = ofKind(options, kind, request);
    for (auto [key, value] : options.dims)
      for (const std::string &layout : options.stateLayouts)
        for (const std::string &state : options.stateTypes)
          for (const std::string &io : options.ioTypes)
            for (const std::string &index : options.indexTypes)
              for (const target::Target *row : options.targets) {
                ofThis.keyDim = key;
                ofThis.valueDim = value;
                ofThis.stateLayout = layout;
                ofThis.stateType = state;
                ofThis.ioType = io;
                ofThis.indexType = index;
                ofThis.target = row;
                requests.push_back(ofThis);
                if (ofThis.part == "walk") {
                  requests.push_back(ofThis);
                  requests.back().part = "prepare";
                }
              }
  }
  return requests;
}
