//===- Explain.cpp - An operator as the formulas of a paper ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formulas are written in program order, one line each, then the new states and the outputs. Short
// things stand where they are used; a line of its own, and a name, gets what is long or used as a
// whole: log decays (g1, ...), key vectors (x1, ...), reads that enter writes (r1, ...), values
// that are written (u1, ...) and states that are read between two events (S', S'', ...).
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Explain.h"

#include "passes/Analysis/Equations.h"
#include "passes/Analysis/Ranges.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

namespace {

/// Key vectors longer than this get a line of their own.
constexpr size_t kInlineLength = 20;

class Explainer {
public:
  explicit Explainer(const StepAnalysis &analysis);
  Explanation run();
  /// What a field of a log entry is called, once the step has been explained.
  std::string fieldName(const LogEntry &entry, unsigned field);

private:
  std::string stateName(unsigned state) { return op.getArgName(op.getStates()[state]).str(); }
  /// The first free name of this letter.
  std::string newName(StringRef letter);
  /// The name of a value by which it is shown, with a line that defines it unless it is an
  /// argument.
  std::string define(Value value, StringRef letter, StringRef note = "");

  Formula apply(StepOpInterface event, const Formula &before);
  Formula stateFormula(Value state);
  std::string keyFormula(Value key, ArrayRef<DecayOp> decays = {});
  std::string writtenFormula(WriteOp write);

  void explainDecay(DecayOp decay);
  void explainRead(ReadOp read);
  void explainWrite(WriteOp write);
  void nameBetween(Value state, unsigned stateNumber);
  void explainStates();
  void explainOutputs();
  void printMaps(raw_ostream &os);
  void printFeedback(raw_ostream &os);
  void printSchedules(raw_ostream &os);
  StepNames namesOfStep();

  const StepAnalysis &analysis;
  OperatorOp op;
  /// Whether affine forms are shown, which fold the branch a read is on into factors: else what is
  /// written in the operator.
  bool showsForms;
  FormulaPrinter formulas;
  SmallVector<Formula> reads; ///< how each is shown
  llvm::DenseMap<Operation *, unsigned> readNumbers, writeNumbers;
  llvm::DenseMap<Value, std::string> states;        ///< names of state values
  llvm::DenseMap<Operation *, std::string> written; ///< how what a write adds is shown
  llvm::DenseSet<Operation *> namedWrites;          ///< those with a line of their own
  llvm::StringMap<unsigned> counters;
  llvm::StringSet<> taken;
  std::vector<Equation> lines;
};

} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// A decay per element is no factor of a key vector.
static bool isOnElementwiseBranch(const Read &read) {
  return llvm::any_of(read.keyDecays, [](DecayOp decay) {
    return axisOf(decay.getLogDecay().getType()) == Axis::KeyValue;
  });
}

Explainer::Explainer(const StepAnalysis &analysis)
    : analysis(analysis), op(analysis.op),
      showsForms(analysis.isAffine() && llvm::none_of(analysis.reads, isOnElementwiseBranch)),
      formulas(analysis.op), reads(analysis.reads.size()) {
  for (BlockArgument argument : op.getArgs())
    taken.insert(op.getArgName(argument));
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    taken.insert(op.getOutputName(i));
  for (auto [index, read] : llvm::enumerate(analysis.reads))
    readNumbers[read.op] = index;
  for (auto [index, write] : llvm::enumerate(analysis.writes))
    writeNumbers[write.op] = index;
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    states[state.values.front()] = stateName(index) + "_{t-1}";
    if (state.values.size() > 1)
      states[state.values.back()] = stateName(index) + "_t";
  }
}

std::string Explainer::newName(StringRef letter) {
  for (;;) {
    std::string name = letter.str() + std::to_string(++counters[letter]);
    if (taken.insert(name).second)
      return name;
  }
}

