//===- Bench.cpp - dl-run bench -------------------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every launch of a sequence works on other slots of the pool, and the slots together exceed the L2
// cache several times: a decode step in an engine never finds its states in the cache either.
//
//===----------------------------------------------------------------------===//
#include "Bench.h"
#include "Case.h"
#include "Numbers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

using namespace dl::run;
using dl::reference::Batch;

namespace {
/// The arguments of one kernel at one shape, in device memory.
class Workload {
public:
  Workload(const Session &session, const dl::reference::Operator &op, const KernelEntry &kernel,
           const Shape &shape, const LogCase &log);
  ~Workload() { dlk_plan_release(plan); }
  Workload(const Workload &) = delete;
  Workload &operator=(const Workload &) = delete;

  /// Issues launch number `i`, on slots number i % rotations.
  void launch(int i, void *stream) const;

  int rotations = 1;
  size_t stateBytes = 0; // of the rows' states, once: half of the state traffic
  size_t trafficBytes = 0;

private:
  void chooseRotations(const Session &session);
  void makeArgument(const Session &session, size_t index, const Batch &batch);
  std::vector<char> describeRows(const std::vector<size_t> &slots) const;
  std::vector<char> makeValues(const dlk_arg_info &arg, const std::vector<int64_t> &shape,
                               const Batch &batch) const;

  const dl::reference::Operator &op;
  const KernelEntry &kernel;
  const Shape shape;
  const LogCase log;
  const Options &options;
  dlk_plan *plan = nullptr;
  std::vector<Buffer> buffers;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<dlk_tensor> views;
  std::vector<size_t> bytesPerRotation; // distance between what two launches use; 0: the same
  std::vector<dlk_scalar> scalars;
};
} // namespace

static bool isState(const dlk_arg_info &arg) {
  return arg.role == DLK_ROLE_STATE_IN || arg.role == DLK_ROLE_STATE_OUT ||
         arg.role == DLK_ROLE_STATE;
}

/// Of as many slots as launches in a row touch.
static bool isPool(const dlk_arg_info &arg) { return isState(arg) || arg.role == DLK_ROLE_LOG; }

/// Arrays that say which slots a row has.
static bool namesSlots(const dlk_arg_info &arg) {
  return arg.role == DLK_ROLE_SLOTS_IN || arg.role == DLK_ROLE_SLOTS_OUT ||
         arg.role == DLK_ROLE_DESCRIPTORS;
}

/// Arrays for what a plain decode step does not have are left out.
static bool isOptional(const dlk_arg_info &arg) {
  return arg.role == DLK_ROLE_ROW_STARTS || arg.role == DLK_ROLE_ROW_FLAGS ||
         arg.role == DLK_ROLE_ACCEPTED || arg.role == DLK_ROLE_CHECKPOINT_SLOTS ||
         arg.role == DLK_ROLE_CHECKPOINT_OFFSETS;
}

static size_t countBytes(const dlk_arg_info &arg, const std::vector<int64_t> &shape) {
  size_t bytes = dlk_dtype_bytes(arg.dtype);
  for (int64_t size : shape)
    bytes *= size_t(size);
  return bytes;
}

Workload::Workload(const Session &session, const dl::reference::Operator &op,
                   const KernelEntry &kernel, const Shape &shape, const LogCase &log)
    : op(op), kernel(kernel), shape(shape), log(log), options(session.options) {
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const dlk_role role = kernel.args[i].role;
    size_t bytes = countBytes(kernel.args[i], kernel.argShape(i, Sizes(shape, shape.B)));
    stateBytes += role == DLK_ROLE_STATE_IN || role == DLK_ROLE_STATE ? bytes : 0;
    if (role == DLK_ROLE_LOG) // entries that are read, and those that are written
      bytes =
          bytes / size_t(kernel.info.ring) * size_t(log.length + (log.merge == 2 ? 0 : shape.T));
    else if (role == DLK_ROLE_STATE && log.merge != 0)
      bytes *= 2;
    const bool isCounted = !isOptional(kernel.args[i]) && role != DLK_ROLE_WORKSPACE;
    trafficBytes += isCounted ? bytes : 0;
  }
  chooseRotations(session);
  check(dlk_prepare(kernel.handle, session.device, session.options.pdl ? DLK_PLAN_PDL : 0, &plan));

  // Some tokens with sensible values, repeated for all others: gates are drawn until they fit.
  constexpr int64_t mostTokens = 256;
  InputMaker maker(op, kernel.dims());
  Batch batch;
  batch.T = std::min(shape.T, mostTokens), batch.HQ = shape.HQ, batch.HV = shape.HV;
  for (const auto &param : op.params)
    batch.params.push_back({param.hasDefault ? param.defaultValue : 1});
  Random random(session.options.seed);
  maker.fill(batch, Gates::Weak, random);
  shapes.resize(kernel.args.size());
  bytesPerRotation.assign(kernel.args.size(), 0);
  for (size_t i = 0; i < kernel.args.size(); ++i)
    makeArgument(session, i, batch);
  for (const dlk_scalar_info &scalar : kernel.scalars)
    if (std::string(scalar.name) == "first_slot") // no row is null
      scalars.push_back({scalar.name, 0});
    else if (!scalar.has_default)
      scalars.push_back({scalar.name, 1});
}

