//===- LinAttnOperator.cpp - The operator: assembly, verifier, accessors --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dl::linattn;

//===----------------------------------------------------------------------===//
// Accessors
//===----------------------------------------------------------------------===//

OperatorOp::Args OperatorOp::getArgs() { return getBody()->getArguments(); }
OperatorOp::Args OperatorOp::getInputs() { return getArgs().take_front(getNumInputs()); }
OperatorOp::Args OperatorOp::getParams() { return getArgs().slice(getNumInputs(), getNumParams()); }
OperatorOp::Args OperatorOp::getStates() { return getArgs().take_back(getNumStates()); }

static StringRef nameAt(ArrayAttr names, unsigned i) {
  return cast<StringAttr>(names[i]).getValue();
}

StringRef OperatorOp::getArgName(unsigned argNumber) {
  if (argNumber < getNumInputs())
    return nameAt(getInputNames(), argNumber);
  argNumber -= getNumInputs();
  if (argNumber < getNumParams())
    return nameAt(getParamNames(), argNumber);
  return nameAt(getStateNames(), argNumber - getNumParams());
}

StringRef OperatorOp::getOutputName(unsigned i) { return nameAt(getOutputNames(), i); }

Type OperatorOp::getOutputType(unsigned i) {
  return cast<TypeAttr>(getOutputTypes()[i]).getValue();
}

DictionaryAttr OperatorOp::getArgAttrDict(unsigned argNumber) {
  ArrayAttr all = getArgAttrsAttr();
  return all ? cast<DictionaryAttr>(all[argNumber]) : DictionaryAttr::get(getContext());
}

Type OperatorOp::getPinnedType(unsigned argNumber) {
  auto type = getArgAttrDict(argNumber).getAs<TypeAttr>(kDtypeAttrName);
  return type ? type.getValue() : Type();
}

std::optional<double> OperatorOp::getDefaultValue(unsigned argNumber, int64_t keyDim) {
  Attribute value = getArgAttrDict(argNumber).get(kDefaultAttrName);
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    return number.getValueAsDouble();
  if (auto text = dyn_cast_or_null<StringAttr>(value))
    if (std::optional<double> power = parseKeyDimPower(text))
      return std::pow(double(keyDim), *power);
  return std::nullopt;
}

std::optional<double> OperatorOp::getBound(unsigned argNumber) {
  auto bound = getArgAttrDict(argNumber).getAs<FloatAttr>(kBoundAttrName);
  return bound ? std::optional(bound.getValueAsDouble()) : std::nullopt;
}

Attribute OperatorOp::getOption(StringRef name) {
  DictionaryAttr all = getOptionsAttr();
  return all ? all.get(name) : Attribute();
}

YieldOp OperatorOp::getYield() { return cast<YieldOp>(getBody()->getTerminator()); }

OperandRange OperatorOp::getYieldedStates() {
  return getYield().getOperands().take_front(getNumStates());
}

OperandRange OperatorOp::getYieldedOutputs() {
  return getYield().getOperands().drop_front(getNumStates());
}

void OperatorOp::eraseArguments(const llvm::BitVector &toErase) {
  Builder builder(getContext());
  unsigned next = 0;
  auto keepOf = [&](ArrayAttr names) {
    SmallVector<Attribute> kept;
    for (Attribute name : names)
      if (!toErase.test(next++))
        kept.push_back(name);
    return builder.getArrayAttr(kept);
  };
  setInputNamesAttr(keepOf(getInputNames()));
  setParamNamesAttr(keepOf(getParamNames()));
  setStateNamesAttr(keepOf(getStateNames()));
  if (ArrayAttr attrs = getArgAttrsAttr()) {
    next = 0;
    setArgAttrsAttr(keepOf(attrs));
  }
  getBody()->eraseArguments(toErase);
}

void OperatorOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  // Printing also happens on invalid IR, in diagnostics.
  bool hasNames = getInputNamesAttr() && getParamNamesAttr() && getStateNamesAttr();
  if (region.empty() || !hasNames || region.getNumArguments() != getNumArgs())
    return;
  for (BlockArgument arg : region.getArguments())
    setName(arg, getArgName(arg));
}