std::string Explainer::define(Value value, StringRef letter, StringRef note) {
  Formula formula = formulas.print(value);
  Value inner = stripBroadcasts(value);
  if (formulas.isNamed(inner)) {
    Equation line{formula.text, "", note.str()};
    if (!note.empty() && !llvm::is_contained(lines, line))
      lines.push_back(line);
    return formula.text;
  }
  std::string name = newName(letter);
  lines.push_back({name, formula.text, note.str()});
  formulas.setName(inner, name);
  return name;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

Formula Explainer::apply(StepOpInterface event, const Formula &before) {
  if (auto write = dyn_cast<WriteOp>(*event))
    return {before.text + " + " + keyFormula(write.getKey()) + " " + writtenFormula(write) + "^T",
            Formula::Sum};
  auto decay = cast<DecayOp>(*event);
  std::string power = "e^" + formulas.print(decay.getLogDecay()).in(Formula::Atom);
  std::string state = before.in(Formula::Product);
  switch (*axisOf(decay.getLogDecay().getType())) {
  case Axis::Scalar:
    return {power + " " + state, Formula::Product};
  case Axis::Key:
    return {"diag(" + power + ") " + state, Formula::Product};
  case Axis::Value:
    return {state + " diag(" + power + ")", Formula::Product};
  case Axis::KeyValue:
    return {power + " o " + state, Formula::Product};
  }
  llvm_unreachable("an axis is one of four");
}

Formula Explainer::stateFormula(Value state) {
  if (auto it = states.find(state); it != states.end())
    return {it->second, Formula::Atom};
  auto event = state.getDefiningOp<StepOpInterface>();
  return apply(event, stateFormula(event.getStateBefore()));
}

std::string Explainer::keyFormula(Value key, ArrayRef<DecayOp> decays) {
  Formula formula = formulas.print(key);
  std::string text = formula.text;
  if (formula.binding != Formula::Atom || text.size() > kInlineLength)
    text = define(key, "x");
  if (decays.empty())
    return text;
  std::string factors;
  for (DecayOp decay : decays)
    factors += "diag(e^" + formulas.print(decay.getLogDecay()).in(Formula::Atom) + ") ";
  return "(" + factors + text + ")";
}

std::string Explainer::writtenFormula(WriteOp write) {
  std::string &text = written[write];
  if (!text.empty())
    return text;
  Formula formula = formulas.print(write.getValue());
  if (auto it = writeNumbers.find(write); it != writeNumbers.end())
    if (const Write &known = analysis.writes[it->second]; showsForms)
      formula = formulas.print(known.value, reads);
  if (formula.binding == Formula::Atom && formula.text.size() <= kInlineLength)
    return text = formula.text;
  text = newName("u");
  namedWrites.insert(write);
  lines.push_back({text, formula.text, ""});
  return text;
}

/// Gives a state on a path a name if its formula has a sum in it: the state is about to be read.
void Explainer::nameBetween(Value state, unsigned stateNumber) {
  Formula formula = stateFormula(state);
  if (formula.text.find(" + ") == std::string::npos)
    return;
  std::string base = "'" + stateName(stateNumber);
  std::string name = stateName(stateNumber) + std::string(++counters[base], '\'');
  lines.push_back({name, formula.text, ""});
  states[state] = name;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void Explainer::explainDecay(DecayOp decay) {
  std::string note = "log decay";
  switch (*axisOf(decay.getLogDecay().getType())) {
  case Axis::Scalar:
    note += ", one per head";
    break;
  case Axis::Key:
    note += ", one per key channel";
    break;
  case Axis::Value:
    note += ", one per value channel";
    break;
  case Axis::KeyValue:
    note += ", one per element";
    break;
  }
  if (std::optional<double> bound = decay.getBoundValue())
    note += ", at least " + formatConstant(*bound);
  define(decay.getLogDecay(), "g", note);
}

void Explainer::explainRead(ReadOp op) {
  auto it = readNumbers.find(op);
  if (it == readNumbers.end())
    return;
  const Read &read = analysis.reads[it->second];
  Value state = op.getState();
  if (showsForms)
    state = analysis.states[read.state].values[read.position];
  nameBetween(state, read.state);
  std::string text =
      stateFormula(state).in(Formula::Atom) + "^T " +
      keyFormula(read.key, showsForms ? ArrayRef(read.keyDecays) : ArrayRef<DecayOp>());
  reads[it->second] = {text, Formula::Product};
  if (showsForms && !read.isFeedback)
    return;
  std::string name = newName("r");
  lines.push_back({name, text, read.isFeedback ? "feedback read" : "read"});
  reads[it->second] = {name, Formula::Atom};
  formulas.setName(op.getResult(), name);
}

void Explainer::explainWrite(WriteOp write) {
  keyFormula(write.getKey());
  writtenFormula(write);
}

void Explainer::explainStates() {
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    std::string name = stateName(index);
    if (state.events.empty()) {
      lines.push_back({name + "_t", name + "_{t-1}", ""});
      continue;
    }
    StepOpInterface last = state.events.back();
    Formula formula = apply(last, stateFormula(last.getStateBefore()));
    lines.push_back({name + "_t", formula.text, ""});
  }
}

void Explainer::explainOutputs() {
  for (auto [index, output] : llvm::enumerate(analysis.outputs)) {
    Formula formula = showsForms ? formulas.print(output.form, reads)
                                 : formulas.print(op.getYieldedOutputs()[index]);
    lines.push_back({(op.getOutputName(index) + "_t").str(), formula.text, ""});
  }
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void dl::analysis::printEquations(ArrayRef<Equation> lines, unsigned indent, raw_ostream &os) {
  size_t nameWidth = 0, formulaWidth = 0;
  for (const Equation &line : lines) {
    nameWidth = std::max(nameWidth, line.name.size());
    if (!line.note.empty())
      formulaWidth = std::max(formulaWidth, line.formula.size());
  }
  for (const Equation &line : lines) {
    os.indent(indent) << llvm::left_justify(line.name, nameWidth);
    os << (line.formula.empty() || line.isSentence ? "   " : " = ");
    if (line.note.empty())
      os << line.formula << '\n';
    else
      os << llvm::left_justify(line.formula, formulaWidth) << "   [" << line.note << "]\n";
  }
}

std::string dl::analysis::describe(Operation *op) {
  std::string text = "'" + op->getName().getStringRef().str() + "'";
  if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>())
    text += " at line " + std::to_string(loc.getLine());
  return text;
}

void Explainer::printMaps(raw_ostream &os) {
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    os << "  step of " << stateName(index) << ": " << state.map.text();
    llvm::ListSeparator separator(", ");
    bool isSimple = llvm::all_of(state.eventMaps, std::mem_fn(&StepMap::isIdentity));
    os << (isSimple ? "" : "   [");
    for (auto [event, map] : llvm::zip(state.events, state.eventMaps))
      if (!map.isIdentity())
        os << separator << (map.rank ? "rank " + std::to_string(map.rank) : map.text()) << " by "
           << describe(event);
    os << (isSimple ? "\n" : "]\n");
  }
  os << "  feedback reads per token: " << analysis.numFeedbackReads();
  if (analysis.numFeedbackReads() > 0 && analysis.isAffine())
    printFeedback(os);
  os << '\n';
}

