//===- reference_dag_test.cpp - The package's DAG against the recurrences -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `dl-run verify` checks kernels against the DAG in their package, and that DAG
// comes from the same spec as the kernels: a spec that says the wrong thing would
// pass. Here packages are made by dl-compile, and their DAGs are compared with
// recurrences written by hand from the papers.
//
//===----------------------------------------------------------------------===//

#include "dl/dlk.h"
#include "reference/Reference.h"
#include "test/Integration/ReferenceCases.h"
#include "test/Reference/TestUtils.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

using namespace dl::recurrence;
namespace dag = dl::reference;

namespace {

/// A folder that goes away with its files.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "dl-reference-XXXXXX";
    const char *made = mkdtemp(name.data());
    path = made ? made : "";
  }
  ~TemporaryFolder() {
    if (!path.empty()) {
      std::remove(package().c_str());
      rmdir(path.c_str());
    }
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string package() const { return path + "/package.dlk"; }

private:
  std::string path;
};

struct Output {
  int status;
  std::string text;
};

} // namespace

/// Runs a command line; gives its exit status and all that it printed.
static Output shell(const std::string &command) {
  std::unique_ptr<FILE, int (*)(FILE *)> pipe(popen((command + " 2>&1").c_str(), "r"), pclose);
  if (!pipe)
    return {-1, "cannot run " + command};
  std::string text;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof(buffer), pipe.get()))
    text.append(buffer, count);
  int status = pclose(pipe.release());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

static std::string quoted(const std::string &text) { return "'" + text + "'"; }

/// The operator in the package that dl-compile makes of the case's spec.
static void compile(const Case &test, dag::Operator &result) {
  TemporaryFolder folder;
  std::string command = quoted(DL_COMPILE) + " " + quoted(DL_SOURCE_DIR "/" + test.spec) + " -o " +
                        quoted(folder.package()) +
                        " --target=cpu --kernels=decode --dims=64x64 --state-layout=kv";
  for (const std::string &setting : test.settings)
    command += " --set " + quoted(setting);
  Output output = shell(command);
  ASSERT_EQ(output.status, 0) << command << "\n" << output.text;

  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_file(folder.package().c_str(), &package), DLK_OK) << dlk_last_error();
  auto manifest = nlohmann::json::parse(dlk_package_manifest(package, nullptr));
  dlk_package_close(package);
  std::string error;
  ASSERT_TRUE(dag::Operator::parse(manifest.at("reference"), result, error)) << error;
}

/// The case's arguments in the order of the ports, each under its name.
static void gather(const std::vector<dag::Port> &ports, const Case &test,
                   std::vector<dag::Values> &values, size_t &used) {
  for (const dag::Port &port : ports) {
    if (auto tensor = test.tensors.find(port.name); tensor != test.tensors.end()) {
      values.push_back(tensor->second.values());
    } else {
      auto scalar = test.scalars.find(port.name);
      ASSERT_NE(scalar, test.scalars.end()) << "no argument for '" << port.name << "'";
      values.push_back({scalar->second});
    }
    ++used;
  }
}

static Result evaluate(const dag::Operator &op, const Case &test) {
  const Sizes &n = test.sizes;
  dag::Batch batch;
  batch.B = n.B;
  batch.T = n.T;
  batch.HQ = n.HQ;
  batch.HV = n.HV;
  size_t used = 0;
  gather(op.inputs, test, batch.inputs, used);
  gather(op.params, test, batch.params, used);
  EXPECT_EQ(used, test.tensors.size() + test.scalars.size()) << "arguments the package lacks";
  batch.states = {test.S.values()};
  for (int64_t b = 0; b < n.B; ++b) {
    dag::Row row;
    row.entry = row.source = row.destination = b;
    row.end = n.T;
    batch.rows.push_back(row);
  }
  Result result{Tensor({n.B, n.T, n.HV, n.V}), Tensor({n.B, n.HV, n.K, n.V})};
  if (::testing::Test::HasFailure())
    return result;
  dag::run(op, {n.K, n.V}, batch);
  result.o.values() = batch.outputs.front();
  result.S.values() = batch.states.front();
  return result;
}

class ReferenceDag : public ::testing::TestWithParam<Case> {};

TEST_P(ReferenceDag, AgreesWithTheHandWrittenRecurrence) {
  const Case &test = GetParam();
  dag::Operator op;
  ASSERT_NO_FATAL_FAILURE(compile(test, op)) << test.name();
  expectSame(evaluate(op, test), test.expected, 1e-12);
}

/// "examples/x.mlir a=b" -> "examples_x_mlir_a_b": GoogleTest takes no other.
static std::string testName(const ::testing::TestParamInfo<Case> &info) {
  std::string name = info.param.name();
  for (char &c : name)
    if (!isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Specs, ReferenceDag, ::testing::ValuesIn(referenceCases()), testName);
