//===- Interpreter.cpp - Runs an operator, and its normal form ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/analysis/Interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;
using namespace dl::test;

/// Element (i, j) of the result is f(i, j).
template <typename F> static Matrix generate(F f) {
  Matrix result;
  for (int i = 0; i < kKeys; ++i)
    for (int j = 0; j < kValues; ++j)
      result[i][j] = f(i, j);
  return result;
}

static Matrix constant(double value) {
  return generate([&](int, int) { return value; });
}
static Matrix operator+(const Matrix &a, const Matrix &b) {
  return generate([&](int i, int j) { return a[i][j] + b[i][j]; });
}
static Matrix operator-(const Matrix &a, const Matrix &b) {
  return generate([&](int i, int j) { return a[i][j] - b[i][j]; });
}
static Matrix operator*(const Matrix &a, const Matrix &b) {
  return generate([&](int i, int j) { return a[i][j] * b[i][j]; });
}
template <typename F> static Matrix map(const Matrix &a, F f) {
  return generate([&](int i, int j) { return f(a[i][j]); });
}
static Matrix exponential(const Matrix &a) {
  return map(a, [](double x) { return std::exp(x); });
}

/// The sum over the key axis.
static Matrix sumOverKeys(const Matrix &a) {
  return generate([&](int, int j) {
    double sum = 0;
    for (int i = 0; i < kKeys; ++i)
      sum += a[i][j];
    return sum;
  });
}
static Matrix sumOverValues(const Matrix &a) {
  return generate([&](int i, int) {
    double sum = 0;
    for (int j = 0; j < kValues; ++j)
      sum += a[i][j];
    return sum;
  });
}

//===----------------------------------------------------------------------===//
// Token by token
//===----------------------------------------------------------------------===//

static Matrix evaluate(Operation &op, const Token &token) {
  auto in = [&](unsigned i) { return token.lookup(op.getOperand(i)); };
  auto unary = [&](double (*f)(double)) { return map(in(0), f); };
  return llvm::TypeSwitch<Operation *, Matrix>(&op)
      .Case([&](arith::ConstantOp c) { return constant(*constantOf(c.getResult())); })
      .Case<arith::AddFOp>([&](Operation *) { return in(0) + in(1); })
      .Case<arith::SubFOp>([&](Operation *) { return in(0) - in(1); })
      .Case<arith::MulFOp>([&](Operation *) { return in(0) * in(1); })
      .Case<arith::DivFOp>(
          [&](Operation *) { return in(0) * map(in(1), [](double x) { return 1 / x; }); })
      .Case<arith::NegFOp>([&](Operation *) { return constant(0) - in(0); })
      .Case<arith::CmpFOp>([&](Operation *) { // "ogt" is the only one in specs
        return map(in(0) - in(1), [](double x) { return double(x > 0); });
      })
      .Case<arith::SelectOp>([&](Operation *) {
        return generate([&](int i, int j) { return in(0)[i][j] != 0 ? in(1)[i][j] : in(2)[i][j]; });
      })
      .Case<math::FmaOp>([&](Operation *) { return in(0) * in(1) + in(2); })
      .Case<math::ExpOp>([&](Operation *) { return unary(std::exp); })
      .Case<math::Log1pOp>([&](Operation *) { return unary(std::log1p); })
      .Case<math::RsqrtOp>(
          [&](Operation *) { return map(in(0), [](double x) { return 1 / std::sqrt(x); }); })
      .Case<BroadcastOp>([&](Operation *) { return in(0); })
      .Case([&](ReduceOp reduce) {
        return isOn(reduce.getOperand().getType(), Axis::Key) ? sumOverKeys(in(0))
                                                              : sumOverValues(in(0));
      })
      .Case<ReadOp>([&](Operation *) { return sumOverKeys(in(0) * in(1)); })
      .Case<DecayOp>([&](Operation *) { return in(0) * exponential(in(1)); })
      .Case<WriteOp>([&](Operation *) { return in(0) + in(1) * in(2); })
      .Default([](Operation *op) -> Matrix {
        llvm::report_fatal_error("no meaning for " + op->getName().getStringRef());
      });
}