//===----------------------------------------------------------------------===//
// Assembly
//===----------------------------------------------------------------------===//

using ParsedArgs = SmallVector<OpAsmParser::Argument>;

/// Parses `(%q: !key {...}, ...)`, appends to `args` and records the names as attribute `attrName`.
static ParseResult parseArgs(OpAsmParser &parser, OperationState &result, StringRef attrName,
                             ParsedArgs &args) {
  ParsedArgs parsed;
  if (parser.parseArgumentList(parsed, OpAsmParser::Delimiter::Paren, /*allowType=*/true,
                               /*allowAttrs=*/true))
    return failure();
  SmallVector<StringRef> names;
  for (OpAsmParser::Argument &arg : parsed)
    names.push_back(arg.ssaName.name.drop_front()); // the '%'
  result.addAttribute(attrName, parser.getBuilder().getStrArrayAttr(names));
  llvm::append_range(args, parsed);
  return success();
}

/// Parses `-> (o: !value, ...)`.
static ParseResult parseOutputs(OpAsmParser &parser, OperationState &result, StringRef namesAttr,
                                StringRef typesAttr) {
  SmallVector<StringRef> names;
  SmallVector<Type> types;
  auto parseOutput = [&]() -> ParseResult {
    return failure(parser.parseKeyword(&names.emplace_back()) ||
                   parser.parseColonType(types.emplace_back()));
  };
  if (parser.parseArrow() ||
      parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOutput))
    return failure();
  result.addAttribute(namesAttr, parser.getBuilder().getStrArrayAttr(names));
  result.addAttribute(typesAttr, parser.getBuilder().getTypeArrayAttr(types));
  return success();
}

/// Parses `KEYWORD {...}` if it is there.
static ParseResult parseOptionalDict(OpAsmParser &parser, OperationState &result, StringRef keyword,
                                     StringRef attrName) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  NamedAttrList entries;
  if (parser.parseOptionalAttrDict(entries))
    return failure();
  result.addAttribute(attrName, entries.getDictionary(parser.getContext()));
  return success();
}

ParseResult OperatorOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringAttr name;
  ParsedArgs args;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes) ||
      parseArgs(parser, result, getInputNamesAttrName(result.name), args))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("params"))) {
    if (parseArgs(parser, result, getParamNamesAttrName(result.name), args))
      return failure();
  } else {
    result.addAttribute(getParamNamesAttrName(result.name), builder.getArrayAttr({}));
  }
  if (parser.parseKeyword("state") ||
      parseArgs(parser, result, getStateNamesAttrName(result.name), args) ||
      parseOutputs(parser, result, getOutputNamesAttrName(result.name),
                   getOutputTypesAttrName(result.name)) ||
      parseOptionalDict(parser, result, "options", getOptionsAttrName(result.name)) ||
      parseOptionalDict(parser, result, "settings", getSettingsAttrName(result.name)) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();

  SmallVector<Attribute> attrs;
  for (OpAsmParser::Argument &arg : args)
    attrs.push_back(arg.attrs ? arg.attrs : builder.getDictionaryAttr({}));
  if (llvm::any_of(attrs, [](Attribute a) { return !cast<DictionaryAttr>(a).empty(); }))
    result.addAttribute(getArgAttrsAttrName(result.name), builder.getArrayAttr(attrs));
  return parser.parseRegion(*result.addRegion(), args);
}

