//===- decode.cpp - Speculative decoding of several sequences from C++ ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   decode_cpp GDN.dlk [cpu | cuda:N]
//
// GDN.dlk: a package of examples/gdn.mlir with its default options and bf16 inputs.
//
// Three sequences of different lengths lie one behind the other, with a row of padding, as in an
// engine's step. Each has a window of drafted tokens and a slot of the pool for every place in its
// window; the next window starts from the slot of the last token that was accepted. All steps are
// the same launch with other numbers in device memory: on CUDA it is captured once and replayed.
//
// Checks that accepted tokens get the bits that a launch per sequence and token gives, and one
// number against the formula.
//
//===----------------------------------------------------------------------===//

#include "device.h"
#include "dlk.hpp"

#include <cmath>
#include <iterator>

namespace {

enum : int64_t {
  HQ = 2, // key heads
  HV = 4, // value heads
  sequences = 3,
  rows = sequences + 1, // the last is padding: no tokens, null slots
  window = 4,           // the last token and three drafts
  maxTokens = sequences * window,
  firstSlot = 1, // slot 0 is the null slot
  slots = firstSlot + sequences * window + sequences
};

/// How long the window of each sequence is, and how many of its tokens turn out to be right.
struct Step {
  int64_t length[sequences], accepted[sequences];
};
constexpr Step steps[] = {
    {{4, 1, 3}, {2, 1, 3}}, {{1, 4, 2}, {1, 4, 1}}, {{4, 2, 4}, {4, 1, 2}}, {{2, 3, 1}, {1, 3, 1}}};

/// Memory of the device.
class Buffer {
public:
  Buffer(dlk_device device, size_t bytes)
      : device(device), memory(device_alloc(device, bytes)), bytes(bytes) {}
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { device_free(device, memory); }

