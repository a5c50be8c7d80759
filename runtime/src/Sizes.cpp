//===- Sizes.cpp - Run-time sizes: requirements, grid, shapes -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sizes.h"
#include "Package.h"
#include "Status.h"

#include <algorithm>
#include <cinttypes>
#include <string>

using namespace dl::runtime;

dlk_status dl::runtime::checkDevice(dlk_device device) {
  if (device.type != DLK_DEVICE_CPU && device.type != DLK_DEVICE_CUDA)
    return fail(DLK_INVALID_ARGUMENT, "device type: expected %d (cpu) or %d (cuda), got %d",
                DLK_DEVICE_CPU, DLK_DEVICE_CUDA, device.type);
  return DLK_OK;
}

void dl::runtime::applyDefaults(const Manifest &manifest, SymbolValues &values) {
  for (size_t i = 0; i < manifest.symbolRules.size(); ++i) {
    const Expression &value = manifest.symbolRules[i].defaultValue;
    const char *reason;
    if (!values.bound[i] && !value.postfix().empty())
      values.bound[i] = value.evaluate(values, values.value[i], reason);
  }
}

dlk_status dl::runtime::bindSizes(const Manifest &manifest, const dlk_size *sizes, int32_t count,
                                  SymbolValues &values) {
  if (count < 0 || (count > 0 && !sizes))
    return fail(DLK_INVALID_ARGUMENT, "sizes: expected %d entries, got NULL", count);
  for (int32_t i = 0; i < count; ++i) {
    const char *name = sizes[i].symbol ? sizes[i].symbol : "";
    auto it = std::find(manifest.symbols.begin(), manifest.symbols.end(), name);
    if (it == manifest.symbols.end())
      return fail(DLK_INVALID_ARGUMENT, "size '%s': the package has no such symbol", name);
    size_t index = it - manifest.symbols.begin();
    if (values.bound[index])
      return fail(DLK_INVALID_ARGUMENT, "size '%s': given twice", name);
    values.bound[index] = true;
    values.value[index] = sizes[i].value;
  }
  applyDefaults(manifest, values);
  for (size_t i = 0; i < manifest.symbols.size(); ++i)
    if (int64_t minimum = manifest.symbolRules[i].minimum;
        values.bound[i] && values.value[i] < minimum)
      return fail(DLK_INVALID_ARGUMENT, "size '%s': expected %" PRId64 " or more, got %" PRId64,
                  manifest.symbols[i].c_str(), minimum, values.value[i]);
  return DLK_OK;
}

/// "B = 4, HQ = 2": the sizes of an expression, for messages.
static std::string describeSizes(const Manifest &manifest, const Expression &expression,
                                 const SymbolValues &values) {
  std::string text;
  bool seen[DLK_MAX_SYMBOLS] = {};
  for (const Expression::Node &node : expression.postfix()) {
    if (node.op != Expression::Op::Symbol || seen[node.value])
      continue;
    seen[node.value] = true;
    text += (text.empty() ? "" : ", ") + manifest.symbols[node.value];
    text +=
        values.bound[node.value] ? " = " + std::to_string(values.value[node.value]) : " missing";
  }
  return text;
}