/// How precise products have to be follows from it.
void Explainer::printFeedback(raw_ostream &os) {
  std::optional<double> bound = boundOfFeedback(analysis);
  if (!bound)
    os << ", by factors that nothing bounds: prefill rounds factors of products to bf16";
  else
    os << ", by factors of at most " << formatConstant(*bound)
       << (*bound > 1 ? ": prefill keeps two bf16 of factors of products" : "");
}

void Explainer::printSchedules(raw_ostream &os) {
  std::string legal, refused;
  for (Schedule schedule : {Schedule::Recurrent, Schedule::Chunkwise, Schedule::Log}) {
    std::string &list = analysis.isLegal(schedule) ? legal : refused;
    list += (list.empty() ? "" : ", ") + nameOf(schedule).str();
  }
  os << "  schedules: " << legal << '\n';
  if (refused.empty())
    return;
  os << "  not " << refused << ":\n";
  for (const Refusal &refusal : analysis.refusals)
    os << "    " << describe(refusal.op) << ": " << refusal.text << " (" << refusal.condition
       << ")\n      " << refusal.change << '\n';
  os << "    " << kWithoutChange << '\n';
}

StepNames Explainer::namesOfStep() {
  StepNames names{formulas, {}, {}, taken};
  for (const Read &read : analysis.reads)
    names.reads.push_back(read.isFeedback ? reads[readNumbers.lookup(read.op)].text : "");
  for (const Write &write : analysis.writes) {
    bool isNamed = namedWrites.contains(write.op);
    names.written.push_back(isNamed ? written.lookup(write.op) : "");
  }
  return names;
}

