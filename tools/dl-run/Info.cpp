//===- Info.cpp - dl-run info ---------------------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include <cstdio>
#include <iostream>

using namespace dl::run;

static const char *formatName(dlk_format format) {
  static constexpr const char *names[] = {
#define X(NAME, TEXT) TEXT,
      DLK_FOR_EACH_FORMAT(X)
#undef X
  };
  return names[format];
}

/// "q[B,T,HQ,128] bf16, ..."
static std::string describeArgs(const KernelEntry &kernel) {
  std::string text;
  for (const dlk_arg_info &arg : kernel.args) {
    text += (text.empty() ? "" : ", ") + std::string(arg.name) + "[";
    for (int32_t i = 0; i < arg.rank; ++i)
      text += (i ? "," : "") + std::string(arg.shape[i]);
    text += std::string("] ") + dlk_dtype_name(arg.dtype);
    if (arg.written)
      text += arg.read ? " in out" : " out";
    if (arg.nullable)
      text += " or null";
  }
  for (const dlk_scalar_info &scalar : kernel.scalars) {
    text += std::string(text.empty() ? "" : ", ") + scalar.name;
    if (scalar.has_default)
      text += format(" = %g", scalar.default_value);
  }
  return text;
}

int dl::run::runInfo(const Options &options) {
  Session session(options);
  std::vector<KernelEntry> kernels = session.kernels(/*runnable=*/false);
  if (options.json) {
    std::cout << session.manifest.dump(2) << '\n';
    return 0;
  }
  std::printf("operator %s", dlk_package_operator(session.package));
  const nlohmann::json settings = session.manifest.value("options", nlohmann::json::object());
  for (const auto &[name, value] : settings.items())
    std::printf("  %s=%s", name.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  std::printf("\n\n");
  Table table;
  table.row({"kernel", "kind", "target", "code", "K x V", "state", "i/o", "schedule", "threads",
             "shared", "registers", "spills"});
  for (const KernelEntry &kernel : kernels) {
    const dlk_kernel_info &info = kernel.info;
    bool isHost = info.format == DLK_FORMAT_SO;
    auto count = [&](uint32_t value) { return isHost ? "-" : std::to_string(value); };
    table.row({info.name, info.kind, info.target, formatName(info.format),
               format("%lld x %lld", (long long)info.key_dim, (long long)info.value_dim),
               std::string(info.state_type) + " " + info.state_layout, info.io_type, info.schedule,
               count(info.threads), count(info.shared_bytes), count(info.registers),
               count(info.spill_bytes)});
  }
  table.print();
  // Kernels of one kind mostly take the same arguments: say so once.
  std::string last;
  for (const KernelEntry &kernel : kernels) {
    std::string args = describeArgs(kernel);
    if (args != last)
      std::printf("\narguments from %s on:\n  %s\n", kernel.info.name, args.c_str());
    last = args;
  }
  return 0;
}
