//===- AffineWalk.cpp - Finds the reads and the affine forms of a step ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk over the body in program order. A value is token-local, or it depends on the state and
// then has an affine form or a reason why it has none. A reason travels with the values that depend
// on it and is reported only if one of them is written, yielded, or used as a decay or a key
// vector.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Internal.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

namespace {

/// Forms are sums of products: what multiplies sums with sums can grow exponentially.
constexpr unsigned kMaxProducts = 64, kMaxFactors = 16;

/// What is known of a value that depends on the state.
struct Dependent {
  AffineForm form;
  std::optional<Refusal> problem;          ///< then `form` means nothing
  llvm::SmallSetVector<unsigned, 2> reads; ///< it may depend on
};

class Walk {
public:
  explicit Walk(StepAnalysis &analysis) : analysis(analysis), body(*analysis.op.getBody()) {}
  void run();

private:
  /// Number of a state, and of the events on its path before it has this value.
  struct Place {
    unsigned state = 0, position = 0;
  };

  void findPlaces();
  void findLive();
  void findUniform();

  void visit(Operation &op);
  void visitRead(ReadOp read);
  void visitDecay(DecayOp decay);
  void visitWrite(WriteOp write);
  void visitYield();
  void visitArithmetic(Operation &op);
  /// The form of the result of an op whose operands have forms.
  void combine(Operation &op, Dependent &result);

  /// The token-local factor that `op` multiplies by.
  Product productOf(Value value, Operation *op, bool inverse = false);
  /// Multiplies `product` by a value or its inverse; fails if that takes too many factors.
  bool addFactors(Value value, Operation *op, bool inverse, Product &product, unsigned &steps);
  /// What a branch's write adds to a read at the end of the branch.
  void addBranchWrite(ReadOp read, ArrayRef<StepOpInterface> after, WriteOp write, Dependent &sum);

  const Dependent *find(Value value) const {
    auto it = dependents.find(value);
    return it == dependents.end() ? nullptr : &it->second;
  }
  /// Adds `product` times a value to a sum.
  void add(Dependent &sum, Value value, const Product &product);
  /// Refuses a form with too many terms.
  void limitSize(Dependent &result, Operation *op);
  /// Makes the result one without a form.
  void refuse(Dependent &result, Operation *op, const Twine &got, const Twine &change = "");
  /// Reports a decay or key vector that depends on the state, and whether it does not.
  bool expectLocal(Value value, StringRef what, Operation *op);
  void report(Refusal refusal);

