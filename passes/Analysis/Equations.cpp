//===- Equations.cpp - What the schedules of a step compute ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Vectors are columns in the recurrent equations and in what has indices of tokens. Matrices of a
// chunk have a row per token: a value v_t, transposed, is row t of V.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Equations.h"

#include "compiler/Schedule/Chunkwise.h"
#include "passes/Analysis/Internal.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

namespace {

/// A factor e^exponent, or diag(e^exponent) where it is one per channel.
struct Power {
  std::string exponent; ///< empty: one
  bool isPerChannel = false;

  /// In front of what it multiplies, with a space.
  std::string text() const {
    if (exponent.empty())
      return "";
    std::string power =
        "e^" + (exponent.find(' ') == std::string::npos ? exponent : "(" + exponent + ")");
    return (isPerChannel ? "diag(" + power + ")" : power) + " ";
  }
};

class Equations {
public:
  Equations(const StepAnalysis &analysis, const StepNames &names);

  std::vector<Equation> recurrent();
  std::vector<Equation> chunkwise();
  std::vector<Equation> log();

private:
  /// Which of a state's decays: those of values, or those of keys and heads.
  enum class Side { Key, Value };

  // Names
  /// The name, or one with its first letter doubled, that nothing else has.
  std::string fresh(std::string name);
  std::string stateName(unsigned state) { return op.getArgName(op.getStates()[state]).str(); }
  /// "_{t-1}", "_0": of a state.
  std::string stateAt(unsigned state, StringRef when) { return stateName(state) + when.str(); }
  /// `letter`, and a number where there are several.
  static std::string numbered(StringRef letter, unsigned index, size_t count) {
    return letter.str() + (count > 1 ? std::to_string(index + 1) : "");
  }
  std::string keyOf(const Read &read, FormulaPrinter &printer) {
    return printer.print(read.key).in(Formula::Atom);
  }
  std::string keyOf(const Write &write, FormulaPrinter &printer) {
    return printer.print(write.key).in(Formula::Atom);
  }
  /// A read's name, or those of the outputs it is for.
  std::string readerOf(unsigned read);
  /// What a write adds to its key: at the token, or of the token with this index.
  std::string valueOf(unsigned write, FormulaPrinter &printer, StringRef token);

  // Decays
  bool decaysOn(unsigned state, Side side) {
    return llvm::any_of(analysis.states[state].decays,
                        [&](const Decay &d) { return sideOf(d) == side; });
  }
  static Side sideOf(const Decay &decay) {
    return decay.axis == Axis::Value ? Side::Value : Side::Key;
  }
  bool isPerChannel(unsigned state, Side side) {
    return side == Side::Value || analysis.states[state].decaysAlong(Axis::Key);
  }
  /// The log decays from number `from` to before number `to` of a state, added up.
  std::string decaysBetween(unsigned state, Side side, unsigned from, unsigned to,
                            FormulaPrinter &printer);
  /// Like G_t, for the token `t` after `count` of its decays.
  std::string clock(unsigned state, Side side, unsigned count, StringRef t,
                    FormulaPrinter &printer);
  void addClocks(StringRef ofKeys, StringRef ofValues);
  /// With the decays of its own branch.
  std::string readExponent(const Read &read, std::string clock, FormulaPrinter &printer);
  bool isPerChannel(const Read &read) {
    return !read.keyDecays.empty() || isPerChannel(read.state, Side::Key);
  }

  // One token
  Formula readFormula(unsigned read);

  // A chunk
  void nameMatrices();
  void addGrams();
  void addKeys();
  void addSystem();
  void addBlockSystem(ArrayRef<unsigned> unknowns);
  void addOutputs();
  void addNewStates();
  void describeGrams();
  bool isUnknown(unsigned write) { return analysis.writes[write].hasFeedback(); }
  /// What a read gets of the writes of its state, of those that are unknown or known; "N1 U1".
  std::string seenOf(unsigned read, bool known, bool unknown);
  /// A read as a row of a matrix equation: of S_0 and of some writes.
  Formula readRow(unsigned read, bool withUnknown);
  /// The feedback of a write with its sign changed, each read shown as `reads` says.
  std::string movedLeft(const Write &write, ArrayRef<Formula> reads);

