//===- LinAttnOps.cpp - Verifiers and assembly of all but the operator ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dl::linattn;

//===----------------------------------------------------------------------===//
// Assembly of decay
//===----------------------------------------------------------------------===//

static ParseResult parseBound(OpAsmParser &parser, Attribute &bound) {
  std::string name;
  if (succeeded(parser.parseOptionalString(&name))) {
    bound = parser.getBuilder().getStringAttr(name);
    return success();
  }
  double value;
  if (parser.parseFloat(value))
    return failure();
  bound = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static void printBound(OpAsmPrinter &printer, Operation *, Attribute bound) {
  if (auto number = dyn_cast<FloatAttr>(bound))
    printer << formatNumber(number.getValueAsDouble());
  else
    printer << bound;
}

#define GET_OP_CLASSES
#include "dialects/LinAttn/IR/LinAttnOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Finds the declaration of an option used by `op`, with one diagnostic if there is none.
static FailureOr<Attribute> lookUpOption(Operation *op, StringRef name) {
  auto parent = op->getParentOfType<OperatorOp>();
  if (!parent)
    return op->emitOpError("expected to be in a linattn.operator, which declares option '")
           << name << "'";
  Attribute option = parent.getOption(name);
  if (!option)
    return op->emitOpError("expected an option of operator '")
           << parent.getSymName() << "', got '" << name << "'";
  return option;
}

/// The names that select a case: those of a choice, or true and false. Fails for a number.
static FailureOr<SmallVector<StringRef>> caseNames(Attribute option) {
  if (isa<BoolAttr>(option))
    return SmallVector<StringRef>{"true", "false"};
  auto choice = dyn_cast<ArrayAttr>(option);
  if (!choice)
    return failure();
  SmallVector<StringRef> names;
  for (Attribute name : choice)
    if (auto text = dyn_cast<StringAttr>(name)) // anything else is an error of the operator (C12)
      names.push_back(text.getValue());
  return names;
}

LogicalResult SwitchOp::verify() {
  FailureOr<Attribute> option = lookUpOption(*this, getOption()); // C16
  if (failed(option))
    return failure();
  FailureOr<SmallVector<StringRef>> names = caseNames(*option);
  if (failed(names)) // C16
    return emitOpError("expected a choice or a flag, got number option '") << getOption() << "'";

  if (getCases().size() != getCaseRegions().size()) // C17
    return emitOpError("expected one region per case, got ")
           << getCases().size() << " cases and " << getCaseRegions().size() << " regions";
  std::string expected =
      llvm::join(llvm::map_range(*names, [](StringRef n) { return "\"" + n.str() + "\""; }), ", ");
  llvm::SmallDenseSet<StringRef> seen;
  for (StringRef name : getCases().getAsValueRange<StringAttr>()) {
    if (!llvm::is_contained(*names, name)) // C17
      return emitOpError("expected cases ") << expected << ", got \"" << name << "\"";
    if (!seen.insert(name).second) // C17
      return emitOpError("expected one case \"") << name << "\", got two";
  }
  for (StringRef name : *names)
    if (!seen.contains(name)) // C17
      return emitOpError("expected cases ") << expected << ", got none for \"" << name << "\"";
  return success();
}

LogicalResult OptionOp::verify() {
  FailureOr<Attribute> option = lookUpOption(*this, getOption()); // C19
  if (failed(option))
    return failure();
  if (!isa<NumberAttr>(*option)) // C19
    return emitOpError("expected a number option, got '") << getOption() << "' = " << *option;
  return success();
}

ParseResult SwitchOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr option;
  if (parser.parseAttribute(option, "option", result.attributes) ||
      parser.parseOptionalArrowTypeList(result.types) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  SmallVector<Attribute> cases;
  while (succeeded(parser.parseOptionalKeyword("case"))) {
    std::string name;
    if (parser.parseString(&name) || parser.parseRegion(*result.addRegion()))
      return failure();
    cases.push_back(parser.getBuilder().getStringAttr(name));
  }
  result.addAttribute("cases", parser.getBuilder().getArrayAttr(cases));
  return success();
}

void SwitchOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getOptionAttr();
  printer.printOptionalArrowTypeList(getResultTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"option", "cases"});
  for (auto [name, region] : llvm::zip(getCases(), getCaseRegions())) {
    printer.printNewline();
    printer << "case " << name << ' ';
    printer.printRegion(region);
  }
}