/// Numbers in (-1, 1) that lie along the axes of a type.
static Matrix randomValue(Type type, std::mt19937 &random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  Matrix a = generate([&](int, int) { return uniform(random); });
  if (isState(type) || axisOf(type) == Axis::KeyValue)
    return a;
  if (axisOf(type) == Axis::Key)
    return generate([&](int i, int) { return a[i][0]; });
  if (axisOf(type) == Axis::Value)
    return generate([&](int, int j) { return a[0][j]; });
  return constant(a[0][0]);
}

Run dl::test::runOperator(OperatorOp op, int tokens, std::vector<Token> *values) {
  std::mt19937 random(7); // NOLINT(bugprone-random-generator-seed): the same numbers in every run
  Token token;
  for (BlockArgument argument : op.getArgs())
    token[argument] = randomValue(argument.getType(), random);
  Run run;
  for (int t = 0; t < tokens; ++t) {
    for (BlockArgument input : op.getInputs())
      token[input] = randomValue(input.getType(), random);
    for (Operation &inner : op.getBody()->without_terminator()) {
      Matrix result = evaluate(inner, token);
      token[inner.getResult(0)] = result;
    }
    if (values)
      values->push_back(token);
    run.outputs.emplace_back();
    for (Value output : op.getYieldedOutputs())
      run.outputs.back().push_back(token.lookup(output));
    run.states.clear();
    for (Value state : op.getYieldedStates())
      run.states.push_back(token.lookup(state));
    for (auto [argument, state] : llvm::zip(op.getStates(), run.states))
      token[argument] = state;
  }
  return run;
}

//===----------------------------------------------------------------------===//
// Normal form
//===----------------------------------------------------------------------===//

namespace {

/// Evaluates reads from the first state and all earlier writes, as a chunkwise kernel does.
class NormalForm {
public:
  NormalForm(const StepAnalysis &step, const std::vector<Token> &values)
      : step(step), values(values) {}

  Run run();
  std::vector<Matrix> runLog(const LogEntry &entry);

private:
  /// A write of some token: a, b and its clock.
  struct Written {
    unsigned state;
    Matrix key, value, clock;
  };

  Matrix local(Value value) { return values[token].lookup(value); }
  Matrix factor(const Factor &factor);
  Matrix product(const Product &product);
  Matrix form(const AffineForm &form);
  /// The clock of an event that `decays` of its token's decays lie before.
  Matrix clock(unsigned state, unsigned decays);
  Matrix read(const Read &read);
  /// What the log has of a write of this token: scale * key value^T.
  Matrix logged(unsigned number, const LogWrite &write);

  const StepAnalysis &step;
  const std::vector<Token> &values;
  size_t token = 0;
  std::vector<Matrix> sums;     ///< per state, G_{t-1}
  std::vector<Matrix> readings; ///< of this token
  std::vector<Written> written; ///< by all tokens before; of this token, by the writes before
};

} // namespace

Matrix NormalForm::factor(const Factor &factor) {
  Matrix value = local(factor.value);
  switch (factor.kind) {
  case Factor::Kind::Plain:
    return value;
  case Factor::Kind::Inverse:
    return map(value, [](double x) { return 1 / x; });
  case Factor::Kind::Exponential:
    return exponential(value);
  case Factor::Kind::Dot:
    value = value * local(factor.key);
    for (Value decay : factor.logDecays)
      value = value * exponential(local(decay));
    return sumOverKeys(value);
  }
  llvm_unreachable("a factor has one of four kinds");
}

Matrix NormalForm::product(const Product &product) {
  Matrix result = constant(product.constant);
  for (const Factor &f : product.factors)
    result = result * factor(f);
  return result;
}

Matrix NormalForm::form(const AffineForm &form) {
  Matrix sum = constant(0);
  for (const ReadTerm &term : form.reads)
    for (const Product &p : term.coefficient)
      sum = sum + product(p) * readings[term.read];
  for (const LocalTerm &term : form.locals)
    sum = sum + product(term.coefficient) * local(term.value);
  return sum;
}

Matrix NormalForm::clock(unsigned state, unsigned decays) {
  Matrix sum = sums[state];
  for (const Decay &decay : ArrayRef(step.states[state].decays).take_front(decays))
    sum = sum + local(decay.logDecay);
  return sum;
}

