//===- ReferenceTest.cpp - The fp64 evaluator against recurrences written by hand -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "reference/Reference.h"
#include "PackageBuilder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

using namespace dl::reference;
using nlohmann::json;

namespace {

Operator parse(const json &dag) {
  Operator op;
  std::string error;
  EXPECT_TRUE(Operator::parse(dag, op, error)) << error;
  return op;
}

std::string parseError(const std::function<void(json &)> &edit) {
  json dag = dl::test::makeManifest()["reference"];
  edit(dag);
  Operator op;
  std::string error;
  EXPECT_FALSE(Operator::parse(dag, op, error));
  return error;
}

Values ramp(size_t count, double start, double step) {
  Values values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = std::sin(start + step * double(i));
  return values;
}

TEST(Reference, MatchesAHandRecurrence) {
  Operator op = parse(dl::test::makeManifest()["reference"]);
  const Dims dims{3, 2};
  Batch batch;
  batch.B = 2, batch.T = 4, batch.HQ = 2, batch.HV = 4;
  batch.inputs = {ramp(2 * 4 * 2 * 3, 1, .3), ramp(2 * 4 * 2 * 3, 2, .7),
                  ramp(2 * 4 * 4 * 2, 3, .5), ramp(2 * 4 * 4, 4, .9)};
  batch.params = {{0.25}};
  batch.states = {ramp(5 * 4 * 3 * 2, 5, .2)};
  const int64_t sources[] = {3, 1}, destinations[] = {3, 4};
  for (int row : {0, 1}) {
    batch.rows.emplace_back();
    batch.rows.back().entry = row;
    batch.rows.back().end = 4;
    batch.rows.back().source = sources[row];
    batch.rows.back().destination = destinations[row];
  }
  const Batch before = batch;
  run(op, dims, batch);

  for (int row = 0; row < 2; ++row)
    for (int head = 0; head < 4; ++head) {
      double S[3][2];
      for (int k = 0; k < 3; ++k)
        for (int v = 0; v < 2; ++v)
          S[k][v] = before.states[0][((sources[row] * 4 + head) * 3 + k) * 2 + v];
      for (int t = 0; t < 4; ++t) {
        const int token = row * 4 + t;
        const double *q = &before.inputs[0][(token * 2 + head / 2) * 3];
        const double *k = &before.inputs[1][(token * 2 + head / 2) * 3];
        const double *v = &before.inputs[2][(token * 4 + head) * 2];
        const double decay = std::exp(before.inputs[3][token * 4 + head]);
        for (int j = 0; j < 2; ++j) {
          double sum = 0;
          for (int i = 0; i < 3; ++i) {
            S[i][j] = decay * S[i][j] + k[i] * v[j];
            sum += q[i] * S[i][j];
          }
          EXPECT_DOUBLE_EQ(batch.outputs[0][(token * 4 + head) * 2 + j], 0.25 * sum);
        }
      }
      for (int k = 0; k < 3; ++k)
        for (int v = 0; v < 2; ++v)
          EXPECT_DOUBLE_EQ(batch.states[0][((destinations[row] * 4 + head) * 3 + k) * 2 + v],
                           S[k][v]);
    }
  // Slots 0 to 2 are nobody's destination.
  for (size_t i = 0; i < 3 * 4 * 3 * 2; ++i)
    EXPECT_EQ(batch.states[0][i], before.states[0][i]);
}

TEST(Reference, NullRowsGetZeros) {
  Operator op = parse(dl::test::makeManifest()["reference"]);
  Batch batch;
  batch.B = 3;
  batch.inputs = {Values(9, 1.0), Values(9, NAN), Values(6, 1.0), Values(3, 0.0)};
  batch.params = {{1.0}};
  batch.states = {Values(4 * 3 * 2, 2.0)};
  batch.rows.resize(3);
  for (int row = 0; row < 3; ++row) {
    batch.rows[row].entry = row;
    batch.rows[row].end = 1;
    batch.rows[row].destination = 1;
    batch.rows[row].isNull = true;
  }
  run(op, {3, 2}, batch);
  EXPECT_EQ(batch.outputs[0], Values(6, 0.0));
  EXPECT_EQ(batch.states[0], Values(4 * 3 * 2, 2.0));
}

/// Two rows in one entry of four tokens: one keeps every state, one starts from zeros.
TEST(Reference, RowsArePartsOfAnEntry) {
  Operator op = parse(dl::test::makeManifest()["reference"]);
  Batch batch;
  batch.T = 4;
  batch.inputs = {Values(12, 1.0), Values(12, 1.0), Values(8, 1.0), Values(4, 0.0)};
  batch.params = {{1.0}};
  batch.states = {Values(5 * 3 * 2, 7.0)};
  batch.rows.resize(2);
  batch.rows[0].first = 1; // a token before it belongs to no row
  batch.rows[0].end = 3;
  batch.rows[0].kept = {2, -1, 3}; // the last one has no token
  batch.rows[1].first = 3;
  batch.rows[1].end = 4;
  batch.rows[1].isFresh = true;
  batch.rows[1].destination = 4;
  run(op, {3, 2}, batch);
  EXPECT_EQ(batch.outputs[0], (Values{0, 0, 24, 24, 27, 27, 3, 3})); // 3 (7 + t), 3 (0 + 1)
  for (int slot = 0; slot < 5; ++slot)
    EXPECT_EQ(batch.states[0][slot * 6], slot == 2 ? 8 : slot == 4 ? 1 : 7) << slot;
}

/// The value of one node of a DAG over the scalars x and y.
double scalar(json node, double x, double y) {
  auto input = [](const char *name) {
    return json{{"op", "input"}, {"name", name}, {"axis", "scalar"}};
  };
  auto port = [](const char *name) {
    return json{{"name", name}, {"axis", "scalar"}, {"group", "value_head"}};
  };
  node["axis"] = "scalar";
  Operator op = parse({{"inputs", {port("x"), port("y")}},
                       {"params", json::array()},
                       {"states", json::array()},
                       {"outputs", json::array({"o"})},
                       {"nodes", {input("x"), input("y"), node}},
                       {"yield", {{"states", json::array()}, {"outputs", json::array({2})}}}});
  std::vector<Values> states, outputs;
  Evaluator({op}, {1, 1}).step({{&x, &y}, {}}, states, &outputs);
  return outputs[0][0];
}

TEST(Reference, ElementwiseOperations) {
  auto unary = [](const char *name, double x) {
    return scalar({{"op", name}, {"args", json::array({0})}}, x, 0);
  };
  auto binary = [](const char *name, double x, double y) {
    return scalar({{"op", name}, {"args", json::array({0, 1})}}, x, y);
  };
  EXPECT_EQ(unary("neg", 2), -2);
  EXPECT_EQ(unary("rsqrt", 4), 0.5);
  EXPECT_EQ(unary("exp2", 3), 8);
  EXPECT_DOUBLE_EQ(unary("log1p", 1), std::log(2.0));
  EXPECT_EQ(scalar({{"op", "fma"}, {"args", json::array({0, 1, 1})}}, 2, 3), 9);
  EXPECT_EQ(binary("sub", 5, 3), 2);
  EXPECT_EQ(binary("div", 5, 2), 2.5);
  EXPECT_EQ(binary("max", 5, 2), 5);
  EXPECT_TRUE(std::isnan(binary("max", NAN, 2)));
  EXPECT_EQ(binary("maxnum", NAN, 2), 2);
  auto compare = [](const char *predicate, double x, double y) {
    return scalar({{"op", "cmp"}, {"pred", predicate}, {"args", json::array({0, 1})}}, x, y);
  };
  EXPECT_EQ(compare("ogt", 2, 1), 1);
  EXPECT_EQ(compare("ogt", NAN, 1), 0);
  EXPECT_EQ(compare("ugt", NAN, 1), 1);
  EXPECT_EQ(scalar({{"op", "select"}, {"args", json::array({0, 1, 0})}}, 0, 7), 0);
  EXPECT_EQ(scalar({{"op", "select"}, {"args", json::array({0, 1, 0})}}, 3, 7), 7);
}

/// Terms that cancel keep their sizes, through sums, products and broadcasts, up to a function.
TEST(Reference, SizesOfOutputs) {
  auto node = [](const char *name, std::vector<int> args) {
    return json{{"op", name}, {"axis", "scalar"}, {"group", "value_head"}, {"args", args}};
  };
  json inputs = json::array(), nodes = json::array();
  for (const char *name : {"x", "y"}) {
    inputs.push_back({{"name", name}, {"axis", "scalar"}, {"group", "value_head"}});
    nodes.push_back({{"op", "input"}, {"name", name}, {"axis", "scalar"}, {"group", "value_head"}});
  }
  nodes.push_back(node("add", {0, 1}));    // x + y
  nodes.push_back(node("neg", {2}));       // -(x + y)
  nodes.push_back(node("mul", {3, 0}));    // -(x + y) x
  nodes.push_back(node("fma", {4, 1, 0})); // -(x + y) x y + x
  nodes.push_back(node("exp", {2}));
  nodes.push_back(node("sub", {6, 1})); // e^(x + y) - y
  const Operator op = parse({{"inputs", inputs},
                             {"params", json::array()},
                             {"states", json::array()},
                             {"outputs", {"o", "p", "q", "r"}},
                             {"nodes", nodes},
                             {"yield", {{"states", json::array()}, {"outputs", {2, 4, 5, 7}}}}});
  const double x = 3, y = -3;
  std::vector<Values> states, outputs, sizes;
  Evaluator evaluator(op, {1, 1});
  evaluator.step({{&x, &y}, {}}, states, &outputs);
  evaluator.outputSizes(sizes);
  EXPECT_EQ(outputs, (std::vector<Values>{{0}, {0}, {3}, {4}}));
  EXPECT_EQ(sizes, (std::vector<Values>{{6}, {18}, {57}, {4}}));
}

TEST(Reference, RefusesMalformedDags) {
  EXPECT_EQ(parseError([](json &d) { d["nodes"][6]["args"] = {5, 6}; }),
            "reference.nodes[6].args[1]: expected an integer in [0, 5], got 6");
  EXPECT_EQ(parseError([](json &d) { d["nodes"][6]["op"] = "grow"; }),
            "reference.nodes[6].op: unknown operation 'grow'");
  EXPECT_EQ(parseError([](json &d) { d["nodes"][8]["args"] = {7, 2}; }),
            "reference.nodes[8]: expected read(state, key) -> value");
  EXPECT_EQ(parseError([](json &d) { d["nodes"][10]["args"] = {8, 0}; }),
            "reference.nodes[10]: expected arguments and result of one axis");
  EXPECT_EQ(parseError([](json &d) { d["nodes"][0]["axis"] = "value"; }),
            "reference.nodes[0].axis: differs from the axis of 'q'");
  EXPECT_EQ(parseError([](json &d) { d["nodes"][0]["name"] = "z"; }),
            "reference.nodes[0].name: no input is named 'z'");
  EXPECT_EQ(parseError([](json &d) { d["yield"]["states"] = {8}; }),
            "reference.yield.states[0]: expected a state");
  EXPECT_EQ(parseError([](json &d) { d["nodes"][10]["args"] = json::array({8}); }),
            "reference.nodes[10].args: expected 2, got 1");
  EXPECT_EQ(parseError([](json &d) { d["inputs"][0].erase("group"); }),
            "reference.inputs[0].group: missing");
}

} // namespace
