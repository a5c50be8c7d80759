//===- LogPlanLaunch.h - Running a plan kernel through the C interface ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_LOGPLANLAUNCH_H
#define DL_TEST_INTEGRATION_LOGPLANLAUNCH_H

#include "test/Integration/Device.h"
#include "test/Reference/LogPlan.h"

#include <functional>
#include <memory>
#include <string>

namespace dl::test {

/// Packages are named after their limits: plan-w16t4.dlk.
void setPlanFolder(const std::string &folder);

/// W and T_max of the packages, with the ring that they are compiled with.
std::vector<deltalog::Limits> compiledLimits();

/// How arrays lie in memory, in elements.
struct Placement {
  int64_t stride = 1;
  int64_t cursorPitch = 4, descriptorPitch = 12;
};

/// An argument on the device. Tests change the view, or give it other memory.
struct PlanArgument {
  dlk_arg_info info = {};
  std::vector<int64_t> shape, strides;
  std::shared_ptr<Memory> memory; ///< none: absent
  uint64_t byteOffset = 0;

  /// The bytes of an element in the memory's image.
  unsigned char *at(std::vector<unsigned char> &image, int64_t row, int64_t column = 0) const;
  dlk_tensor view() const;
};

PlanArgument &find(std::vector<PlanArgument> &arguments, const std::string &name);

struct PlanLaunchOptions {
  Placement placement;
  uint32_t flags = 0; ///< of the plan
  std::function<void(std::vector<PlanArgument> &)> change;
};

struct PlanOutcome {
  dlk_status status = DLK_OK;
  std::string message;
  std::vector<deltalog::Descriptor> descriptors;
  std::vector<deltalog::Cursor> cursors;
};

/// Launches the kernel that was compiled for the limits and the index type. Reports a failure of
/// the test if it writes anything but descriptors and cursors.
template <typename Index>
PlanOutcome launchPlan(const deltalog::Limits &limits, const deltalog::Rows<Index> &rows,
                       const std::vector<deltalog::Cursor> &cursors,
                       const PlanLaunchOptions &options = {});

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_LOGPLANLAUNCH_H
