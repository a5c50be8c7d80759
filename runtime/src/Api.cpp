//===- Api.cpp - The C API: packages, kernels, selection ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Code.h"
#include "Sizes.h"
#include "Status.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace dl::runtime;

const char *dlk_last_error(void) { return lastError(); }

const char *dlk_status_name(dlk_status status) {
  static constexpr const char *names[] = {"ok",           "invalid argument", "i/o error",
                                          "bad package",  "not found",        "unsupported",
                                          "device error", "out of memory"};
  size_t index = static_cast<size_t>(status);
  return index < sizeof(names) / sizeof(*names) ? names[index] : "unknown status";
}

const char *dlk_runtime_version(void) { return DLK_RUNTIME_VERSION; }
uint32_t dlk_format_version(void) { return DLK_FORMAT_VERSION; }

dlk_status dlk_device_parse(const char *text, dlk_device *device) {
  if (!text || !device)
    return fail(DLK_INVALID_ARGUMENT, "dlk_device_parse: text or device is NULL");
  if (std::strcmp(text, "cpu") == 0) {
    *device = {DLK_DEVICE_CPU, 0};
    return DLK_OK;
  }
  int id = 0, end = 0;
  bool isCuda = std::strcmp(text, "cuda") == 0;
  if (!isCuda && std::strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' && text[5] <= '9')
    isCuda = std::sscanf(text + 5, "%4d%n", &id, &end) == 1 && text[5 + end] == 0;
  if (!isCuda)
    return fail(DLK_INVALID_ARGUMENT, "device: expected cpu or cuda:N, got '%s'", text);
  *device = {DLK_DEVICE_CUDA, id};
  return DLK_OK;
}

namespace {
struct DTypeFacts {
  const char *name;
  dlk_data_type type;
};
} // namespace

static constexpr DTypeFacts dtypes[] = {
#define X(NAME, TEXT, CODE, BITS) {TEXT, {CODE, BITS, 1}},
    DLK_FOR_EACH_DTYPE(X)
#undef X
};

static const DTypeFacts &factsOf(dlk_dtype dtype) {
  size_t index = static_cast<size_t>(dtype);
  static constexpr DTypeFacts unknown = {"unknown", {0, 0, 0}};
  return index < sizeof(dtypes) / sizeof(*dtypes) ? dtypes[index] : unknown;
}

dlk_data_type dlk_dtype_data_type(dlk_dtype dtype) { return factsOf(dtype).type; }
const char *dlk_dtype_name(dlk_dtype dtype) { return factsOf(dtype).name; }
uint32_t dlk_dtype_bytes(dlk_dtype dtype) { return factsOf(dtype).type.bits / 8u; }

const char *dlk_role_name(dlk_role role) {
  static constexpr const char *names[] = {
#define X(NAME, TEXT) TEXT,
      DLK_FOR_EACH_ROLE(X)
#undef X
  };
  size_t index = static_cast<size_t>(role);
  return index < sizeof(names) / sizeof(*names) ? names[index] : "unknown";
}

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

static dlk_status open(std::vector<char> bytes, dlk_package **result) {
  auto handle = std::make_unique<dlk_package>();
  if (dlk_status status = Package::create(std::move(bytes), handle->package))
    return status;
  const Manifest &manifest = handle->package->manifest();
  for (const Kernel &kernel : manifest.kernels) {
    dlk_kernel entry;
    entry.package = handle->package;
    entry.kernel = &kernel;
    handle->kernels.push_back(std::move(entry));
  }
  *result = handle.release();
  return DLK_OK;
}

dlk_status dlk_package_open_file(const char *path, dlk_package **package) {
  if (!package)
    return fail(DLK_INVALID_ARGUMENT, "dlk_package_open_file: package is NULL");
  *package = nullptr;
  if (!path)
    return fail(DLK_INVALID_ARGUMENT, "dlk_package_open_file: path is NULL");
  return guarded([&]() -> dlk_status {
    std::vector<char> bytes;
    if (dlk_status status = Package::readFile(path, bytes))
      return status;
    return open(std::move(bytes), package);
  });
}

dlk_status dlk_package_open_memory(const void *data, size_t bytes, dlk_package **package) {
  if (!package)
    return fail(DLK_INVALID_ARGUMENT, "dlk_package_open_memory: package is NULL");
  *package = nullptr;
  if (!data)
    return fail(DLK_INVALID_ARGUMENT, "dlk_package_open_memory: data is NULL");
  return guarded([&] {
    const char *begin = static_cast<const char *>(data);
    return open(std::vector<char>(begin, begin + bytes), package);
  });
}

void dlk_package_close(dlk_package *package) { delete package; }

static const std::string noText;

static const char *give(const std::string &text, size_t *bytes) {
  if (bytes)
    *bytes = text.size();
  return text.c_str();
}

const char *dlk_package_manifest(const dlk_package *package, size_t *bytes) {
  return give(package ? package->package->manifestText() : noText, bytes);
}

const char *dlk_package_operator(const dlk_package *package) {
  return package ? package->package->manifest().operatorName.c_str() : "";
}

const char *dlk_package_spec(const dlk_package *package, size_t *bytes) {
  return give(package ? package->package->specText() : noText, bytes);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

int32_t dlk_kernel_count(const dlk_package *package) {
  return package ? static_cast<int32_t>(package->kernels.size()) : 0;
}

const dlk_kernel *dlk_kernel_at(const dlk_package *package, int32_t index) {
  return index >= 0 && index < dlk_kernel_count(package) ? &package->kernels[index] : nullptr;
}

dlk_status dlk_kernel_get_info(const dlk_kernel *handle, dlk_kernel_info *info) {
  if (!handle || !info)
    return fail(DLK_INVALID_ARGUMENT, "dlk_kernel_get_info: kernel or info is NULL");
  const Kernel &kernel = *handle->kernel;
  *info = {};
  info->name = kernel.name.c_str();
  info->kind = kernel.kind.c_str();
  info->target = kernel.target.c_str();
  info->format = kernel.format;
  info->schedule = kernel.schedule.c_str();
  info->key_dim = kernel.keyDim;
  info->value_dim = kernel.valueDim;
  info->state_layout = kernel.stateLayout.c_str();
  info->state_type = kernel.stateType.c_str();
  info->io_type = kernel.ioType.c_str();
  info->threads = kernel.threads;
  info->shared_bytes = kernel.sharedBytes;
  info->registers = kernel.registers;
  info->spill_bytes = kernel.spillBytes;
  info->num_args = static_cast<int32_t>(kernel.args.size());
  info->num_scalars = static_cast<int32_t>(kernel.callerScalars.size());
  info->pdl = kernel.pdl;
  info->index_type = kernel.indexType.c_str();
  info->variant_of = kernel.variantOf.c_str();
  info->window = kernel.window;
  info->max_tokens = kernel.maxTokens;
  info->ring = kernel.ring;
  info->prepares = kernel.prepares.c_str();
  return DLK_OK;
}

dlk_status dlk_kernel_get_arg(const dlk_kernel *handle, int32_t index, dlk_arg_info *info) {
  if (!handle || !info)
    return fail(DLK_INVALID_ARGUMENT, "dlk_kernel_get_arg: kernel or info is NULL");
  const Kernel &kernel = *handle->kernel;
  if (index < 0 || index >= int32_t(kernel.args.size()))
    return fail(DLK_INVALID_ARGUMENT, "dlk_kernel_get_arg: expected an index below %zu, got %d",
                kernel.args.size(), index);
  const Argument &arg = kernel.args[index];
  *info = {};
  info->name = arg.name.c_str();
  info->role = arg.role;
  info->dtype = arg.dtype;
  info->rank = static_cast<int32_t>(arg.dims.size());
  info->min_rank = arg.minRank;
  info->align = arg.align;
  info->nullable = arg.nullable;
  info->written = arg.written;
  info->read = arg.read;
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    info->shape[i] = arg.dims[i].text.c_str();
    info->stride[i] = arg.dims[i].fixedStride;
  }
  return DLK_OK;
}

dlk_status dlk_kernel_get_scalar(const dlk_kernel *handle, int32_t index, dlk_scalar_info *info) {
  if (!handle || !info)
    return fail(DLK_INVALID_ARGUMENT, "dlk_kernel_get_scalar: kernel or info is NULL");
  const Kernel &kernel = *handle->kernel;
  if (index < 0 || index >= int32_t(kernel.callerScalars.size()))
    return fail(DLK_INVALID_ARGUMENT, "dlk_kernel_get_scalar: expected an index below %zu, got %d",
                kernel.callerScalars.size(), index);
  const Scalar &scalar = kernel.scalars[kernel.callerScalars[index]];
  *info = {scalar.name.c_str(), scalar.dtype, scalar.hasDefault, scalar.defaultValue};
  return DLK_OK;
}

namespace {
/// One condition of a query: what is wanted and what a kernel has, as text.
struct Condition {
  const char *name;
  std::string wanted;
  std::string (*valueOf)(const Kernel &);
};
} // namespace

/// The conditions that the query sets, from the coarsest on.
static std::vector<Condition> conditionsOf(const dlk_query &query) {
  std::vector<Condition> conditions;
  auto add = [&](const char *name, bool isSet, std::string wanted,
                 std::string (*valueOf)(const Kernel &)) {
    if (isSet)
      conditions.push_back({name, std::move(wanted), valueOf});
  };
  auto text = [](const char *wanted) { return std::string(wanted ? wanted : ""); };
  add("name", query.name, text(query.name), [](const Kernel &k) { return k.name; });
  add("kind", query.kind, text(query.kind), [](const Kernel &k) { return k.kind; });
  add("key_dim", query.key_dim, std::to_string(query.key_dim),
      [](const Kernel &k) { return std::to_string(k.keyDim); });
  add("value_dim", query.value_dim, std::to_string(query.value_dim),
      [](const Kernel &k) { return std::to_string(k.valueDim); });
  add("state_layout", query.state_layout, text(query.state_layout),
      [](const Kernel &k) { return k.stateLayout; });
  add("state_type", query.state_type, text(query.state_type),
      [](const Kernel &k) { return k.stateType; });
  add("io_type", query.io_type, text(query.io_type), [](const Kernel &k) { return k.ioType; });
  add("index_type", query.index_type, text(query.index_type),
      [](const Kernel &k) { return k.indexType; });
  add("target", query.target, text(query.target), [](const Kernel &k) { return k.target; });
  add("code", query.no_ptx, "machine code", [](const Kernel &k) {
    return std::string(k.format == DLK_FORMAT_PTX ? "ptx" : "machine code");
  });
  return conditions;
}

/// Adds a value to a list "a, b, c" unless it is there.
static void addToList(std::vector<std::string> &list, const std::string &value) {
  if (std::find(list.begin(), list.end(), value) == list.end())
    list.push_back(value);
}

static std::string join(const std::vector<std::string> &list) {
  std::string text;
  for (const std::string &value : list)
    text += (text.empty() ? "" : ", ") + value;
  return text;
}

static dlk_status find(const dlk_package &package, const dlk_query &query, dlk_device device,
                       const dlk_kernel *&result) {
  const std::vector<Condition> conditions = conditionsOf(query);
  // For the message: the condition at which the best candidates fail, and what they have there.
  size_t furthest = 0;
  std::vector<std::string> available;
  int bestRank = 0;
  for (const dlk_kernel &candidate : package.kernels) {
    const Kernel &kernel = *candidate.kernel;
    if (!kernel.standsAlone() && !query.name)
      continue; // found through the kernel that it belongs to
    size_t met = 0;
    while (met < conditions.size() && conditions[met].wanted == conditions[met].valueOf(kernel))
      ++met;
    if (met > furthest) {
      furthest = met;
      available.clear();
    }
    if (met < conditions.size()) {
      if (met == furthest)
        addToList(available, conditions[met].valueOf(kernel));
      continue;
    }
    addToList(available, kernel.target + (kernel.format == DLK_FORMAT_PTX ? " (ptx)" : ""));
    int rank = 0;
    if (rankForDevice(kernel, device, rank) == DLK_DEVICE_ERROR)
      return DLK_DEVICE_ERROR;
    if (rank > bestRank) {
      bestRank = rank;
      result = &candidate;
    }
  }
  if (result)
    return DLK_OK;
  if (package.kernels.empty())
    return fail(DLK_NOT_FOUND, "the package holds no kernels");
  if (furthest < conditions.size())
    return fail(DLK_NOT_FOUND, "no such kernel: expected the %s to be one of %s, got %s",
                conditions[furthest].name, join(available).c_str(),
                conditions[furthest].wanted.c_str());
  std::string given = device.type == DLK_DEVICE_CPU ? "cpu" : "cuda:" + std::to_string(device.id);
  return fail(DLK_NOT_FOUND, "no such kernel: expected a device for one of %s, got %s",
              join(available).c_str(), given.c_str());
}

dlk_status dlk_find(const dlk_package *package, const dlk_query *query, dlk_device device,
                    const dlk_kernel **kernel) {
  if (!package || !query || !kernel)
    return fail(DLK_INVALID_ARGUMENT, "dlk_find: package, query or kernel is NULL");
  *kernel = nullptr;
  if (dlk_status status = checkDevice(device))
    return status;
  return guarded([&] { return find(*package, *query, device, *kernel); });
}

dlk_status dlk_supported(const dlk_kernel *kernel, dlk_device device, const dlk_size *sizes,
                         int32_t num_sizes, char *reason, size_t reason_bytes) {
  if (!kernel)
    return fail(DLK_INVALID_ARGUMENT, "dlk_supported: kernel is NULL");
  dlk_status status = guarded([&]() -> dlk_status {
    if (dlk_status status = checkDevice(device))
      return status;
    int rank;
    if (dlk_status status = rankForDevice(*kernel->kernel, device, rank))
      return status;
    if (num_sizes == 0)
      return DLK_OK;
    const Manifest &manifest = kernel->package->manifest();
    SymbolValues values;
    if (dlk_status status = bindSizes(manifest, sizes, num_sizes, values))
      return status;
    uint32_t grid[3];
    if (dlk_status status = checkSizes(manifest, *kernel->kernel, device, values, grid))
      return status;
    const int32_t before = kernel->kernel->preparation;
    return before < 0 ? DLK_OK
                      : checkSizes(manifest, manifest.kernels[before], device, values, grid);
  });
  if (reason && reason_bytes > 0)
    std::snprintf(reason, reason_bytes, "%s", status == DLK_OK ? "" : lastError());
  return status;
}