void OperatorOp::print(OpAsmPrinter &printer) {
  auto printArgs = [&](Args args) {
    printer << '(';
    llvm::interleaveComma(args, printer, [&](BlockArgument arg) {
      printer.printRegionArgument(arg, getArgAttrDict(arg.getArgNumber()).getValue());
    });
    printer << ')';
  };
  auto startLine = [&](StringRef text) {
    printer.printNewline();
    printer << "    " << text;
  };

  printer << ' ';
  printer.printSymbolName(getSymName());
  printArgs(getInputs());
  if (getNumParams()) {
    startLine("params");
    printArgs(getParams());
  }
  startLine("state");
  printArgs(getStates());
  printer << " -> (";
  for (unsigned i = 0, e = getNumOutputs(); i < e; ++i)
    printer << (i ? ", " : "") << getOutputName(i) << ": " << getOutputType(i);
  printer << ')';
  if (DictionaryAttr options = getOptionsAttr()) {
    startLine("options ");
    printer << options;
  }
  if (DictionaryAttr settings = getSettingsAttr()) {
    startLine("settings ");
    printer << settings;
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), getAttributeNames());
  printer << ' ';
  printer.printRegion(getBodyRegion(), /*printEntryBlockArgs=*/false);
}

//===----------------------------------------------------------------------===//
// Verifier: the signature
//===----------------------------------------------------------------------===//

static LogicalResult verifyNames(OperatorOp op) {
  if (!isIdentifier(op.getSymName())) // C6
    return op.emitOpError("expected an identifier as the operator's name, got '")
           << op.getSymName() << "'";
  llvm::SmallDenseSet<StringRef> seen;
  for (ArrayAttr names :
       {op.getInputNames(), op.getParamNames(), op.getStateNames(), op.getOutputNames()})
    for (StringRef name : names.getAsValueRange<StringAttr>()) {
      if (!isIdentifier(name)) // C6
        return op.emitOpError("expected an identifier as name, got '") << name << "'";
      if (!seen.insert(name).second) // C6
        return op.emitOpError("expected different names for inputs, params, states and outputs, "
                              "got two '")
               << name << "'";
    }
  return success();
}

static LogicalResult verifyArgTypes(OperatorOp op) {
  for (BlockArgument arg : op.getInputs())
    if (!isEncoded(arg.getType())) // C7
      return op.emitOpError("expected an f32 tensor with a #linattn.of encoding for input '")
             << op.getArgName(arg) << "', got " << arg.getType();
  for (BlockArgument arg : op.getParams())
    if (!isEncoded(arg.getType()) && !arg.getType().isF32()) // C8
      return op.emitOpError("expected f32 or an f32 tensor with a #linattn.of encoding for param '")
             << op.getArgName(arg) << "', got " << arg.getType();
  if (op.getNumStates() == 0) // C9
    return op.emitOpError("expected at least one state");
  for (BlockArgument arg : op.getStates())
    if (!isState(arg.getType())) // C9
      return op.emitOpError("expected !linattn.state for state '")
             << op.getArgName(arg) << "', got " << arg.getType();
  return success();
}

static LogicalResult verifyOutputs(OperatorOp op) {
  if (op.getNumOutputs() == 0) // C10
    return op.emitOpError("expected at least one output");
  if (op.getOutputTypes().size() != op.getNumOutputs()) // C10
    return op.emitOpError("expected one type per output, got ")
           << op.getNumOutputs() << " names and " << op.getOutputTypes().size() << " types";
  for (unsigned i = 0, e = op.getNumOutputs(); i < e; ++i) {
    Type type = op.getOutputType(i);
    if (!isEncoded(type) || groupOf(type) != HeadGroup::ValueHead) // C10
      return op.emitOpError("expected an f32 tensor of value heads for output '")
             << op.getOutputName(i) << "', got " << type;
  }
  return success();
}