  // A log
  /// e^(L_t - L_i) a_i b_i^T, of one write.
  std::string logged(unsigned write);

  void add(std::string name, std::string formula, std::string note = "") {
    lines.push_back({std::move(name), std::move(formula), std::move(note)});
  }
  void say(StringRef label, StringRef sentence) {
    lines.push_back({label.str(), sentence.str(), "", /*isSentence=*/true});
  }

  const StepAnalysis &analysis;
  OperatorOp op;
  StepNames names;
  FormulaPrinter plain, atReader, atWriter, rows; ///< no index, _t, _i; values as matrices
  std::vector<Equation> lines;
  std::array<std::string, 2> clocks;                ///< of keys and heads, of values
  SmallVector<std::string> keysIn, keysOut, values; ///< of reads, writes and writes
  SmallVector<SmallVector<std::string>> grams;      ///< of reads with writes; empty: none
};

} // namespace

Equations::Equations(const StepAnalysis &analysis, const StepNames &names)
    : analysis(analysis), op(analysis.op), names(names), plain(names.formulas),
      atReader(names.formulas), atWriter(names.formulas), rows(names.formulas) {
  atReader.setToken("t");
  atWriter.setToken("i");
}

std::string Equations::fresh(std::string name) {
  while (!names.taken.insert(name).second)
    name.insert(0, 1, name.front());
  return name;
}

std::string Equations::valueOf(unsigned write, FormulaPrinter &printer, StringRef token) {
  if (!names.written[write].empty())
    return names.written[write] + token.str();
  return printer.print(WriteOp(analysis.writes[write].op).getValue()).in(Formula::Atom);
}

std::string Equations::readerOf(unsigned read) {
  std::string text = names.reads[read];
  if (text.empty())
    for (auto [i, output] : llvm::enumerate(analysis.outputs))
      if (output.form.find(read))
        text += (text.empty() ? "" : ", ") + op.getOutputName(i).str();
  return text;
}

//===----------------------------------------------------------------------===//
// Decays
//===----------------------------------------------------------------------===//

std::string Equations::decaysBetween(unsigned state, Side side, unsigned from, unsigned to,
                                     FormulaPrinter &printer) {
  std::string sum;
  for (const Decay &decay : ArrayRef(analysis.states[state].decays).slice(from, to - from))
    if (sideOf(decay) == side)
      sum += (sum.empty() ? "" : " + ") + printer.print(decay.logDecay).in(Formula::Atom);
  return sum;
}

std::string Equations::clock(unsigned state, Side side, unsigned count, StringRef t,
                             FormulaPrinter &printer) {
  unsigned all = analysis.states[state].decays.size();
  if (!decaysOn(state, side))
    return "";
  std::string name =
      clocks[side == Side::Value] + (analysis.states.size() > 1 ? stateName(state) : "");
  std::string own = decaysBetween(state, side, 0, count, printer);
  if (decaysBetween(state, side, count, all, printer).empty())
    return name + "_" + t.str();
  std::string before = name + "_{" + t.str() + "-1}";
  return own.empty() ? before : before + " + " + own;
}

void Equations::addClocks(StringRef ofKeys, StringRef ofValues) {
  clocks = {fresh(ofKeys.str()), fresh(ofValues.str())};
  for (unsigned state = 0; state < analysis.states.size(); ++state)
    for (Side side : {Side::Key, Side::Value}) {
      unsigned all = analysis.states[state].decays.size();
      if (!decaysOn(state, side))
        continue;
      std::string sum = decaysBetween(state, side, 0, all, atWriter);
      if (sum.find(' ') != std::string::npos)
        sum = "(" + sum + ")";
      std::string note = side == Side::Value         ? "one per value channel"
                         : isPerChannel(state, side) ? "one per key channel"
                                                     : "one per head";
      std::optional<double> bound = analysis.states[state].totalBound();
      if (bound && !decaysOn(state, side == Side::Key ? Side::Value : Side::Key))
        note += ", at least " + formatConstant(*bound) + " a token";
      add(clock(state, side, all, "t", atReader), "sum over i <= t of " + sum, note);
    }
}

