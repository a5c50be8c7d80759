//===- main.cpp - dl-run: look at, check and time a package ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include <CLI/CLI.hpp>

#include <iostream>

using namespace dl::run;

static void addCommon(CLI::App &command, Options &options) {
  command.add_option("PKG", options.package, "The package, a .dlk file")->required();
  command
      .add_option("--kernel", options.kernel,
                  "Only kernels whose name and target (\"NAME sm_80 ptx\") contain this text")
      ->type_name("TEXT");
  command.add_flag("--json", options.json, "Print JSON with full numbers instead of a table");
}

static void addRunning(CLI::App &command, Options &options) {
  command
      .add_option("--device", options.device,
                  "cpu or cuda:N (default: cuda:0 if there is one, else cpu)")
      ->type_name("DEVICE");
  command
      .add_option("--shape", options.shape,
                  "Run-time sizes, e.g. B=1+64,T=1,HQ=16,HV=32: B rows, T tokens per row, HQ key "
                  "heads, HV value heads. Several values are joined by '+' and multiply. If only "
                  "one of HQ and HV is given, the other equals it")
      ->type_name("SIZES");
  command.add_option("--seed", options.seed, "Seed of the random inputs")
      ->type_name("N")
      ->capture_default_str();
}

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Looks at, checks and times a package of compiled kernels.", "dl-run");
  app.set_version_flag("--version", std::string("dl-run ") + dlk_runtime_version());
  app.require_subcommand(1);
  app.footer("`dl-run COMMAND --help` lists the options of a command.");
  auto formatter = std::make_shared<CLI::Formatter>();
  formatter->column_width(28);
  app.formatter(formatter);

  CLI::App *info = app.add_subcommand("info", "Lists the kernels of a package");
  addCommon(*info, options);

  CLI::App *verify = app.add_subcommand(
      "verify", "Compares every kernel with the fp64 recurrence that travels in the package");
  addCommon(*verify, options);
  addRunning(*verify, options);
  verify
      ->add_option("--gates", options.gates,
                   "How fast the state decays: weak, strong or extreme (default: all three)")
      ->check(CLI::IsMember({"weak", "strong", "extreme"}))
      ->type_name("KIND");

  CLI::App *bench = app.add_subcommand(
      "bench", "Times kernels, and on a GPU compares them with the memory's measured ceiling");
  addCommon(*bench, options);
  addRunning(*bench, options);
  bench
      ->add_option("--iterations", options.iterations,
                   "Repetitions of which the median is reported (default: 30 on a GPU, 5 on a CPU)")
      ->check(CLI::Range(1, 100000))
      ->type_name("N");
  bench->add_flag("--best", options.best,
                  "Of kernels for several targets only the one that the runtime would choose");
  bench->add_flag(
      "--pdl", options.pdl,
      "Launch each kernel before the one in front of it is done (programmatic dependent "
      "launch; needs a GPU of compute capability 9.0 or more)");
  bench->add_flag("--shuffle", options.shuffle,
                  "Rows have their slots in random order, as in the pool of an engine that has run "
                  "for a while, instead of one behind the other");
  bench->add_flag("--verify", options.verify,
                  "Compare each kernel with the fp64 recurrence first, on a small problem with "
                  "random states; one that fails is not timed and makes the exit status 1");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error); // --help, --version
    std::cerr << "dl-run: error: " << error.what() << '\n';
    return 2;
  }
  try {
    if (*info)
      return runInfo(options);
    return *verify ? runVerify(options) : runBench(options);
  } catch (const std::exception &error) {
    std::cerr << "dl-run: error: " << error.what() << '\n';
    return 1;
  }
}
