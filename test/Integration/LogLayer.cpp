//===- LogLayer.cpp - Cursors, bases and logs, and the kernels on them ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"
#include "tools/dl-run/Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dl::test {

/// Puts integers into a [N] array; all 64 bits of those that have them.
template <typename Values> static void fill(Array &array, const Values &values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    if (const auto wide = static_cast<int64_t>(values[i]); array.dtype == DLK_I64)
      std::memcpy(&array.buffer->image[array.place(n)], &wide, sizeof(wide));
    else
      array.set(n, static_cast<double>(wide));
  }
  array.buffer->isChanged = true;
}

static const KernelArgument *findArgument(const LogKernel &kernel, const std::string &role,
                                          const std::string &name = "") {
  for (const KernelArgument &argument : kernel.arguments)
    if (argument.role == role && (name.empty() || argument.name == name))
      return &argument;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Cursors and descriptors
//===----------------------------------------------------------------------===//

static constexpr int64_t cursorInts = sizeof(Cursor) / 4, rowInts = sizeof(Descriptor) / 4;

/// Structs of i32 in packed rows of an array.
template <typename Struct> static Struct readInts(const Array &array, int64_t row) {
  Struct result;
  std::memcpy(static_cast<void *>(&result), &array.buffer->image[array.place(row * array.shape[1])],
              sizeof(Struct));
  return result;
}

template <typename Struct>
static void writeInts(const Array &array, int64_t row, const Struct &value) {
  std::memcpy(&array.buffer->image[array.place(row * array.shape[1])], &value, sizeof(Struct));
  array.buffer->isChanged = true;
}

LogPlanner::LogPlanner(const LogKernels &kernels, int64_t slots, const Placing &placing)
    : limits(kernels.limits), slots(slots), kernel(*kernels.plan) {
  cursors =
      Arena().place({{findArgument(kernel, "cursors"), {slots, cursorInts}}}, placing).front();
  for (int64_t slot = 0; slot < slots; ++slot)
    setCursor(slot, Cursor());
}

Cursor LogPlanner::cursor(int64_t slot) const { return readInts<Cursor>(cursors, slot); }
void LogPlanner::setCursor(int64_t slot, const Cursor &cursor) { writeInts(cursors, slot, cursor); }

void LogPlanner::setDescriptors(const std::vector<Descriptor> &made) {
  rows = made;
  descriptors = arena
                    .place({{findArgument(kernel, "descriptors"),
                             {static_cast<int64_t>(made.size()), rowInts}}},
                           {})
                    .front();
  for (size_t i = 0; i < made.size(); ++i)
    writeInts(descriptors, static_cast<int64_t>(i), made[i]);
}

void LogPlanner::expectPlanned(const Rows<int64_t> &given, std::vector<Cursor> before) {
  const std::vector<Descriptor> want = deltalog::plan(limits, given, before);
  for (size_t i = 0; i < want.size(); ++i) {
    const Descriptor &d = rows[i], &w = want[i];
    EXPECT_EQ(d.token, w.token) << "row " << i;
    EXPECT_EQ(d.tokens, w.tokens) << "row " << i;
    EXPECT_EQ(d.isNull(), w.isNull()) << "row " << i;
    if (w.isNull())
      continue;
    EXPECT_EQ(d.src, w.src) << "row " << i;
    EXPECT_EQ(d.dst, w.dst) << "row " << i;
    EXPECT_EQ(d.start, w.start) << "row " << i;
    EXPECT_EQ(d.length, w.length) << "row " << i;
    EXPECT_EQ(d.write, w.write) << "row " << i;
    EXPECT_EQ(int(d.merge), int(w.merge)) << "row " << i;
    EXPECT_EQ(d.fresh, w.fresh) << "row " << i;
    EXPECT_EQ(d.checkpointSlot, w.checkpointSlot) << "row " << i;
    EXPECT_EQ(d.checkpointCount, w.checkpointCount) << "row " << i;
    EXPECT_EQ(d.reserved, 0) << "row " << i;
    for (int64_t slot : {d.dst, d.checkpointSlot}) {
      if (slot < 0)
        continue;
      const Cursor got = cursor(slot);
      EXPECT_EQ(got.start, before[slot].start) << "cursor of slot " << slot;
      EXPECT_EQ(got.length, before[slot].length) << "cursor of slot " << slot;
      EXPECT_EQ(got.pending, before[slot].pending) << "cursor of slot " << slot;
      EXPECT_EQ(int(got.merge), int(before[slot].merge)) << "cursor of slot " << slot;
    }
  }
}

const std::vector<Descriptor> &LogPlanner::plan(const Rows<int64_t> &given,
                                                const LaunchOptions &options) {
  std::vector<Cursor> before;
  for (int64_t slot = 0; slot < slots; ++slot)
    before.push_back(cursor(slot));
  std::vector<std::pair<const KernelArgument *, Shape>> wanted;
  std::vector<std::pair<std::string, std::function<void(Array &)>>> fills;
  auto add = [&](const char *role, const auto &values) {
    const KernelArgument *argument = findArgument(kernel, role);
    if (values.empty())
      return;
    if (!argument) {
      ADD_FAILURE() << kernel.name << " has no argument of role " << role;
      return;
    }
    wanted.push_back({argument, {static_cast<int64_t>(values.size())}});
    fills.emplace_back(role, [&values](Array &array) { fill(array, values); });
  };
  add("slots_in", given.src);
  add("slots_out", given.dst);
  add("row_starts", given.starts);
  add("accepted", given.accepted);
  add("row_flags", given.initial);
  add("flush", given.flush);
  add("checkpoint_slots", given.checkpointSlots);
  add("checkpoint_offsets", given.checkpointOffsets);
  wanted.push_back({findArgument(kernel, "descriptors"), {given.count, rowInts}});

  std::vector<Array> arrays = arena.place(wanted, options.placing);
  Bindings bindings = {{"cursors", cursors}};
  for (size_t i = 0; i < fills.size(); ++i) {
    fills[i].second(arrays[i]);
    bindings[fills[i].first] = arrays[i];
  }
  descriptors = bindings["descriptors"] = arrays.back();

  std::vector<ByteRange> ranges;
  addRanges(descriptors, ranges);
  std::vector<Cursor> after = before;
  if (!options.isGarbage)
    for (const Descriptor &d : deltalog::plan(limits, given, after))
      for (int64_t slot : {d.dst, d.checkpointSlot})
        if (slot >= 0)
          addRanges(cursors, {slot}, ranges);
  const bool isLaunched = launch(kernel, bindings,
                                 {{"first_slot", given.firstSlot},
                                  {"tokens", static_cast<double>(given.tokens)},
                                  {"final", given.final}},
                                 ranges, options);
  rows.clear();
  for (int64_t row = 0; isLaunched && row < given.count; ++row)
    rows.push_back(readInts<Descriptor>(descriptors, row));
  if (isLaunched && !options.isGarbage)
    expectPlanned(given, before);
  return rows;
}

//===----------------------------------------------------------------------===//
// The memory of a layer
//===----------------------------------------------------------------------===//

LogLayer::LogLayer(const LogKernels &kernels, int64_t HQ, int64_t HV, int64_t slots, uint64_t seed,
                   const Placing &placing)
    : kernels(kernels), n{1, 1, HQ, HV, kernels.K, kernels.V}, slots(slots), random(seed),
      oracle(kernels.op, n) {
  placePools(placing);
  const LogKernel &append = *kernels.append;
  std::vector<std::pair<const KernelArgument *, Shape>> wanted;
  for (size_t i = 0; i < append.arguments.size(); ++i) {
    const KernelArgument &argument = append.arguments[i];
    if (argument.role != "param")
      continue;
    const Shape shape = append.shapeOf(i, sizes());
    wanted.emplace_back(&argument, shape);
    Tensor &param = oracle.params[argument.name] = Tensor(shape);
    for (double &value : param.values())
      value = drawNumber(kernels.op, argument.name, n.K, random);
  }
  const std::vector<Array> arrays = Arena().place(wanted, placing);
  for (size_t i = 0; i < wanted.size(); ++i)
    paramArrays[wanted[i].first->name] = arrays[i];
  updateParams();
}

void LogLayer::updateParams() {
  for (auto &[name, array] : paramArrays) {
    Tensor &param = oracle.params.at(name);
    for (int64_t i = 0; i < array.size(); ++i) {
      array.set(i, param.values()[i]);
      param.values()[i] = array.get(i);
    }
  }
}

std::map<std::string, int64_t> LogLayer::sizes() const {
  return {{"B", 1},         {"T", 1},         {"HQ", n.HQ},        {"HV", n.HV},
          {"N", 1},         {"slots", slots}, {"pool_out", slots}, {"pool_in", slots},
          {"src_width", 1}, {"dst_width", 1}};
}

/// Bases and all fields of logs; each in memory of its own, or one page for each slot.
void LogLayer::placePools(const Placing &placing) {
  const LogKernel &append = *kernels.append;
  std::vector<std::pair<const KernelArgument *, Shape>> wanted;
  for (size_t i = 0; i < append.arguments.size(); ++i)
    if (append.arguments[i].role == "state" || append.arguments[i].role == "log")
      wanted.emplace_back(&append.arguments[i], append.shapeOf(i, sizes()));
  std::vector<Array> arrays;
  for (const auto &one : wanted)
    for (Array &array : Arena().place({one}, placing))
      arrays.push_back(array);
  if (placing.isPaged) {
    // A page is what one slot takes in all of them, and a bit more.
    size_t page = 0;
    for (const Array &array : arrays)
      page += (array.strides[0] * dlk_dtype_bytes(array.dtype) + 63) / 64 * 64;
    page += 64;
    auto buffer = std::make_shared<Buffer>(page * slots + 64, placing.fence);
    size_t offset = 0;
    for (Array &array : arrays) {
      const size_t bytes = (array.strides[0] * dlk_dtype_bytes(array.dtype) + 63) / 64 * 64;
      array.buffer = buffer;
      array.byteOffset = offset;
      array.strides[0] = static_cast<int64_t>(page / dlk_dtype_bytes(array.dtype));
      offset += bytes;
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    (wanted[i].first->role == "state" ? pool : log[wanted[i].first->name]) = arrays[i];
  EXPECT_EQ(pool.shape.size(), 4U) << kernels.title << ": expected one state [slots, HV, K, V]";
  for (const auto &[name, field] : log)
    EXPECT_EQ(field.shape.at(2), kernels.limits.ring) << kernels.title << ": ring of " << name;
}

/// Element (k, v) of head h of a slot, counted row-major over the pool's shape.
static int64_t poolIndex(const LogKernels &kernels, int64_t matrix, int64_t k, int64_t v) {
  return matrix * kernels.K * kernels.V +
         (kernels.layout == "kv" ? k * kernels.V + v : v * kernels.K + k);
}

void LogLayer::readState(const Array &array, int64_t slot, States &states) const {
  states = zeros();
  for (int64_t h = 0; h < n.HV; ++h)
    for (int64_t k = 0; k < n.K; ++k)
      for (int64_t v = 0; v < n.V; ++v)
        states[h](k, v) = array.get(poolIndex(kernels, slot * n.HV + h, k, v));
}

States LogLayer::base(int64_t slot) const {
  States states;
  readState(pool, slot, states);
  return states;
}

void LogLayer::setBase(int64_t slot, const States &states) {
  for (int64_t h = 0; h < n.HV; ++h)
    for (int64_t k = 0; k < n.K; ++k)
      for (int64_t v = 0; v < n.V; ++v)
        pool.set(poolIndex(kernels, slot * n.HV + h, k, v), states[h](k, v));
}

States LogLayer::fillBase(int64_t slot) {
  States states = zeros();
  for (Matrix &state : states)
    for (double &value : state.values)
      value = random.normal();
  setBase(slot, states);
  return base(slot);
}

/// f(array, index) for the slot's base and for its part of each field.
template <typename Function> void LogLayer::forFields(int64_t slot, Function f) {
  f(pool, std::vector<int64_t>{slot});
  for (auto &[name, field] : log)
    f(field, std::vector<int64_t>{slot});
}

void LogLayer::scramble(int64_t slot) {
  forFields(slot, [](Array &array, const std::vector<int64_t> &index) {
    std::vector<ByteRange> ranges;
    addRanges(array, index, ranges);
    for (const ByteRange &range : ranges)
      std::memset(&range.buffer->image[range.offset], 0xff, range.bytes);
    array.buffer->isChanged = true;
  });
}

void LogLayer::copySlot(int64_t from, int64_t to) {
  forFields(from, [&](Array &array, const std::vector<int64_t> &index) {
    std::vector<ByteRange> source, target;
    addRanges(array, index, source);
    addRanges(array, {to}, target);
    for (size_t i = 0; i < source.size(); ++i)
      std::memcpy(&array.buffer->image[target[i].offset], &array.buffer->image[source[i].offset],
                  source[i].bytes);
    array.buffer->isChanged = true;
  });
}

static std::string bitsOf(const Array &array, const std::vector<int64_t> &index) {
  std::vector<ByteRange> ranges;
  addRanges(array, index, ranges);
  std::string bits;
  for (const ByteRange &range : ranges)
    bits.append(reinterpret_cast<const char *>(&range.buffer->image[range.offset]), range.bytes);
  return bits;
}

std::string LogLayer::baseBits(int64_t slot) const { return bitsOf(pool, {slot}); }

std::string LogLayer::entryBits(int64_t slot, int64_t entry) const {
  std::string bits;
  for (const auto &[name, field] : log)
    for (int64_t head = 0; head < field.shape[1]; ++head)
      bits += bitsOf(field, {slot, head, entry});
  return bits;
}

std::string LogLayer::ringBits(int64_t slot) const {
  std::string bits;
  for (int64_t entry = 0; entry < kernels.limits.ring; ++entry)
    bits += entryBits(slot, entry);
  return bits;
}

Tokens LogLayer::draw(int64_t B, int64_t T) {
  std::map<std::string, int64_t> sizes = this->sizes();
  sizes["B"] = B;
  sizes["T"] = T;
  Tokens tokens{B, T, {}};
  const LogKernel &append = *kernels.append;
  for (size_t i = 0; i < append.arguments.size(); ++i) {
    const KernelArgument &argument = append.arguments[i];
    if (argument.role != "input")
      continue;
    Tensor &input = tokens.inputs[argument.name] = Tensor(append.shapeOf(i, sizes));
    for (double &value : input.values())
      value = drawNumber(kernels.op, argument.name, n.K, random);
  }
  roundToMemory(tokens);
  return tokens;
}

void LogLayer::roundToMemory(Tokens &tokens) const {
  for (auto &[name, input] : tokens.inputs)
    if (const KernelArgument *argument = findArgument(*kernels.append, "input", name))
      for (double &value : input.values())
        value = run::roundTo(argument->dtype, value);
}

std::vector<Vector> LogLayer::step(const Tokens &tokens, int64_t token, States &states) const {
  return oracle.step(tokens, token, states);
}

std::vector<double> LogLayer::usualOutputs(const Tokens &tokens, int64_t token,
                                           const States &before) const {
  std::vector<double> squares(n.HV);
  const int64_t turns[] = {1, n.K / 3, n.K / 2};
  for (int64_t turn : turns) {
    Tokens turned = tokensOf(tokens, token, 1);
    Tensor &query = turned.inputs.at(turned.inputs.count("q") ? "q" : "r");
    for (int64_t h = 0; h < n.HQ; ++h)
      query.setVector({0, 0, h}, query.vector({0, 0, h}).cshift(static_cast<int>(turn)));
    States states = before;
    const std::vector<Vector> outputs = step(turned, 0, states);
    for (int64_t h = 0; h < n.HV; ++h)
      squares[h] += (outputs[h] * outputs[h]).sum() / static_cast<double>(3 * n.V);
  }
  for (double &size : squares)
    size = std::sqrt(size);
  return squares;
}

std::string LogLayer::title() const {
  return kernels.title + " HQ=" + std::to_string(n.HQ) + " HV=" + std::to_string(n.HV);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Bindings LogLayer::bindings() const {
  Bindings result = {{"state", pool}, {"state_in", pool}};
  for (const auto &[name, field] : log)
    result["log:" + name] = field;
  for (const auto &[name, param] : paramArrays)
    result["param:" + name] = param;
  return result;
}

std::map<std::string, double> LogLayer::scalars() const {
  if (oracle.scale)
    return {{"scale", *oracle.scale}};
  return {};
}

/// What the rows of a step may write of bases and rings.
void LogLayer::addStepRanges(const LogPlanner &planner, bool hasTokens,
                             std::vector<ByteRange> &ranges) const {
  for (const Descriptor &d : planner.rows) {
    if (d.isNull())
      continue;
    if (d.merge != Merge::None)
      addRanges(pool, {d.dst}, ranges);
    if (d.checkpointSlot >= 0)
      addRanges(pool, {d.checkpointSlot}, ranges);
    for (int32_t t = 0; hasTokens && d.merge != Merge::After && t < d.tokens; ++t)
      for (const auto &[name, field] : log)
        for (int64_t head = 0; head < field.shape[1]; ++head)
          addRanges(field, {d.dst, head, deltalog::wrap(planner.limits, d.write + t)}, ranges);
  }
}

/// Binds the inputs and the output of tokens [B, T]; returns the output.
static Array bindTokens(const LogKernel &kernel, std::map<std::string, int64_t> sizes,
                        const Tokens &tokens, const Placing &placing, Arena &arena,
                        Bindings &bindings) {
  sizes["B"] = tokens.B;
  sizes["T"] = tokens.T;
  std::vector<std::pair<const KernelArgument *, Shape>> wanted;
  for (size_t i = 0; i < kernel.arguments.size(); ++i)
    if (const std::string &role = kernel.arguments[i].role; role == "input" || role == "output")
      wanted.emplace_back(&kernel.arguments[i], kernel.shapeOf(i, sizes));
  Array output;
  const std::vector<Array> arrays = arena.place(wanted, placing);
  for (size_t i = 0; i < wanted.size(); ++i) {
    Array array = arrays[i];
    const KernelArgument &argument = *wanted[i].first;
    bindings[argument.role + ":" + argument.name] = array;
    if (argument.role == "output") {
      output = array;
      continue;
    }
    const Tensor &numbers = tokens.inputs.at(argument.name);
    EXPECT_EQ(numbers.shape(), array.shape) << argument.name;
    for (int64_t j = 0; j < array.size(); ++j)
      array.set(j, numbers.values()[j]);
  }
  return output;
}

static Tensor readOutput(const Array &output, int64_t tokens) {
  Tensor result({tokens, output.shape.at(2), output.shape.at(3)});
  for (int64_t i = 0; i < output.size(); ++i)
    result.values()[i] = output.get(i);
  return result;
}

Tensor LogLayer::append(const LogPlanner &planner, const Tokens &tokens,
                        const LaunchOptions &options) {
  Bindings bindings = this->bindings();
  bindings["descriptors"] = planner.descriptors;
  const Array output =
      bindTokens(*kernels.append, sizes(), tokens, options.placing, arena, bindings);
  std::vector<ByteRange> ranges;
  addStepRanges(planner, true, ranges);
  if (!options.isGarbage)
    for (size_t row = 0; row < planner.rows.size(); ++row)
      for (int32_t t = 0; t < planner.rows[row].tokens; ++t) {
        const int64_t token = planner.rows[row].token + t;
        const auto entry = static_cast<int64_t>(row);
        addRanges(output,
                  tokens.B > 1 ? std::vector<int64_t>{entry, t} : std::vector<int64_t>{0, token},
                  ranges);
      }
  launch(*kernels.append, bindings, scalars(), ranges, options);
  return readOutput(output, tokens.count());
}

void LogLayer::merge(const LogPlanner &planner, const LaunchOptions &options) {
  Bindings bindings = this->bindings();
  bindings["descriptors"] = planner.descriptors;
  std::vector<ByteRange> ranges;
  addStepRanges(planner, false, ranges);
  launch(*kernels.merge, bindings, scalars(), ranges, options);
}

std::vector<States> LogLayer::materialize(const LogPlanner &planner, Materialization wanted,
                                          const LaunchOptions &options) {
  const LogKernel &kernel = *kernels.materialize;
  if (wanted.slots.empty())
    for (int64_t row = 0; row < wanted.rows; ++row)
      wanted.slots.push_back(row);
  const int64_t poolSlots = wanted.poolSlots ? wanted.poolSlots : wanted.rows;
  std::map<std::string, int64_t> sizes = this->sizes();
  sizes["N"] = wanted.rows;
  sizes["pool_out"] = poolSlots;
  Bindings bindings = this->bindings();
  bindings["cursors"] = planner.cursors;
  std::vector<std::pair<const KernelArgument *, Shape>> places;
  std::vector<const std::vector<int64_t> *> values;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const std::string &role = kernel.arguments[i].role;
    const std::vector<int64_t> *array = role == "slots_in"    ? &wanted.slots
                                        : role == "slots_out" ? &wanted.destinations
                                        : role == "counts"    ? &wanted.counts
                                                              : nullptr;
    if (role != "state_out" && (!array || (array->empty() && role != "slots_in")))
      continue;
    places.emplace_back(&kernel.arguments[i], kernel.shapeOf(i, sizes));
    values.push_back(array);
  }
  const std::vector<Array> arrays = stateArena.place(places, options.placing);
  Array out;
  for (size_t i = 0; i < places.size(); ++i) {
    bindings[places[i].first->role] = arrays[i];
    if (Array array = arrays[i]; values[i])
      fill(array, *values[i]);
    else
      out = array;
  }
  std::vector<ByteRange> ranges;
  for (int64_t row = 0; row < wanted.rows && !options.isGarbage; ++row) {
    const int64_t source = wanted.slots[row];
    const int64_t target = wanted.destinations.empty() ? row : wanted.destinations[row];
    if (source >= wanted.firstSlot && source < slots && target >= wanted.firstSlot &&
        target < poolSlots)
      addRanges(out, {target}, ranges);
  }
  std::map<std::string, double> values2 = scalars();
  values2["first_slot"] = wanted.firstSlot;
  launch(kernel, bindings, values2, ranges, options);
  std::vector<States> result(poolSlots);
  for (int64_t slot = 0; slot < poolSlots; ++slot)
    readState(out, slot, result[slot]);
  return result;
}

Tensor LogLayer::decode(const std::vector<int64_t> &sources, const Tokens &tokens,
                        std::vector<States> *states) {
  const LogKernel &kernel = *kernels.decode;
  const auto rows = static_cast<int64_t>(sources.size());
  const int64_t each = tokens.count() / rows;
  std::map<std::string, int64_t> sizes = this->sizes();
  sizes["N"] = sizes["pool_out"] = rows;
  sizes["B"] = tokens.B;
  sizes["T"] = tokens.T;
  Bindings bindings = this->bindings();
  const Array output = bindTokens(kernel, sizes, tokens, {}, arena, bindings);
  Arena others;
  std::vector<std::pair<const KernelArgument *, Shape>> places;
  for (size_t i = 0; i < kernel.arguments.size(); ++i)
    if (const std::string &role = kernel.arguments[i].role;
        role == "state_out" || role == "slots_in" || (role == "row_starts" && tokens.B != rows))
      places.emplace_back(&kernel.arguments[i], kernel.shapeOf(i, sizes));
  const std::vector<Array> arrays = others.place(places, {});
  std::vector<ByteRange> ranges;
  Array out;
  for (size_t i = 0; i < places.size(); ++i) {
    Array array = arrays[i];
    bindings[places[i].first->role] = array;
    if (places[i].first->role == "slots_in")
      fill(array, sources);
    else if (places[i].first->role == "row_starts")
      for (int64_t row = 0; row <= rows; ++row)
        array.set(row, static_cast<double>(row * each));
    else
      out = array;
  }
  addRanges(output, ranges);
  addRanges(out, ranges);
  launch(kernel, bindings, scalars(), ranges, {});
  for (int64_t row = 0; states && row < rows; ++row)
    readState(out, row, states->emplace_back());
  return readOutput(output, tokens.count());
}

} // namespace dl::test
