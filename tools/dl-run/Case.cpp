//===- Case.cpp - One launch of a kernel, compared with the reference -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Case.h"
#include "Numbers.h"

#include <algorithm>
#include <cmath>

using namespace dl;
using namespace dl::run;
using reference::Batch;

// Relative RMS errors of a decode step; runtime/README.md states them.
double run::outputLimit(dlk_dtype dtype) { return dtype == DLK_F32 ? 1e-4 : 5e-3; }
double run::stateLimit(dlk_dtype dtype) { return dtype == DLK_F32 ? 1e-4 : 2e-2; }

// A ratio over the whole tensor hides one wrong head: each (row, head) may be off by this much
// more.
static constexpr double headFactor = 4;
// Heads with an RMS below this share of the whole are measured against it.
static constexpr double headFloor = 1e-3;

std::vector<CaseSpec> run::makeCases(const std::vector<Shape> &shapes, const std::string &gates,
                                     uint64_t seed) {
  std::vector<CaseSpec> cases;
  for (const Shape &shape : shapes)
    for (Gates kind : {Gates::Weak, Gates::Strong, Gates::Extreme}) {
      if (!gates.empty() && gates != gateNames[int(kind)])
        continue;
      // Variations go through all combinations as the cases go by.
      size_t i = cases.size();
      CaseSpec spec;
      spec.shape = shape;
      spec.gates = kind;
      spec.seed = seed * 1000003 + i;
      spec.isPadded = i % 2 == 1;
      spec.isInPlace = i / 2 % 2 == 0;
      spec.hasSlots = i % 5 != 4;
      spec.firstSlot = spec.hasSlots ? i / 3 % 2 : 0;
      spec.usesDefaults = i / 4 % 2 == 0;
      cases.push_back(spec);
    }
  return cases;
}

/// Everything of one launch.
struct CaseRunner::Problem {
  const CaseSpec &spec;
  Batch batch;  // inputs; after launch() the results of the reference
  Batch before; // pools before the launch
  int64_t numSlots = 0;
  std::vector<HostTensor> initial, final;
  std::vector<Buffer> buffers;
  std::vector<dlk_tensor> views;
  std::vector<int> sharedWith; // state_out in place: the argument whose memory it is; else -1

  bool isNullRow(int64_t row) const {
    return batch.sources[row] < spec.firstSlot || batch.destinations[row] < spec.firstSlot;
  }
};

CaseRunner::CaseRunner(const Session &session, const reference::Operator &op,
                       const KernelEntry &kernel)
    : session(session), op(op), kernel(kernel), maker(op, kernel.dims()) {
  mapArguments();
  check(dlk_prepare(kernel.handle, session.device, session.isCuda() ? 0 : DLK_PLAN_CHECKED, &plan));
}

template <typename Ports> static int findPort(const Ports &ports, const std::string &name) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name)
      return int(i);
  return -1;
}

void CaseRunner::mapArguments() {
  for (const dlk_arg_info &arg : kernel.args) {
    int port = -1;
    bool isSlots = false;
    switch (arg.role) {
    case DLK_ROLE_INPUT:
      port = findPort(op.inputs, arg.name);
      if (port >= 0)
        maker.inputTypes[port] = arg.dtype;
      break;
    case DLK_ROLE_PARAM:
      port = findPort(op.params, arg.name);
      if (port >= 0)
        maker.paramTypes[port] = arg.dtype;
      break;
    case DLK_ROLE_OUTPUT:
      port = findPort(op.outputs, arg.name);
      break;
    case DLK_ROLE_STATE_IN:
    case DLK_ROLE_STATE_OUT: {
      auto it = std::find(op.states.begin(), op.states.end(), arg.name);
      port = it == op.states.end() ? -1 : int(it - op.states.begin());
      break;
    }
    case DLK_ROLE_SLOTS_IN:
    case DLK_ROLE_SLOTS_OUT:
    case DLK_ROLE_WORKSPACE:
      isSlots = true;
      break;
    }
    if (port < 0 && !isSlots)
      throw Error(std::string("the reference has no ") + dlk_role_name(arg.role) + " named '" +
                  arg.name + "'");
    ports.push_back(port);
  }
}