//===----------------------------------------------------------------------===//
// Yield
//===----------------------------------------------------------------------===//

/// Number and types of what the parent wants.
static SmallVector<Type> expectedYield(Operation *parent) {
  if (auto choice = dyn_cast<SwitchOp>(parent))
    return llvm::to_vector(choice.getResultTypes());
  auto op = cast<OperatorOp>(parent);
  SmallVector<Type> types(op.getNumStates(), StateType::get(op.getContext()));
  llvm::append_range(types, op.getOutputTypes().getAsValueRange<TypeAttr>());
  return types;
}

LogicalResult YieldOp::verify() {
  SmallVector<Type> expected = expectedYield((*this)->getParentOp());
  if (expected.size() != getNumOperands()) // C15
    return emitOpError("expected ")
           << expected.size() << " operands ("
           << (isa<OperatorOp>((*this)->getParentOp()) ? "states, then outputs"
                                                       : "results of the switch")
           << "), got " << getNumOperands();
  for (auto [i, want, got] : llvm::enumerate(expected, getOperandTypes()))
    if (want != got) // C15
      return emitOpError("expected type ") << want << " for operand #" << i << ", got " << got;
  return success();
}

//===----------------------------------------------------------------------===//
// State and tensors
//===----------------------------------------------------------------------===//

std::optional<double> DecayOp::getBoundValue() {
  auto number = dyn_cast_or_null<FloatAttr>(getBoundAttr());
  return number ? std::optional<double>(number.getValueAsDouble()) : std::nullopt;
}

LogicalResult DecayOp::verify() {
  if (std::optional<double> bound = getBoundValue()) {
    if (!std::isfinite(*bound) || *bound >= 0) // C21
      return emitOpError("expected a finite negative bound, got ") << formatNumber(*bound);
    return success();
  }
  auto name = dyn_cast_or_null<StringAttr>(getBoundAttr());
  if (!name)
    return success();
  FailureOr<Attribute> option = lookUpOption(*this, name.getValue());
  if (failed(option))
    return failure();
  auto number = dyn_cast<NumberAttr>(*option);
  if (!number) // C21
    return emitOpError("expected a number option as bound, got '")
           << name.getValue() << "' = " << *option;
  if (number.contains(0) || number.getUpper() > 0) // C21
    return emitOpError("expected a bound with a negative range, got '")
           << name.getValue() << "' " << number.rangeText();
  return success();
}

void ReadOp::build(OpBuilder &builder, OperationState &state, Value s, Value key) {
  build(builder, state, getTensorType(builder.getContext(), Axis::Value, HeadGroup::ValueHead), s,
        key);
}

void ReduceOp::build(OpBuilder &builder, OperationState &state, Value operand) {
  HeadGroup group = groupOf(operand.getType()).value_or(HeadGroup::ValueHead);
  build(builder, state, getTensorType(builder.getContext(), Axis::Scalar, group), operand);
}

LogicalResult ReduceOp::verify() {
  HeadGroup want = *groupOf(getOperand().getType()), got = *groupOf(getResult().getType());
  if (want != got) // C26
    return emitOpError("expected a result of group ")
           << stringifyHeadGroup(want) << ", that of the operand, got " << stringifyHeadGroup(got);
  return success();
}

LogicalResult BroadcastOp::verify() {
  Type from = getOperand().getType(), to = getResult().getType();
  if (from.isF32())
    return success();
  if (from == to) // C25
    return emitOpError("expected a result wider than the operand, got the same type");
  if (axisOf(from) != axisOf(to) && axisOf(from) != Axis::Scalar) // C25
    return emitOpError("expected axis ")
           << stringifyAxis(*axisOf(from)) << " to stay (only scalar widens), got "
           << stringifyAxis(*axisOf(to));
  if (groupOf(from) != groupOf(to) && groupOf(from) != HeadGroup::KeyHead) // C25
    return emitOpError("expected group ")
           << stringifyHeadGroup(*groupOf(from)) << " to stay (only key_head widens), got "
           << stringifyHeadGroup(*groupOf(to));
  return success();
}
