//===- ManifestTest.cpp - Kernels and expressions as JSON -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Manifest.h"
#include "compiler/Package/Reference.h"
#include "compiler/Pipelines/Pipelines.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <string>

using namespace mlir;
namespace json = llvm::json;

namespace {
class ManifestTest : public ::testing::Test {
public:
  ManifestTest() : context(makeRegistry(), MLIRContext::Threading::DISABLED) {}

  /// The one op of this kind in the source.
  template <typename Op> Op parse(llvm::StringRef source) {
    module = parseSourceString<ModuleOp>(source, &context);
    if (!module || module->getOps<Op>().empty()) {
      ADD_FAILURE() << "the source does not parse";
      return {};
    }
    return *module->getOps<Op>().begin();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    dl::registerDialects(registry);
    return registry;
  }
};
} // namespace

static std::string text(const json::Value &value) { return llvm::formatv("{0}", value).str(); }

static const char *kernelSource = R"(
  tile.kernel @k(
      %q: memref<?x?x64xbf16, strided<[?, ?, 1]>>
        {tile.name = "q", tile.role = "input", tile.access = "r", tile.shape = ["B", ["mul", "HV", 2], 64]},
      %s: memref<?x8x16xf32, strided<[?, 16, 1]>>
        {tile.name = "S", tile.role = "state_out", tile.access = "w", tile.shape = ["slots", 8, 16]},
      %n: memref<?xi32, strided<[?]>>
        {tile.name = "src_slots", tile.role = "slots_in", tile.nullable, tile.shape = ["B"]},
      %scale: f32 {tile.name = "scale", tile.role = "scalar", tile.default = 0.5 : f64},
      %ratio: i32 {tile.name = "head_ratio", tile.role = "scalar",
                   tile.value = ["div", ["add", "HV", 0], ["max", "HQ", 1]],
                   tile.requires = {expr = ["mod", "HV", "HQ"], equals = 0 : i64,
                                    message = "HV must be a multiple of HQ"}},
      %given: i32 {tile.name = "count", tile.role = "scalar"})
      attributes {threads = 64 : i64, grid = [["ceildiv", "HV", 4], "B", 1]} {
    tile.return
  })";

TEST_F(ManifestTest, ExpressionsAreTextNumbersAndLists) {
  auto kernel = parse<dl::tile::KernelOp>(kernelSource);
  ASSERT_TRUE(kernel);
  json::Object m = dl::package::describeKernel(kernel);
  EXPECT_EQ(text(*m.get("grid")), R"([["ceildiv","HV",4],"B",1])");
  const json::Object &q = *(*m.getArray("args"))[0].getAsObject();
  EXPECT_EQ(text(*q.get("shape")), R"(["B",["mul","HV",2],64])");
  const json::Object &ratio = *(*m.getArray("scalars"))[1].getAsObject();
  EXPECT_EQ(text(*ratio.get("value")), R"(["div",["add","HV",0],["max","HQ",1]])");
}

TEST_F(ManifestTest, ArgumentsAndScalars) {
  auto kernel = parse<dl::tile::KernelOp>(kernelSource);
  ASSERT_TRUE(kernel);
  json::Object m = dl::package::describeKernel(kernel);
  EXPECT_EQ(*m.getString("entry"), "k");
  EXPECT_EQ(*m.getInteger("threads"), 64);
  const json::Array &args = *m.getArray("args");
  ASSERT_EQ(args.size(), 3u);
  const json::Object &q = *args[0].getAsObject(), &s = *args[1].getAsObject(),
                     &n = *args[2].getAsObject();
  // A place for the address, one for each free stride; fixed strides have none.
  EXPECT_EQ(text(*q.get("strides")), "[8,12,null]");
  EXPECT_EQ(*q.getInteger("pointer"), 0);
  EXPECT_EQ(*q.getString("dtype"), "bf16");
  EXPECT_EQ(*s.getInteger("pointer"), 16);
  EXPECT_EQ(text(*s.get("strides")), R"([24,{"fixed":16},null])");
  EXPECT_EQ(*s.getString("access"), "w");
  EXPECT_EQ(*s.getString("role"), "state_out");
  EXPECT_TRUE(*n.getBoolean("nullable"));
  EXPECT_FALSE(*q.getBoolean("nullable"));
  const json::Array &scalars = *m.getArray("scalars");
  ASSERT_EQ(scalars.size(), 3u);
  EXPECT_EQ(text(*scalars[0].getAsObject()->get("default")), "0.5");
  EXPECT_FALSE(scalars[2].getAsObject()->get("default"));
  EXPECT_FALSE(scalars[2].getAsObject()->get("value"));
}