double CaseRunner::worstOutputLimit() const {
  double limit = 0;
  for (const dlk_arg_info &arg : kernel.args)
    if (arg.role == DLK_ROLE_OUTPUT)
      limit = std::max(limit, outputLimit(arg.dtype));
  return limit;
}

double CaseRunner::worstStateLimit() const {
  double limit = 0;
  for (const dlk_arg_info &arg : kernel.args)
    if (arg.role == DLK_ROLE_STATE_OUT)
      limit = std::max(limit, stateLimit(arg.dtype));
  return limit;
}

//===----------------------------------------------------------------------===//
// Making a problem
//===----------------------------------------------------------------------===//

/// Slots 0..firstSlot-1 are never named; above them sources in descending order, then spare slots
/// that odd rows write.
void CaseRunner::makeSlots(Problem &problem) const {
  const CaseSpec &spec = problem.spec;
  const int64_t B = spec.shape.B;
  Batch &batch = problem.batch;
  batch.firstSlot = spec.firstSlot;
  problem.numSlots = spec.firstSlot + 2 * B + 1;
  for (int64_t row = 0; row < B; ++row) {
    int64_t source = spec.hasSlots ? spec.firstSlot + B - row : row;
    bool moves = spec.hasSlots && row % 2 == 1;
    batch.sources.push_back(source);
    batch.destinations.push_back(moves ? source + B : source);
  }
  if (spec.hasSlots && B > 1)
    (B % 2 ? batch.sources : batch.destinations).back() = spec.firstSlot - 1;
}

int64_t CaseRunner::statePlace(int64_t n) const {
  const auto dims = kernel.dims();
  if (std::string(kernel.info.state_layout) == "kv")
    return n;
  const int64_t size = dims.K * dims.V, v = n % size / dims.K, k = n % dims.K;
  return n / size * size + k * dims.V + v;
}

void CaseRunner::makeTensors(Problem &problem) const {
  const CaseSpec &spec = problem.spec;
  Batch &batch = problem.batch;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const dlk_arg_info &arg = kernel.args[i];
    int64_t padding = spec.isPadded ? 1 + int64_t(i % 3) : 0;
    HostTensor tensor(arg, kernel.argShape(i, spec.shape, problem.numSlots), padding);
    auto fill = [&](auto valueOf) {
      for (int64_t n = 0, count = tensor.numElements(); n < count; ++n)
        tensor.set(n, double(valueOf(n)));
    };
    if (arg.role == DLK_ROLE_INPUT)
      fill([&](int64_t n) { return batch.inputs[ports[i]][n]; });
    if (arg.role == DLK_ROLE_PARAM)
      fill([&](int64_t n) { return batch.params[ports[i]][n]; });
    if (arg.role == DLK_ROLE_STATE_IN)
      fill([&](int64_t n) { return batch.states[ports[i]][statePlace(n)]; });
    if (arg.role == DLK_ROLE_SLOTS_IN)
      fill([&](int64_t n) { return batch.sources[n]; });
    if (arg.role == DLK_ROLE_SLOTS_OUT)
      fill([&](int64_t n) { return batch.destinations[n]; });
    problem.initial.push_back(std::move(tensor));
  }
  // In place: one pool for both. Otherwise the destination pool starts as NaN.
  problem.sharedWith.assign(kernel.args.size(), -1);
  for (size_t out = 0; out < kernel.args.size(); ++out)
    for (size_t in = 0; in < kernel.args.size() && spec.isInPlace; ++in)
      if (kernel.args[out].role == DLK_ROLE_STATE_OUT &&
          kernel.args[in].role == DLK_ROLE_STATE_IN && ports[in] == ports[out] &&
          kernel.args[in].dtype == kernel.args[out].dtype) {
        problem.sharedWith[out] = int(in);
        problem.initial[out] = problem.initial[in];
      }
}

