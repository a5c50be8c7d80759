//===- Operators.cpp - Operators for the tests of the analysis ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/analysis/Operators.h"

#include "passes/LinAttn/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dl::analysis;
using namespace dl::test;

Analysed Analysed::parse(StringRef source, StringRef settings, bool hoisted) {
  Analysed analysed;
  analysed.context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  analysed.context
      ->loadDialect<dl::linattn::LinAttnDialect, arith::ArithDialect, math::MathDialect>();
  analysed.module = parseSourceString<ModuleOp>(source, analysed.context.get());
  if (!analysed.module)
    llvm::report_fatal_error("the operator does not parse");

  PassManager manager(analysed.context.get());
  dl::linattn::LinAttnSetOptionsOptions options;
  for (StringRef pair : llvm::split(settings, ','))
    if (!pair.empty())
      options.set.push_back(pair.str());
  OpPassManager &nested = manager.nest<dl::linattn::OperatorOp>();
  nested.addPass(dl::linattn::createLinAttnSetOptions(options));
  nested.addPass(dl::linattn::createLinAttnExpand());
  nested.addPass(createCanonicalizerPass());
  nested.addPass(createCSEPass());
  if (hoisted) {
    nested.addPass(dl::linattn::createLinAttnHoistScalars());
    nested.addPass(createCanonicalizerPass());
    nested.addPass(createCSEPass());
  }
  if (failed(manager.run(*analysed.module)))
    llvm::report_fatal_error("the operator cannot be prepared");

  FailureOr<StepAnalysis> analysis = StepAnalysis::compute(analysed.op());
  if (failed(analysis))
    llvm::report_fatal_error("the operator cannot be analysed");
  analysed.result = std::move(*analysis);
  return analysed;
}

Analysed Analysed::spec(StringRef path, StringRef settings, bool hoisted) {
  auto file = llvm::MemoryBuffer::getFile(Twine(DL_SOURCE_DIR "/") + path, /*IsText=*/true);
  if (!file)
    llvm::report_fatal_error("no such spec: " + path);
  return parse((*file)->getBuffer(), settings, hoisted);
}

Analysed Analysed::text(StringRef signature, StringRef body) {
  return parse(("!key = tensor<?xf32, #linattn.of<key, key_head>>\n"
                "!channel = tensor<?xf32, #linattn.of<key, value_head>>\n"
                "!value = tensor<?xf32, #linattn.of<value, value_head>>\n"
                "!per_head = tensor<f32, #linattn.of<scalar, value_head>>\n"
                "!state = !linattn.state\n"
                "linattn.operator @op" +
                signature + " {\n" + body + "}\n")
                   .str(),
               "");
}

std::string dl::test::text(const Analysed &analysed, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return analysed.op().getArgName(argument).str();
  return value.getDefiningOp()->getName().stripDialect().str();
}

static std::string factorText(const Analysed &analysed, const Factor &factor) {
  std::string value = text(analysed, factor.value);
  switch (factor.kind) {
  case Factor::Kind::Plain:
    return value;
  case Factor::Kind::Inverse:
    return "1/" + value;
  case Factor::Kind::Exponential:
    return "e^" + value;
  case Factor::Kind::Dot:
    std::string key = text(analysed, factor.key);
    for (Value decay : factor.logDecays)
      key = "e^" + text(analysed, decay) + " " + key;
    return "(" + value + " . " + key + ")";
  }
  llvm_unreachable("a factor has one of four kinds");
}

std::string dl::test::text(const Analysed &analysed, const Product &product) {
  std::string result;
  if (product.constant != 1.0 || product.factors.empty())
    result = llvm::formatv("{0}", llvm::format("%g", product.constant)).str();
  for (const Factor &factor : product.factors)
    result += (result.empty() ? "" : " ") + factorText(analysed, factor);
  return result;
}

std::string dl::test::text(const Analysed &analysed, const AffineForm &form) {
  std::string result;
  auto add = [&](const Product &product, const std::string &vector) {
    result += result.empty() ? "" : " + ";
    result += product.isOne() ? vector : text(analysed, product) + " " + vector;
  };
  for (const ReadTerm &term : form.reads)
    for (const Product &product : term.coefficient)
      add(product, "read" + std::to_string(term.read));
  for (const LocalTerm &term : form.locals)
    add(term.coefficient, text(analysed, term.value));
  return result;
}
