//===- LinAttnAttrs.cpp - Axes, head groups and number options ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace dl::linattn;

#include "dialects/LinAttn/IR/LinAttnEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/LinAttn/IR/LinAttnAttrs.cpp.inc"

void LinAttnDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/LinAttn/IR/LinAttnAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string dl::linattn::formatNumber(double value) {
  // The fewest digits that read back as the same number; 17 always do.
  std::string text;
  for (int digits = 1; digits <= 17; ++digits) {
    text.clear();
    llvm::raw_string_ostream(text) << llvm::format("%.*g", digits, value);
    double back;
    if (!StringRef(text).getAsDouble(back) && back == value)
      break;
  }
  // Without a fraction the parser would take it for an integer.
  size_t exponent = text.find('e');
  if (std::isfinite(value) && text.find('.') == std::string::npos)
    text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  return text;
}

bool dl::linattn::isIdentifier(StringRef name) {
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  return !name.empty() && !llvm::isDigit(name.front()) && llvm::all_of(name, isWord);
}

std::optional<double> dl::linattn::parseKeyDimPower(StringRef text) {
  double power;
  if (!text.consume_front("key_dim^") || text.getAsDouble(power, /*AllowInexact=*/true) ||
      !(std::abs(power) <= 8)) // 256^8 is far within f32; the rest is a slip
    return std::nullopt;
  return power;
}

//===----------------------------------------------------------------------===//
// #linattn.of
//===----------------------------------------------------------------------===//

/// Parses a word of an enum; `allowed` says which there are.
template <typename Enum>
static FailureOr<Enum> parseWord(AsmParser &parser, StringRef allowed,
                                 std::optional<Enum> (*symbolize)(StringRef)) {
  SMLoc loc = parser.getCurrentLocation();
  std::string word;
  if (parser.parseKeywordOrString(&word))
    return failure();
  if (std::optional<Enum> value = symbolize(word))
    return *value;
  return parser.emitError(loc) << "expected " << allowed << ", got '" << word << "'";
}

Attribute OfAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<Axis> axis =
      parseWord<Axis>(parser, "axis scalar, key, value or key_value", symbolizeAxis);
  if (failed(axis) || parser.parseComma())
    return {};
  FailureOr<HeadGroup> group =
      parseWord<HeadGroup>(parser, "group key_head or value_head", symbolizeHeadGroup);
  if (failed(group) || parser.parseGreater())
    return {};
  return OfAttr::get(parser.getContext(), *axis, *group);
}

void OfAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyAxis(getAxis()) << ", " << stringifyHeadGroup(getGroup()) << '>';
}

LogicalResult OfAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                     function_ref<InFlightDiagnostic()> emitError) const {
  if (!elementType) // MLIR's parser goes on after an element type that it has refused
    return failure();
  size_t rank = getAxis() == Axis::KeyValue ? 2 : getAxis() == Axis::Scalar ? 0 : 1;
  if (shape.size() != rank) // C1
    return emitError() << "expected rank " << rank << " for axis " << stringifyAxis(getAxis())
                       << ", got rank " << shape.size();
  if (!elementType.isF32() && !elementType.isInteger(1)) // C2
    return emitError() << "expected element type f32 (or i1 for a comparison) with " << *this
                       << ", got " << elementType;
  for (int64_t size : shape)
    if (!ShapedType::isDynamic(size)) // C3
      return emitError() << "expected dimension '?' with " << *this << ", got " << size
                         << ": sizes are chosen when a kernel is compiled";
  return success();
}

//===----------------------------------------------------------------------===//
// #linattn.number
//===----------------------------------------------------------------------===//

bool NumberAttr::contains(double value) const {
  bool aboveLower = getLowerIncluded() ? value >= getLower() : value > getLower();
  bool belowUpper = getUpperIncluded() ? value <= getUpper() : value < getUpper();
  return aboveLower && belowUpper;
}

static std::string rangeText(double lower, bool lowerIncluded, double upper, bool upperIncluded) {
  return (lowerIncluded ? "from " : "above ") + formatNumber(lower) +
         (upperIncluded ? " to " : " below ") + formatNumber(upper);
}

std::string NumberAttr::rangeText() const {
  return ::rangeText(getLower(), getLowerIncluded(), getUpper(), getUpperIncluded());
}

LogicalResult NumberAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 llvm::APFloat defaultNumber, llvm::APFloat lowerEnd,
                                 bool lowerIncluded, llvm::APFloat upperEnd, bool upperIncluded) {
  double value = defaultNumber.convertToDouble();
  double lower = lowerEnd.convertToDouble(), upper = upperEnd.convertToDouble();
  if (!std::isfinite(value) || !std::isfinite(lower) || !std::isfinite(upper)) // C4
    return emitError() << "expected finite numbers in #linattn.number";
  bool inside = (lowerIncluded ? value >= lower : value > lower) &&
                (upperIncluded ? value <= upper : value < upper);
  if (!inside) // C4
    return emitError() << "expected a default "
                       << ::rangeText(lower, lowerIncluded, upper, upperIncluded) << ", got "
                       << formatNumber(value);
  return success();
}

/// Parses one of two words; `isFirst` says which.
static ParseResult parseEither(AsmParser &parser, StringRef first, StringRef second,
                               bool &isFirst) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseOptionalKeyword(&word, {first, second}))
    return parser.emitError(loc) << "expected '" << first << "' or '" << second << "'";
  isFirst = word == first;
  return success();
}

Attribute NumberAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  double value, lower, upper;
  bool from, to;
  if (parser.parseLess() || parser.parseFloat(value) ||
      parseEither(parser, "from", "above", from) || parser.parseFloat(lower) ||
      parseEither(parser, "to", "below", to) || parser.parseFloat(upper) || parser.parseGreater())
    return {};
  return parser.getChecked<NumberAttr>(loc, parser.getContext(), llvm::APFloat(value),
                                       llvm::APFloat(lower), from, llvm::APFloat(upper), to);
}

void NumberAttr::print(AsmPrinter &printer) const {
  printer << '<' << formatNumber(getDefault()) << ' ' << rangeText() << '>';
}