static LogicalResult verifyArgAttr(OperatorOp op, unsigned i, NamedAttribute attr) {
  StringRef arg = op.getArgName(i), name = attr.getName().getValue();
  Type type = op.getArgs()[i].getType();
  if (name == kDtypeAttrName) {
    auto dtype = dyn_cast<TypeAttr>(attr.getValue());
    if (!isEncoded(type) || !dtype ||
        !(dtype.getValue().isF32() || dtype.getValue().isBF16() || dtype.getValue().isF16())) // C11
      return op.emitOpError("expected linattn.dtype = f32, bf16 or f16 on a tensor, got ")
             << attr.getValue() << " on '" << arg << "' of type " << type;
    return success();
  }
  if (name == kDefaultAttrName) {
    auto number = dyn_cast<FloatAttr>(attr.getValue());
    auto text = dyn_cast<StringAttr>(attr.getValue());
    bool valid = (number && number.getValue().isFinite()) || (text && parseKeyDimPower(text));
    if (!type.isF32() || i < op.getNumInputs() || !valid) // C11
      return op.emitOpError(
                 "expected linattn.default to be a finite number or \"key_dim^P\", P from "
                 "-8 to 8, on an f32 param, got ")
             << attr.getValue() << " on '" << arg << "' of type " << type;
    return success();
  }
  if (name == kBoundAttrName) {
    auto number = dyn_cast<FloatAttr>(attr.getValue());
    if (isState(type) || !number || !number.getValue().isFinite() ||
        !(number.getValueAsDouble() > 0)) // C11
      return op.emitOpError("expected linattn.bound to be a positive finite number on an input or "
                            "param, got ")
             << attr.getValue() << " on '" << arg << "' of type " << type;
    return success();
  }
  if (name.starts_with("linattn.")) // C11
    return op.emitOpError("expected linattn.dtype, linattn.default or linattn.bound, got ")
           << name << " on '" << arg << "'";
  return success();
}

static LogicalResult verifyArgAttrs(OperatorOp op) {
  for (unsigned i = 0, e = op.getNumArgs(); i < e; ++i)
    for (NamedAttribute attr : op.getArgAttrDict(i))
      if (failed(verifyArgAttr(op, i, attr)))
        return failure();
  return success();
}

static LogicalResult verifyOptions(OperatorOp op) {
  if (!op.getOptionsAttr())
    return success();
  for (NamedAttribute option : op.getOptionsAttr()) {
    StringRef name = option.getName().getValue();
    if (!isIdentifier(name)) // C12
      return op.emitOpError("expected an identifier as option name, got '") << name << "'";
    if (isa<BoolAttr, NumberAttr>(option.getValue()))
      continue;
    auto choice = dyn_cast<ArrayAttr>(option.getValue());
    if (!choice || choice.empty()) // C12
      return op.emitOpError("expected a list of names, a bool or #linattn.number for option '")
             << name << "', got " << option.getValue();
    llvm::SmallDenseSet<Attribute> seen;
    for (Attribute entry : choice) {
      auto text = dyn_cast<StringAttr>(entry);
      if (!text || !isIdentifier(text)) // C12
        return op.emitOpError("expected identifiers as choices of option '")
               << name << "', got " << entry;
      if (!seen.insert(entry).second) // C12
        return op.emitOpError("expected different choices for option '")
               << name << "', got two " << entry;
    }
  }
  return success();
}

/// Before the ops of the body say what they think of an operand of this type.
static LogicalResult verifyStatesAreOpaque(OperatorOp op) {
  WalkResult walk = op.getBodyRegion().walk([](Operation *inner) -> WalkResult {
    if (isa<LinAttnDialect>(inner->getDialect()) ||
        llvm::none_of(inner->getOperandTypes(), isState))
      return WalkResult::advance();
    InFlightDiagnostic diag = inner->emitOpError( // C13
        "expected f32, i1 or a tensor with a #linattn.of encoding, got a state");
    diag.attachNote() << "a state changes by linattn.decay and linattn.write, and is seen through "
                         "linattn.read";
    return diag;
  });
  return failure(walk.wasInterrupted());
}

