//===- Launch.cpp - Preparing plans and launching them --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "Code.h"
#include "Links.h"
#include "RowCheck.h"
#include "Sizes.h"
#include "Status.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>

using namespace dl::runtime;

struct dlk_plan {
  std::shared_ptr<Package> package;
  dlk_device device;
  bool checked;
  struct Member {
    const Kernel *kernel;
    std::unique_ptr<Executable> executable;
  };
  std::vector<Member> members; // the kernel that the plan is of, then its variants
  Member preparation = {};     // the kernel that is launched before any of them; null: none

  const Member &memberFor(const SymbolValues &sizes) const {
    auto fits = [&](const Member &member) { return holds(member.kernel->when, sizes); };
    auto found = std::find_if(members.begin() + 1, members.end(), fits);
    return found == members.end() ? members.front() : *found;
  }
};

/// Stores a launch scalar. Integers must be exact and in range, floats finite.
static dlk_status storeScalar(const Scalar &scalar, double value, char *params) {
  const char *name = scalar.name.c_str();
  char *field = params + scalar.offset;
  auto store = [&](auto typed) { std::memcpy(field, &typed, sizeof(typed)); };
  if (!std::isfinite(value))
    return fail(DLK_INVALID_ARGUMENT, "scalar '%s': expected a finite number, got %g", name, value);
  if (scalar.dtype == DLK_F32 || scalar.dtype == DLK_F64) {
    if (scalar.dtype == DLK_F64)
      store(value);
    else if (std::abs(value) <= 0x1.fffffep127)
      store(static_cast<float>(value));
    else
      return fail(DLK_INVALID_ARGUMENT, "scalar '%s': expected an f32 number, got %g", name, value);
    return DLK_OK;
  }
  // Doubles hold integers exactly up to 2^53; that bounds i64 as well.
  double limit = scalar.dtype == DLK_I32 ? 0x1p31 : 0x1p53;
  if (value != std::floor(value) || value < -limit || value >= limit)
    return fail(DLK_INVALID_ARGUMENT, "scalar '%s': expected an integer of %s bits, got %.17g",
                name, scalar.dtype == DLK_I32 ? "32" : "54", value);
  if (scalar.dtype == DLK_I32)
    store(static_cast<int32_t>(value));
  else
    store(static_cast<int64_t>(value));
  return DLK_OK;
}

/// Stores a scalar that is computed from the sizes.
static dlk_status storeComputed(const Scalar &scalar, const SymbolValues &sizes, char *params) {
  int64_t value = 0;
  const char *reason;
  if (!scalar.value.evaluate(sizes, value, reason))
    return fail(DLK_UNSUPPORTED, "scalar '%s': %s", scalar.name.c_str(), reason);
  if (scalar.dtype == DLK_I64) {
    std::memcpy(params + scalar.offset, &value, sizeof(value));
    return DLK_OK;
  }
  int32_t narrow = static_cast<int32_t>(value);
  if (narrow != value)
    return fail(DLK_UNSUPPORTED, "scalar '%s': expected a number of 32 bits, got %" PRId64,
                scalar.name.c_str(), value);
  std::memcpy(params + scalar.offset, &narrow, sizeof(narrow));
  return DLK_OK;
}

static dlk_status checkScalarNames(const Kernel &kernel, const dlk_scalar *given, int32_t count) {
  if (count < 0 || (count > 0 && !given))
    return fail(DLK_INVALID_ARGUMENT, "scalars: expected %d entries, got NULL", count);
  for (int32_t i = 0; i < count; ++i) {
    if (!given[i].name)
      return fail(DLK_INVALID_ARGUMENT, "scalar %d: expected a name, got NULL", i);
    bool isKnown = false;
    for (int32_t index : kernel.callerScalars)
      isKnown |= kernel.scalars[index].name == given[i].name;
    if (!isKnown)
      return fail(DLK_INVALID_ARGUMENT, "scalar '%s': kernel '%s' has no such scalar",
                  given[i].name, kernel.name.c_str());
    for (int32_t j = 0; j < i; ++j)
      if (std::strcmp(given[i].name, given[j].name) == 0)
        return fail(DLK_INVALID_ARGUMENT, "scalar '%s': given twice", given[i].name);
  }
  return DLK_OK;
}