void Workload::chooseRotations(const Session &session) {
  if (!session.isCuda() || stateBytes == 0)
    return;
  int cacheBytes = 0;
  session.checkCuda(session.driver->deviceGetAttribute(&cacheBytes,
                                                       dl::runtime::cuda::attributeL2CacheBytes,
                                                       session.facts.handle),
                    "cuDeviceGetAttribute");
  const size_t wanted = 3 * size_t(cacheBytes);
  rotations = int(std::clamp<size_t>((wanted + stateBytes - 1) / stateBytes, 1, 1024));
}

template <typename Ports> static int findPort(const Ports &ports, const std::string &name) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name)
      return int(i);
  throw Error("the reference has no '" + name + "'");
}

static std::vector<char> encodeAll(dlk_dtype dtype, const std::vector<size_t> &numbers) {
  const size_t elementBytes = dlk_dtype_bytes(dtype);
  std::vector<char> bytes(numbers.size() * elementBytes);
  for (size_t n = 0; n < numbers.size(); ++n)
    encode(dtype, double(numbers[n]), &bytes[n * elementBytes]);
  return bytes;
}

/// A descriptor per slot: src, dst, token, tokens, start, length, write, merge, fresh, no
/// checkpoint (test/Reference/LogProtocol.md).
std::vector<char> Workload::describeRows(const std::vector<size_t> &slots) const {
  std::vector<int32_t> numbers;
  for (size_t n = 0; n < slots.size(); ++n) {
    auto slot = int32_t(slots[n]), token = int32_t(n % size_t(shape.B) * size_t(shape.T));
    for (int32_t number : {slot, slot, token, int32_t(shape.T), 0, int32_t(log.length),
                           int32_t(log.length), log.merge, 0, -1, -1, 0})
      numbers.push_back(number);
  }
  auto *begin = reinterpret_cast<const char *>(numbers.data());
  return {begin, begin + numbers.size() * sizeof(int32_t)};
}

std::vector<char> Workload::makeValues(const dlk_arg_info &arg, const std::vector<int64_t> &shape,
                                       const Batch &batch) const {
  const size_t elementBytes = dlk_dtype_bytes(arg.dtype);
  std::vector<char> bytes(countBytes(arg, shape));
  const size_t count = bytes.size() / elementBytes;
  Random random(1);
  auto fill = [&](auto valueOf) {
    for (size_t n = 0; n < count; ++n)
      encode(arg.dtype, double(valueOf(n)), &bytes[n * elementBytes]);
  };
  if (arg.role == DLK_ROLE_INPUT) {
    const auto &row = batch.inputs[findPort(op.inputs, arg.name)];
    fill([&](size_t n) { return row[n % row.size()]; });
  } else if (arg.role == DLK_ROLE_PARAM) {
    const auto &values = batch.params[findPort(op.params, arg.name)];
    fill([&](size_t n) { return values[n % values.size()]; });
  } else if (namesSlots(arg)) {
    // One array per rotation; the same order for the slots that are read and written.
    std::vector<size_t> slots(size_t(this->shape.B) * rotations);
    std::iota(slots.begin(), slots.end(), size_t(0));
    if (options.shuffle)
      std::shuffle(slots.begin(), slots.end(), std::mt19937_64(options.seed));
    bytes = arg.role == DLK_ROLE_DESCRIPTORS ? describeRows(slots) : encodeAll(arg.dtype, slots);
  } else if (arg.role == DLK_ROLE_LOG) {
    fill([&](size_t) { return 0.05 * random.normal(); });
  } else if (isState(arg)) {
    fill([&](size_t) { return random.normal(); });
  }
  return bytes;
}

