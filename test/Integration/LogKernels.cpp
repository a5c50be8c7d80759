//===- LogKernels.cpp - The kernels of a log in packages ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/LogKernels.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>

namespace dl::test {

static std::vector<LogKernels> found;
const std::vector<LogKernels> &allLogKernels() { return found; }

const LogKernels *findLogKernels(const std::string &op, const std::string &part, int64_t K,
                                 int64_t V) {
  for (const LogKernels &kernels : found)
    if (kernels.op.name == op && kernels.package.find(part) != std::string::npos &&
        (K == 0 || kernels.K == K) && (V == 0 || kernels.V == V))
      return &kernels;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// A kernel of a package
//===----------------------------------------------------------------------===//

namespace {
class PackageKernel : public LogKernel {
public:
  explicit PackageKernel(const dlk_kernel *kernel) : kernel(kernel) {
    dlk_kernel_info info;
    EXPECT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
    name = info.name;
    kind = info.kind;
    for (int32_t i = 0; i < info.num_args; ++i)
      addArgument(i);
    for (int32_t i = 0; i < info.num_scalars; ++i) {
      dlk_scalar_info scalar;
      EXPECT_EQ(dlk_kernel_get_scalar(kernel, i, &scalar), DLK_OK);
      scalars.emplace_back(scalar.name);
    }
  }
  ~PackageKernel() override {
    for (auto &[flags, plan] : plans)
      dlk_plan_release(plan);
  }

  std::vector<int64_t> shapeOf(size_t argument,
                               const std::map<std::string, int64_t> &sizes) const override {
    std::vector<dlk_size> given;
    for (const std::string &symbol : symbols)
      if (auto size = sizes.find(symbol); size != sizes.end())
        given.push_back({symbol.c_str(), size->second});
    int64_t shape[DLK_MAX_RANK] = {};
    EXPECT_EQ(dlk_arg_shape(kernel, static_cast<int32_t>(argument), given.data(),
                            static_cast<int32_t>(given.size()), shape),
              DLK_OK)
        << name << ": " << dlk_last_error();
    return {shape, shape + arguments[argument].dims.size()};
  }

  LaunchStatus launch(const std::vector<dlk_tensor> &views, const std::vector<dlk_scalar> &values,
                      uint32_t flags) const override {
    dlk_plan *&plan = plans[flags];
    if (!plan)
      if (dlk_status status = dlk_prepare(kernel, Device::get().handle, flags, &plan))
        return {status, dlk_last_error()};
    const dlk_status status =
        dlk_launch(plan, views.data(), static_cast<int32_t>(views.size()), values.data(),
                   static_cast<int32_t>(values.size()), nullptr);
    if (status != DLK_OK)
      return {status, dlk_last_error()};
    if (Device::get().driver && Device::get().driver->ctxSynchronize() != 0)
      return {DLK_DEVICE_ERROR, name + " failed"};
    return {};
  }

private:
  void addArgument(int32_t index) {
    dlk_arg_info info;
    EXPECT_EQ(dlk_kernel_get_arg(kernel, index, &info), DLK_OK) << dlk_last_error();
    KernelArgument argument;
    argument.name = info.name;
    argument.role = dlk_role_name(info.role);
    argument.dtype = info.dtype;
    argument.align = info.align;
    argument.isNullable = info.nullable;
    argument.isWritten = info.written;
    static const std::regex symbol("[A-Za-z_][A-Za-z_0-9]*");
    for (int32_t i = 0; i < info.rank; ++i) {
      const std::string dim = info.shape[i];
      argument.dims.push_back(dim);
      argument.strides.push_back(info.stride[i]);
      for (std::sregex_iterator it(dim.begin(), dim.end(), symbol), end; it != end; ++it)
        symbols.insert(it->str());
    }
    arguments.push_back(argument);
  }

  const dlk_kernel *kernel;
  std::set<std::string> symbols; ///< of sizes that shapes depend on
  mutable std::map<uint32_t, dlk_plan *> plans;
};

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

/// Keeps packages and kernels for as long as the program ranges.
struct Store {
  ~Store() {
    kernels.clear();
    for (dlk_package *package : packages)
      dlk_package_close(package);
  }
  std::vector<dlk_package *> packages;
  std::map<const dlk_kernel *, std::unique_ptr<PackageKernel>> kernels;
};
} // namespace

static Store &store() {
  static Store store;
  return store;
}

static const LogKernel *findKernel(const dlk_package *package, const dlk_query &query) {
  const dlk_kernel *kernel = nullptr;
  if (dlk_find(package, &query, Device::get().handle, &kernel) != DLK_OK)
    return nullptr;
  std::unique_ptr<PackageKernel> &stored = store().kernels[kernel];
  if (!stored)
    stored = std::make_unique<PackageKernel>(kernel);
  return stored.get();
}

static dlk_dtype dtypeOf(const std::string &name) {
  for (int i = 0; i <= DLK_U8; ++i)
    if (name == dlk_dtype_name(static_cast<dlk_dtype>(i)))
      return static_cast<dlk_dtype>(i);
  ADD_FAILURE() << "no type " << name;
  return DLK_F32;
}

static void addKernels(const dlk_package *package, const std::string &stem,
                       const dlk_kernel_info &info, std::vector<std::string> &problems) {
  LogKernels kernels;
  kernels.package = stem;
  kernels.op = logOperator(dlk_package_operator(package), stem);
  kernels.K = info.key_dim;
  kernels.V = info.value_dim;
  kernels.layout = info.state_layout;
  kernels.state = dtypeOf(info.state_type);
  kernels.io = dtypeOf(info.io_type);
  kernels.index = dtypeOf(info.index_type);
  kernels.isNarrowLog = std::string(info.name).find(".logbf16") != std::string::npos;
  kernels.title = stem + " " + std::to_string(kernels.K) + "x" + std::to_string(kernels.V) + " " +
                  kernels.layout;
  kernels.limits = {info.window, info.max_tokens, info.ring};

  dlk_query query = {};
  query.key_dim = info.key_dim;
  query.value_dim = info.value_dim;
  query.state_layout = info.state_layout;
  query.state_type = info.state_type;
  query.io_type = info.io_type;
  query.index_type = info.index_type;
  auto find = [&](const char *kind) {
    query.kind = kind;
    const LogKernel *kernel = findKernel(package, query);
    if (!kernel)
      problems.push_back(kernels.title + " has no " + kind + " kernel: " + dlk_last_error());
    return kernel;
  };
  kernels.append = find("append");
  kernels.merge = find("merge");
  kernels.materialize = find("materialize");
  kernels.decode = find("decode");
  query = {};
  query.index_type = info.index_type;
  kernels.plan = find("plan");
  if (kernels.append && kernels.merge && kernels.materialize && kernels.plan)
    found.push_back(kernels);
}

static void openPackage(const std::filesystem::path &path, std::vector<std::string> &problems) {
  dlk_package *package = nullptr;
  if (dlk_package_open_file(path.c_str(), &package) != DLK_OK) {
    problems.push_back(path.string() + ": " + dlk_last_error());
    return;
  }
  store().packages.push_back(package);
  const std::string stem = path.stem().string();
  if (!isKnownOperator(dlk_package_operator(package))) {
    problems.push_back(stem + ": no recurrence for " + dlk_package_operator(package));
    return;
  }
  // A package for other devices than this one is no mistake.
  std::set<std::vector<std::string>> known;
  for (int32_t i = 0; i < dlk_kernel_count(package); ++i) {
    dlk_kernel_info info;
    const dlk_kernel *kernel = dlk_kernel_at(package, i);
    if (dlk_kernel_get_info(kernel, &info) != DLK_OK || std::string(info.kind) != "append" ||
        dlk_supported(kernel, Device::get().handle, nullptr, 0, nullptr, 0) != DLK_OK)
      continue;
    if (known
            .insert({std::to_string(info.key_dim), std::to_string(info.value_dim),
                     info.state_layout, info.state_type, info.io_type, info.index_type})
            .second)
      addKernels(package, stem, info, problems);
  }
}

void openLogKernels(const std::string &folder, std::vector<std::string> &problems) {
  if (folder == "model") {
    found = modelKernels();
    return;
  }
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".dlk")
      paths.push_back(entry.path());
  if (error)
    problems.push_back(folder + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path &path : paths)
    openPackage(path, problems);
}

} // namespace dl::test
