//===- AffineForm.cpp - Sums of reads and token-local terms ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/AffineForm.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace dl::analysis;
using dl::linattn::Axis;

bool Factor::isPerValue() const {
  return kind != Kind::Dot && linattn::isOn(value.getType(), Axis::Value);
}

bool dl::analysis::operator==(const Factor &a, const Factor &b) {
  return a.kind == b.kind && a.value == b.value && a.key == b.key && a.logDecays == b.logDecays;
}

/// Whether two products differ in the constant only. Factors commute.
static bool haveSameFactors(const Product &a, const Product &b) {
  return a.factors.size() == b.factors.size() &&
         std::is_permutation(a.factors.begin(), a.factors.end(), b.factors.begin());
}

Product dl::analysis::operator*(const Product &a, const Product &b) {
  Product result = a;
  result.constant *= b.constant;
  result.factors.append(b.factors);
  return result;
}

bool dl::analysis::isPerValue(const Coefficient &coefficient) {
  return llvm::any_of(coefficient, std::mem_fn(&Product::isPerValue));
}

const Coefficient *AffineForm::find(unsigned read) const {
  const auto *term = llvm::find_if(reads, [&](const ReadTerm &t) { return t.read == read; });
  return term == reads.end() ? nullptr : &term->coefficient;
}

unsigned AffineForm::size() const {
  unsigned size = locals.size();
  for (const ReadTerm &term : reads)
    size += term.coefficient.size();
  return size;
}

void AffineForm::addRead(unsigned read, const Product &product) {
  auto *term = llvm::find_if(reads, [&](const ReadTerm &t) { return t.read == read; });
  if (term == reads.end()) {
    reads.push_back({read, {product}});
    return;
  }
  Coefficient &sum = term->coefficient;
  auto *same = llvm::find_if(sum, [&](const Product &p) { return haveSameFactors(p, product); });
  if (same == sum.end()) {
    sum.push_back(product);
    return;
  }
  same->constant += product.constant;
  if (same->constant == 0.0)
    sum.erase(same);
  if (sum.empty())
    reads.erase(term);
}

void AffineForm::addLocal(Value value, const Product &product) {
  auto *same = llvm::find_if(locals, [&](const LocalTerm &t) {
    return t.value == value && haveSameFactors(t.coefficient, product);
  });
  if (same == locals.end()) {
    locals.push_back({product, value});
    return;
  }
  same->coefficient.constant += product.constant;
  if (same->coefficient.constant == 0.0)
    locals.erase(same);
}

void AffineForm::add(const AffineForm &other, const Product &product) {
  for (const ReadTerm &term : other.reads)
    for (const Product &p : term.coefficient)
      addRead(term.read, product * p);
  for (const LocalTerm &term : other.locals)
    addLocal(term.value, product * term.coefficient);
}

Value dl::analysis::stripBroadcasts(Value value) {
  while (auto broadcast = value.getDefiningOp<linattn::BroadcastOp>())
    value = broadcast.getOperand();
  return value;
}

std::optional<double> dl::analysis::constantOf(Value value) {
  FloatAttr constant;
  if (matchPattern(stripBroadcasts(value), m_Constant(&constant)))
    return constant.getValueAsDouble();
  return std::nullopt;
}