Explanation Explainer::run() {
  for (Operation &inner : *op.getBody()) {
    if (auto decay = dyn_cast<DecayOp>(inner))
      explainDecay(decay);
    else if (auto read = dyn_cast<ReadOp>(inner))
      explainRead(read);
    else if (auto write = dyn_cast<WriteOp>(inner); write && writeNumbers.contains(write))
      explainWrite(write);
  }
  explainStates();
  explainOutputs();
  Explanation result;
  result.title = ("operator " + op.getSymName() + ", token t of one value head").str();
  result.step = lines;
  llvm::raw_string_ostream os(result.classes);
  printMaps(os);
  printSchedules(os);
  StepNames names = namesOfStep();
  for (Schedule schedule : {Schedule::Recurrent, Schedule::Chunkwise, Schedule::Log})
    if (analysis.isLegal(schedule))
      result.schedules.push_back(equationsOf(schedule, analysis, names));
  return result;
}

std::string Explanation::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << title << '\n';
  printEquations(step, 2, os);
  os << classes;
  for (const ScheduleText &schedule : schedules) {
    os << "  " << schedule.title << '\n';
    printEquations(schedule.lines, 4, os);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Fields of a log entry
//===----------------------------------------------------------------------===//

std::string Explainer::fieldName(const LogEntry &entry, unsigned number) {
  const LogField &field = entry.fields[number];
  std::string text;
  if (field.what == LogField::What::Decay) {
    for (Value decay : field.decays)
      text += (text.empty() ? "sum of " : " + ") + formulas.print(decay).text;
    return text;
  }
  for (auto [index, write] : llvm::enumerate(entry.writes)) {
    WriteOp op = analysis.writes[index].op;
    if (write.factor == int(number)) {
      text = formulas.print(write.scale).text;
      return text.size() <= 2 * kInlineLength ? text : "scale";
    }
    if (write.key != int(number) && write.value != int(number))
      continue;
    if (field.vector)
      text = formulas.print(field.vector).text;
    if (field.vector && text.size() <= kInlineLength)
      return text;
    return write.key == int(number) ? keyFormula(op.getKey()) : writtenFormula(op);
  }
  llvm_unreachable("a field belongs to a write or is a decay");
}

Explanation dl::analysis::explain(const StepAnalysis &analysis, const LogEntry *entry) {
  Explainer explainer(analysis);
  Explanation result = explainer.run();
  for (unsigned field = 0; entry && field < entry->fields.size(); ++field)
    result.fields.push_back(explainer.fieldName(*entry, field));
  return result;
}

std::string dl::analysis::explain(const StepAnalysis &analysis) {
  return explain(analysis, nullptr).text();
}

std::string dl::analysis::explain(OperatorOp op) {
  FailureOr<StepAnalysis> analysis = StepAnalysis::compute(op);
  return succeeded(analysis) ? explain(*analysis) : std::string();
}
