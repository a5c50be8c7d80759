//===- SpecFuzzer.cpp - Specs from anywhere, compiled to the tile level ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// An input is a spec, as dl-compile reads it. A first line "// dl-compile: --dims=16x64 ..." holds
// options (see parseOptions below), so that with them a finding can be tried with dl-compile. What
// follows is what dl-compile does for --explain, for the reference graph of a package and for
// --emit=mlir: no LLVM, no PTX. A spec may be refused, with a message, or taken; what was taken
// must be legal when it is read again.
//
// Inputs known to end MLIR's own parser are left out: see endsParser. (An element type that it has
// refused and hands to an encoding is dealt with there.)
//
//===----------------------------------------------------------------------===//
#include "TextMutator.h"
#include "compiler/Package/Compile.h"
#include "reference/Reference.h"
#include "runtime/src/Manifest.h"
#include "tools/dl-compile/Options.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace llvm;
using namespace dl;
using namespace dl::package;

// libFuzzer and the sanitizers give the names.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

// MLIR's and LLVM's archives are not instrumented: theirs and our half of an allocator would
// disagree on what is poisoned.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }
extern "C" const char *__ubsan_default_options() { return "print_stacktrace=1"; }

/// What must hold whatever the input is.
static void require(bool condition, StringRef what, StringRef details) {
  if (condition)
    return;
  errs() << "spec_fuzzer: expected " << what << "; got:\n" << details << '\n';
  std::abort();
}

//===----------------------------------------------------------------------===//
// What is done with a spec
//===----------------------------------------------------------------------===//

static constexpr StringRef optionsMark = "// dl-compile:";

/// --dims=KxV, --state-layout=, --state-type=, --io-type=, --op=, --set=NAME=VALUE,
/// --value-tile=N, --key-lanes=N, --key-warps=N, --min-blocks=N. What dl-compile would refuse, and
/// what is unknown, is ignored.
static CompileOptions parseOptions(StringRef text) {
  CompileOptions options;
  options.kinds = {"decode"};
  options.dims = {{32, 16}};
  options.stateLayouts = {"kv"};
  options.stateTypes = {"f32"};
  options.ioTypes = {"bf16"};
  options.targets = {cantFail(target::findTarget("cpu"))}; // the tile level is the same for all
  if (!text.consume_front(optionsMark))
    return options;
  auto choose = [](std::vector<std::string> &result, StringRef value,
                   std::initializer_list<StringRef> allowed) {
    if (is_contained(allowed, value))
      result = {value.str()};
  };
  SmallVector<StringRef> parts;
  text.split('\n').first.split(parts, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    dl::schedule::RecurrentOverrides &forced = options.schedules["decode"];
    int64_t *number = name == "--value-tile"   ? &forced.valueTile
                      : name == "--key-lanes"  ? &forced.keyLanes
                      : name == "--key-warps"  ? &forced.keyWarps
                      : name == "--min-blocks" ? &forced.minBlocks
                                               : nullptr;
    if (int64_t given = 0;
        number && !value.getAsInteger(10, given) && given >= 0 && given <= 1024) {
      *number = given;
    } else if (name == "--dims") {
      int64_t k = 0, v = 0;
      auto isLegal = [](int64_t dim) { return dim >= 16 && dim <= 256 && dim % 4 == 0; };
      if (!value.split('x').first.getAsInteger(10, k) &&
          !value.split('x').second.getAsInteger(10, v) && isLegal(k) && isLegal(v))
        options.dims = {{k, v}};
    } else if (name == "--op") {
      options.op = value.str();
    } else if (name == "--set") {
      options.set.push_back(value.str());
    }
    if (name == "--state-layout")
      choose(options.stateLayouts, value, {"kv", "vk"});
    if (name == "--state-type")
      choose(options.stateTypes, value, {"f32", "bf16", "f16"});
    if (name == "--io-type")
      choose(options.ioTypes, value, {"bf16", "f16", "f32"});
  }
  return options;
}

/// What was printed must be a spec again.
static void requireLegal(const std::string &text, StringRef what) {
  std::string diagnostics;
  require(succeeded(parseSpec(text, "printed", diagnostics)), what, diagnostics + text);
}

static void requireMessage(const std::string &diagnostics, StringRef stage) {
  require(StringRef(diagnostics).contains("error: "), "a message when a spec is refused", stage);
}

/// The reference graph is read by dl-run.
static void requireGraph(const json::Object &reference) {
  std::string text = formatv("{0}", json::Value(json::Object(reference))), error;
  dl::reference::Operator op;
  require(dl::reference::Operator::parse(nlohmann::json::parse(text, nullptr, false), op, error),
          "a reference graph that dl-run reads", error + "\n" + text);
}

/// What is written about a kernel is read by the runtime.
static void requireManifest(json::Object kernel, bool isOperator) {
  kernel["format"] = "so";
  kernel["blob"] = 0;
  json::Object manifest{
      {"format", DLK_FORMAT_VERSION},
      {"operator", ""},
      {"symbols", json::Array{"B", "T", "HQ", "HV"}},
      {"blobs",
       json::Array{json::Object{{"offset", 64}, {"bytes", 0}, {"hash", std::string(32, '0')}}}},
      {"kernels", json::Array{std::move(kernel)}}};
  std::string text = formatv("{0}", json::Value(std::move(manifest))), error;
  dl::runtime::Manifest result;
  bool isRead = dl::runtime::parseManifest(text.data(), text.size(), 64, result, error);
  // Tile kernels say themselves what is in their manifest, right or wrong.
  require(isRead || (!isOperator && !StringRef(error).contains("not valid JSON")),
          "a manifest that the runtime reads", error + "\n" + text);
}