LogicalResult OperatorOp::verify() {
  if (getBody()->getNumArguments() != getNumArgs()) // C5
    return emitOpError("expected one body argument per name, got ")
           << getNumArgs() << " names and " << getBody()->getNumArguments() << " arguments";
  if (getArgAttrsAttr() && getArgAttrsAttr().size() != getNumArgs()) // C5
    return emitOpError("expected one dictionary per argument in arg_attrs, got ")
           << getArgAttrsAttr().size() << " for " << getNumArgs() << " arguments";
  for (auto check : {verifyNames, verifyArgTypes, verifyOutputs, verifyArgAttrs, verifyOptions,
                     verifyStatesAreOpaque})
    if (failed(check(*this)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Verifier: the body
//===----------------------------------------------------------------------===//

/// A value of the body that is not a state: f32, i1 or a tensor with an encoding.
static bool isTokenLocal(Type type) {
  return type.isF32() || type.isInteger(1) || axisOf(type).has_value();
}

static LogicalResult verifyBodyOp(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  bool own = dialect == LinAttnDialect::getDialectNamespace();
  bool elementwise =
      (dialect == "arith" || dialect == "math") &&
      (op->hasTrait<OpTrait::Elementwise>() || op->hasTrait<OpTrait::ConstantLike>());
  if (!own && !elementwise) // C13
    return op->emitOpError("is not allowed in a linattn.operator: expected linattn ops, "
                           "arith.constant and elementwise arith and math ops");
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    if (own && isState(type))
      continue;
    if (!isTokenLocal(type)) // C13
      return op->emitOpError("expected f32, i1 or a tensor with a #linattn.of encoding, got ")
             << type;
  }
  return success();
}

static void addStateRoots(Block &block, llvm::DenseMap<Value, unsigned> &roots);

/// A result of a switch has a root if all cases yield states of that root.
static void addSwitchRoots(SwitchOp choice, llvm::DenseMap<Value, unsigned> &roots) {
  for (Region &region : choice.getCaseRegions())
    addStateRoots(region.front(), roots);
  for (OpResult result : choice.getResults()) {
    if (!isState(result.getType()))
      continue;
    std::optional<unsigned> root;
    bool agree = true;
    for (Region &region : choice.getCaseRegions()) {
      Value yielded = region.front().getTerminator()->getOperand(result.getResultNumber());
      auto it = roots.find(yielded);
      agree &= it != roots.end() && it->second == root.value_or(it->second);
      if (agree)
        root = it->second;
    }
    if (agree && root)
      roots[result] = *root;
  }
}

static void addStateRoots(Block &block, llvm::DenseMap<Value, unsigned> &roots) {
  // In program order, so that a cycle (a use before its definition, which only the dominance check
  // after this one refuses) ends as a value without a root.
  for (Operation &op : block) {
    if (auto choice = dyn_cast<SwitchOp>(op)) {
      addSwitchRoots(choice, roots);
    } else if (isa<DecayOp, WriteOp>(op)) {
      auto it = roots.find(op.getOperand(0));
      if (it != roots.end()) {
        unsigned root = it->second; // the insertion below may move what `it` points to
        roots[op.getResult(0)] = root;
      }
    }
  }
}

llvm::DenseMap<Value, unsigned> dl::linattn::computeStateRoots(OperatorOp op) {
  llvm::DenseMap<Value, unsigned> roots;
  for (auto [i, state] : llvm::enumerate(op.getStates()))
    roots[state] = unsigned(i);
  addStateRoots(*op.getBody(), roots);
  return roots;
}

LogicalResult OperatorOp::verifyRegions() {
  WalkResult walk = getBodyRegion().walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
    if (op->hasTrait<OpTrait::IsTerminator>() && !isa<YieldOp>(op)) // C13
      return op->emitOpError("is not allowed in a linattn.operator: expected linattn.yield");
    return verifyBodyOp(op);
  });
  if (walk.wasInterrupted())
    return failure();

  llvm::DenseMap<Value, unsigned> roots = computeStateRoots(*this);
  walk = getBodyRegion().walk([&](SwitchOp choice) -> WalkResult {
    for (OpResult result : choice.getResults())
      if (isState(result.getType()) && !roots.contains(result)) // C18
        return choice.emitOpError("expected each case to yield a state derived from the same state "
                                  "argument as result #")
               << result.getResultNumber();
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();

  for (auto [i, state] : llvm::enumerate(getYieldedStates())) {
    auto it = roots.find(state);
    if (it == roots.end() || it->second != i) { // C14
      InFlightDiagnostic diag = getYield().emitOpError("expected operand #")
                                << i << " to derive from state '" << getArgName(getStates()[i])
                                << "', got a state ";
      if (it == roots.end())
        return diag << "that derives from none";
      return diag << "derived from '" << getArgName(getStates()[it->second]) << "'";
    }
  }
  return success();
}