std::string Equations::readExponent(const Read &read, std::string clock, FormulaPrinter &printer) {
  for (DecayOp decay : read.keyDecays)
    clock += (clock.empty() ? "" : " + ") + printer.print(decay.getLogDecay()).in(Formula::Atom);
  return clock;
}

/// "a - b", where either may be empty or a sum.
static std::string difference(const std::string &a, const std::string &b) {
  if (b.empty())
    return a;
  return a + (a.empty() ? "-" : " - ") + (b.find(' ') == std::string::npos ? b : "(" + b + ")");
}

//===----------------------------------------------------------------------===//
// One token
//===----------------------------------------------------------------------===//

/// S_{t-1}^T (e^g x) + (x^T a) u, with the decays between them.
Formula Equations::readFormula(unsigned number) {
  const Read &read = analysis.reads[number];
  std::string x = keyOf(read, plain);
  auto hasChannels = [&](unsigned from) {
    auto decays = ArrayRef(analysis.states[read.state].decays).slice(from, read.clock - from);
    return !read.keyDecays.empty() ||
           llvm::any_of(decays, [](const Decay &d) { return d.axis == Axis::Key; });
  };
  auto onKeys = [&](unsigned from) {
    std::string own = decaysBetween(read.state, Side::Key, from, read.clock, plain);
    return Power{readExponent(read, own, plain), hasChannels(from)}.text();
  };
  auto onValues = [&](unsigned from) {
    return Power{decaysBetween(read.state, Side::Value, from, read.clock, plain), true}.text();
  };
  std::string key = onKeys(0) + x;
  std::string text =
      onValues(0) + stateAt(read.state, "_{t-1}") + "^T " + (key == x ? x : "(" + key + ")");
  bool isSum = false;
  for (auto [w, write] : llvm::enumerate(analysis.writes)) {
    if (!analysis.sees(read, write))
      continue;
    std::string between = onKeys(write.clock), a = keyOf(write, plain);
    std::string dot = hasChannels(write.clock) ? "(" + x + "^T " + between + a + ")"
                                               : between + "(" + x + "^T " + a + ")";
    text += " + " + dot + " " + onValues(write.clock) + valueOf(w, plain, "");
    isSum = true;
  }
  return {text, isSum ? Formula::Sum : Formula::Product};
}

std::vector<Equation> Equations::recurrent() {
  SmallVector<Formula> reads;
  for (unsigned r = 0; r < analysis.reads.size(); ++r) {
    reads.push_back(readFormula(r));
    if (names.reads[r].empty())
      continue;
    add(names.reads[r], reads[r].text);
    reads[r] = {names.reads[r], Formula::Atom};
  }
  for (auto [i, output] : llvm::enumerate(analysis.outputs))
    add((op.getOutputName(i) + "_t").str(), plain.print(output.form, reads).text);
  return std::move(lines);
}

//===----------------------------------------------------------------------===//
// A chunk
//===----------------------------------------------------------------------===//

void Equations::nameMatrices() {
  auto capital = [&](StringRef name) {
    std::string text = name.str();
    text[0] = llvm::toUpper(text[0]);
    return text == name ? text : fresh(text);
  };
  for (BlockArgument input : op.getInputs())
    if (isOn(input.getType(), Axis::Value))
      rows.setName(input, capital(op.getArgName(input)));
  for (auto [r, read] : llvm::enumerate(analysis.reads))
    if (!names.reads[r].empty())
      rows.setName(ReadOp(read.op).getResult(), capital(names.reads[r]));
  for (auto [w, name] : llvm::enumerate(names.written))
    values.push_back(name.empty() ? valueOf(w, rows, "") : capital(name));
}

