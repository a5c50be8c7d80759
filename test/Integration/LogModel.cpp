//===- LogModel.cpp - The model of the log, dressed up as kernels ---------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same arguments by role and name as kernels have them, and the same tensors in memory. A log
// has one term for each write of the operator, per value head, in f32: "log_key", "log_value",
// "log_decay" of K numbers. Nothing is checked; the tests of refusals leave it out.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/LogKernels.h"
#include "test/Reference/LogProtocol.h"
#include "tools/dl-run/Numbers.h"

#include <algorithm>
#include <memory>
#include <sstream>

namespace dl::test {
using namespace deltalog;

namespace {
/// An operator's arguments: "name:head and axis", where a head is q or v and an axis k, v or
/// nothing.
struct ModelOperator {
  const char *name, *inputs, *params;
  int terms;
};

/// A tensor of a launch.
struct View {
  dlk_tensor tensor = {};
  dlk_dtype dtype = DLK_F32;

  explicit operator bool() const { return tensor.data; }
  int64_t size(int i) const { return tensor.shape[i]; }
  char *at(std::initializer_list<int64_t> index) const {
    int64_t offset = 0, i = 0;
    for (int64_t n : index)
      offset += n * tensor.strides[i++];
    return static_cast<char *>(tensor.data) + tensor.byte_offset + offset * dlk_dtype_bytes(dtype);
  }
  double get(std::initializer_list<int64_t> index) const { return run::decode(dtype, at(index)); }
  void set(std::initializer_list<int64_t> index, double value) const {
    run::encode(dtype, value, at(index));
  }
  /// All elements, in order.
  template <typename Value> std::vector<Value> values() const {
    std::vector<Value> result;
    for (int64_t i = 0; tensor.data && i < size(0); ++i)
      result.push_back(static_cast<Value>(get({i})));
    return result;
  }
};

class ModelKernel : public LogKernel {
public:
  ModelKernel(const LogKernels &kernels, const ModelOperator &op, const char *kind);
  std::vector<int64_t> shapeOf(size_t argument,
                               const std::map<std::string, int64_t> &sizes) const override;
  LaunchStatus launch(const std::vector<dlk_tensor> &views, const std::vector<dlk_scalar> &values,
                      uint32_t flags) const override;

private:
  using Views = std::map<std::string, View>; ///< by name, or by role where there is one only

  void add(const std::string &name, const char *role, dlk_dtype dtype, const std::string &dims,
           bool isPacked = false);
  void addFields(const std::string &fields, const char *role, const std::string &front);
  void addLog();

  void plan(const Views &views, const std::map<std::string, double> &values) const;
  void step(const Views &views) const;
  void decode(const Views &views) const;
  void materialize(const Views &views, int64_t firstSlot) const;

  /// The fields of a log.
  struct Fields {
    View clock;
    std::vector<View> a, b; ///< one for each term
  };
  Fields fieldsOf(const Views &views) const;
  std::vector<Pool> load(const Views &views, const char *role) const;
  void storeEntry(const Fields &fields, const Pool &pool, int64_t head, int64_t slot,
                  int32_t i) const;
  void storeState(const View &view, int64_t slot, int64_t head, const Matrix &state) const;
  std::vector<std::vector<AffineToken>> affine(const Views &views, int64_t HV, int64_t count) const;
  void storeOutputs(const View &o, int64_t head, const std::vector<Vector> &outputs,
                    const std::vector<bool> &isWritten) const;