/// Scalars and pointers may not overlap, and the struct holds them all.
TEST_F(ManifestTest, OffsetsAscendWithinTheParameterStruct) {
  auto kernel = parse<dl::tile::KernelOp>(kernelSource);
  ASSERT_TRUE(kernel);
  json::Object m = dl::package::describeKernel(kernel);
  int64_t end = 8 + 2 * 4 + 8 + 4 + 4 + 8 + 4; // of q, S (padded) and src_slots
  for (const json::Value &scalar : *m.getArray("scalars")) {
    int64_t offset = *scalar.getAsObject()->getInteger("offset");
    EXPECT_GE(offset, end);
    EXPECT_EQ(offset % 4, 0);
    end = offset + 4;
  }
  EXPECT_GE(*m.getInteger("param_bytes"), end);
}

TEST_F(ManifestTest, WhatAnArgumentRequiresOfTheSizesIsListed) {
  auto kernel = parse<dl::tile::KernelOp>(kernelSource);
  ASSERT_TRUE(kernel);
  EXPECT_EQ(text(*dl::package::describeKernel(kernel).get("requires")),
            R"([{"equals":0,"expr":["mod","HV","HQ"],"message":"HV must be a multiple of HQ"}])");
  kernel =
      parse<dl::tile::KernelOp>("tile.kernel @k() attributes {threads = 32 : i64} { tile.return }");
  ASSERT_TRUE(kernel);
  json::Object plain = dl::package::describeKernel(kernel);
  EXPECT_EQ(text(*plain.get("requires")), "[]");
  EXPECT_EQ(text(*plain.get("grid")), "[1,1,1]");
}

//===----------------------------------------------------------------------===//
// The reference graph
//===----------------------------------------------------------------------===//

static const char *operatorSource = R"(
  !key = tensor<?xf32, #linattn.of<key, key_head>>
  !value = tensor<?xf32, #linattn.of<value, value_head>>
  linattn.operator @op(%k: !key, %v: !value) params(%scale: f32 {linattn.default = "key_dim^-0.5"})
      state(%S: !linattn.state) -> (o: !value) {
    %S1 = linattn.write %S, %k, %v : !key, !value
    %r = linattn.read %S1, %k : !key -> !value
    %scales = linattn.broadcast %scale : f32 -> !value
    %o = arith.mulf %scales, %r : !value
    linattn.yield %S1, %o : !linattn.state, !value
  })";

TEST_F(ManifestTest, TheReferenceIsTheGraphOfTheStep) {
  auto op = parse<dl::linattn::OperatorOp>(operatorSource);
  ASSERT_TRUE(op);
  FailureOr<json::Object> reference = dl::package::emitReference(op, /*keyDim=*/64);
  ASSERT_TRUE(succeeded(reference));
  EXPECT_EQ(text(*reference->get("params")),
            R"([{"axis":"uniform","default":0.125,"group":"value_head","name":"scale"}])");
  EXPECT_EQ(text(*reference->get("states")), R"(["S"])");
  EXPECT_EQ(text(*reference->get("outputs")), R"(["o"])");
  EXPECT_EQ(text(*reference->get("yield")), R"({"outputs":[7],"states":[4]})");
  const json::Array &nodes = *reference->getArray("nodes");
  ASSERT_EQ(nodes.size(), 8u);
  const char *ops[] = {"input", "input", "param", "state", "write", "read", "broadcast", "mul"};
  for (size_t i = 0; i < nodes.size(); ++i)
    EXPECT_EQ(*nodes[i].getAsObject()->getString("op"), ops[i]);
  EXPECT_EQ(text(*nodes[4].getAsObject()->get("args")), "[3,0,1]");
  EXPECT_EQ(text(*nodes[5].getAsObject()->get("args")), "[4,0]");
}
