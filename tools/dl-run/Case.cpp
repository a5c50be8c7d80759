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

// Relative RMS errors; runtime/README.md states them. The products of a prefill have factors of 16
// bits, whatever is in memory.
double run::outputLimit(const KernelEntry &kernel, dlk_dtype dtype) {
  return dtype == DLK_F32 && !kernel.isPrefill() ? 1e-4 : 5e-3;
}
double run::stateLimit(const KernelEntry &kernel, dlk_dtype dtype) {
  return dtype != DLK_F32 ? 2e-2 : kernel.isPrefill() ? 5e-3 : 1e-4;
}

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
      spec.isPacked = i % 3 == 1;
      spec.keepsAll = i % 4 >= 2;
      spec.hasAccepted = i / 5 % 2 == 1;
      spec.hasFlags = i % 7 >= 5;
      cases.push_back(spec);
    }
  return cases;
}

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
    bool isOther = false;
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
    case DLK_ROLE_ROW_STARTS:
    case DLK_ROLE_ROW_FLAGS:
    case DLK_ROLE_ACCEPTED:
    case DLK_ROLE_CHECKPOINT_SLOTS:
    case DLK_ROLE_CHECKPOINT_OFFSETS:
      isOther = true;
      break;
    default: // of a log: no case is made for such kernels
      throw Error(std::string("expected the arguments of a decode kernel, got '") + arg.name +
                  "' of the role " + dlk_role_name(arg.role));
    }
    if (port < 0 && !isOther)
      throw Error(std::string("the reference has no ") + dlk_role_name(arg.role) + " named '" +
                  arg.name + "'");
    ports.push_back(port);
  }
}

double CaseRunner::worstOutputLimit() const {
  double limit = 0;
  for (const dlk_arg_info &arg : kernel.args)
    if (arg.role == DLK_ROLE_OUTPUT)
      limit = std::max(limit, outputLimit(kernel, arg.dtype));
  return limit;
}

double CaseRunner::worstStateLimit() const {
  double limit = 0;
  for (const dlk_arg_info &arg : kernel.args)
    if (arg.role == DLK_ROLE_STATE_OUT)
      limit = std::max(limit, stateLimit(kernel, arg.dtype));
  return limit;
}

//===----------------------------------------------------------------------===//
// Making a problem
//===----------------------------------------------------------------------===//

Sizes Problem::sizes() const {
  Sizes sizes({batch.B, batch.T, batch.HQ, batch.HV}, numSlots);
  sizes.N = int64_t(batch.rows.size());
  sizes.sourceWidth = sourceWidth;
  sizes.destinationWidth = destinationWidth;
  return sizes;
}

std::vector<bool> Problem::writtenSlots() const {
  std::vector<bool> written(numSlots, false);
  for (const reference::Row &row : batch.rows) {
    if (row.isNull)
      continue;
    for (int64_t t = 0; t < std::min<int64_t>(row.end - row.first, row.kept.size()); ++t)
      if (row.kept[t] >= 0)
        written[row.kept[t]] = true;
    if (row.destination >= 0)
      written[row.destination] = true;
  }
  return written;
}

/// Rows with all tokens of an entry each; or, packed, with none to all, one behind the other, and
/// two tokens at the end that belong to no row.
static void makeTokens(Problem &problem) {
  const Shape &shape = problem.spec.shape;
  Batch &batch = problem.batch;
  batch.B = shape.B, batch.T = shape.T, batch.HQ = shape.HQ, batch.HV = shape.HV;
  batch.rows.resize(shape.B);
  problem.starts = {0};
  for (int64_t n = 0; n < shape.B; ++n) {
    reference::Row &row = batch.rows[n];
    row.entry = problem.spec.isPacked ? 0 : n;
    row.first = problem.spec.isPacked ? problem.starts.back() : 0;
    const int64_t length = n % 3 == 1 ? 0 : 1 + int64_t(problem.spec.seed + n) % shape.T;
    row.end = problem.spec.isPacked ? row.first + length : shape.T;
    problem.starts.push_back(row.end);
  }
  if (problem.spec.isPacked) {
    batch.B = 1;
    batch.T = problem.starts.back() + 2;
  }
  problem.rowOfToken.assign(batch.B * batch.T, -1);
  for (int64_t n = 0; n < shape.B; ++n)
    for (int64_t t = batch.rows[n].first; t < batch.rows[n].end; ++t)
      problem.rowOfToken[batch.rows[n].entry * batch.T + t] = int(n);
}

/// Slots below firstSlot are never named; above them lie the rows' sources in descending order,
/// then a place for each state that may be kept, then a spare one.
static void makeSlots(Problem &problem) {
  const CaseSpec &spec = problem.spec;
  Batch &batch = problem.batch;
  const int64_t N = spec.shape.B, null = spec.firstSlot - 1;
  problem.sourceWidth = spec.hasAccepted ? 3 : 1;
  problem.destinationWidth = spec.keepsAll ? std::max<int64_t>(spec.shape.T, 2) : 1;
  const int64_t width = problem.destinationWidth;
  problem.numSlots = spec.firstSlot + N + N * width + 1;
  for (int64_t n = 0; n < N; ++n) {
    reference::Row &row = batch.rows[n];
    row.source = spec.hasSlots ? spec.firstSlot + N - 1 - n : n;
    row.isFresh = spec.hasFlags && n % 2 == 1;
    const bool lacksSource = spec.hasSlots && n > 0 && n == N - 1 && (spec.keepsAll || n % 2 == 0);
    const bool lacksDestination = spec.hasSlots && n > 0 && n == N - 1 && !lacksSource;
    const int64_t accepted = 1 + n % problem.sourceWidth;
    problem.accepted.push_back(accepted);
    for (int64_t i = 1; i <= problem.sourceWidth; ++i) // the others name another row's
      problem.sources.push_back(i != accepted ? spec.firstSlot : lacksSource ? null : row.source);
    for (int64_t t = 0; t < width; ++t) {
      int64_t slot = spec.firstSlot + N + n * width + t;
      if (spec.keepsAll ? t == 0 && n % 2 == 0 : !spec.hasSlots || n % 2 == 0)
        slot = row.source; // over the state that it started from
      if (lacksDestination || (spec.keepsAll && t % 3 == 2))
        slot = null;
      problem.destinations.push_back(slot);
      if (spec.keepsAll)
        row.kept.push_back(slot == null ? -1 : slot);
      else
        row.destination = slot;
    }
    row.isNull = lacksSource || lacksDestination || row.source < spec.firstSlot;
  }
}