static void compile(const Spec &spec, const KernelRequest &request) {
  if (request.kind != "tile") {
    std::string diagnostics;
    if (failed(explainSpec(spec, request, diagnostics)))
      requireMessage(diagnostics, "explain");
    diagnostics.clear();
    if (failed(explainSpecAsJson(spec, request, diagnostics)))
      requireMessage(diagnostics, "explain as JSON");
    diagnostics.clear();
    KernelRequest prefill = request, append = request;
    prefill.kind = "prefill";
    append.kind = "append";
    if (failed(checkLegal(spec, {prefill, append}, diagnostics)))
      requireMessage(diagnostics, "legality");
    diagnostics.clear();
    auto prepared = prepareSpec(spec, request, diagnostics);
    if (failed(prepared)) {
      requireMessage(diagnostics, "prepare");
    } else {
      requireLegal(prepared->text, "a legal operator with options set");
      requireGraph(prepared->reference);
    }
  }
  std::string diagnostics;
  auto kernel = compileKernel(spec, request, Stage::Tile, diagnostics);
  if (failed(kernel)) {
    requireMessage(diagnostics, "schedule");
    return;
  }
  requireLegal(kernel->text, "a legal tile kernel");
  requireManifest(std::move(kernel->manifest), request.kind != "tile");
}

/// Whether MLIR 22.1's parser might not survive the text: it reads what is nested by recursion
/// until the stack ends, some thousand levels deep, and asks `index` for its width in array<index:
/// 1>.
static bool endsParser(StringRef text) {
  if (count_if(text, [](char c) { return StringRef("([{<-!").contains(c); }) > 2000)
    return true;
  std::string dense;
  copy_if(text, std::back_inserter(dense), [](char c) { return !isSpace(c); });
  return StringRef(dense).contains("array<index");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size), diagnostics;
  if (endsParser(text))
    return -1; // not to be kept
  CompileOptions options = parseOptions(text);
  auto spec = parseSpec(std::move(text), "spec", diagnostics);
  if (failed(spec)) {
    require(!diagnostics.empty(), "a message when a spec is refused", "parse");
    return 0;
  }
  Expected<std::vector<KernelRequest>> requests = expandRequests(options, *spec);
  if (!requests) {
    std::string message = toString(requests.takeError());
    require(!message.empty(), "a message when options are refused", "options");
    return 0;
  }
  for (const KernelRequest &request : ArrayRef(*requests).take_front(4))
    compile(*spec, request);
  return 0;
}

//===----------------------------------------------------------------------===//
// Mutation
//===----------------------------------------------------------------------===//

/// Puts an option into the first line, in place of those or after them.
static std::string mutateOptions(StringRef text, std::minstd_rand &random) {
  static const char *choices[] = {
      "--dims=16x16",     "--dims=128x128",  "--dims=64x256",     "--dims=256x20",
      "--dims=20x256",    "--dims=100x36",   "--state-layout=vk", "--state-type=bf16",
      "--state-type=f16", "--io-type=f16",   "--io-type=f32",     "--value-tile=8",
      "--value-tile=16",  "--value-tile=64", "--value-tile=1024", "--key-lanes=1",
      "--key-lanes=4",    "--key-lanes=32",  "--key-warps=1",     "--key-warps=2",
      "--key-warps=4",    "--key-warps=16",  "--min-blocks=1",    "--min-blocks=32",
      "--min-blocks=1024"};
  std::string line;
  StringRef rest = text;
  if (rest.starts_with(optionsMark)) {
    auto [first, others] = rest.split('\n');
    rest = others;
    line = random() % 3 ? first.str() : "";
  }
  if (line.empty())
    line = optionsMark.str();
  if (random() % 2)
    return line + " " + choices[random() % std::size(choices)] + "\n" + rest.str();
  // A setting: names and values are among the strings and names of the spec.
  SmallVector<StringRef> parts, values;
  rest.split(parts, '"');
  for (size_t i = 1; i < parts.size(); i += 2)
    values.push_back(parts[i]);
  for (StringRef value : {"true", "false", "0.5", "-1.0", "2", "nan", "1e99", ""})
    values.push_back(value);
  SmallVector<StringRef> names = {"gate",        "normalize",   "beta",
                                  "beta_factor", "lower_bound", "decay"};
  size_t place = rest.find("options {");
  for (StringRef part : split(rest.substr(place).take_front(256), ' '))
    if (part.size() > 1 && all_of(part, [](char c) { return isAlnum(c) || c == '_'; }))
      names.push_back(part);
  std::string setting =
      (" --set=" + names[random() % names.size()] + "=" + values[random() % values.size()]).str();
  return line + (is_contained(setting, '\n') ? "" : setting) + "\n" + rest.str();
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  static const test::TextMutator mutator(test::readDictionary(DL_SPEC_DICTIONARY));
  std::minstd_rand random(seed);
  std::string text(reinterpret_cast<char *>(data), size);
  unsigned kind = random() % 16;
  if (kind == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string changed = kind < 3 ? mutateOptions(text, random) : mutator.mutate(text, random);
  if (changed.empty() || changed.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  copy(changed, data);
  return changed.size();
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
