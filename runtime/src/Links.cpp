//===- Links.cpp - Kernels that belong to another one ---------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A variant ("variant_of") stands in for another kernel of the package where its condition on the
// sizes ("when") holds; a kernel that prepares another one ("prepares") is launched before it. The
// launch checks arguments and fills in parameters once, by the kernel that they belong to, so both
// take the same.
//
//===----------------------------------------------------------------------===//

#include "Links.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dl::runtime;
using nlohmann::json;

/// The arguments but for their alignment, of which kernels that belong together may need more or
/// less.
static json withoutAlignment(json args) {
  for (json &arg : args)
    arg.erase("align");
  return args;
}

/// A member that may be absent.
static json optional(const json &kernel, const char *key) { return kernel.value(key, json()); }

/// Both have been read, so members that must be there are, and have the right types.
static bool takesTheSame(const json &kernel, const json &main) {
  return kernel["args"].size() == main["args"].size() &&
         withoutAlignment(kernel["args"]) == withoutAlignment(main["args"]) &&
         optional(kernel, "scalars") == optional(main, "scalars") &&
         kernel["param_bytes"] == main["param_bytes"];
}

static bool needsNoMoreAlignment(const Kernel &kernel, const Kernel &main) {
  for (size_t i = 0; i < main.args.size(); ++i)
    if (kernel.args[i].align > main.args[i].align)
      return false;
  return true;
}

/// The kernel `name` that kernel `index` belongs to: of its target and format, and belonging to
/// none itself. `reader` stands at the member that names it. -1 if it failed.
static int32_t findMain(const JsonReader &kernels, const Manifest &manifest, size_t index,
                        const JsonReader &reader, const std::string &name) {
  const Kernel &kernel = manifest.kernels[index];
  auto isMain = [&](const Kernel &other) {
    return other.standsAlone() && other.name == name && other.target == kernel.target &&
           other.format == kernel.format;
  };
  size_t main = 0;
  while (main < manifest.kernels.size() && !isMain(manifest.kernels[main]))
    ++main;
  if (main == manifest.kernels.size()) {
    reader.fail("expected the name of another kernel for " + kernel.target +
                " that is no variant and prepares none, got '" + name + "'");
    return -1;
  }
  const json &own = *kernels[index].raw(), &other = *kernels[main].raw();
  // A variant runs wherever its kernel does, and is launched in the same way.
  const bool isVariant = !kernel.variantOf.empty();
  const bool asksTheSame = optional(own, "requires") == optional(other, "requires") &&
                           kernel.pdl == manifest.kernels[main].pdl;
  if (takesTheSame(own, other) &&
      (!isVariant || (asksTheSame && needsNoMoreAlignment(kernel, manifest.kernels[main]))))
    return static_cast<int32_t>(main);
  reader.fail(std::string("expected a kernel with the same ") +
              (isVariant ? "arguments, scalars and requirements" : "arguments and scalars") +
              ", '" + name + "' has others");
  return -1;
}

static void linkVariant(const JsonReader &kernels, Manifest &manifest, size_t index) {
  const std::string &name = manifest.kernels[index].variantOf;
  const int32_t usual = findMain(kernels, manifest, index, kernels[index].at("variant_of"), name);
  if (usual >= 0)
    manifest.kernels[usual].variants.push_back(static_cast<int32_t>(index));
}

/// What is prepared for a kernel is prepared for its variants, which must be known.
static void linkPreparation(const JsonReader &kernels, Manifest &manifest, size_t index) {
  JsonReader reader = kernels[index].at("prepares");
  const std::string &name = manifest.kernels[index].prepares;
  if (!manifest.kernels[index].variantOf.empty())
    return reader.fail("expected a kernel that is no variant to prepare '" + name + "'");
  const int32_t main = findMain(kernels, manifest, index, reader, name);
  if (main < 0)
    return;
  Kernel &prepared = manifest.kernels[main];
  if (prepared.preparation >= 0)
    return reader.fail("expected one kernel that prepares '" + name + "', got another besides '" +
                       manifest.kernels[prepared.preparation].name + "'");
  prepared.preparation = static_cast<int32_t>(index);
  // Each of the two reads arguments that the other one does not look at.
  for (size_t i = 0; i < prepared.args.size(); ++i)
    prepared.args[i].align =
        std::max(prepared.args[i].align, manifest.kernels[index].args[i].align);
  for (int32_t variant : prepared.variants)
    manifest.kernels[variant].preparation = prepared.preparation;
}

void dl::runtime::linkKernels(const JsonReader &kernels, Manifest &manifest) {
  for (size_t i = 0; i < manifest.kernels.size() && !kernels.failed(); ++i)
    if (!manifest.kernels[i].variantOf.empty())
      linkVariant(kernels, manifest, i);
  for (size_t i = 0; i < manifest.kernels.size() && !kernels.failed(); ++i)
    if (!manifest.kernels[i].prepares.empty())
      linkPreparation(kernels, manifest, i);
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
