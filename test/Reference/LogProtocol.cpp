//===- LogProtocol.cpp - Append, merge and materialize, executable --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogProtocol.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace dl::deltalog {

using recurrence::dot;

static double withBits(double x, int bits) {
  if (!std::isfinite(x))
    return x;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

double stored(Format format, double x) {
  switch (format) {
  case Format::F64:
    return x;
  case Format::F32:
    return withBits(x, 24);
  case Format::BF16:
    return withBits(x, 8);
  case Format::HiLo:
    break;
  }
  double high = withBits(x, 8);
  return high + withBits(x - high, 8);
}

Vector stored(Format format, Vector x) {
  for (double &value : x)
    value = stored(format, value);
  return x;
}

Pool::Pool(const Limits &limits, int64_t slots, int64_t K, int64_t V, const Storage &storage)
    : limits(limits), storage(storage), base(slots, Matrix(K, V)),
      ring(slots, std::vector<Entry>(limits.ring)) {
  check(limits);
}

//===----------------------------------------------------------------------===//
// A state, read through its log
//===----------------------------------------------------------------------===//

namespace {
/// A base and the entries since, oldest first.
struct LoggedState {
  Matrix base;
  std::vector<Entry> log;

  Vector clock() const { return log.empty() ? Vector(0.0, base.rows) : log.back().clock; }
};
} // namespace

/// Entries [0, count) from ring position `start` on.
static std::vector<Entry> entries(const Pool &pool, int64_t slot, int32_t start, int32_t count) {
  std::vector<Entry> log;
  for (int32_t i = 0; i < count; ++i)
    log.push_back(pool.ring[slot][wrap(pool.limits, start + i)]);
  return log;
}

/// The dense state after the first `count` entries.
static Matrix stateAfter(const LoggedState &state, int64_t count) {
  Matrix S = state.base;
  if (count == 0)
    return S;
  const Vector &now = state.log[count - 1].clock;
  scaleRows(S, std::exp(now));
  for (int64_t i = 0; i < count; ++i) {
    Vector decay = std::exp(now - state.log[i].clock);
    for (const Entry::Term &term : state.log[i].terms)
      write(S, decay * term.a, term.b);
  }
  return S;
}

/// What is stored of it.
static Matrix storedAfter(const Pool &pool, const LoggedState &state, int64_t count) {
  Matrix S = stateAfter(state, count);
  S.values = stored(pool.storage.base, S.values);
  return S;
}

/// S^T x at clock `now`, without forming S.
static Vector readThrough(const LoggedState &state, const Vector &x, const Vector &now) {
  Vector result = read(state.base, x * std::exp(now));
  for (const Entry &entry : state.log) {
    Vector decayed = x * std::exp(now - entry.clock);
    for (const Entry::Term &term : entry.terms)
      result += dot(decayed, term.a) * term.b;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The tokens of a row
//===----------------------------------------------------------------------===//

namespace {
/// All reads and writes of a row's tokens, in order, on one clock. The reads P and
/// the writes' B are the solution of a system that is lower triangular:
///
///   P_r = S0^T x_r + sum_{w before r} N_rw B_w      N_rw = x_r . D(read - write clock) a_w
///   B_w = d_w + sum_{r before w} feedback_wr P_r
///
/// Operators without feedback have B = D, and nothing to solve.
struct RowSystem {
  struct Read {
    const AffineToken::Read *read;
    int64_t token;
    Vector clock;
    size_t writesBefore;
  };
  struct Write {
    const AffineToken::Write *write;
    int64_t token;
    Vector a;         ///< as stored
    size_t firstRead; ///< of the token: what feedback counts from
  };
  std::vector<Read> reads;
  std::vector<Write> writes;
  std::vector<Vector> clocks; ///< after each token

  std::vector<Vector> P; ///< one per read, as far as solved
  std::vector<Vector> B; ///< one per write, as stored
};
} // namespace

/// e^-104 is 0 in fp32. Beyond it lies nothing but -inf - -inf = NaN.
static constexpr double LowestLogDecay = -104.0;

static RowSystem buildSystem(const Storage &storage, const AffineToken *tokens, int32_t count,
                             const Vector &start) {
  RowSystem system;
  Vector clock = start;
  for (int32_t t = 0; t < count; ++t) {
    const AffineToken &token = tokens[t];
    Vector before = clock;
    for (size_t c = 0; c < clock.size(); ++c)
      clock[c] += std::max(token.decay[c], LowestLogDecay);
    clock = stored(storage.clock, clock);
    system.clocks.push_back(clock);

    size_t firstWrite = system.writes.size();
    size_t firstRead = system.reads.size();
    for (const AffineToken::Read &read : token.reads)
      system.reads.push_back(
          {&read, t, read.beforeDecay ? before : clock, firstWrite + read.writesSeen});
    for (const AffineToken::Write &write : token.writes)
      system.writes.push_back({&write, t, stored(storage.a, write.a), firstRead});
  }
  return system;
}

/// The next read, all of whose writes are solved.
static void solveRead(RowSystem &system, const LoggedState &state) {
  const RowSystem::Read &next = system.reads[system.P.size()];
  Vector P = readThrough(state, next.read->x, next.clock);
  for (size_t w = 0; w < next.writesBefore; ++w) {
    const RowSystem::Write &earlier = system.writes[w];
    Vector decay = std::exp(next.clock - system.clocks[earlier.token]);
    P += dot(next.read->x * decay, earlier.a) * system.B[w];
  }
  system.P.push_back(P);
}

/// Forward substitution: each write needs only what was read before it.
static void solve(RowSystem &system, const LoggedState &state, Format formatOfB) {
  for (const RowSystem::Write &next : system.writes) {
    while (system.P.size() < system.reads.size() &&
           system.reads[system.P.size()].writesBefore <= system.B.size())
      solveRead(system, state);
    Vector B = next.write->d;
    for (size_t r = 0; r < next.write->feedback.size(); ++r)
      B += next.write->feedback[r] * system.P[next.firstRead + r];
    system.B.push_back(stored(formatOfB, B));
  }
  while (system.P.size() < system.reads.size())
    solveRead(system, state);
}

static std::vector<Entry> newEntries(const RowSystem &system) {
  std::vector<Entry> result;
  for (const Vector &clock : system.clocks)
    result.push_back({{}, clock});
  for (size_t w = 0; w < system.writes.size(); ++w)
    result[system.writes[w].token].terms.push_back({system.writes[w].a, system.B[w]});
  return result;
}

static void addOutputs(const RowSystem &system, const AffineToken *tokens, Vector *outputs) {
  for (size_t t = 0; t < system.clocks.size(); ++t)
    outputs[t] = tokens[t].local;
  for (size_t r = 0; r < system.reads.size(); ++r)
    outputs[system.reads[r].token] += system.reads[r].read->weight * system.P[r];
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static LoggedState load(const Pool &pool, const Descriptor &d) {
  if (d.fresh)
    return {Matrix(pool.base[d.dst].rows, pool.base[d.dst].cols), {}};
  return {pool.base[d.src], entries(pool, d.src, d.start, d.length)};
}

/// What a row does whether or not it has tokens, and the state its tokens see.
static LoggedState beginRow(Pool &pool, const Descriptor &d) {
  LoggedState state = load(pool, d);
  if (d.checkpointSlot >= 0)
    pool.base[d.checkpointSlot] = storedAfter(pool, state, d.checkpointCount);
  if (d.merge == Merge::Before) {
    state = {storedAfter(pool, state, d.length), {}};
    pool.base[d.dst] = state.base;
  }
  return state;
}

/// What a launch relies on, and a ring that is too small breaks: in a kernel, other
/// blocks still read the row's old entries while this one writes the new.
static void expectDisjoint(const Pool &pool, const Descriptor &d) {
  for (int32_t t = 0; t < d.tokens; ++t)
    for (int32_t i = 0; i < d.length; ++i)
      if (d.src == d.dst && wrap(pool.limits, d.write + t) == wrap(pool.limits, d.start + i))
        throw std::logic_error("slot " + std::to_string(d.dst) + ": new entry " +
                               std::to_string(t) + " falls on entry " + std::to_string(i));
}

static void appendRow(Pool &pool, const Descriptor &d, const AffineToken *tokens, Vector *outputs) {
  LoggedState state = beginRow(pool, d);
  RowSystem system = buildSystem(pool.storage, tokens, d.tokens, state.clock());
  solve(system, state, pool.storage.b);
  addOutputs(system, tokens, outputs);

  std::vector<Entry> added = newEntries(system);
  if (d.merge == Merge::After) {
    state.log.insert(state.log.end(), added.begin(), added.end());
    pool.base[d.dst] = storedAfter(pool, state, static_cast<int64_t>(state.log.size()));
    return;
  }
  expectDisjoint(pool, d);
  for (int32_t t = 0; t < d.tokens; ++t)
    pool.ring[d.dst][wrap(pool.limits, d.write + t)] = added[t];
}

void append(Pool &pool, const std::vector<Descriptor> &descriptors,
            const std::vector<AffineToken> &tokens, std::vector<Vector> &outputs) {
  for (const Descriptor &d : descriptors) {
    if (d.isNull())
      for (int32_t t = 0; t < d.tokens; ++t)
        outputs[d.token + t] = Vector(0.0, pool.base.front().cols);
    else
      appendRow(pool, d, tokens.data() + d.token, outputs.data() + d.token);
  }
}

void merge(Pool &pool, const std::vector<Descriptor> &descriptors) {
  for (const Descriptor &d : descriptors)
    if (!d.isNull())
      beginRow(pool, d);
}

Matrix materialize(const Pool &pool, const Cursor &cursor, int64_t slot, int64_t count) {
  Standing all = settle(pool.limits, cursor, AllPending);
  if (count < 0 || count > all.length)
    throw std::invalid_argument("count: expected 0 to " + std::to_string(all.length) + ", got " +
                                std::to_string(count));
  auto entriesWanted = static_cast<int32_t>(count);
  return stateAfter({pool.base[slot], entries(pool, slot, all.start, entriesWanted)}, count);
}

} // namespace dl::deltalog
