//===- DecodeLaunch.cpp - Running a kernel through the C interface -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"
#include "tools/dl-run/Numbers.h"

#include <cstring>
#include <map>
#include <memory>
#include <set>

namespace dl::test {

static constexpr unsigned char guardByte = 0xff; // all ones is a NaN in every format
static constexpr int64_t guardBytes = 1024;

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

static std::string packageFolder;
void setPackageFolder(const std::string &folder) { packageFolder = folder; }

static dlk_package *open(const std::string &name) {
  struct Close {
    void operator()(dlk_package *package) const { dlk_package_close(package); }
  };
  static std::map<std::string, std::unique_ptr<dlk_package, Close>> packages;
  std::unique_ptr<dlk_package, Close> &package = packages[name];
  if (!package) {
    dlk_package *opened = nullptr;
    EXPECT_EQ(dlk_package_open_file((packageFolder + "/" + name + ".dlk").c_str(), &opened), DLK_OK)
        << dlk_last_error();
    package.reset(opened);
  }
  return package.get();
}

const dlk_kernel *kernelOf(const Problem &problem) {
  const dlk_kernel *kernel = nullptr;
  dlk_package *package = open(problem.op.package);
  if (!package)
    return nullptr;
  dlk_query query = {};
  query.kind = problem.op.kernel.c_str();
  query.key_dim = problem.n.K;
  query.value_dim = problem.n.V;
  query.state_layout = problem.layout.c_str();
  query.state_type = dlk_dtype_name(problem.op.state);
  EXPECT_EQ(dlk_find(package, &query, Device::get().handle, &kernel), DLK_OK)
      << problem.op.package << ": " << dlk_last_error();
  return kernel;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

int64_t Argument::numElements() const { return run::numElements(shape); }

size_t Argument::place(int64_t n) const {
  return byteOffset + run::elementOffset(shape, strides, n) * dlk_dtype_bytes(info.dtype);
}

void Argument::set(int64_t n, double value) {
  run::encode(info.dtype, value, &memory->image[place(n)]);
}

dlk_tensor Argument::view() const {
  dlk_tensor view = {};
  view.data = isAbsent ? nullptr : elsewhere ? elsewhere : memory->data();
  view.device = Device::get().handle;
  view.ndim = static_cast<int32_t>(shape.size());
  view.dtype = dlk_dtype_data_type(info.dtype);
  view.shape = shape.data();
  view.strides = strides.data();
  view.byte_offset = isAbsent ? 0 : byteOffset;
  return view;
}

Argument &find(std::vector<Argument> &arguments, const std::string &name) {
  for (Argument &argument : arguments)
    if (name == argument.info.name)
      return argument;
  ADD_FAILURE() << "no argument " << name;
  return arguments.front();
}

/// Memory for the shape, with `padding` units of the alignment between its rows.
static void place(Argument &argument, int64_t padding) {
  const int64_t bytes = dlk_dtype_bytes(argument.info.dtype);
  const int64_t unit = std::max<int64_t>(argument.info.align / bytes, 1);
  argument.strides.assign(argument.shape.size(), 1);
  int64_t extent = 1;
  for (size_t i = argument.shape.size(); i-- > 0;) {
    const int64_t padded = (extent + unit - 1) / unit * unit + padding * unit;
    argument.strides[i] = argument.info.stride[i] ? argument.info.stride[i] : padded;
    extent += std::max<int64_t>(argument.shape[i] - 1, 0) * argument.strides[i];
  }
  argument.memory = std::make_shared<Memory>(extent * bytes + 2 * guardBytes);
  std::fill(argument.memory->image.begin(), argument.memory->image.end(), guardByte);
  argument.byteOffset = guardBytes;
}

/// Element n of a pool in memory, [slots, HV, K, V] or [slots, HV, V, K], in the problem's tensor.
static int64_t poolIndex(const Problem &problem, int64_t n) {
  const int64_t K = problem.n.K, V = problem.n.V;
  if (problem.layout == "kv")
    return n;
  const int64_t k = n % K, v = n / K % V;
  return n / (K * V) * K * V + k * V + v;
}

static void fill(const Problem &problem, Argument &argument) {
  const std::string name = argument.info.name;
  auto put = [&](auto value) {
    for (int64_t i = 0; i < argument.numElements(); ++i)
      argument.set(i, value(i));
  };
  auto putArray = [&](const std::vector<int64_t> &array) {
    argument.isAbsent = array.empty();
    if (!argument.isAbsent)
      put([&](int64_t i) { return array[i]; });
  };
  switch (argument.info.role) {
  case DLK_ROLE_STATE_IN:
    return put([&](int64_t i) { return problem.pool.values()[poolIndex(problem, i)]; });
  case DLK_ROLE_STATE_OUT: // what is written is found by what was there before
    return put([&](int64_t i) { return problem.pool.values()[poolIndex(problem, i)]; });
  case DLK_ROLE_SLOTS_IN:
    return putArray(problem.sources);
  case DLK_ROLE_SLOTS_OUT:
    return putArray(problem.destinations);
  case DLK_ROLE_ROW_STARTS:
    return putArray(problem.starts);
  case DLK_ROLE_ROW_FLAGS:
    return putArray(problem.hasState);
  case DLK_ROLE_ACCEPTED:
    return putArray(problem.accepted);
  case DLK_ROLE_CHECKPOINT_SLOTS:
    return putArray(problem.checkpoints);
  case DLK_ROLE_CHECKPOINT_OFFSETS:
    return putArray(problem.checkpointOffsets);
  case DLK_ROLE_INPUT:
  case DLK_ROLE_PARAM: {
    auto tensor = problem.tensors.find(name);
    ASSERT_NE(tensor, problem.tensors.end()) << "the kernel wants " << name;
    ASSERT_EQ(int64_t(tensor->second.values().size()), argument.numElements()) << name;
    EXPECT_EQ(argument.info.dtype, problem.dtypeOf(name)) << name;
    return put([&](int64_t i) { return tensor->second.values()[i]; });
  }
  default:
    return;
  }
}

static std::vector<Argument> makeArguments(const Problem &problem, const dlk_kernel *kernel,
                                           const LaunchOptions &options) {
  const Sizes &n = problem.n;
  const dlk_size sizes[] = {{"B", n.B},
                            {"T", n.T},
                            {"HQ", n.HQ},
                            {"HV", n.HV},
                            {"N", problem.rows()},
                            {"pool_in", problem.pool.shape()[0]},
                            {"pool_out", problem.pool.shape()[0]},
                            {"src_width", problem.width(problem.sources)},
                            {"dst_width", problem.width(problem.destinations)},
                            {"checkpoint_width", problem.width(problem.checkpoints)}};
  dlk_kernel_info info;
  EXPECT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  std::vector<Argument> arguments(info.num_args);
  size_t named = 0;
  for (int32_t i = 0; i < info.num_args; ++i) {
    Argument &argument = arguments[i];
    int64_t shape[DLK_MAX_RANK];
    EXPECT_EQ(dlk_kernel_get_arg(kernel, i, &argument.info), DLK_OK) << dlk_last_error();
    EXPECT_EQ(dlk_arg_shape(kernel, i, sizes, int32_t(std::size(sizes)), shape), DLK_OK)
        << dlk_last_error();
    argument.shape.assign(shape, shape + argument.info.rank);
    place(argument, options.padding);
    if (options.inPlace && argument.info.role == DLK_ROLE_STATE_OUT) {
      const Argument &in = find(arguments, argument.info.name);
      argument.strides = in.strides;
      argument.memory = in.memory;
      argument.byteOffset = in.byteOffset;
    } else {
      fill(problem, argument);
    }
    named += argument.info.role == DLK_ROLE_INPUT || argument.info.role == DLK_ROLE_PARAM;
  }
  EXPECT_EQ(named, problem.tensors.size()) << "numbers that the kernel does not take";
  return arguments;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

/// Which tokens of the batch belong to a row.
static std::set<int64_t> tokensOfRows(const Problem &problem) {
  std::set<int64_t> tokens;
  for (int64_t row = 0; row < problem.rows(); ++row)
    for (int64_t t = problem.span(row).first; t < problem.span(row).end; ++t)
      tokens.insert(problem.span(row).entry * problem.n.T + t);
  return tokens;
}

/// Takes the results out of `bytes`, and puts back what was there before: what then differs was
/// written where nothing was to be written.
static void takeResults(const Problem &problem, const Argument &argument,
                        std::vector<unsigned char> &bytes, Outcome &outcome) {
  if (argument.info.role == DLK_ROLE_WORKSPACE) {
    const int64_t run = argument.shape.back(), size = run * dlk_dtype_bytes(argument.info.dtype);
    for (int64_t i = 0; i < argument.numElements(); i += run)
      std::copy_n(&argument.memory->image[argument.place(i)], size, &bytes[argument.place(i)]);
    return;
  }
  const bool isState = argument.info.role == DLK_ROLE_STATE_OUT;
  const size_t size = dlk_dtype_bytes(argument.info.dtype);
  const Sizes &n = problem.n;
  const int64_t part = n.HV * n.V * (isState ? n.K : 1); // a slot, or a token
  const std::set<int64_t> written = isState ? problem.writtenSlots() : tokensOfRows(problem);
  for (int64_t i = 0; i < argument.numElements(); ++i) {
    const size_t at = argument.place(i);
    const double value = run::decode(argument.info.dtype, &bytes[at]);
    const bool isWritten = written.count(i / part);
    if (isState)
      outcome.pool.values()[poolIndex(problem, i)] = value;
    else
      outcome.o.values()[i] = isWritten ? value : 0;
    if (isWritten)
      std::copy_n(&argument.memory->image[at], size, &bytes[at]);
  }
}

static void upload(const std::vector<Argument> &arguments) {
  std::set<Memory *> memories;
  for (const Argument &argument : arguments)
    if (memories.insert(argument.memory.get()).second)
      argument.memory->upload();
  if (Device::get().driver) // copies end before their call does for the default stream alone
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0);
}

/// An outcome to be filled in.
static Outcome emptyOutcome(const Problem &problem) {
  Outcome outcome;
  outcome.o = Tensor({problem.n.B, problem.n.T, problem.n.HV, problem.n.V});
  outcome.pool = problem.pool;
  return outcome;
}

Prepared::Prepared(Problem given, const LaunchOptions &options)
    : problem(std::move(given)), outcome(emptyOutcome(problem)) {
  outcome.status = DLK_DEVICE_ERROR;
  const dlk_kernel *kernel = kernelOf(problem);
  if (!kernel)
    return;
  arguments = makeArguments(problem, kernel, options);
  if (options.change)
    options.change(arguments);
  upload(arguments);
  outcome.status = dlk_prepare(kernel, Device::get().handle, options.flags, &plan);
  if (outcome.status != DLK_OK)
    outcome.message = dlk_last_error();
}

Prepared::~Prepared() { dlk_plan_release(plan); }

void Prepared::refill(Problem other) {
  problem = std::move(other);
  const Outcome before = std::move(outcome);
  outcome = emptyOutcome(problem);
  outcome.status = before.status;
  outcome.message = before.message;
  for (Argument &argument : arguments)
    fill(problem, argument);
  upload(arguments);
}

void Prepared::launch(void *stream, const dlk_plan *other) {
  if (outcome.status != DLK_OK)
    return;
  std::vector<dlk_tensor> views;
  for (const Argument &argument : arguments)
    views.push_back(argument.view());
  std::vector<dlk_scalar> scalars = {{"first_slot", double(problem.firstSlot)}};
  if (problem.scale)
    scalars.push_back({"scale", *problem.scale});
  outcome.status = dlk_launch(other ? other : plan, views.data(), int32_t(views.size()),
                              scalars.data(), int32_t(scalars.size()), stream);
  if (outcome.status != DLK_OK)
    outcome.message = dlk_last_error();
}

Outcome Prepared::collect() {
  if (Device::get().driver)
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0) << "the kernel failed";
  std::set<Memory *> memories;
  for (const Argument &argument : arguments)
    memories.insert(argument.memory.get());
  for (Memory *memory : memories) {
    std::vector<unsigned char> bytes = memory->download();
    std::string names;
    for (const Argument &argument : arguments)
      if (argument.memory.get() == memory) {
        names += std::string(" ") + argument.info.name;
        if (argument.info.written && outcome.status == DLK_OK)
          takeResults(problem, argument, bytes, outcome);
      }
    EXPECT_TRUE(bytes == memory->image) << "written where nothing was to be written:" << names;
  }
  return outcome;
}

Outcome launch(const Problem &problem, const LaunchOptions &options) {
  Prepared prepared(problem, options);
  prepared.launch();
  return prepared.collect();
}

} // namespace dl::test