void Equations::addGrams() {
  size_t feedback = analysis.numFeedbackReads(), others = analysis.reads.size() - feedback;
  std::string letters[] = {fresh("M"), fresh("N")};
  unsigned counts[] = {0, 0};
  for (auto [r, read] : llvm::enumerate(analysis.reads)) {
    unsigned index = counts[read.isFeedback]++;
    std::string base =
        numbered(letters[read.isFeedback], index, read.isFeedback ? feedback : others);
    std::string at =
        readExponent(read, clock(read.state, Side::Key, read.clock, "t", atReader), atReader);
    grams.emplace_back(analysis.writes.size());
    for (auto [w, write] : llvm::enumerate(analysis.writes)) {
      if (write.state != read.state)
        continue;
      grams[r][w] = numbered(base, w, analysis.writes.size());
      std::string from = clock(read.state, Side::Key, write.clock, "i", atWriter);
      Power power{difference(at, from), isPerChannel(read)};
      std::string x = keyOf(read, atReader) + "^T ", a = keyOf(write, atWriter);
      add(grams[r][w] + "[t,i]", power.isPerChannel ? x + power.text() + a : power.text() + x + a,
          (analysis.sees(read, write) ? "i <= t" : "i < t") + (", else 0; " + readerOf(r)) +
              " reads " + valueOf(w, plain, ""));
    }
  }
}

/// Keys of reads as they meet S_0, and of writes as they enter the new state.
void Equations::addKeys() {
  size_t feedback = analysis.numFeedbackReads(), others = analysis.reads.size() - feedback;
  std::string letters[] = {fresh("Qin"), fresh("Kin")}, out = fresh("Kout");
  unsigned counts[] = {0, 0};
  for (const Read &read : analysis.reads) {
    unsigned index = counts[read.isFeedback]++;
    keysIn.push_back(
        numbered(letters[read.isFeedback], index, read.isFeedback ? feedback : others));
    Power power{
        readExponent(read, clock(read.state, Side::Key, read.clock, "t", atReader), atReader),
        isPerChannel(read)};
    add(keysIn.back() + "[t]", power.text() + keyOf(read, atReader));
  }
  for (auto [w, write] : llvm::enumerate(analysis.writes)) {
    keysOut.push_back(numbered(out, w, analysis.writes.size()));
    unsigned all = analysis.states[write.state].decays.size();
    Power power{difference(clock(write.state, Side::Key, all, "C", atReader),
                           clock(write.state, Side::Key, write.clock, "i", atWriter)),
                isPerChannel(write.state, Side::Key)};
    add(keysOut.back() + "[i]", power.text() + keyOf(write, atWriter));
    if (decaysOn(write.state, Side::Value)) {
      std::string own = clock(write.state, Side::Value, write.clock, "i", atWriter);
      std::string decayed = fresh("W" + (analysis.writes.size() > 1 ? std::to_string(w + 1) : ""));
      add(decayed + "[i]", Power{difference("", own), true}.text() +
                               valueOf(w, atWriter, names.written[w].empty() ? "" : "_i"));
      values[w] = decayed;
    }
  }
}

std::string Equations::seenOf(unsigned read, bool known, bool unknown) {
  std::string sum;
  for (unsigned w = 0; w < analysis.writes.size(); ++w)
    if (!grams[read][w].empty() && (isUnknown(w) ? unknown : known))
      sum += (sum.empty() ? "" : " + ") + grams[read][w] + " " + values[w];
  return sum;
}

Formula Equations::readRow(unsigned number, bool withUnknown) {
  const Read &read = analysis.reads[number];
  std::string seen = seenOf(number, /*known=*/true, withUnknown);
  Formula result{keysIn[number] + " " + stateAt(read.state, "_0") + (seen.empty() ? "" : " + ") +
                     seen,
                 seen.empty() ? Formula::Product : Formula::Sum};
  std::string own = clock(read.state, Side::Value, read.clock, "t", atReader);
  if (own.empty())
    return result;
  StringRef power = "e^";
  return {power.str() + (own.find(' ') == std::string::npos ? own : "(" + own + ")") + " o " +
              result.in(Formula::Atom),
          Formula::Product};
}

std::string Equations::movedLeft(const Write &write, ArrayRef<Formula> reads) {
  AffineForm form;
  for (const ReadTerm &term : write.value.reads)
    if (!reads[term.read].text.empty())
      for (const Product &product : term.coefficient)
        form.addRead(term.read, Product{-1.0, {}} * product);
  return form.reads.empty() ? "" : rows.print(form, reads).text;
}

