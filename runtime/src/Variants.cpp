//===- Variants.cpp - Kernels for launches of certain sizes ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A variant ("variant_of") stands in for another kernel of the package where its condition on the
// sizes ("when") holds. The launch checks arguments and fills in parameters by the usual kernel, so
// both take the same.
//
//===----------------------------------------------------------------------===//

#include "Variants.h"

#include <nlohmann/json.hpp>

using namespace dl::runtime;
using nlohmann::json;

/// The arguments but for their alignment, of which a variant may need less.
static json withoutAlignment(json args) {
  for (json &arg : args)
    arg.erase("align");
  return args;
}

/// Both have been read, so members are there and have the right types.
static bool takesTheSame(const json &variant, const json &usual) {
  return variant["args"].size() == usual["args"].size() &&
         withoutAlignment(variant["args"]) == withoutAlignment(usual["args"]) &&
         variant["scalars"] == usual["scalars"] && variant["param_bytes"] == usual["param_bytes"] &&
         variant.value("requires", json()) == usual.value("requires", json()) &&
         variant.value("pdl", false) == usual.value("pdl", false);
}

static bool needsNoMoreAlignment(const Kernel &variant, const Kernel &usual) {
  for (size_t i = 0; i < usual.args.size(); ++i)
    if (variant.args[i].align > usual.args[i].align)
      return false;
  return true;
}

void dl::runtime::linkVariants(const JsonReader &kernels, Manifest &manifest) {
  for (size_t i = 0; i < manifest.kernels.size(); ++i) {
    const Kernel &variant = manifest.kernels[i];
    if (variant.variantOf.empty())
      continue;
    JsonReader reader = kernels[i].at("variant_of");
    size_t usual = 0;
    auto isUsual = [&](const Kernel &kernel) {
      return kernel.variantOf.empty() && kernel.name == variant.variantOf &&
             kernel.target == variant.target && kernel.format == variant.format;
    };
    while (usual < manifest.kernels.size() && !isUsual(manifest.kernels[usual]))
      ++usual;
    if (usual == manifest.kernels.size())
      return reader.fail("expected the name of another kernel for " + variant.target +
                         " that is no variant, got '" + variant.variantOf + "'");
    if (!takesTheSame(*kernels[i].raw(), *kernels[usual].raw()) ||
        !needsNoMoreAlignment(variant, manifest.kernels[usual]))
      return reader.fail("expected a kernel with the same arguments, scalars and requirements, '" +
                         variant.variantOf + "' has others");
    manifest.kernels[usual].variants.push_back(static_cast<int32_t>(i));
  }
}

bool dl::runtime::holds(const std::vector<Requirement> &conditions, const SymbolValues &sizes) {
  for (const Requirement &condition : conditions) {
    int64_t value = 0;
    const char *reason;
    if (!condition.expression.evaluate(sizes, value, reason) || value < condition.low ||
        value > condition.high)
      return false;
  }
  return true;
}