void Workload::makeArgument(const Session &session, size_t index, const Batch &batch) {
  const dlk_arg_info &arg = kernel.args[index];
  const int64_t numSlots = shape.B * rotations;
  shapes[index] = kernel.argShape(index, Sizes(shape, numSlots));
  dlk_tensor view = {};
  view.device = session.device;
  view.ndim = arg.rank;
  view.dtype = dlk_dtype_data_type(arg.dtype);
  view.shape = shapes[index].data();
  // State is updated in place.
  for (size_t other = 0; other < index && arg.role == DLK_ROLE_STATE_OUT; ++other)
    if (kernel.args[other].role == DLK_ROLE_STATE_IN && kernel.args[other].dtype == arg.dtype &&
        std::string(kernel.args[other].name) == arg.name)
      view.data = views[other].data;
  buffers.emplace_back();
  if (arg.role == DLK_ROLE_WORKSPACE) { // may hold anything
    buffers.back() = Buffer(session, countBytes(arg, shapes[index]));
    view.data = buffers.back().data();
  } else if (!view.data && !isOptional(arg)) {
    // A pool is filled with copies of one slot.
    std::vector<int64_t> part = shapes[index];
    if (isPool(arg))
      part[0] = 1;
    std::vector<char> values = makeValues(arg, part, batch);
    size_t copies = isPool(arg) ? size_t(numSlots) : 1;
    buffers.back() = Buffer(session, values.size() * copies);
    for (size_t i = 0; i < copies; ++i)
      buffers.back().upload(values.data(), i * values.size(), values.size());
    view.data = buffers.back().data();
  }
  if (namesSlots(arg))
    bytesPerRotation[index] = countBytes(arg, shapes[index]);
  views.push_back(view);
}

void Workload::launch(int i, void *stream) const {
  dlk_tensor current[DLK_MAX_ARGS];
  std::copy(views.begin(), views.end(), current);
  for (size_t a = 0; a < views.size(); ++a)
    current[a].byte_offset = bytesPerRotation[a] * size_t(i % rotations);
  check(dlk_launch(plan, current, int32_t(views.size()), scalars.data(), int32_t(scalars.size()),
                   stream));
}

static BenchResult benchCpu(const Workload &work, int repetitions) {
  BenchResult result;
  for (int i = -1; i < repetitions; ++i) {
    auto begin = std::chrono::steady_clock::now();
    work.launch(0, nullptr);
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    if (i >= 0)
      result.stream.ms.push_back(ms.count());
  }
  return result;
}

static BenchResult benchCuda(const Session &session, const Workload &work, Ceiling &ceiling,
                             int repetitions) {
  BenchResult result;
  Timer timer(session);
  auto launch = [&](int i, dl::runtime::cuda::Stream stream) { work.launch(i, stream); };
  // As many launches at a time as last about two milliseconds, in whole rotations.
  double estimate = timer.inGraph(launch, work.rotations, 5).median();
  int rounds = int(std::clamp(2.0 / (estimate * work.rotations), 1.0, 1000.0));
  result.count = std::max(work.rotations * rounds, 4);
  // The ceiling before and after: clocks and temperature drift.
  Samples before =
      ceiling.measure(timer, work.stateBytes, work.rotations, result.count, repetitions / 2 + 1);
  result.graph = timer.inGraph(launch, result.count, repetitions);
  result.stream = timer.onStream(launch, result.count, repetitions / 2 + 1);
  Samples after =
      ceiling.measure(timer, work.stateBytes, work.rotations, result.count, repetitions / 2 + 1);
  result.ceiling = before.median() < after.median() ? before : after;
  return result;
}

/// Whether the runtime would choose this kernel among those of its name.
static bool isChosen(const Session &session, const KernelEntry &kernel) {
  dlk_query query = {};
  query.name = kernel.info.name;
  const dlk_kernel *best = nullptr;
  check(dlk_find(session.package, &query, session.device, &best));
  return best == kernel.handle;
}

namespace {
/// Times kernels of a session one by one.
class Bench {
public:
  explicit Bench(const Session &session)
      : session(session), op(session.reference()),
        repetitions(session.options.iterations ? session.options.iterations
                    : session.isCuda()         ? 30
                                               : 5) {
    if (session.isCuda())
      ceiling = std::make_unique<Ceiling>(session);
  }

  BenchResult run(const KernelEntry &kernel, const Shape &shape, const LogCase &log);

private:
  std::string whyNot(const KernelEntry &kernel, const Shape &shape, BenchResult &result);
  CheckResult checkOnce(const KernelEntry &kernel, const Shape &shape);

  const Session &session;
  const dl::reference::Operator op;
  const int repetitions;
  std::unique_ptr<Ceiling> ceiling;
  std::map<std::pair<const dlk_kernel *, std::string>, CheckResult> checks;
};
} // namespace