static dlk_status storeScalars(const Kernel &kernel, const SymbolValues &sizes,
                               const dlk_scalar *given, int32_t count, char *params) {
  if (dlk_status status = checkScalarNames(kernel, given, count))
    return status;
  for (const Scalar &scalar : kernel.scalars) {
    if (&scalar == kernel.part())
      continue;
    if (!scalar.fromCaller) {
      if (dlk_status status = storeComputed(scalar, sizes, params))
        return status;
      continue;
    }
    bool isGiven = scalar.hasDefault;
    double value = scalar.defaultValue;
    for (int32_t i = 0; i < count; ++i)
      if (scalar.name == given[i].name) {
        isGiven = true;
        value = given[i].value;
      }
    if (!isGiven)
      return fail(DLK_INVALID_ARGUMENT, "scalar '%s': missing, and it has no default",
                  scalar.name.c_str());
    if (dlk_status status = storeScalar(scalar, value, params))
      return status;
  }
  return DLK_OK;
}

/// How often the kernels of a plan are launched. Several launches are for what one is too much.
static dlk_status countParts(const Kernel &kernel, const SymbolValues &sizes, int32_t &parts) {
  constexpr int64_t most = 1024;
  parts = 1;
  if (!kernel.part())
    return DLK_OK;
  int64_t value = 0;
  const char *reason;
  if (!kernel.part()->value.evaluate(sizes, value, reason))
    return fail(DLK_UNSUPPORTED, "scalar '%s': %s", kernel.part()->name.c_str(), reason);
  if (value < 0 || value > most)
    return fail(DLK_UNSUPPORTED, "scalar '%s': expected 0 to %" PRId64 " parts, got %" PRId64,
                kernel.part()->name.c_str(), most, value);
  parts = static_cast<int32_t>(value);
  return DLK_OK;
}

static void storeTensors(const Kernel &kernel, const ArgumentChecker &args, char *params) {
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    if (args[i].isNull)
      continue;
    std::memcpy(params + kernel.args[i].pointerOffset, &args[i].begin, 8);
    for (size_t d = 0; d < kernel.args[i].dims.size(); ++d)
      if (!kernel.args[i].dims[d].fixedStride)
        std::memcpy(params + kernel.args[i].dims[d].strideOffset, &args[i].strides[d], 4);
  }
}

static dlk_status launch(const dlk_plan &plan, const dlk_tensor *views, int32_t numViews,
                         const dlk_scalar *scalars, int32_t numScalars, void *stream) {
  const Kernel &kernel = *plan.members.front().kernel;
  const Manifest &manifest = plan.package->manifest();
  ArgumentChecker args(manifest, kernel, plan.device);
  if (dlk_status status = args.check(views, numViews))
    return status;
  alignas(64) char params[4096];
  static_assert(sizeof(params) >= DLK_MAX_PARAM_BYTES, "parameters fit");
  std::memset(params, 0, kernel.paramBytes);
  if (dlk_status status = storeScalars(kernel, args.sizes(), scalars, numScalars, params))
    return status;
  if (args.hasNoRows())
    return DLK_OK;
  int32_t parts;
  if (dlk_status status = countParts(kernel, args.sizes(), parts))
    return status;
  uint32_t grid[3], gridBefore[3];
  const dlk_plan::Member &chosen = plan.memberFor(args.sizes()), &before = plan.preparation;
  const Executable &executable = *chosen.executable;
  if (dlk_status status = checkSizes(manifest, *chosen.kernel, plan.device, args.sizes(), grid))
    return status;
  if (before.kernel)
    if (dlk_status status =
            checkSizes(manifest, *before.kernel, plan.device, args.sizes(), gridBefore))
      return status;
  if (plan.checked)
    if (dlk_status status = checkRows(manifest, kernel, args, executable, stream, params))
      return status;
  storeTensors(kernel, args, params);
  for (int32_t part = 0; part < parts; ++part) {
    if (kernel.part())
      std::memcpy(params + kernel.part()->offset, &part, sizeof(part));
    // What is prepared for one part does not depend on the launch of the part before; what is
    // prepared is waited for by the kernel itself.
    if (before.kernel)
      if (dlk_status status = before.executable->launch(params, gridBefore, stream, part > 0))
        return status;
    if (dlk_status status = executable.launch(params, grid, stream, before.kernel != nullptr))
      return status;
  }
  return DLK_OK;
}