dlk_status dl::runtime::checkSizes(const Manifest &manifest, const Kernel &kernel,
                                   dlk_device device, const SymbolValues &values,
                                   uint32_t grid[3]) {
  // Messages are made only when needed: a launch comes by here.
  const char *name = kernel.name.c_str(), *reason = "";
  auto sizesOf = [&](const Expression &expression) {
    return describeSizes(manifest, expression, values);
  };
  for (const Requirement &requirement : kernel.requirements) {
    int64_t value = 0;
    if (!requirement.expression.evaluate(values, value, reason))
      return fail(DLK_UNSUPPORTED, "kernel '%s': %s: %s (%s)", name, requirement.message.c_str(),
                  reason, sizesOf(requirement.expression).c_str());
    if (value < requirement.low || value > requirement.high)
      return fail(DLK_UNSUPPORTED, "kernel '%s': %s, got %s", name, requirement.message.c_str(),
                  sizesOf(requirement.expression).c_str());
  }
  if (manifest.rowSymbol >= 0 && values.bound[manifest.rowSymbol] &&
      values.value[manifest.rowSymbol] == 0)
    return DLK_OK; // no grid: nothing is launched
  const bool isCuda = device.type == DLK_DEVICE_CUDA;
  for (int i = 0; i < 3; ++i) {
    const int64_t limit = isCuda && i > 0 ? 65535 : INT32_MAX;
    int64_t blocks = 0;
    if (!kernel.grid[i].evaluate(values, blocks, reason))
      return fail(DLK_UNSUPPORTED, "kernel '%s': grid %c: %s (%s)", name, "xyz"[i], reason,
                  sizesOf(kernel.grid[i]).c_str());
    if (blocks < 1 || blocks > limit)
      return fail(DLK_UNSUPPORTED,
                  "kernel '%s': grid %c: expected 1 to %" PRId64 " blocks, got %" PRId64 " (%s)",
                  name, "xyz"[i], limit, blocks, sizesOf(kernel.grid[i]).c_str());
    grid[i] = static_cast<uint32_t>(blocks);
  }
  return DLK_OK;
}

static dlk_status shapeOf(const Argument &arg, const SymbolValues &values,
                          int64_t shape[DLK_MAX_RANK]) {
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    const char *reason;
    if (!arg.dims[i].size.evaluate(values, shape[i], reason))
      return fail(DLK_INVALID_ARGUMENT, "argument %s dimension %zu: %s: %s", arg.label.c_str(), i,
                  arg.dims[i].text.c_str(), reason);
    if (shape[i] < 0)
      return fail(DLK_UNSUPPORTED, "argument %s dimension %zu: %s is %" PRId64, arg.label.c_str(),
                  i, arg.dims[i].text.c_str(), shape[i]);
  }
  return DLK_OK;
}

dlk_status dlk_arg_shape(const dlk_kernel *kernel, int32_t index, const dlk_size *sizes,
                         int32_t num_sizes, int64_t shape[DLK_MAX_RANK]) {
  if (!kernel || !shape)
    return fail(DLK_INVALID_ARGUMENT, "dlk_arg_shape: kernel or shape is NULL");
  if (index < 0 || index >= int32_t(kernel->kernel->args.size()))
    return fail(DLK_INVALID_ARGUMENT, "dlk_arg_shape: expected an index below %zu, got %d",
                kernel->kernel->args.size(), index);
  return guarded([&]() -> dlk_status {
    SymbolValues values;
    if (dlk_status status = bindSizes(kernel->package->manifest(), sizes, num_sizes, values))
      return status;
    return shapeOf(kernel->kernel->args[index], values, shape);
  });
}

dlk_status dlk_workspace_bytes(const dlk_kernel *kernel, const dlk_size *sizes, int32_t num_sizes,
                               uint64_t *bytes) {
  if (!kernel || !bytes)
    return fail(DLK_INVALID_ARGUMENT, "dlk_workspace_bytes: kernel or bytes is NULL");
  return guarded([&]() -> dlk_status {
    SymbolValues values;
    if (dlk_status status = bindSizes(kernel->package->manifest(), sizes, num_sizes, values))
      return status;
    int64_t total = 0;
    for (const Argument &arg : kernel->kernel->args) {
      if (arg.role != DLK_ROLE_WORKSPACE)
        continue;
      int64_t shape[DLK_MAX_RANK];
      if (dlk_status status = shapeOf(arg, values, shape))
        return status;
      int64_t size = dlk_dtype_bytes(arg.dtype);
      bool overflows = false;
      for (size_t i = 0; i < arg.dims.size(); ++i)
        overflows |= __builtin_mul_overflow(size, shape[i], &size);
      overflows |= __builtin_add_overflow(total, size, &total);
      if (overflows)
        return fail(DLK_UNSUPPORTED, "argument %s: the workspace exceeds 64 bits",
                    arg.label.c_str());
    }
    *bytes = static_cast<uint64_t>(total);
    return DLK_OK;
  });
}