/// One equation for each value that is unknown, where there are several.
void Equations::addBlockSystem(ArrayRef<unsigned> unknowns) {
  SmallVector<Formula> seen, rest;
  for (unsigned r = 0; r < analysis.reads.size(); ++r) {
    std::string sum = seenOf(r, /*known=*/false, /*unknown=*/true);
    seen.push_back({sum, StringRef(sum).contains(" + ") ? Formula::Sum : Formula::Product});
    rest.push_back(readRow(r, /*withUnknown=*/false));
  }
  StringRef label = "system";
  for (unsigned w : unknowns) {
    const Write &write = analysis.writes[w];
    std::string left = movedLeft(write, seen);
    bool isNegative = StringRef(left).starts_with("-");
    if (!left.empty())
      left = (isNegative ? " - " : " + ") + left.substr(isNegative);
    say(label, values[w] + left + " = " + rows.print(write.value, rest).text);
    label = "";
  }
  say("", "unit lower triangular: " + std::to_string(unknowns.size()) +
              " C rows, token by token, for feedback reads per token: " +
              std::to_string(analysis.numFeedbackReads()));
}

void Equations::addSystem() {
  SmallVector<unsigned> unknowns;
  for (unsigned w = 0; w < analysis.writes.size(); ++w)
    if (isUnknown(w))
      unknowns.push_back(w);
  if (unknowns.empty())
    return say("no solve", "writes do not depend on the state");
  if (unknowns.size() > 1)
    return addBlockSystem(unknowns);
  unsigned w = unknowns.front();
  const Write &write = analysis.writes[w];
  SmallVector<Formula> seen, rest;
  for (unsigned r = 0; r < analysis.reads.size(); ++r) {
    seen.push_back({grams[r][w], Formula::Atom});
    rest.push_back(readRow(r, /*withUnknown=*/false));
  }
  std::string right = rows.print(write.value, rest).text, left = movedLeft(write, seen);
  if (left.empty()) // it reads other states
    return add(values[w], right);
  bool isNegative = StringRef(left).starts_with("-");
  std::string matrix = (isNegative ? "I - " : "I + ") + left.substr(isNegative);
  if (StringRef(left).contains(' ')) {
    std::string letter = fresh("A");
    add(letter, left);
    matrix = "I + " + letter;
  }
  add("(" + matrix + ") " + values[w], right, "unit lower triangular, C rows");
}

void Equations::addOutputs() {
  SmallVector<Formula> reads;
  for (unsigned r = 0; r < analysis.reads.size(); ++r)
    reads.push_back(readRow(r, /*withUnknown=*/true));
  for (auto [i, output] : llvm::enumerate(analysis.outputs)) {
    std::string name = op.getOutputName(i).str();
    name[0] = llvm::toUpper(name[0]);
    add(fresh(name), rows.print(output.form, reads).text);
  }
}

void Equations::addNewStates() {
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    unsigned all = state.decays.size();
    Power power{clock(index, Side::Key, all, "C", atReader), isPerChannel(index, Side::Key)};
    std::string sum = power.text() + stateAt(index, "_0");
    for (unsigned w : state.writes)
      sum += " + " + keysOut[w] + "^T " + values[w];
    if (decaysOn(index, Side::Value)) {
      Power columns{clock(index, Side::Value, all, "C", atReader), true};
      sum = (StringRef(sum).contains(" + ") ? "(" + sum + ")" : sum) + " " +
            StringRef(columns.text()).rtrim().str();
    }
    add(stateAt(index, "_C"), sum);
  }
}

/// How no factor of theirs overflows: as tile-expand-gram has it.
void Equations::describeGrams() {
  auto hasGrams = [](const SmallVector<std::string> &row) {
    return llvm::any_of(row, [](const std::string &name) { return !name.empty(); });
  };
  if (llvm::none_of(grams, hasGrams))
    return;
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    StringRef label = index == 0 ? "Grams" : "";
    std::optional<double> bound = state.totalBound();
    if (!decaysOn(index, Side::Key))
      say(label, "plain products");
    else if (!isPerChannel(index, Side::Key))
      say(label, "plain products, then times one number per pair, at most 1");
    else if (bound && dl::schedule::isBoundInGramBlocks(*bound))
      say(label, llvm::formatv("one product per block of {0} tokens, which the bound keeps within "
                               "{1} nats; beyond, factored around the boundary of halves",
                               dl::schedule::kGramBlock,
                               formatConstant(-dl::schedule::kGramBlock * *bound))
                     .str());
    else
      say(label, "halves of 1, 2, 4, ... tokens with the halves before them, factored around their "
                 "boundary: no exponent above 0");
  }
}

