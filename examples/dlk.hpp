//===- dlk.hpp - The C API with owners, views and exceptions --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// C++17, header only, over dl/dlk.h: copy it into an engine and change it there. Packages and plans
// close themselves, arguments are given by name, a failure is an exception with the runtime's line.
// What runs at every step, Plan::launch, allocates nothing.
//
//===----------------------------------------------------------------------===//
#ifndef DL_EXAMPLES_DLK_HPP
#define DL_EXAMPLES_DLK_HPP

#include "dl/dlk.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dlk {

/// what() is one line: the argument, what was expected, what was given.
class Error : public std::runtime_error {
public:
  Error(dlk_status status, const std::string &message)
      : std::runtime_error(message), status(status) {}
  dlk_status status;
};

inline void check(dlk_status status) {
  if (status != DLK_OK)
    throw Error(status, dlk_last_error());
}

inline dlk_device parseDevice(const std::string &text) {
  dlk_device device;
  check(dlk_device_parse(text.c_str(), &device));
  return device;
}

/// Device memory as a kernel shall see it: address, type, shape, and strides in elements (none:
/// contiguous). Owns nothing. Without an address it stands for an argument that is left out.
class View {
public:
  View() = default;
  View(void *data, dlk_dtype dtype, std::initializer_list<int64_t> sizes,
       std::initializer_list<int64_t> steps = {})
      : data(data), dtype(dtype), rank(static_cast<int32_t>(sizes.size())),
        hasStrides(steps.size() != 0) {
    if (sizes.size() > DLK_MAX_RANK || (hasStrides && steps.size() != sizes.size()))
      throw Error(DLK_INVALID_ARGUMENT, "a view: expected at most 8 sizes and as many strides");
    std::copy(sizes.begin(), sizes.end(), shape.begin());
    std::copy(steps.begin(), steps.end(), strides.begin());
  }

  /// Points into this view.
  dlk_tensor tensor(dlk_device device) const {
    return {data,
            device,
            rank,
            dlk_dtype_data_type(dtype),
            shape.data(),
            hasStrides ? strides.data() : nullptr,
            0};
  }

private:
  void *data = nullptr;
  dlk_dtype dtype = DLK_F32;
  int32_t rank = 0;
  bool hasStrides = false;
  std::array<int64_t, DLK_MAX_RANK> shape{}, strides{};
};

class Package {
public:
  explicit Package(const std::string &path) {
    dlk_package *opened = nullptr;
    check(dlk_package_open_file(path.c_str(), &opened));
    package.reset(opened);
  }

  /// The kernel belongs to the package.
  const dlk_kernel *find(const dlk_query &query, dlk_device device) const {
    const dlk_kernel *kernel = nullptr;
    check(dlk_find(package.get(), &query, device, &kernel));
    return kernel;
  }

private:
  struct Close {
    void operator()(dlk_package *package) const { dlk_package_close(package); }
  };
  std::unique_ptr<dlk_package, Close> package;
};

class Arguments;

/// A kernel, loaded on a device. May outlive its package.
class Plan {
public:
  Plan(const dlk_kernel *kernel, dlk_device device, uint32_t flags = 0) : where(device) {
    dlk_plan *prepared = nullptr;
    check(dlk_prepare(kernel, device, flags, &prepared));
    plan.reset(prepared);
    dlk_kernel_info info;
    check(dlk_kernel_get_info(kernel, &info));
    for (int32_t i = 0; i < info.num_args; ++i) {
      dlk_arg_info arg;
      check(dlk_kernel_get_arg(kernel, i, &arg));
      names.emplace_back(arg.name);
    }
  }

  /// On a CUstream; on the CPU at once.
  inline void launch(const Arguments &arguments, void *stream = nullptr) const;

  dlk_device device() const { return where; }
  const std::vector<std::string> &arguments() const { return names; }

private:
  struct Release {
    void operator()(dlk_plan *plan) const { dlk_plan_release(plan); }
  };
  std::unique_ptr<dlk_plan, Release> plan;
  dlk_device where;
  std::vector<std::string> names;
};

/// What one launch of a plan works on; an engine makes one per layer when it starts. Arguments that
/// are not set are left out, which only nullable ones may be.
class Arguments {
public:
  explicit Arguments(const Plan &plan) : names(plan.arguments()), views(names.size()) {}

  /// A state has the same name where it is read and where it is written: a pool given by that name
  /// is updated in place.
  Arguments &set(const std::string &name, const View &view) {
    bool known = false;
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) {
        views[i] = view;
        known = true;
      }
    if (!known)
      throw Error(DLK_INVALID_ARGUMENT, "the kernel has no argument '" + name + "'");
    return *this;
  }

  /// Scalars that are not set take their defaults. `name` is not copied: a literal, usually.
  Arguments &scalar(const char *name, double value) {
    scalars.push_back({name, value});
    return *this;
  }

private:
  friend class Plan;
  std::vector<std::string> names;
  std::vector<View> views;
  std::vector<dlk_scalar> scalars;
};

inline void Plan::launch(const Arguments &arguments, void *stream) const {
  std::array<dlk_tensor, DLK_MAX_ARGS> tensors;
  for (size_t i = 0; i < arguments.views.size(); ++i)
    tensors[i] = arguments.views[i].tensor(where);
  check(dlk_launch(plan.get(), tensors.data(), static_cast<int32_t>(arguments.views.size()),
                   arguments.scalars.data(), static_cast<int32_t>(arguments.scalars.size()),
                   stream));
}

} // namespace dlk

#endif // DL_EXAMPLES_DLK_HPP