/// Leaves out the variations whose arguments the kernel does not have.
CaseSpec CaseRunner::possible(CaseSpec spec) const {
  spec.isPacked &= kernel.hasRole(DLK_ROLE_ROW_STARTS);
  spec.hasFlags &= kernel.hasRole(DLK_ROLE_ROW_FLAGS);
  spec.hasAccepted &= kernel.hasRole(DLK_ROLE_ACCEPTED) && spec.hasSlots;
  spec.keepsAll &= spec.hasSlots && kernel.hasRole(DLK_ROLE_SLOTS_OUT) && !kernel.isPrefill();
  return spec;
}

int64_t CaseRunner::statePlace(int64_t n) const {
  const auto dims = kernel.dims();
  if (std::string(kernel.info.state_layout) == "kv")
    return n;
  const int64_t size = dims.K * dims.V, v = n % size / dims.K, k = n % dims.K;
  return n / size * size + k * dims.V + v;
}

void CaseRunner::fillTensor(const Problem &problem, size_t arg, HostTensor &tensor) const {
  const Batch &batch = problem.batch;
  auto fill = [&](auto valueOf) {
    for (int64_t n = 0, count = tensor.numElements(); n < count; ++n)
      tensor.set(n, double(valueOf(n)));
  };
  switch (kernel.args[arg].role) {
  case DLK_ROLE_INPUT: {
    // What belongs to no row may hold anything.
    const int64_t perToken = tensor.numElements() / (batch.B * batch.T);
    return fill([&](int64_t n) {
      return problem.rowOfToken[n / perToken] < 0 ? NAN : batch.inputs[ports[arg]][n];
    });
  }
  case DLK_ROLE_PARAM:
    return fill([&](int64_t n) { return batch.params[ports[arg]][n]; });
  case DLK_ROLE_STATE_IN:
    return fill([&](int64_t n) { return batch.states[ports[arg]][statePlace(n)]; });
  case DLK_ROLE_SLOTS_IN:
    return fill([&](int64_t n) { return problem.sources[n]; });
  case DLK_ROLE_SLOTS_OUT:
    return fill([&](int64_t n) { return problem.destinations[n]; });
  case DLK_ROLE_ROW_STARTS:
    return fill([&](int64_t n) { return problem.starts[n]; });
  case DLK_ROLE_ROW_FLAGS:
    return fill([&](int64_t n) { return !batch.rows[n].isFresh; });
  case DLK_ROLE_ACCEPTED:
    return fill([&](int64_t n) { return problem.accepted[n]; });
  case DLK_ROLE_CHECKPOINT_OFFSETS: // anywhere: nothing else may depend on where they are
    return fill([&](int64_t n) { return 7 * n + 1; });
  default: // written
    return;
  }
}

void CaseRunner::makeTensors(Problem &problem) const {
  const CaseSpec &spec = problem.spec;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    int64_t padding = spec.isPadded ? 1 + int64_t(i % 3) : 0;
    HostTensor tensor(kernel.args[i], kernel.argShape(i, problem.sizes()), padding);
    fillTensor(problem, i, tensor);
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

void CaseRunner::makeNumbers(Problem &problem, std::vector<dlk_scalar> &scalars) const {
  Batch &batch = problem.batch;
  makeTokens(problem);
  batch.params.resize(op.params.size());
  for (size_t i = 0; i < op.params.size(); ++i)
    batch.params[i] = {op.params[i].defaultValue};
  scalars = makeScalars(problem);
  Random random(problem.spec.seed);
  maker.fill(batch, problem.spec.gates, random);
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
}

bool CaseRunner::isAbsent(const Problem &problem, size_t arg) const {
  const CaseSpec &spec = problem.spec;
  if (!kernel.args[arg].nullable)
    return false;
  switch (kernel.args[arg].role) {
  case DLK_ROLE_SLOTS_IN:
  case DLK_ROLE_SLOTS_OUT:
    return !spec.hasSlots;
  case DLK_ROLE_ROW_STARTS:
    return !spec.isPacked;
  case DLK_ROLE_ROW_FLAGS:
    return !spec.hasFlags;
  case DLK_ROLE_ACCEPTED:
    return !spec.hasAccepted;
  case DLK_ROLE_CHECKPOINT_SLOTS:
    return true;
  default:
    return false;
  }
}

void CaseRunner::makeViews(Problem &problem) const {
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
    if (isAbsent(problem, i))
      problem.views.back().data = nullptr;
  }
}

void CaseRunner::launch(Problem &problem) const {
  std::vector<dlk_scalar> scalars;
  makeNumbers(problem, scalars);
  makeTensors(problem);
  makeViews(problem);
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
}

CaseResult CaseRunner::run(const CaseSpec &spec) {
  CaseResult result;
  Problem problem;
  problem.spec = possible(spec);
  launch(problem);
  compare(problem, result);
  return result;
}