  char *at(size_t offset) const { return static_cast<char *>(memory) + offset; }
  template <typename T> void write(const std::vector<T> &values) {
    to_device(device, memory, values.data(), std::min(bytes, values.size() * sizeof(T)));
  }
  template <typename T> std::vector<T> read() const {
    std::vector<T> values(bytes / sizeof(T));
    to_host(device, values.data(), memory, bytes);
    return values;
  }

private:
  dlk_device device;
  void *memory;
  size_t bytes;
};

uint16_t toBf16(float value) { // of a number that bf16 holds
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits >> 16;
}

float fromBf16(uint16_t half) {
  const uint32_t bits = uint32_t(half) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/// The layer's inputs for tokens: columns q, k and v of one projection, b and a of another.
struct Tokens {
  explicit Tokens(const dlk_kernel_info &info)
      : K(info.key_dim), width(2 * HQ * K + HV * info.value_dim) {}

  /// Any numbers that depend on the sequence, the position, and whether the draft is the right one.
  void append(int64_t sequence, int64_t position, bool right) {
    for (int64_t i = 0; i < width + 2 * HV; ++i) {
      const int64_t n = i * 37 + sequence * 101 + position * 211 + (right ? 0 : 7);
      (i < width ? projection : gates).push_back(toBf16(float(n % 17 - 8) / 64));
    }
  }

  int64_t K, width;
  std::vector<uint16_t> projection, gates;
};

/// The buffers of a layer. A state of the pool is part of a page, longer than the state.
struct Layer {
  Layer(const dlk_kernel_info &info, dlk_device device)
      : K(info.key_dim), V(info.value_dim), keyFirst(strcmp(info.state_layout, "kv") == 0),
        width(2 * HQ * K + HV * V), page(HV * K * V + 1024),
        projection(device, maxTokens * width * 2), gates(device, maxTokens * 2 * HV * 2),
        logRate(device, HV * 4), bias(device, HV * 4), output(device, maxTokens * HV * V * 2),
        pool(device, slots * page * 4) {
    logRate.write(std::vector<float>(HV, -1));
    bias.write(std::vector<float>(HV, 0.5));
    pool.write(std::vector<float>(slots * page, NAN)); // a new sequence reads none of it
  }

  /// The arguments of a launch of T tokens that lie one behind the other.
  dlk::Arguments arguments(const dlk::Plan &plan, int64_t T) const {
    const auto columns = [&](int64_t first, int64_t heads, int64_t dim) {
      return dlk::View(projection.at(first * 2), DLK_BF16, {1, T, heads, dim},
                       {T * width, width, dim, 1});
    };
    const auto gate = [&](int64_t first) {
      return dlk::View(gates.at(first * 2), DLK_BF16, {1, T, HV}, {T * 2 * HV, 2 * HV, 1});
    };
    const int64_t lines = keyFirst ? K : V, line = keyFirst ? V : K;
    return dlk::Arguments(plan)
        .set("q", columns(0, HQ, K))
        .set("k", columns(HQ * K, HQ, K))
        .set("v", columns(2 * HQ * K, HV, V))
        .set("b", gate(0))
        .set("a", gate(HV))
        .set("A_log", {logRate.at(0), DLK_F32, {HV}})
        .set("dt_bias", {bias.at(0), DLK_F32, {HV}})
        .set("o", {output.at(0), DLK_BF16, {1, T, HV, V}})
        .set("S", {pool.at(0), DLK_F32, {slots, HV, lines, line}, {page, K * V, line, 1}})
        .scalar("first_slot", firstSlot);
  }

  void write(const Tokens &tokens) {
    projection.write(tokens.projection);
    gates.write(tokens.gates);
  }

  int64_t K, V;
  bool keyFirst;
  int64_t width, page; // in elements
  Buffer projection, gates, logRate, bias, output, pool;
};

/// A launch which is captured when first run, where there is a graph to capture it in.
class Graph {
public:
  Graph(const dlk::Plan &plan, dlk::Arguments arguments)
      : plan(plan), arguments(std::move(arguments)) {
    if (plan.device().type != DLK_DEVICE_CUDA)
      return;
    void *graph = nullptr;
    check_cuda(driver.stream_create(&stream, 0), "cuStreamCreate");
    check_cuda(driver.begin_capture(stream, 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL */), "capturing");
    plan.launch(this->arguments, stream);
    check_cuda(driver.end_capture(stream, &graph), "cuStreamEndCapture");
    check_cuda(driver.instantiate(&executable, graph, 0), "cuGraphInstantiate");
  }
  void run() {
    if (executable)
      check_cuda(driver.graph_launch(executable, stream), "cuGraphLaunch");
    else
      plan.launch(arguments);
  }

private:
  const dlk::Plan &plan;
  dlk::Arguments arguments;
  void *stream = nullptr, *executable = nullptr;
};

/// Number `i` of value head 0 of a token that is the first of its sequence, from zero states:
/// scale (q . k) beta v, with q and k of length one.
double firstOutput(const Tokens &tokens, int64_t i) {
  double qq = 1e-6, kk = 1e-6, qk = 0;
  for (int64_t c = 0; c < tokens.K; ++c) {
    const double q = fromBf16(tokens.projection[c]),
                 k = fromBf16(tokens.projection[HQ * tokens.K + c]);
    qq += q * q;
    kk += k * k;
    qk += q * k;
  }
  const double beta = 1 / (1 + std::exp(-fromBf16(tokens.gates[0])));
  const double v = fromBf16(tokens.projection[2 * HQ * tokens.K + i]);
  return qk / std::sqrt(qq * kk) * beta * v / std::sqrt(double(tokens.K));
}

void require(bool holds, const char *what) {
  if (!holds)
    throw std::runtime_error(what);
}

void decode(const char *path, dlk_device device) {
  // When the engine starts: load, and say once where everything lies.
  const dlk::Package package(path);
  dlk_query query{};
  query.kind = "decode";
  query.state_type = "f32";
  query.io_type = "bf16";
  query.index_type = "i32";
  const dlk_kernel *kernel = package.find(query, device);
  const dlk::Plan plan(kernel, device);
  dlk_kernel_info info;
  dlk::check(dlk_kernel_get_info(kernel, &info));
  printf("%s on %s\n", info.name, device.type == DLK_DEVICE_CUDA ? "cuda" : "cpu");

  Layer layer(info, device);
  Buffer starts(device, (rows + 1) * 4), table(device, rows * window * 4),
      accepted(device, rows * 4), hasState(device, rows);
  const dlk::View places(table.at(0), DLK_I32, {rows, window});
  Graph step(plan, layer.arguments(plan, maxTokens)
                       .set("cu_seqlens", {starts.at(0), DLK_I32, {rows + 1}})
                       .set("src_slots", places)
                       .set("dst_slots", places)
                       .set("num_accepted_tokens", {accepted.at(0), DLK_I32, {rows}})
                       .set("has_initial_state", {hasState.at(0), DLK_U8, {rows}}));

  // Every step: numbers change, the launch does not.
  std::vector<int32_t> slotOf(rows * window, 0);
  for (int32_t i = 0; i < sequences * window; ++i)
    slotOf[i] = firstSlot + i;
  table.write(slotOf);
  const int64_t token = HV * layer.V;
  std::vector<std::vector<uint16_t>> kept(sequences); // outputs of the accepted tokens
  int64_t length[sequences] = {};
  std::vector<int32_t> last(rows, 1);
  double first = 0, formula = 0;
  for (const Step &now : steps) {
    Tokens tokens(info);
    std::vector<int32_t> begins{0};
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t t = 0; t < now.length[s]; ++t)
        tokens.append(s, length[s] + t, t < now.accepted[s]);
      begins.push_back(begins.back() + int32_t(now.length[s]));
    }
    begins.push_back(begins.back()); // the padding
    layer.write(tokens);
    starts.write(begins);
    accepted.write(last);
    hasState.write(std::vector<uint8_t>(rows, &now != steps));
    step.run();

    const std::vector<uint16_t> o = layer.output.read<uint16_t>();
    if (&now == steps) {
      first = fromBf16(o[0]);
      formula = firstOutput(tokens, 0);
    }
    for (int64_t s = 0; s < sequences; ++s) {
      const auto *from = &o[begins[s] * token];
      kept[s].insert(kept[s].end(), from, from + now.accepted[s] * token);
      length[s] += now.accepted[s];
      last[s] = int32_t(now.accepted[s]);
    }
  }
  printf("first output %.6f, by the formula %.6f\n", first, formula);
  require(std::fabs(first - formula) <= std::fabs(formula) / 128, "the first output is wrong");

