//===- dl-compile.cpp - From an operator spec to a package of kernels ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "compiler/Package/Header.h"
#include "compiler/Package/Writer.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>
#include <optional>

using namespace llvm;
using namespace dl;
using namespace dl::package;

namespace {
/// One kernel on its way: what was asked, and what came of it.
struct Job {
  KernelRequest request;
  std::optional<CompiledKernel> kernel;
  std::vector<CompiledKernel> variants; // for launches of certain sizes
  std::string diagnostics;

  SmallVector<const CompiledKernel *> kernels() const {
    SmallVector<const CompiledKernel *> all{&*kernel};
    for (const CompiledKernel &variant : variants)
      all.push_back(&variant);
    return all;
  }
};

Stage stageOf(Emit emit) {
  switch (emit) {
  case Emit::MLIR:
    return Stage::Tile;
  case Emit::LLVM:
    return Stage::LLVM;
  case Emit::PTX:
    return Stage::PTX;
  case Emit::Cubin:
  case Emit::Package:
  case Emit::Header: // its constants are those of the machine code
    break;
  }
  return Stage::Binary;
}

/// Messages that show a place in the spec say already that they are errors.
bool showsPlace(StringRef message) { return message.contains(": error: "); }

int fail(const std::string &message) {
  if (showsPlace(message))
    errs() << message;
  else if (!message.empty())
    errs() << "dl-compile: error: " << message << '\n';
  return 1;
}

/// Whether the driver has to compile the kernel, so that its resources are not known here.
bool lacksMachineCode(const Job &job) {
  return job.request.target->isGPU() && job.kernel->binary.empty();
}

/// Compiles all jobs, with progress on standard error. Diagnostics of failed jobs follow in the
/// order of the jobs.
bool compileAll(const Spec &spec, std::vector<Job> &jobs, Stage stage, bool withVariants,
                unsigned threads) {
  DefaultThreadPool pool(hardware_concurrency(threads));
  std::mutex mutex;
  size_t done = 0;
  for (Job &job : jobs)
    pool.async([&] {
      if (auto kernel = compileKernel(spec, job.request, stage, job.diagnostics); succeeded(kernel))
        job.kernel = std::move(*kernel);
      if (job.kernel && stage == Stage::Binary && withVariants)
        job.variants = compileVariants(spec, job.request, *job.kernel);
      std::lock_guard<std::mutex> lock(mutex);
      errs() << formatv("[{0}/{1}] {2} {3}{4}\n", ++done, jobs.size(), job.request.name(),
                        job.request.target->name, job.kernel ? "" : ": failed");
    });
  pool.wait();
  bool ok = true;
  llvm::StringSet<> printed; // the same mistake in the spec shows up in every kernel
  for (const Job &job : jobs) {
    ok &= job.kernel.has_value();
    if (!job.diagnostics.empty() && printed.insert(job.diagnostics).second)
      errs() << job.diagnostics;
  }
  return ok;
}

void printTable(ArrayRef<Job> jobs, bool asJson) {
  if (asJson) {
    json::Array rows;
    for (const Job &job : jobs)
      for (const CompiledKernel *kernel : job.kernels())
        rows.push_back(json::Object{{"kernel", kernel->name},
                                    {"target", job.request.target->name},
                                    {"threads", kernel->threads},
                                    {"registers", kernel->resources.registers},
                                    {"shared_bytes", kernel->sharedBytes},
                                    {"spill_bytes", kernel->resources.spillBytes},
                                    {"min_blocks", kernel->minBlocks},
                                    {"seconds", kernel->seconds},
                                    {"assembler_seconds", kernel->assemblerSeconds}});
    outs() << formatv("{0:2}\n", json::Value(std::move(rows)));
    return;
  }
  size_t width = 6;
  for (const Job &job : jobs)
    for (const CompiledKernel *kernel : job.kernels())
      width = std::max(width, kernel->name.size());
  outs() << left_justify("kernel", width)
         << "  target   threads  registers  shared B  spills  seconds  (ptxas)\n";
  for (const Job &job : jobs)
    for (const CompiledKernel *k : job.kernels())
      outs() << left_justify(k->name, width)
             << format("  %-8s %7d %10d %9d %7d %8.2f %9.2f\n",
                       job.request.target->name.str().c_str(), int(k->threads),
                       int(k->resources.registers), int(k->sharedBytes),
                       int(k->resources.spillBytes), k->seconds, k->assemblerSeconds);
}

/// For each kernel name the job whose PTX newer or unknown chips fall back on: that of the oldest
/// portable target, in whatever order the targets were asked for.
StringMap<const Job *> findFallbacks(ArrayRef<Job> jobs) {
  StringMap<const Job *> fallbacks;
  for (const Job &job : jobs) {
    const target::Target &target = *job.request.target;
    if (!target.isPortable())
      continue;
    const Job *&oldest = fallbacks[job.kernel->name];
    if (!oldest || target.computeCapability < oldest->request.target->computeCapability)
      oldest = &job;
  }
  return fallbacks;
}

/// Adds a job's kernel: for GPU targets the machine code, and the PTX of a fallback or where there
/// is no machine code.
void addToPackage(Writer &writer, const Job &job, bool isFallback) {
  const CompiledKernel &kernel = *job.kernel;
  auto add = [&](const CompiledKernel &kernel, StringRef format, const std::string &blob) {
    json::Object entry(kernel.manifest);
    entry["format"] = format;
    entry["blob"] = writer.addBlob(blob);
    writer.addKernel(std::move(entry));
  };
  if (!job.request.target->isGPU())
    return add(kernel, "so", kernel.binary);
  if (!kernel.binary.empty())
    add(kernel, "cubin", kernel.binary);
  for (const CompiledKernel &variant : job.variants)
    add(variant, "cubin", variant.binary);
  if (kernel.binary.empty() || isFallback)
    add(kernel, "ptx", kernel.ptx);
}

/// What a package says of its operator. Made before the kernels, so that an operator which nothing
/// could verify is refused at once.
Expected<Writer> startPackage(const Spec &spec, const KernelRequest &first) {
  Writer writer;
  writer.set("generator", "dl-compile 0.1.0");
  writer.set("operator", first.symbol);
  if (first.kind == "tile") {
    writer.set("spec", writer.addBlob(spec.text));
  } else {
    std::string diagnostics;
    auto prepared = prepareSpec(spec, first, diagnostics);
    if (mlir::failed(prepared))
      return createStringError(diagnostics);
    writer.set("spec", writer.addBlob(prepared->text));
    writer.set("options", std::move(prepared->options));
    writer.set("reference", std::move(prepared->reference));
  }
  return writer;
}

std::string finishPackage(Writer &writer, ArrayRef<Job> jobs) {
  StringMap<const Job *> fallbacks = findFallbacks(jobs);
  for (const Job &job : jobs)
    addToPackage(writer, job, fallbacks.lookup(job.kernel->name) == &job);
  return writer.finish();
}

const std::string &contentOf(const Job &job, Emit emit) {
  return emit == Emit::Cubin ? job.kernel->binary : job.kernel->text;
}

StringRef extensionOf(const Job &job, Emit emit) {
  bool gpu = job.request.target->isGPU();
  switch (emit) {
  case Emit::MLIR:
    return "mlir";
  case Emit::LLVM:
    return "ll";
  case Emit::PTX:
    return gpu ? "ptx" : "ll";
  default:
    return gpu ? "cubin" : "so";
  }
}

/// Known before anything is compiled: several files need a directory, there or to be made.
Error checkOutput(const CompileOptions &options, size_t kernels) {
  bool oneFile = options.emit == Emit::Package || options.emit == Emit::Header || kernels == 1;
  if (oneFile || (options.output != "-" &&
                  (!sys::fs::exists(options.output) || sys::fs::is_directory(options.output))))
    return Error::success();
  return createStringError("-o: expected a directory for " + std::to_string(kernels) +
                           " files, got '" + options.output + "'");
}

Error writeStages(const CompileOptions &options, ArrayRef<Job> jobs) {
  if (jobs.size() == 1 && !sys::fs::is_directory(options.output))
    return writeFile(options.output, contentOf(jobs.front(), options.emit));
  if (std::error_code error = sys::fs::create_directories(options.output))
    return createStringError(error, "cannot create the directory '" + options.output +
                                        "': " + error.message());
  for (const Job &job : jobs) {
    SmallString<128> path(options.output);
    sys::path::append(path, job.kernel->name + "." + job.request.target->name + "." +
                                extensionOf(job, options.emit));
    if (Error error = writeFile(path, contentOf(job, options.emit)))
      return error;
  }
  return Error::success();
}

std::string buildHeader(StringRef path, ArrayRef<Job> jobs) {
  SmallVector<const json::Object *> kernels;
  for (const Job &job : jobs)
    kernels.push_back(&job.kernel->manifest);
  return emitHeader(path == "-" ? jobs.front().request.symbol : sys::path::stem(path), kernels);
}

/// `package`: as started, where that is what is to be written.
Error writeOutput(const CompileOptions &options, Writer &package, ArrayRef<Job> jobs) {
  if (options.emit == Emit::Header)
    return writeFile(options.output, buildHeader(options.output, jobs));
  if (options.emit != Emit::Package)
    return writeStages(options, jobs);
  return writeFile(options.output, finishPackage(package, jobs));
}

int explain(const Spec &spec, ArrayRef<KernelRequest> requests, bool asJson) {
  if (requests.front().kind == "tile")
    return fail("--explain: expected an operator in " + spec.path + ", got tile kernels alone");
  std::string diagnostics;
  mlir::FailureOr<std::string> text;
  if (!asJson)
    text = explainSpec(spec, requests, diagnostics);
  else if (auto facts = explainSpecAsJson(spec, requests, diagnostics); mlir::succeeded(facts))
    text = formatv("{0:2}\n", *facts).str();
  errs() << diagnostics;
  if (mlir::failed(text))
    return 1;
  outs() << *text;
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  Expected<CompileOptions> options = parseCommandLine(argc, argv);
  if (!options)
    return fail(toString(options.takeError()));
  std::string diagnostics;
  auto spec = readSpec(options->input, diagnostics);
  if (mlir::failed(spec))
    return fail(diagnostics);
  Expected<std::vector<KernelRequest>> requests = expandRequests(*options, *spec);
  if (!requests)
    return fail(toString(requests.takeError()));
  if (options->explain)
    return explain(*spec, *requests, options->json);
  if (options->emit == Emit::PTX || options->emit == Emit::Cubin)
    erase_if(*requests, [](const KernelRequest &request) { return !request.target->isGPU(); });
  if (requests->empty())
    return fail("--target: expected a GPU target with --emit=ptx or cubin, got cpu");
  bool isOperator = requests->front().kind != "tile";
  if (isOperator && mlir::failed(checkLegal(*spec, *requests, diagnostics)))
    return fail(diagnostics);
  if (mlir::failed(settleWindows(*spec, *requests, diagnostics)))
    return fail(diagnostics);
  if (Error error = checkOutput(*options, requests->size()))
    return fail(toString(std::move(error)));
  Writer package;
  if (options->emit == Emit::Package) {
    Expected<Writer> started = startPackage(*spec, requests->front());
    if (!started)
      return fail(toString(started.takeError()));
    package = std::move(*started);
  }
  std::vector<Job> jobs;
  for (KernelRequest &request : *requests)
    jobs.push_back({std::move(request), std::nullopt, {}, ""});
  if (!compileAll(*spec, jobs, stageOf(options->emit), options->emit == Emit::Package,
                  options->jobs))
    return 1;
  if (options->emit == Emit::Package && any_of(jobs, lacksMachineCode))
    errs() << "dl-compile: note: no ptxas found: GPU kernels are in the package as PTX alone, "
              "which the driver compiles when it loads them\n";
  if (Error error = writeOutput(*options, package, jobs))
    return fail("-o: " + toString(std::move(error)));
  if (options->output != "-") // the table would end up in the output
    printTable(jobs, options->json);
  return 0;
}