std::vector<dlk_scalar> CaseRunner::makeScalars(Problem &problem) const {
  std::vector<dlk_scalar> scalars;
  for (const dlk_scalar_info &scalar : kernel.scalars) {
    int port = findPort(op.params, scalar.name);
    double value = scalar.default_value;
    if (std::string(scalar.name) == "first_slot")
      value = problem.spec.firstSlot;
    else if (!scalar.has_default || (port >= 0 && !problem.spec.usesDefaults))
      value = 0.75;
    else if (port < 0 || problem.spec.usesDefaults) {
      // Left to the runtime, which must take the kernel's default.
      if (port >= 0)
        problem.batch.params[port] = {roundTo(scalar.dtype, value)};
      continue;
    }
    scalars.push_back({scalar.name, value});
    if (port >= 0)
      problem.batch.params[port] = {roundTo(scalar.dtype, value)};
  }
  return scalars;
}

void CaseRunner::launch(Problem &problem) {
  const CaseSpec &spec = problem.spec;
  Batch &batch = problem.batch;
  batch.B = spec.shape.B, batch.T = spec.shape.T, batch.HQ = spec.shape.HQ,
  batch.HV = spec.shape.HV;
  batch.params.resize(op.params.size());
  for (size_t i = 0; i < op.params.size(); ++i)
    batch.params[i] = {op.params[i].defaultValue};
  std::vector<dlk_scalar> scalars = makeScalars(problem);
  Random random(spec.seed);
  maker.fill(batch, spec.gates, random);
  makeSlots(problem);
  const int64_t stateSize = kernel.dims().K * kernel.dims().V;
  for (size_t s = 0; s < op.states.size(); ++s) {
    batch.states.emplace_back(problem.numSlots * batch.HV * stateSize);
    dlk_dtype dtype = DLK_F32;
    for (size_t i = 0; i < kernel.args.size(); ++i)
      if (kernel.args[i].role == DLK_ROLE_STATE_IN && ports[i] == int(s))
        dtype = kernel.args[i].dtype;
    for (double &value : batch.states.back())
      value = roundTo(dtype, random.normal());
  }
  makeTensors(problem);
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const HostTensor &tensor = problem.initial[i];
    int shared = problem.sharedWith[i];
    problem.buffers.emplace_back(session, shared < 0 ? tensor.bytes.size() : 0);
    if (shared < 0)
      problem.buffers.back().upload(tensor.bytes.data(), 0, tensor.bytes.size());
  }
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    int shared = problem.sharedWith[i];
    problem.views.push_back(
        problem.initial[i].view(problem.buffers[shared < 0 ? i : shared], session.device));
    bool isSlots =
        kernel.args[i].role == DLK_ROLE_SLOTS_IN || kernel.args[i].role == DLK_ROLE_SLOTS_OUT;
    if (isSlots && !spec.hasSlots && kernel.args[i].nullable)
      problem.views.back().data = nullptr;
  }
  check(dlk_launch(plan, problem.views.data(), int32_t(problem.views.size()), scalars.data(),
                   int32_t(scalars.size()), nullptr));
  if (session.isCuda())
    session.checkCuda(session.driver->ctxSynchronize(), "the kernel");
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    int shared = problem.sharedWith[i];
    problem.final.push_back(problem.initial[i]);
    problem.buffers[shared < 0 ? i : shared].download(problem.final[i].bytes.data(),
                                                      problem.final[i].bytes.size());
  }
  problem.before = batch;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

static void failOnce(CaseResult &result, std::string message) {
  if (result.failure.empty())
    result.failure = std::move(message);
}

/// Sums of squares of error and reference.
struct Sums {
  double error = 0, reference = 0;
  int64_t count = 0;
  void add(double value, double expected) {
    error += (value - expected) * (value - expected);
    reference += expected * expected;
    ++count;
  }
  double rms() const { return std::sqrt(reference / double(std::max<int64_t>(count, 1))); }
  /// rms(error) / (rms(reference) + 1e-8); NaN stays NaN.
  double ratio(double floor) const {
    return std::sqrt(error / double(std::max<int64_t>(count, 1))) / (std::max(rms(), floor) + 1e-8);
  }
};