  // The accepted tokens again, one launch for each, every sequence in a slot of its own.
  Buffer slot(device, 4), isOld(device, 1);
  const dlk::View place(slot.at(0), DLK_I32, {1});
  const dlk::Arguments alone = layer.arguments(plan, 1)
                                   .set("src_slots", place)
                                   .set("dst_slots", place)
                                   .set("has_initial_state", {isOld.at(0), DLK_U8, {1}});
  int64_t total = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    slot.write(std::vector<int32_t>{int32_t(firstSlot + sequences * window + s)});
    for (int64_t t = 0; t < length[s]; ++t, ++total) {
      Tokens tokens(info);
      tokens.append(s, t, true);
      layer.write(tokens);
      isOld.write(std::vector<uint8_t>{t > 0});
      plan.launch(alone);
      const std::vector<uint16_t> o = layer.output.read<uint16_t>();
      require(std::equal(&o[0], &o[token], &kept[s][t * token]),
              "a token in a packed window and one on its own differ");
    }
  }
  printf("%d tokens accepted in %d steps: the same bits as one by one\n", int(total),
         int(std::size(steps)));
}

} // namespace

int main(int argc, char **argv) {
  try {
    require(argc == 2 || argc == 3, "usage: decode_cpp GDN.dlk [cpu | cuda:N]");
    dlk_device device = dlk::parseDevice(argc > 2 ? argv[2] : "cuda:0");
    if (device.type == DLK_DEVICE_CUDA && !open_cuda(device.id)) {
      require(argc == 2, "no such CUDA device");
      device = dlk::parseDevice("cpu");
    }
    decode(argv[1], device);
  } catch (const std::exception &error) {
    fprintf(stderr, "decode_cpp: %s\n", error.what());
    return 1;
  }
  return 0;
}
