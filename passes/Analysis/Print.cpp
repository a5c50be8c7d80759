//===- Print.cpp - The normal form as text for tests ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Expression.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

namespace {

class Printer {
public:
  Printer(const StepAnalysis &analysis, raw_ostream &os)
      : analysis(analysis), op(analysis.op), formulas(analysis.op), os(os) {
    for (auto [index, read] : llvm::enumerate(analysis.reads)) {
      reads.push_back({"read" + std::to_string(index), Formula::Atom});
      formulas.setName(ReadOp(read.op).getResult(), reads.back().text);
    }
  }

  void print();

private:
  std::string stateName(unsigned state) { return op.getArgName(op.getStates()[state]).str(); }
  std::string clock(unsigned state, unsigned count);
  std::string form(const AffineForm &form, bool isAffine) {
    return isAffine ? formulas.print(form, reads).text : "not affine";
  }
  void printState(unsigned index);
  void printRead(unsigned index);

  const StepAnalysis &analysis;
  OperatorOp op;
  FormulaPrinter formulas;
  SmallVector<Formula> reads;
  raw_ostream &os;
};

} // namespace

std::string Printer::clock(unsigned state, unsigned count) {
  unsigned all = analysis.states[state].decays.size();
  if (all == 0)
    return "0";
  if (count == 0 || count == all)
    return count == 0 ? "G[t-1]" : "G[t]";
  return "G[t-1] + " + std::to_string(count) + " of " + std::to_string(all) + " decays";
}

void Printer::printState(unsigned index) {
  const State &state = analysis.states[index];
  os << "  state " << stateName(index) << ": " << state.map.text();
  for (unsigned source : state.sources)
    os << ", fed by " << stateName(source);
  os << '\n';
  const Decay *decay = state.decays.begin();
  const unsigned *write = state.writes.begin();
  for (auto [event, map] : llvm::zip(state.events, state.eventMaps)) {
    os << "    ";
    if (isa<DecayOp>(*event)) {
      os << "decay along " << stringifyAxis(decay->axis)
         << ", l = " << formulas.print(decay->logDecay).text;
      if (decay->bound)
        os << ", l >= " << formatConstant(*decay->bound);
      ++decay;
    } else if (isa<WriteOp>(*event)) {
      const Write &w = analysis.writes[*write];
      os << "write" << *write << " at " << clock(index, w.clock)
         << ", a = " << formulas.print(w.key).text << ", b = " << form(w.value, w.isAffine);
      ++write;
    }
    os << "  (" << map.text() << ")\n";
  }
}

void Printer::printRead(unsigned index) {
  const Read &read = analysis.reads[index];
  os << "  read" << index << " of " << stateName(read.state) << " before event " << read.position
     << " at " << clock(read.state, read.clock) << ", x = " << formulas.print(read.key).text;
  for (DecayOp decay : read.keyDecays)
    os << " e^" << formulas.print(decay.getLogDecay()).in(Formula::Atom);
  os << ':' << (read.isFeedback ? " feedback" : "") << (read.isOutput ? " output" : "") << '\n';
}

void Printer::print() {
  os << "operator @" << op.getSymName() << ": " << (analysis.isAffine() ? "affine" : "not affine")
     << ", feedback reads = " << analysis.numFeedbackReads() << '\n';
  for (unsigned i = 0; i < analysis.states.size(); ++i)
    printState(i);
  for (unsigned i = 0; i < analysis.reads.size(); ++i)
    printRead(i);
  for (auto [index, output] : llvm::enumerate(analysis.outputs))
    os << "  output " << op.getOutputName(index) << " = " << form(output.form, output.isAffine)
       << '\n';
  os << "  schedules:";
  llvm::ListSeparator separator(",");
  for (Schedule schedule : {Schedule::Recurrent, Schedule::Chunkwise, Schedule::Log})
    if (analysis.isLegal(schedule))
      os << separator << ' ' << nameOf(schedule);
  os << '\n';
}

void StepAnalysis::print(raw_ostream &os) const { Printer(*this, os).print(); }