void CaseRunner::compareTensor(const Problem &problem, size_t arg, CaseResult &result) const {
  const dlk_arg_info &info = kernel.args[arg];
  const HostTensor &tensor = problem.final[arg];
  const Batch &batch = problem.batch;
  const bool isState = info.role == DLK_ROLE_STATE_OUT;
  const double limit = isState ? stateLimit(info.dtype) : outputLimit(info.dtype);
  const int64_t stateSize = kernel.dims().K * kernel.dims().V;
  const int64_t rowSize = tensor.numElements() / tensor.shape[0];
  const int64_t headSize =
      isState ? stateSize
              : elementCount(op.outputs[ports[arg]].axis, kernel.dims()); // per token and head
  Sums total;
  std::vector<Sums> heads(batch.B * batch.HV);
  for (int64_t row = 0; row < batch.B; ++row) {
    const bool isNull = problem.isNullRow(row);
    if (isState && isNull)
      continue;
    const int64_t begin = (isState ? batch.destinations[row] : row) * rowSize;
    for (int64_t n = begin; n < begin + rowSize; ++n) {
      double value = tensor.get(n);
      if (isNull && value != 0)
        return failOnce(result, format("output '%s' of null row %lld: expected 0, got %g",
                                       info.name, (long long)row, value));
      double expected =
          isState ? batch.states[ports[arg]][statePlace(n)] : batch.outputs[ports[arg]][n];
      total.add(value, expected);
      heads[row * batch.HV + n / headSize % batch.HV].add(value, expected);
    }
  }
  double error = total.ratio(0);
  keepWorst(isState ? result.stateError : result.outputError, error);
  const char *kind = isState ? "state" : "output";
  if (!(error <= limit))
    return failOnce(
        result, format("%s '%s': relative error %.2g exceeds %.2g", kind, info.name, error, limit));
  for (size_t i = 0; i < heads.size(); ++i)
    if (heads[i].count && !(heads[i].ratio(headFloor * total.rms()) <= headFactor * limit))
      return failOnce(result,
                      format("%s '%s' of row %zu, head %zu: relative error %.2g exceeds %.2g", kind,
                             info.name, i / batch.HV, i % batch.HV,
                             heads[i].ratio(headFloor * total.rms()), headFactor * limit));
}

void CaseRunner::checkUntouched(const Problem &problem, size_t arg, CaseResult &result) const {
  const dlk_arg_info &info = kernel.args[arg];
  const HostTensor &tensor = problem.final[arg];
  const int64_t rowSize =
      tensor.numElements() / std::max<int64_t>(tensor.shape.empty() ? 1 : tensor.shape[0], 1);
  std::vector<bool> isWritten(problem.numSlots, false);
  for (int64_t row = 0; row < problem.batch.B; ++row)
    if (!problem.isNullRow(row))
      isWritten[problem.batch.destinations[row]] = true;
  bool isInPlace = false;
  for (int shared : problem.sharedWith)
    isInPlace |= shared == int(arg);
  bool isState = info.role == DLK_ROLE_STATE_OUT || isInPlace;
  bool same = tensor.sameExcept(problem.initial[arg], [&](int64_t n) {
    if (isState)
      return bool(isWritten[n / rowSize]);
    return info.role == DLK_ROLE_OUTPUT || info.role == DLK_ROLE_WORKSPACE;
  });
  if (!same)
    failOnce(result,
             isState ? format("pool '%s': bytes outside of the rows' slots changed", info.name)
                     : format("argument '%s': bytes that are not the kernel's changed", info.name));
}

void CaseRunner::compare(Problem &problem, CaseResult &result) const {
  reference::run(op, kernel.dims(), problem.batch);
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    dlk_role role = kernel.args[i].role;
    if (role == DLK_ROLE_OUTPUT || role == DLK_ROLE_STATE_OUT)
      compareTensor(problem, i, result);
  }
  for (size_t i = 0; i < kernel.args.size(); ++i)
    checkUntouched(problem, i, result);
}

CaseResult CaseRunner::run(const CaseSpec &spec) {
  CaseResult result;
  Problem problem{spec, {}, {}, 0, {}, {}, {}, {}, {}};
  launch(problem);
  compare(problem, result);
  return result;
}