  StepAnalysis &analysis;
  Block &body;
  llvm::DenseMap<Value, Place> places; ///< of state values on a path
  llvm::DenseSet<Operation *> live;    ///< what the results of the step depend on
  llvm::DenseSet<Value> uniform;       ///< values that are the same along the value axis
  llvm::DenseMap<Value, Dependent> dependents;
  llvm::DenseMap<Operation *, unsigned> writes; ///< numbers of the writes on paths
};

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

void Walk::findPlaces() {
  for (auto [index, state] : llvm::enumerate(analysis.states))
    for (auto [position, value] : llvm::enumerate(state.values))
      places[value] = {unsigned(index), unsigned(position)};
  for (auto [index, write] : llvm::enumerate(analysis.writes))
    writes[write.op] = index;
}

void Walk::findLive() {
  for (Operation &op : llvm::reverse(body)) {
    auto isLive = [&](Operation *user) { return live.contains(user); };
    if (isa<dl::linattn::YieldOp>(op) || llvm::any_of(op.getUsers(), isLive))
      live.insert(&op);
  }
}

/// Whether a type has no value axis: its values are the same along it.
static bool isFlat(Type type) {
  std::optional<Axis> axis = axisOf(type);
  return !axis || *axis == Axis::Scalar || *axis == Axis::Key;
}

void Walk::findUniform() {
  auto isUniform = [&](Value value) { return isFlat(value.getType()) || uniform.contains(value); };
  for (Operation &op : body)
    if (!isa<ReadOp, StepOpInterface>(op) && op.getNumOperands() &&
        llvm::all_of(op.getOperands(), isUniform))
      uniform.insert_range(op.getResults());
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

void Walk::report(Refusal refusal) {
  bool known = llvm::any_of(analysis.refusals, [&](const Refusal &r) {
    return r.op == refusal.op && r.text == refusal.text;
  });
  if (!known)
    analysis.refusals.push_back(std::move(refusal));
}

void Walk::refuse(Dependent &result, Operation *op, const Twine &got, const Twine &change) {
  Operation *read = result.reads.empty() ? nullptr : analysis.reads[result.reads[0]].op;
  result.problem = Refusal{
      kAffine, op,
      ("expected reads to meet token-local values in sums and products only, got " + got).str(),
      change.str(), read};
}

void Walk::limitSize(Dependent &result, Operation *op) {
  if (!result.problem && result.form.size() > kMaxProducts)
    refuse(result, op, "a sum of more than " + Twine(kMaxProducts) + " products",
           "add up token-local terms first, and multiply fewer sums of reads");
}

bool Walk::expectLocal(Value value, StringRef what, Operation *op) {
  const Dependent *dependent = find(value);
  if (!dependent)
    return true;
  report({kAffine, op,
          ("expected a " + what + " of the token alone, got one that depends on the state").str(),
          ("compute the " + what + " from inputs and params").str(),
          analysis.reads[dependent->reads[0]].op});
  for (unsigned read : dependent->reads)
    analysis.reads[read].isFeedback = true;
  return false;
}

bool Walk::addFactors(Value value, Operation *op, bool inverse, Product &product, unsigned &steps) {
  value = stripBroadcasts(value);
  if (++steps > kMaxFactors)
    return false;
  if (std::optional<double> constant = constantOf(value)) {
    product.constant = inverse ? product.constant / *constant : product.constant * *constant;
    return true;
  }
  // A product of broadcast numbers is one number per head although its type does not say so.
  if (Operation *inner = value.getDefiningOp();
      uniform.contains(value) && !isFlat(value.getType())) {
    if (isa<arith::MulFOp, arith::DivFOp>(inner)) {
      bool inverseRight = inverse != isa<arith::DivFOp>(inner);
      return addFactors(inner->getOperand(0), op, inverse, product, steps) &&
             addFactors(inner->getOperand(1), op, inverseRight, product, steps);
    }
    if (isa<arith::NegFOp>(inner)) {
      product.constant = -product.constant;
      return addFactors(inner->getOperand(0), op, inverse, product, steps);
    }
  }
  auto kind = inverse ? Factor::Kind::Inverse : Factor::Kind::Plain;
  product.factors.push_back({kind, value, {}, {}, op});
  return true;
}

Product Walk::productOf(Value value, Operation *op, bool inverse) {
  Product product;
  unsigned steps = 0;
  if (addFactors(value, op, inverse, product, steps))
    return product;
  auto kind = inverse ? Factor::Kind::Inverse : Factor::Kind::Plain;
  return {1.0, {{kind, stripBroadcasts(value), {}, {}, op}}};
}

void Walk::add(Dependent &sum, Value value, const Product &product) {
  const Dependent *dependent = find(value);
  if (!dependent) {
    sum.form.addLocal(value, product);
    return;
  }
  sum.reads.insert_range(dependent->reads);
  if (dependent->problem && !sum.problem)
    sum.problem = dependent->problem;
  if (!sum.problem)
    sum.form.add(dependent->form, product);
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

/// The factor of a decay on a branch.
static Factor exponentialOf(DecayOp decay) {
  return {Factor::Kind::Exponential, decay.getLogDecay(), {}, {}, decay};
}

/// Whether a decay works on value vectors rather than on key vectors.
static bool isOfValues(DecayOp decay) { return isOn(decay.getLogDecay().getType(), Axis::Value); }

void Walk::addBranchWrite(ReadOp read, ArrayRef<StepOpInterface> after, WriteOp write,
                          Dependent &sum) {
  Factor dot{Factor::Kind::Dot, read.getKey(), write.getKey(), {}, read};
  Product product;
  for (StepOpInterface event : after)
    if (auto decay = dyn_cast<DecayOp>(*event)) {
      if (isOfValues(decay))
        product.factors.push_back(exponentialOf(decay));
      else
        dot.logDecays.push_back(decay.getLogDecay());
    }
  product.factors.insert(product.factors.begin(), std::move(dot));
  add(sum, write.getValue(), product);
}

void Walk::visitRead(ReadOp op) {
  expectLocal(op.getKey(), "key vector", op);
  SmallVector<StepOpInterface> branch;
  Value state = op.getState();
  for (; !places.contains(state); state = branch.back().getStateBefore())
    branch.push_back(state.getDefiningOp<StepOpInterface>());
  std::reverse(branch.begin(), branch.end());

  Place place = places.lookup(state);
  ArrayRef<Decay> decays = analysis.states[place.state].decays;
  unsigned clock =
      llvm::count_if(decays, [&](const Decay &d) { return d.position < place.position; });
  Read read{op, place.state, place.position, clock, op.getKey(), {}};
  Product product;
  for (StepOpInterface event : branch)
    if (auto decay = dyn_cast<DecayOp>(*event)) {
      Axis axis = *axisOf(decay.getLogDecay().getType());
      if (axis == Axis::Scalar || axis == Axis::Value)
        product.factors.push_back(exponentialOf(decay));
      else
        read.keyDecays.push_back(decay);
    }

  unsigned number = analysis.reads.size();
  analysis.reads.push_back(std::move(read));
  Dependent result;
  result.reads.insert(number);
  result.form.addRead(number, product);
  for (auto [position, event] : llvm::enumerate(branch))
    if (auto write = dyn_cast<WriteOp>(*event))
      addBranchWrite(op, ArrayRef(branch).drop_front(position + 1), write, result);
  limitSize(result, op);
  if (result.problem)
    result.form = {};
  dependents[op.getResult()] = std::move(result);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

void Walk::combine(Operation &op, Dependent &result) {
  auto multiply = [&](Value a, Value b) {
    if (find(a) && find(b))
      return refuse(result, &op, "a product of two values that depend on the state",
                    "keep one factor of each product token-local");
    Value local = find(a) ? b : a;
    add(result, find(a) ? a : b, productOf(local, &op));
  };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](arith::AddFOp sum) {
        add(result, sum.getLhs(), {});
        add(result, sum.getRhs(), {});
      })
      .Case([&](arith::SubFOp difference) {
        add(result, difference.getLhs(), {});
        add(result, difference.getRhs(), {-1.0, {}});
      })
      .Case([&](arith::NegFOp negation) { add(result, negation.getOperand(), {-1.0, {}}); })
      .Case([&](arith::MulFOp product) { multiply(product.getLhs(), product.getRhs()); })
      .Case([&](math::FmaOp fma) {
        multiply(fma.getA(), fma.getB());
        add(result, fma.getC(), {});
      })
      .Case([&](arith::DivFOp quotient) {
        if (find(quotient.getRhs()))
          return refuse(result, &op, "a division by a value that depends on the state",
                        "divide by token-local values only");
        add(result, quotient.getLhs(), productOf(quotient.getRhs(), &op, /*inverse=*/true));
      })
      .Case([&](ReduceOp) {
        refuse(result, &op, "a sum along the value axis",
               "sum over token-local vectors only: columns of the state are independent");
      })
      .Case([&](arith::SelectOp) {
        refuse(result, &op, "a selection", "multiply by a gate of zeros and ones instead");
      })
      .Default([&](Operation *) {
        refuse(result, &op, "'" + op.getName().getStringRef() + "' of a read");
      });
}

void Walk::visitArithmetic(Operation &op) {
  Dependent result;
  for (Value operand : op.getOperands())
    if (const Dependent *dependent = find(operand)) {
      result.reads.insert_range(dependent->reads);
      if (!result.problem)
        result.problem = dependent->problem;
    }
  if (result.reads.empty())
    return;
  if (!result.problem) {
    combine(op, result);
    limitSize(result, &op);
  }
  if (result.problem)
    result.form = {}; // means nothing from here on, and must not grow
  for (Value value : op.getResults())
    dependents[value] = result;
}

//===----------------------------------------------------------------------===//
// Where values end
//===----------------------------------------------------------------------===//

void Walk::visitDecay(DecayOp op) {
  if (isOn(op.getLogDecay().getType(), Axis::KeyValue))
    report(
        {kNotPerElement, op, "expected a decay along scalar, key or value, got key_value",
         "decay along key and along value, one after the other, if the log decay is a sum of one "
         "number per row and one per column",
         nullptr});
  if (expectLocal(op.getLogDecay(), "log decay", op))
    return;
  auto it = places.find(op.getResult());
  if (it == places.end())
    return; // on a branch
  for (Decay &decay : analysis.states[it->second.state].decays)
    decay.isTokenLocal &= decay.op != op;
}

void Walk::visitWrite(WriteOp op) {
  bool isLocal = expectLocal(op.getKey(), "key vector", op);
  auto it = writes.find(op);
  if (it == writes.end())
    return; // on a branch: folded into the reads at its end
  Write &write = analysis.writes[it->second];
  Dependent value;
  add(value, op.getValue(), {});
  write.isAffine = isLocal && !value.problem;
  for (unsigned read : value.reads)
    analysis.reads[read].isFeedback |= !write.isAffine || value.form.find(read);
  if (write.isAffine) {
    write.value = std::move(value.form);
  } else if (value.problem) {
    if (value.problem->change.empty())
      value.problem->change = "keep what is written a sum of reads times token-local factors";
    report(*value.problem);
  }
}

void Walk::visitYield() {
  for (Value output : analysis.op.getYieldedOutputs()) {
    Dependent value;
    add(value, output, {});
    Output &result = analysis.outputs.emplace_back();
    for (unsigned read : value.reads)
      analysis.reads[read].isOutput |= value.problem || value.form.find(read);
    if (!value.problem) {
      result.form = std::move(value.form);
      continue;
    }
    result.isAffine = false;
    if (value.problem->change.empty())
      value.problem->change =
          "let the output be the value before this operation, which can be applied to it outside";
    report(*value.problem);
  }
}

void Walk::visit(Operation &op) {
  if (auto read = dyn_cast<ReadOp>(op))
    return visitRead(read);
  if (auto write = dyn_cast<WriteOp>(op))
    return visitWrite(write);
  if (auto decay = dyn_cast<DecayOp>(op))
    return visitDecay(decay);
  if (isa<dl::linattn::YieldOp>(op))
    return visitYield();
  visitArithmetic(op);
}

void Walk::run() {
  findPlaces();
  findLive();
  findUniform();
  for (Operation &op : body)
    if (live.contains(&op))
      visit(op);
}

} // namespace

void dl::analysis::walkAffine(StepAnalysis &analysis) { Walk(analysis).run(); }
