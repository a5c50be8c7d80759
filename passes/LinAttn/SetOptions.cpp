//===- SetOptions.cpp - Fixes the options of an operator ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Options are a way to write several operators as one; nothing after this pass knows of them.
// Settings are checked as a whole before the first change, so a failing pass leaves the operator as
// it was.
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttn/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace dl::linattn {
#define GEN_PASS_DEF_LINATTNSETOPTIONS
#include "passes/LinAttn/Passes.h.inc"
} // namespace dl::linattn

using namespace mlir;
using namespace dl::linattn;

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

static Attribute defaultSetting(Attribute option) {
  if (auto choice = dyn_cast<ArrayAttr>(option))
    return choice[0];
  if (auto number = dyn_cast<NumberAttr>(option))
    return Builder(option.getContext()).getF64FloatAttr(number.getDefault());
  return option; // a flag
}

/// What a value may be, in words, for the diagnostic.
static std::string allowedValues(Attribute option) {
  if (auto choice = dyn_cast<ArrayAttr>(option)) {
    auto names = llvm::map_range(choice, [](Attribute a) { return cast<StringAttr>(a).str(); });
    return (choice.size() > 1 ? "one of " : "") + llvm::join(names, ", ");
  }
  if (auto number = dyn_cast<NumberAttr>(option))
    return "a number " + number.rangeText();
  return "true or false";
}

/// The setting that `text` stands for, or null if the option does not allow it.
static Attribute parseSetting(Attribute option, StringRef text) {
  Builder builder(option.getContext());
  if (auto choice = dyn_cast<ArrayAttr>(option)) {
    StringAttr name = builder.getStringAttr(text);
    return llvm::is_contained(choice, name) ? name : Attribute();
  }
  if (auto number = dyn_cast<NumberAttr>(option)) {
    double value;
    bool valid = !text.getAsDouble(value, /*AllowInexact=*/true) && number.contains(value);
    return valid ? builder.getF64FloatAttr(value) : Attribute();
  }
  if (text != "true" && text != "false")
    return {};
  return builder.getBoolAttr(text == "true");
}

FailureOr<DictionaryAttr> dl::linattn::parseSettings(OperatorOp op, ArrayRef<std::string> pairs) {
  NamedAttrList given;
  for (StringRef pair : pairs) {
    auto [name, text] = pair.split('=');
    if (!pair.contains('='))
      return op.emitError("expected NAME=VALUE as option of operator '")
             << op.getSymName() << "', got '" << pair << "'";
    Attribute option = op.getOption(name);
    if (!option) {
      std::string names;
      if (DictionaryAttr all = op.getOptionsAttr())
        names = llvm::join(llvm::map_range(all, [](NamedAttribute o) { return o.getName().str(); }),
                           ", ");
      return op.emitError("expected an option of operator '")
             << op.getSymName() << "' (" << (names.empty() ? "it has none" : names) << "), got '"
             << name << "'";
    }
    if (given.get(name))
      return op.emitError("expected option '") << name << "' once, got it twice";
    Attribute value = parseSetting(option, text);
    if (!value)
      return op.emitError("expected option '")
             << name << "' to be " << allowedValues(option) << ", got '" << text << "'";
    given.append(name, value);
  }
  NamedAttrList settings;
  if (DictionaryAttr all = op.getOptionsAttr())
    for (NamedAttribute option : all) {
      Attribute value = given.get(option.getName());
      settings.append(option.getName(), value ? value : defaultSetting(option.getValue()));
    }
  return settings.getDictionary(op.getContext());
}

//===----------------------------------------------------------------------===//
// Body
//===----------------------------------------------------------------------===//

namespace {

/// Resolves every use of an option in the body of one operator.
struct Resolver {
  DictionaryAttr settings;
  llvm::StringSet<> consulted; // options the remaining code asked for
  unsigned numSwitches = 0;

  Attribute consult(StringRef name) {
    consulted.insert(name);
    return settings.get(name);
  }

  /// Puts the chosen case in place of the switch. Returns the first operation to look at next.
  Operation *resolveSwitch(SwitchOp choice) {
    Attribute setting = consult(choice.getOption());
    auto flag = dyn_cast<BoolAttr>(setting);
    StringRef name =
        flag ? StringRef(flag.getValue() ? "true" : "false") : cast<StringAttr>(setting).getValue();
    auto names = choice.getCases().getAsValueRange<StringAttr>();
    unsigned index = std::distance(names.begin(), llvm::find(names, name));
    Block &chosen = choice.getCaseRegions()[index].front();
    Operation *next = &chosen.front();
    Operation *yield = chosen.getTerminator();
    if (next == yield)
      next = choice->getNextNode();
    choice.replaceAllUsesWith(yield->getOperands());
    yield->erase();
    choice->getBlock()->getOperations().splice(choice->getIterator(), chosen.getOperations());
    choice.erase();
    ++numSwitches;
    return next;
  }

  void resolve(Block &body) {
    for (Operation *op = &body.front(); op;) {
      if (auto choice = dyn_cast<SwitchOp>(op)) {
        op = resolveSwitch(choice);
        continue;
      }
      Operation *next = op->getNextNode();
      if (auto option = dyn_cast<OptionOp>(op)) {
        OpBuilder b(op);
        double value = cast<FloatAttr>(consult(option.getOption())).getValueAsDouble();
        option.replaceAllUsesWith(
            arith::ConstantOp::create(b, op->getLoc(), b.getF32FloatAttr(float(value)))
                .getResult());
        option.erase();
      } else if (auto decay = dyn_cast<DecayOp>(op)) {
        if (auto name = dyn_cast_or_null<StringAttr>(decay.getBoundAttr()))
          decay.setBoundAttr(consult(name));
      }
      op = next;
    }
  }
};

struct LinAttnSetOptions : public dl::linattn::impl::LinAttnSetOptionsBase<LinAttnSetOptions> {
  using LinAttnSetOptionsBase::LinAttnSetOptionsBase;

  void runOnOperation() override {
    OperatorOp op = getOperation();
    FailureOr<DictionaryAttr> settings = parseSettings(op, llvm::to_vector(set));
    if (failed(settings))
      return signalPassFailure();
    if (!op.getOptionsAttr())
      return eraseUnused(op);

    Resolver resolver{*settings, {}};
    resolver.resolve(*op.getBody());
    numResolved += resolver.numSwitches;
    for (StringRef pair : set)
      if (StringRef name = pair.split('=').first; !resolver.consulted.contains(name))
        op.emitWarning("option '") << name << "' has no effect with the other settings";
    op.removeOptionsAttr();
    op.setSettingsAttr(*settings);
    eraseUnused(op);
  }

  /// Removes dead code, then inputs and params without a use.
  void eraseUnused(OperatorOp op) {
    for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(*op.getBody())))
      if (isOpTriviallyDead(&inner))
        inner.erase();
    llvm::BitVector unused(op.getNumArgs());
    for (BlockArgument arg : op.getArgs())
      if (arg.use_empty() && !isState(arg.getType()))
        unused.set(arg.getArgNumber());
    numErased += unused.count();
    if (unused.any())
      op.eraseArguments(unused);
  }
};

} // namespace
