//===- LogPlanLaunch.cpp - Running a plan kernel through the C interface --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/LogPlanLaunch.h"

#include <cstring>
#include <map>

namespace dl::test {
using namespace deltalog;

/// What lies between and around the elements of an array.
static constexpr unsigned char guardByte = 0xa5;
static constexpr int64_t guardBytes = 64;

static std::string planFolder;
void setPlanFolder(const std::string &folder) { planFolder = folder; }

std::vector<Limits> compiledLimits() {
  std::vector<Limits> all;
  const std::pair<int32_t, int32_t> pairs[] = {{16, 4}, {1, 1}, {1, 16}, {16, 16},
                                               {8, 1},  {3, 2}, {2, 4},  {64, 4}};
  for (const auto &[window, maxTokens] : pairs) {
    Limits limits{window, maxTokens, 0};
    limits.ring = limits.smallestRing();
    all.push_back(limits);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

namespace {
struct Loaded {
  dlk_package *package = nullptr;
  const dlk_kernel *kernel = nullptr;
  std::map<uint32_t, dlk_plan *> plans; ///< by flags
  ~Loaded() {
    for (const auto &[flags, plan] : plans)
      dlk_plan_release(plan);
    dlk_package_close(package);
  }
};
} // namespace

static Loaded &load(const Limits &limits, const char *indexType) {
  static std::map<std::string, Loaded> all;
  const std::string name =
      "plan-w" + std::to_string(limits.window) + "t" + std::to_string(limits.maxTokens);
  Loaded &loaded = all[name + indexType];
  if (loaded.kernel)
    return loaded;
  EXPECT_EQ(dlk_package_open_file((planFolder + "/" + name + ".dlk").c_str(), &loaded.package),
            DLK_OK)
      << dlk_last_error();
  dlk_query query = {};
  query.kind = "plan";
  query.index_type = indexType;
  EXPECT_EQ(dlk_find(loaded.package, &query, Device::get().handle, &loaded.kernel), DLK_OK)
      << dlk_last_error();
  dlk_kernel_info info = {};
  EXPECT_EQ(dlk_kernel_get_info(loaded.kernel, &info), DLK_OK);
  EXPECT_EQ(info.window, limits.window);
  EXPECT_EQ(info.max_tokens, limits.maxTokens);
  EXPECT_EQ(info.ring, limits.ring);
  return loaded;
}

static const dlk_plan *prepare(Loaded &loaded, uint32_t flags) {
  dlk_plan *&plan = loaded.plans[flags];
  if (!plan)
    EXPECT_EQ(dlk_prepare(loaded.kernel, Device::get().handle, flags, &plan), DLK_OK)
        << dlk_last_error();
  return plan;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

unsigned char *PlanArgument::at(std::vector<unsigned char> &image, int64_t row,
                                int64_t column) const {
  const int64_t element = row * strides[0] + (strides.size() > 1 ? column * strides[1] : 0);
  return &image[byteOffset + element * dlk_dtype_bytes(info.dtype)];
}

dlk_tensor PlanArgument::view() const {
  dlk_tensor view = {};
  view.data = memory ? memory->data() : nullptr;
  view.device = Device::get().handle;
  view.ndim = static_cast<int32_t>(shape.size());
  view.dtype = dlk_dtype_data_type(info.dtype);
  view.shape = shape.data();
  view.strides = strides.data();
  view.byte_offset = memory ? byteOffset : 0;
  return view;
}

PlanArgument &find(std::vector<PlanArgument> &arguments, const std::string &name) {
  for (PlanArgument &argument : arguments)
    if (name == argument.info.name)
      return argument;
  ADD_FAILURE() << "no argument " << name;
  return arguments.front();
}

static void place(PlanArgument &argument, std::vector<int64_t> shape,
                  std::vector<int64_t> strides) {
  argument.shape = std::move(shape);
  argument.strides = std::move(strides);
  const int64_t bytes =
      argument.shape[0] * argument.strides[0] * dlk_dtype_bytes(argument.info.dtype);
  argument.memory = std::make_shared<Memory>(bytes + 2 * guardBytes);
  argument.byteOffset = guardBytes;
  std::fill(argument.memory->image.begin(), argument.memory->image.end(), guardByte);
}

template <typename Element>
static void placeArray(PlanArgument &argument, const std::vector<Element> &array, int64_t stride) {
  if (array.empty())
    return; // absent
  place(argument, {static_cast<int64_t>(array.size())}, {stride});
  ASSERT_EQ(sizeof(Element), dlk_dtype_bytes(argument.info.dtype)) << argument.info.name;
  for (size_t i = 0; i < array.size(); ++i)
    std::memcpy(argument.at(argument.memory->image, static_cast<int64_t>(i)), &array[i],
                sizeof(Element));
}

template <typename Index>
static std::vector<PlanArgument> makeArguments(const dlk_kernel *kernel, const Rows<Index> &rows,
                                               const std::vector<Cursor> &cursors,
                                               const Placement &placement) {
  dlk_kernel_info info = {};
  EXPECT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  std::vector<PlanArgument> arguments(info.num_args);
  for (int32_t i = 0; i < info.num_args; ++i)
    EXPECT_EQ(dlk_kernel_get_arg(kernel, i, &arguments[i].info), DLK_OK);
  auto put = [&](const char *name, const auto &array) {
    placeArray(find(arguments, name), array, placement.stride);
  };
  put("src_slots", rows.src);
  put("dst_slots", rows.dst);
  put("cu_seqlens", rows.starts);
  put("num_accepted_tokens", rows.accepted);
  put("initial_state", rows.initial);
  put("flush", rows.flush);
  put("checkpoint_slots", rows.checkpointSlots);
  put("checkpoint_offsets", rows.checkpointOffsets);
  PlanArgument &pool = find(arguments, "cursors");
  place(pool, {static_cast<int64_t>(cursors.size()), 4}, {placement.cursorPitch, 1});
  for (size_t slot = 0; slot < cursors.size(); ++slot)
    std::memcpy(pool.at(pool.memory->image, static_cast<int64_t>(slot)), &cursors[slot],
                sizeof(Cursor));
  place(find(arguments, "descriptors"), {rows.count, 12}, {placement.descriptorPitch, 1});
  return arguments;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Takes results out of what came back, and expects everything else to be as it was.
template <typename Result> static std::vector<Result> take(const PlanArgument &argument) {
  std::vector<unsigned char> bytes = argument.memory->download();
  std::vector<unsigned char> rest = bytes, &before = argument.memory->image;
  std::vector<Result> results(argument.shape[0]);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    std::memcpy(&results[i], argument.at(bytes, row), sizeof(Result));
    std::memcpy(argument.at(rest, row), argument.at(before, row), sizeof(Result));
  }
  EXPECT_TRUE(rest == before) << "written beside " << argument.info.name;
  return results;
}

template <typename Index>
PlanOutcome launchPlan(const Limits &limits, const Rows<Index> &rows,
                       const std::vector<Cursor> &cursors, const PlanLaunchOptions &options) {
  Loaded &loaded = load(limits, sizeof(Index) == 8 ? "i64" : "i32");
  PlanOutcome outcome;
  outcome.status = DLK_DEVICE_ERROR;
  const dlk_plan *plan = loaded.kernel ? prepare(loaded, options.flags) : nullptr;
  if (!plan)
    return outcome;
  std::vector<PlanArgument> arguments =
      makeArguments(loaded.kernel, rows, cursors, options.placement);
  for (PlanArgument &argument : arguments)
    if (argument.memory)
      argument.memory->upload();
  if (Device::get().driver) // copies end before their call does for the default stream alone
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0);
  const PlanArgument pool = find(arguments, "cursors"), table = find(arguments, "descriptors");
  if (options.change)
    options.change(arguments);
  std::vector<dlk_tensor> views;
  for (const PlanArgument &argument : arguments)
    views.push_back(argument.view());
  const dlk_scalar scalars[] = {{"first_slot", double(rows.firstSlot)},
                                {"tokens", double(rows.tokens)},
                                {"final", rows.final ? 1.0 : 0.0}};
  outcome.status = dlk_launch(plan, views.data(), int32_t(views.size()), scalars, 3, nullptr);
  if (outcome.status != DLK_OK)
    outcome.message = dlk_last_error();
  if (Device::get().driver)
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0) << "the kernel failed";
  outcome.cursors = take<Cursor>(pool);
  outcome.descriptors = take<Descriptor>(table);
  return outcome;
}

template PlanOutcome launchPlan(const Limits &, const Rows<int32_t> &, const std::vector<Cursor> &,
                                const PlanLaunchOptions &);
template PlanOutcome launchPlan(const Limits &, const Rows<int64_t> &, const std::vector<Cursor> &,
                                const PlanLaunchOptions &);

} // namespace dl::test