std::vector<Equation> Equations::chunkwise() {
  nameMatrices();
  addClocks("G", "H");
  addGrams();
  addKeys();
  addSystem();
  addOutputs();
  addNewStates();
  describeGrams();
  return std::move(lines);
}

//===----------------------------------------------------------------------===//
// A log
//===----------------------------------------------------------------------===//

std::string Equations::logged(unsigned w) {
  const Write &write = analysis.writes[w];
  unsigned all = analysis.states[write.state].decays.size();
  auto power = [&](Side side) {
    std::string since = difference(clock(write.state, side, all, "t", atReader),
                                   clock(write.state, side, write.clock, "i", atWriter));
    return Power{since, isPerChannel(write.state, side)}.text();
  };
  std::string columns = power(Side::Value);
  std::string value = columns + valueOf(w, atWriter, names.written[w].empty() ? "" : "_i");
  return power(Side::Key) + keyOf(write, atWriter) + " " +
         (columns.empty() ? value : "(" + value + ")") + "^T";
}

std::vector<Equation> Equations::log() {
  addClocks("L", "P");
  std::string base = fresh("Base");
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    unsigned all = state.decays.size();
    auto power = [&, state = unsigned(index)](Side side) {
      return Power{clock(state, side, all, "t", atReader), isPerChannel(state, side)}.text();
    };
    std::string columns = power(Side::Value), sum;
    for (unsigned w : state.writes)
      sum += (sum.empty() ? "" : " + ") + logged(w);
    if (state.writes.size() > 1)
      sum = "(" + sum + ")";
    add(stateAt(index, "_t"),
        power(Side::Key) + base + (analysis.states.size() > 1 ? stateName(index) : "") +
            (columns.empty() ? "" : " " + columns.substr(0, columns.size() - 1)) +
            (sum.empty() ? "" : " + sum over i <= t of " + sum));
  }
  say("append", "reads as in a chunk, with the base for the state before it");
  say("merge", "the base becomes the state, and the log is empty");
  return std::move(lines);
}

/// Whether nobody would read the equations: every read meets every write.
static bool isLong(const StepAnalysis &analysis) {
  constexpr size_t maxPairs = 128;
  return analysis.reads.size() * analysis.writes.size() > maxPairs;
}

/// Of one token the equations are those of the step where it has no factors to take apart.
static ScheduleText recurrentText(const StepAnalysis &analysis, Equations &equations) {
  auto isPerElement = [](const Refusal &r) { return r.condition == kNotPerElement; };
  if (!analysis.isAffine() || llvm::any_of(analysis.refusals, isPerElement) || isLong(analysis))
    return {Schedule::Recurrent, "recurrent (decode): token by token, as above", {}};
  return {Schedule::Recurrent,
          "recurrent (decode): the old state is read once, for all reads of a token",
          equations.recurrent()};
}

ScheduleText dl::analysis::equationsOf(Schedule schedule, const StepAnalysis &analysis,
                                       const StepNames &names) {
  Equations equations(analysis, names);
  switch (schedule) {
  case Schedule::Recurrent:
    return recurrentText(analysis, equations);
  case Schedule::Chunkwise:
    if (isLong(analysis))
      return {schedule, "chunkwise (prefill): too many reads and writes per token to show", {}};
    return {schedule,
            "chunkwise (prefill): tokens 1 to C at once; capitals have a row per token, * goes by "
            "rows",
            equations.chunkwise()};
  case Schedule::Log:
    return {schedule,
            "log (append, merge, materialize): a base and an entry for each token i since",
            equations.log()};
  }
  llvm_unreachable("a schedule is one of three");
}