  LogOperator op;
  Limits limits;
  int64_t K, V;
  std::string layout;
  dlk_dtype state, io, index;
  int terms;
};
} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void ModelKernel::add(const std::string &name, const char *role, dlk_dtype dtype,
                      const std::string &dims, bool isPacked) {
  KernelArgument argument;
  argument.name = name;
  argument.role = role;
  argument.dtype = dtype;
  argument.align = std::string(role) == "input" || std::string(role) == "log" ? 16 : 4;
  std::istringstream words(dims);
  for (std::string dim; words >> dim;)
    argument.dims.push_back(dim);
  argument.strides.assign(argument.dims.size(), 0);
  int64_t packed = 1;
  for (size_t i = argument.dims.size(); i-- > 0 && isPacked;) {
    argument.strides[i] = packed;
    if (!std::isdigit(argument.dims[i][0]))
      break;
    packed *= std::stoll(argument.dims[i]);
  }
  if (isPacked && argument.dims.size() > 2) // a state: heads have any stride
    argument.strides[0] = argument.strides[1] = 0;
  static const std::vector<std::string> nullable = {
      "slots_in", "slots_out",        "row_starts",         "accepted", "row_flags",
      "flush",    "checkpoint_slots", "checkpoint_offsets", "counts"};
  argument.isNullable = std::count(nullable.begin(), nullable.end(), role);
  argument.isWritten =
      std::string(role) == "output" || std::string(role) == "state_out" ||
      (std::string(role) == "state") || (argument.role == "log" && kind == "append") ||
      (kind == "plan" && (argument.role == "cursors" || argument.role == "descriptors"));
  arguments.push_back(argument);
}

void ModelKernel::addFields(const std::string &fields, const char *role, const std::string &front) {
  std::istringstream words(fields);
  for (std::string word; words >> word;) {
    const size_t colon = word.find(':');
    std::string dims = front + (word[colon + 1] == 'q' ? " HQ" : " HV");
    if (word.size() > colon + 2)
      dims += " " + std::to_string(word[colon + 2] == 'k' ? K : V);
    const std::string name = word.substr(0, colon);
    const bool isWide = std::string(role) == "param" || name == "g";
    add(name, role, isWide ? DLK_F32 : io, dims);
  }
}

void ModelKernel::addLog() {
  const std::string ring = " HV " + std::to_string(limits.ring) + " ";
  for (int i = 0; i < terms; ++i) {
    const std::string number = terms > 1 ? std::to_string(i) : "";
    add("log_key" + number, "log", DLK_F32, "slots" + ring + std::to_string(K));
    add("log_value" + number, "log", DLK_F32, "slots" + ring + std::to_string(V));
  }
  add("log_decay", "log", DLK_F32, "slots" + ring + std::to_string(K));
}

ModelKernel::ModelKernel(const LogKernels &kernels, const ModelOperator &model, const char *which)
    : op(kernels.op), limits(kernels.limits), K(kernels.K), V(kernels.V), layout(kernels.layout),
      state(kernels.state), io(kernels.io), index(kernels.index), terms(model.terms) {
  kind = which;
  name = std::string("model.") + model.name + "." + which;
  const std::string matrix = layout == "kv" ? std::to_string(K) + " " + std::to_string(V)
                                            : std::to_string(V) + " " + std::to_string(K);
  if (kind == "plan") {
    add("src_slots", "slots_in", index, "N");
    add("dst_slots", "slots_out", index, "N");
    add("cu_seqlens", "row_starts", index, "(N+1)");
    add("num_accepted_tokens", "accepted", index, "N");
    add("initial_state", "row_flags", DLK_U8, "N");
    add("flush", "flush", DLK_U8, "N");
    add("checkpoint_slots", "checkpoint_slots", index, "N");
    add("checkpoint_offsets", "checkpoint_offsets", index, "N");
    add("cursors", "cursors", DLK_I32, "slots 4", true);
    add("descriptors", "descriptors", DLK_I32, "N 12", true);
    scalars = {"first_slot", "tokens", "final"};
    return;
  }
  if (kind == "append" || kind == "decode")
    addFields(model.inputs, "input", "B T");
  addFields(model.params, "param", "");
  if (kind == "append" || kind == "decode")
    add("o", "output", io, "B T HV " + std::to_string(V));
  if (kind == "append" || kind == "merge")
    add("S", "state", state, "slots HV " + matrix, true);
  if (kind == "decode" || kind == "materialize")
    add("S", "state_in", state, "slots HV " + matrix, true);
  if (kind != "decode")
    addLog();
  if (kind == "append" || kind == "merge")
    add("descriptors", "descriptors", DLK_I32, "N 12", true);
  if (kind == "materialize") {
    add("cursors", "cursors", DLK_I32, "slots 4", true);
    add("counts", "counts", index, "N");
  }
  if (kind == "decode" || kind == "materialize") {
    add("src_slots", "slots_in", index, "N");
    add("S", "state_out", state, "pool_out HV " + matrix, true);
    scalars = {"first_slot"};
  }
  if (kind == "materialize")
    add("dst_slots", "slots_out", index, "N");
}

std::vector<int64_t> ModelKernel::shapeOf(size_t argument,
                                          const std::map<std::string, int64_t> &sizes) const {
  std::vector<int64_t> shape;
  for (const std::string &dim : arguments[argument].dims)
    shape.push_back(dim == "(N+1)"         ? sizes.at("N") + 1
                    : std::isdigit(dim[0]) ? std::stoll(dim)
                                           : sizes.at(dim));
  return shape;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

LaunchStatus ModelKernel::launch(const std::vector<dlk_tensor> &views,
                                 const std::vector<dlk_scalar> &values, uint32_t) const {
  Views byName;
  for (size_t i = 0; i < views.size(); ++i) {
    const View view{views[i], arguments[i].dtype};
    byName[arguments[i].role + ":" + arguments[i].name] = view;
    byName[arguments[i].role] = view;
  }
  std::map<std::string, double> scalar;
  for (const dlk_scalar &value : values)
    scalar[value.name] = value.value;
  if (kind == "plan")
    plan(byName, scalar);
  else if (kind == "decode")
    decode(byName);
  else if (kind == "materialize")
    materialize(byName, static_cast<int64_t>(scalar["first_slot"]));
  else
    step(byName);
  return {};
}

template <typename Struct> static std::vector<Struct> structs(const View &view) {
  std::vector<Struct> result(view.size(0));
  for (int64_t i = 0; i < view.size(0); ++i)
    std::memcpy(static_cast<void *>(&result[i]), view.at({i, 0}), sizeof(Struct));
  return result;
}

void ModelKernel::plan(const Views &views, const std::map<std::string, double> &values) const {
  Rows<int64_t> rows;
  rows.count = views.at("descriptors").size(0);
  rows.src = views.at("slots_in").values<int64_t>();
  rows.dst = views.at("slots_out").values<int64_t>();
  rows.starts = views.at("row_starts").values<int64_t>();
  rows.accepted = views.at("accepted").values<int64_t>();
  rows.initial = views.at("row_flags").values<uint8_t>();
  rows.flush = views.at("flush").values<uint8_t>();
  rows.checkpointSlots = views.at("checkpoint_slots").values<int64_t>();
  rows.checkpointOffsets = views.at("checkpoint_offsets").values<int64_t>();
  rows.firstSlot = static_cast<int32_t>(values.at("first_slot"));
  rows.tokens = static_cast<int32_t>(values.at("tokens"));
  rows.final = values.at("final") != 0;
  std::vector<Cursor> cursors = structs<Cursor>(views.at("cursors"));
  const std::vector<Descriptor> descriptors = deltalog::plan(limits, rows, cursors);
  for (size_t i = 0; i < descriptors.size(); ++i)
    std::memcpy(views.at("descriptors").at({static_cast<int64_t>(i), 0}), &descriptors[i],
                sizeof(Descriptor));
  for (size_t i = 0; i < cursors.size(); ++i)
    std::memcpy(views.at("cursors").at({static_cast<int64_t>(i), 0}), &cursors[i], sizeof(Cursor));
}

static Format formatOf(dlk_dtype dtype) { return dtype == DLK_BF16 ? Format::BF16 : Format::F32; }

ModelKernel::Fields ModelKernel::fieldsOf(const Views &views) const {
  Fields fields;
  for (int w = 0; kind != "decode" && w < terms; ++w) {
    const std::string number = terms > 1 ? std::to_string(w) : "";
    fields.a.push_back(views.at("log:log_key" + number));
    fields.b.push_back(views.at("log:log_value" + number));
    fields.clock = views.at("log:log_decay");
  }
  return fields;
}

/// A pool for each value head, as memory has them.
std::vector<Pool> ModelKernel::load(const Views &views, const char *role) const {
  const View &base = views.at(role);
  const Fields fields = fieldsOf(views);
  const int64_t slots = base.size(0), HV = base.size(1);
  const Storage storage{formatOf(state), Format::F32, Format::F32, Format::F32};
  auto vector = [](const View &view, int64_t slot, int64_t h, int64_t i, int64_t size) {
    Vector result(size);
    for (int64_t c = 0; c < size; ++c)
      result[c] = view.get({slot, h, i, c});
    return result;
  };
  std::vector<Pool> pools;
  for (int64_t h = 0; h < HV; ++h) {
    Pool &pool = pools.emplace_back(limits, slots, K, V, storage);
    for (int64_t slot = 0; slot < slots; ++slot) {
      for (int64_t k = 0; k < K; ++k)
        for (int64_t v = 0; v < V; ++v)
          pool.base[slot](k, v) =
              base.get({slot, h, layout == "kv" ? k : v, layout == "kv" ? v : k});
      for (int32_t i = 0; kind != "decode" && i < limits.ring; ++i) {
        Entry &entry = pool.ring[slot][i];
        entry.clock = vector(fields.clock, slot, h, i, K);
        for (int w = 0; w < terms; ++w)
          entry.terms.push_back(
              {vector(fields.a[w], slot, h, i, K), vector(fields.b[w], slot, h, i, V)});
      }
    }
  }
  return pools;
}

void ModelKernel::storeState(const View &view, int64_t slot, int64_t head,
                             const Matrix &state) const {
  for (int64_t k = 0; k < K; ++k)
    for (int64_t v = 0; v < V; ++v)
      view.set({slot, head, layout == "kv" ? k : v, layout == "kv" ? v : k}, state(k, v));
}

void ModelKernel::storeEntry(const Fields &fields, const Pool &pool, int64_t head, int64_t slot,
                             int32_t i) const {
  auto store = [&](const View &view, const Vector &vector) {
    for (size_t c = 0; c < vector.size(); ++c)
      view.set({slot, head, i, static_cast<int64_t>(c)}, vector[c]);
  };
  const Entry &entry = pool.ring[slot][i];
  store(fields.clock, entry.clock);
  for (int w = 0; w < terms; ++w) {
    store(fields.a[w], entry.terms[w].a);
    store(fields.b[w], entry.terms[w].b);
  }
}

/// [head][token]
std::vector<std::vector<AffineToken>> ModelKernel::affine(const Views &views, int64_t HV,
                                                          int64_t count) const {
  Oracle oracle(op, {1, 1, 1, HV, K, V});
  Tokens tokens;
  auto read = [](const View &view, const KernelArgument &argument) {
    Tensor tensor({view.tensor.shape, view.tensor.shape + argument.dims.size()});
    for (size_t i = 0; i < tensor.values().size(); ++i) {
      const int64_t offset = run::elementOffset(
          tensor.shape(), {view.tensor.strides, view.tensor.strides + argument.dims.size()},
          static_cast<int64_t>(i));
      tensor.values()[i] = run::decode(
          argument.dtype, static_cast<char *>(view.tensor.data) + view.tensor.byte_offset +
                              offset * dlk_dtype_bytes(argument.dtype));
    }
    return tensor;
  };
  for (const KernelArgument &argument : arguments) {
    const bool isInput = argument.role == "input";
    if (!isInput && argument.role != "param")
      continue;
    Tensor tensor = read(views.at(argument.role + ":" + argument.name), argument);
    for (size_t i = 0; i < argument.dims.size(); ++i)
      if (argument.dims[i] == "HQ")
        oracle.n.HQ = tensor.shape()[i];
    (isInput ? tokens.inputs : oracle.params)[argument.name] = std::move(tensor);
  }
  std::vector<std::vector<AffineToken>> result(HV);
  for (int64_t t = 0; t < count; ++t) {
    const std::vector<AffineToken> heads = oracle.affine(tokens, t);
    for (int64_t h = 0; h < HV; ++h)
      result[h].push_back(heads[h]);
  }
  return result;
}

void ModelKernel::storeOutputs(const View &o, int64_t head, const std::vector<Vector> &outputs,
                               const std::vector<bool> &isWritten) const {
  const int64_t T = o.size(1);
  for (size_t i = 0; i < outputs.size(); ++i)
    for (int64_t v = 0; isWritten[i] && v < V; ++v) {
      const auto token = static_cast<int64_t>(i);
      o.set({token / T, token % T, head, v}, outputs[i][v]);
    }
}

/// `append` and `merge`.
void ModelKernel::step(const Views &views) const {
  const bool hasTokens = kind == "append";
  std::vector<Descriptor> descriptors = structs<Descriptor>(views.at("descriptors"));
  const Fields fields = fieldsOf(views);
  std::vector<Pool> pools = load(views, "state");
  const auto HV = static_cast<int64_t>(pools.size());
  const int64_t B = hasTokens ? views.at("output").size(0) : 0;
  const int64_t T = hasTokens ? views.at("output").size(1) : 0;
  std::vector<bool> isWritten(B * T);
  for (size_t row = 0; hasTokens && row < descriptors.size(); ++row) {
    Descriptor &d = descriptors[row];
    if (B > 1) // a row is an entry of the batch
      d.token = static_cast<int32_t>(static_cast<int64_t>(row) * T);
    for (int32_t t = 0; t < d.tokens; ++t)
      isWritten[d.token + t] = true;
  }
  std::vector<std::vector<AffineToken>> tokens(HV);
  if (hasTokens)
    tokens = affine(views, HV, B * T);
  for (int64_t h = 0; h < HV; ++h) {
    std::vector<Vector> outputs(B * T, Vector(V));
    if (hasTokens)
      append(pools[h], descriptors, tokens[h], outputs);
    else
      merge(pools[h], descriptors);
    if (hasTokens)
      storeOutputs(views.at("output"), h, outputs, isWritten);
    for (const Descriptor &d : descriptors) {
      if (d.isNull())
        continue;
      for (int32_t t = 0; hasTokens && d.merge != Merge::After && t < d.tokens; ++t)
        storeEntry(fields, pools[h], h, d.dst, wrap(limits, d.write + t));
      if (d.merge != Merge::None)
        storeState(views.at("state"), d.dst, h, pools[h].base[d.dst]);
      if (d.checkpointSlot >= 0)
        storeState(views.at("state"), d.checkpointSlot, h, pools[h].base[d.checkpointSlot]);
    }
  }
}

/// Rows of equally many tokens.
void ModelKernel::decode(const Views &views) const {
  const std::vector<int64_t> sources = views.at("slots_in").values<int64_t>();
  const auto rows = static_cast<int64_t>(sources.size());
  std::vector<Pool> pools = load(views, "state_in");
  const auto HV = static_cast<int64_t>(pools.size());
  const int64_t count = views.at("output").size(0) * views.at("output").size(1);
  const std::vector<std::vector<AffineToken>> tokens = affine(views, HV, count);
  for (int64_t h = 0; h < HV; ++h) {
    std::vector<Vector> outputs(count, Vector(V));
    Pool rowPool(limits, rows, K, V, pools[h].storage);
    for (int64_t row = 0; row < rows; ++row) {
      rowPool.base[row] = pools[h].base[sources[row]];
      const auto each = static_cast<int32_t>(count / rows);
      Descriptor d;
      d.src = d.dst = static_cast<int32_t>(row);
      d.token = static_cast<int32_t>(row) * each;
      d.tokens = each;
      append(rowPool, {d}, tokens[h], outputs);
      storeState(views.at("state_out"), row, h,
                 deltalog::materialize(rowPool, {0, each, 0, Merge::None}, row, each));
    }
    storeOutputs(views.at("output"), h, outputs, std::vector<bool>(count, true));
  }
}

void ModelKernel::materialize(const Views &views, int64_t firstSlot) const {
  const std::vector<int64_t> sources = views.at("slots_in").values<int64_t>();
  const std::vector<int64_t> targets = views.at("slots_out").values<int64_t>();
  const std::vector<int64_t> counts = views.at("counts").values<int64_t>();
  const std::vector<Cursor> cursors = structs<Cursor>(views.at("cursors"));
  const View &out = views.at("state_out");
  const std::vector<Pool> pools = load(views, "state_in");
  const int64_t rows =
      std::max({static_cast<int64_t>(sources.size()), static_cast<int64_t>(targets.size()),
                static_cast<int64_t>(counts.size())});
  for (int64_t row = 0; row < (rows ? rows : out.size(0)); ++row) {
    const int64_t source = sources.empty() ? row : sources[row];
    const int64_t target = targets.empty() ? row : targets[row];
    if (source < firstSlot || source >= static_cast<int64_t>(cursors.size()) ||
        target < firstSlot || target >= out.size(0))
      continue;
    const int64_t all = settle(limits, cursors[source], AllPending).length;
    for (size_t h = 0; h < pools.size(); ++h)
      storeState(out, target, static_cast<int64_t>(h),
                 deltalog::materialize(pools[h], cursors[source], source,
                                       counts.empty() ? all : counts[row]));
  }
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

static const ModelOperator gatedDelta = {"gdn", "q:qk k:qk v:vv a:v b:v", "A_log:v dt_bias:v", 1};

static const ModelOperator models[] = {
    gatedDelta,
    {"kda", "q:qk k:qk v:vv a:vk b:v", "A_log:v dt_bias:vk", 1},
    {"rwkv6", "r:qk k:qk v:vv w:qk", "u:qk", 1},
    {"deltanet", "q:qk k:qk v:vv b:v", "", 1},
    {"gated_deltaproduct", "q:qk k0:qk v0:vv b0:v k1:qk v1:vv b1:v a:v", "A_log:v dt_bias:v", 2},
    {"gdn2", "q:qk k:qk v:vv a:qk b:qk w:vv", "A_log:q dt_bias:qk", 1},
    {"comba", "q:qk k:qk p:qk v:vv a:v b:v", "A_log:v dt_bias:v D:q", 1},
    {"two_key_delta", "q:qk e:qk k:qk v:vv b:v g:vk", "u:qk", 1},
    {"gla", "q:qk k:qk v:vv a:qk", "", 1},
    {"retnet", "q:qk k:qk v:vv", "slope:v", 1},
    {"hgrn2", "q:qk f:qk v:vv", "", 1},
    {"mamba2", "q:qk k:qk v:vv dt:v", "A_log:v dt_bias:v D:v", 1},
    {"rwkv7", "q:qk w:qk k:qk v:vv kappa:qk eta:qk", "", 2},
};

static LogKernels makeModel(const ModelOperator &model, int64_t K, int64_t V, const char *layout,
                            Limits limits, dlk_dtype state, dlk_dtype io, dlk_dtype index) {
  static std::vector<std::unique_ptr<ModelKernel>> store;
  LogKernels kernels;
  kernels.package = "model";
  kernels.op = logOperator(model.name, "model");
  kernels.K = K;
  kernels.V = V;
  kernels.layout = layout;
  kernels.limits = limits;
  kernels.limits.ring = limits.smallestRing();
  kernels.state = state;
  kernels.io = io;
  kernels.index = index;
  kernels.title = std::string("model ") + model.name + " w" + std::to_string(limits.window) + "t" +
                  std::to_string(limits.maxTokens) + " " + layout;
  auto make = [&](const char *kind) {
    store.push_back(std::make_unique<ModelKernel>(kernels, model, kind));
    return store.back().get();
  };
  kernels.decode = make("decode");
  kernels.plan = make("plan");
  kernels.append = make("append");
  kernels.merge = make("merge");
  kernels.materialize = make("materialize");
  return kernels;
}

std::vector<LogKernels> modelKernels() {
  std::vector<LogKernels> result;
  for (const ModelOperator &model : models)
    result.push_back(makeModel(model, 12, 8, result.size() % 2 ? "vk" : "kv", {16, 4}, DLK_F32,
                               DLK_BF16, DLK_I32));
  result.push_back(makeModel(gatedDelta, 8, 12, "vk", {4, 4}, DLK_BF16, DLK_BF16, DLK_I64));
  result.push_back(makeModel(models[1], 8, 12, "kv", {4, 1}, DLK_F32, DLK_F32, DLK_I32));
  for (const ModelOperator &model : {models[0], models[2]})
    result.push_back(makeModel(model, 12, 12, "kv", {16, 16}, DLK_F32, DLK_BF16, DLK_I32));
  return result;
}

} // namespace dl::test