/// Loads one kernel of the plan.
static dlk_status prepareMember(const dlk_plan &plan, const Kernel &kernel, uint32_t flags,
                                dlk_plan::Member &member) {
  member.kernel = &kernel;
  return plan.device.type == DLK_DEVICE_CPU
             ? prepareCpu(plan.package, kernel, member.executable)
             : prepareCuda(plan.package, kernel, plan.device.id, flags, member.executable);
}

/// Loads the kernel that the plan is of, its variants, and what is launched before them.
static dlk_status prepareMembers(dlk_plan &plan, const Kernel &kernel, uint32_t flags) {
  const std::vector<Kernel> &all = plan.package->manifest().kernels;
  std::vector<const Kernel *> kernels{&kernel};
  for (int32_t variant : kernel.variants)
    kernels.push_back(&all[variant]);
  for (const Kernel *member : kernels) {
    plan.members.emplace_back();
    if (dlk_status status = prepareMember(plan, *member, flags, plan.members.back()))
      return status;
  }
  if (kernel.preparation < 0)
    return DLK_OK;
  // It is launched early only if it waits by itself. A kernel behind it that is launched early
  // waits for it as for any other.
  const Kernel &before = all[kernel.preparation];
  if (!before.pdl)
    flags &= ~uint32_t(DLK_PLAN_PDL);
  return prepareMember(plan, before, flags, plan.preparation);
}

dlk_status dlk_prepare(const dlk_kernel *handle, dlk_device device, uint32_t flags,
                       dlk_plan **plan) {
  if (!plan)
    return fail(DLK_INVALID_ARGUMENT, "dlk_prepare: plan is NULL");
  *plan = nullptr;
  if (!handle)
    return fail(DLK_INVALID_ARGUMENT, "dlk_prepare: kernel is NULL");
  if (flags & ~uint32_t(DLK_PLAN_CHECKED | DLK_PLAN_NO_PTX | DLK_PLAN_PDL))
    return fail(DLK_INVALID_ARGUMENT, "dlk_prepare: unknown flags 0x%x", flags);
  return guarded([&]() -> dlk_status {
    const Kernel &kernel = *handle->kernel;
    if (dlk_status status = checkDevice(device))
      return status;
    bool isCpu = device.type == DLK_DEVICE_CPU;
    if ((flags & DLK_PLAN_CHECKED) && handle->package->manifest().rowSymbol < 0)
      return fail(DLK_UNSUPPORTED,
                  "kernel '%s': DLK_PLAN_CHECKED: expected a package with rows N, got one without",
                  kernel.name.c_str());
    if ((flags & DLK_PLAN_PDL) && isCpu)
      return fail(DLK_UNSUPPORTED,
                  "kernel '%s': DLK_PLAN_PDL: expected a CUDA device of sm_90 or newer, got cpu",
                  kernel.name.c_str());
    int rank;
    if (dlk_status status = rankForDevice(kernel, device, rank))
      return status;
    auto fresh = std::make_unique<dlk_plan>(
        dlk_plan{handle->package, device, (flags & DLK_PLAN_CHECKED) != 0, {}, {}});
    if (dlk_status status = prepareMembers(*fresh, kernel, flags))
      return status;
    *plan = fresh.release();
    return DLK_OK;
  });
}

void dlk_plan_release(dlk_plan *plan) { delete plan; }

dlk_status dlk_launch(const dlk_plan *plan, const dlk_tensor *args, int32_t num_args,
                      const dlk_scalar *scalars, int32_t num_scalars, void *stream) {
  if (!plan)
    return fail(DLK_INVALID_ARGUMENT, "dlk_launch: plan is NULL");
  return guarded([&] { return launch(*plan, args, num_args, scalars, num_scalars, stream); });
}