Matrix NormalForm::read(const Read &read) {
  Matrix x = local(read.key), now = clock(read.state, read.clock);
  for (DecayOp decay : read.keyDecays)
    x = x * exponential(local(decay.getLogDecay()));
  Value first = OperatorOp(step.op).getStates()[read.state];
  Matrix sum = sumOverKeys(x * exponential(now) * values[0].lookup(first));
  for (const Written &w : written)
    if (w.state == read.state)
      sum = sum + sumOverKeys(x * w.key * exponential(now - w.clock)) * w.value;
  return sum;
}

Run NormalForm::run() {
  Run result;
  sums.assign(step.states.size(), constant(0));
  for (token = 0; token < values.size(); ++token) {
    readings.clear();
    // A read needs the writes it sees, these the reads before them: each in its order.
    size_t next = 0;
    auto writeBefore = [&](const Read *read) {
      for (; next < step.writes.size(); ++next) {
        const Write &write = step.writes[next];
        if (read && !write.op->isBeforeInBlock(read->op))
          return;
        written.push_back(
            {write.state, local(write.key), form(write.value), clock(write.state, write.clock)});
      }
    };
    for (const Read &r : step.reads) {
      size_t before = written.size() - next;
      writeBefore(&r);
      // Writes of this token that lie before the read in the text need not lie before it on the
      // path.
      std::vector<Written> all = written;
      written.resize(before);
      for (size_t w = 0; w < next; ++w)
        if (step.sees(r, step.writes[w]))
          written.push_back(all[before + w]);
      readings.push_back(read(r));
      written = std::move(all);
    }
    writeBefore(nullptr);
    for (unsigned state = 0; state < sums.size(); ++state)
      sums[state] = clock(state, step.states[state].decays.size());
    result.outputs.emplace_back();
    for (const Output &output : step.outputs)
      result.outputs.back().push_back(form(output.form));
  }
  for (unsigned state = 0; state < sums.size(); ++state) {
    Value first = OperatorOp(step.op).getStates()[state];
    Matrix sum = exponential(sums[state]) * values[0].lookup(first);
    for (const Written &w : written)
      if (w.state == state)
        sum = sum + exponential(sums[state] - w.clock) * w.key * w.value;
    result.states.push_back(sum);
  }
  return result;
}

Run dl::test::runNormalForm(const StepAnalysis &step, const std::vector<Token> &values) {
  return NormalForm(step, values).run();
}

//===----------------------------------------------------------------------===//
// Log
//===----------------------------------------------------------------------===//

Matrix NormalForm::logged(unsigned number, const LogWrite &write) {
  const Write &known = step.writes[number];
  Matrix key = write.keyVector ? local(write.keyVector) : local(known.key);
  Matrix value = local(write.valueVector ? write.valueVector : WriteOp(known.op).getValue());
  // Vectors that are held as they stand at the end of the token.
  for (const Decay &decay : ArrayRef(step.states[known.state].decays).drop_front(known.clock)) {
    if (decay.axis == Axis::Key) {
      EXPECT_FALSE(write.keyVector);
      key = key * exponential(local(decay.logDecay));
    }
    if (decay.axis == Axis::Value) {
      EXPECT_FALSE(write.valueVector);
      value = value * exponential(local(decay.logDecay));
    }
  }
  return product(write.scale) * key * value;
}

std::vector<Matrix> NormalForm::runLog(const LogEntry &entry) {
  std::vector<Matrix> states;
  OperatorOp op = step.op;
  for (auto [index, state] : llvm::enumerate(step.states)) {
    // Ends of tokens, from what the fields are sums of.
    std::vector<Matrix> ends;
    llvm::SmallVector<Value> inFields;
    for (int field : entry.decays[index])
      inFields.append(entry.fields[field].decays);
    Matrix sum = constant(0);
    for (token = 0; token < values.size(); ++token) {
      for (Value decay : inFields)
        sum = sum + local(decay);
      ends.push_back(sum);
    }
    Matrix result = exponential(sum) * values[0].lookup(op.getStates()[index]);
    for (token = 0; token < values.size(); ++token)
      for (unsigned number : state.writes)
        result = result + exponential(sum - ends[token]) * logged(number, entry.writes[number]);
    states.push_back(result);
  }
  return states;
}

std::vector<Matrix> dl::test::runLog(const StepAnalysis &step, const LogEntry &entry,
                                     const std::vector<Token> &values) {
  return NormalForm(step, values).runLog(entry);
}