/// A small problem of the same head ratio: random states, all kinds of gates, pools, null rows.
CheckResult Bench::checkOnce(const KernelEntry &kernel, const Shape &shape) {
  const int64_t tokens = std::min<int64_t>(shape.T, kernel.isPrefill() ? 77 : 4);
  const Shape small = {3, tokens, 2, 2 * std::max<int64_t>(shape.HV / shape.HQ, 1)};
  auto [known, isNew] = checks.try_emplace({kernel.handle, small.str()});
  CheckResult &result = known->second;
  if (!isNew)
    return result;
  try {
    CaseRunner runner(session, op, kernel);
    for (const CaseSpec &spec : makeCases({small}, /*gates=*/"", session.options.seed)) {
      CaseResult one = runner.run(spec);
      keepWorst(result.outputError, one.outputError);
      keepWorst(result.stateError, one.stateError);
      if (result.failure.empty())
        result.failure = one.failure;
    }
  } catch (const Error &error) {
    result = {NAN, NAN, error.what()};
  }
  return result;
}

std::string Bench::whyNot(const KernelEntry &kernel, const Shape &shape, BenchResult &result) {
  // These have no case to be checked by, but a time.
  const bool isPart = kernel.info.kind == std::string("append") || kernel.isPreparation();
  if (std::string reason = isPart ? "" : kernel.whyNoCase(); !reason.empty())
    return reason;
  const dlk_size sizes[] = {{"B", shape.B}, {"T", shape.T}, {"HQ", shape.HQ}, {"HV", shape.HV}};
  char reason[512];
  if (dlk_supported(kernel.handle, session.device, sizes, 4, reason, sizeof(reason)) != DLK_OK)
    return reason;
  if (session.options.verify && !isPart) {
    result.check = checkOnce(kernel, shape);
    if (!result.check->failure.empty())
      return "not timed, it fails: " + result.check->failure;
  }
  return "";
}

BenchResult Bench::run(const KernelEntry &kernel, const Shape &shape, const LogCase &log) {
  BenchResult facts;
  facts.kernel = kernel.info.name;
  facts.target = kernel.target();
  facts.shape = shape;
  facts.log = log;
  facts.skipped = whyNot(kernel, shape, facts);
  if (!facts.skipped.empty())
    return facts;
  Workload work(session, op, kernel, shape, log);
  BenchResult result = session.isCuda() ? benchCuda(session, work, *ceiling, repetitions)
                                        : benchCpu(work, repetitions);
  result.kernel = facts.kernel;
  result.target = facts.target;
  result.shape = shape;
  result.log = log;
  result.check = facts.check;
  result.rotations = work.rotations;
  result.trafficBytes = work.trafficBytes;
  result.stateBytes = work.stateBytes;
  return result;
}

std::string LogCase::str() const {
  return length < 0 ? "" : std::to_string(length) + (merge != 0 ? ", merged" : "");
}

/// Logs that are empty, half full, full but for a step's tokens, and merged in the launch.
static std::vector<LogCase> logCases(const KernelEntry &kernel, const Shape &shape) {
  if (kernel.info.kind != std::string("append"))
    return {LogCase()};
  const int64_t window = kernel.info.window, most = std::max<int64_t>(window - shape.T, 0);
  std::vector<LogCase> cases = {{0, 0}, {most / 2, 0}, {most, 0}};
  cases.push_back(shape.T == 1 ? LogCase{most, 2} : LogCase{window, 1});
  return cases;
}

int dl::run::runBench(const Options &options) {
  Session session(options);
  session.openDevice();
  std::map<std::string, std::vector<int64_t>> defaults = {
      {"B", {1, 8, 64, 256}}, {"T", {1}}, {"HQ", {32}}, {"HV", {32}}};
  if (!session.isCuda())
    defaults = {{"B", {1}}, {"T", {1}}, {"HQ", {4}}, {"HV", {4}}};
  const std::vector<Shape> shapes = parseShapes(options.shape, defaults);
  Bench bench(session);
  std::vector<BenchResult> results;
  bool isGood = true;
  for (const KernelEntry &kernel : session.kernels(/*runnable=*/true)) {
    if (options.best && !isChosen(session, kernel))
      continue;
    for (const Shape &shape : shapes) {
      for (const LogCase &log : logCases(kernel, shape)) {
        showProgress(std::string(kernel.info.name) + " " + shape.str() + " " + log.str());
        results.push_back(bench.run(kernel, shape, log));
        isGood &= !results.back().check || results.back().check->failure.empty();
      }
    }
  }
  showProgress("");
  if (options.json)
    printBenchJson(session, results);
  else
    printBenchTable(session, results);
  return isGood ? 0 : 1;
}
