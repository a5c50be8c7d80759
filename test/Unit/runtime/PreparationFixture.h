//===- PreparationFixture.h - Launches of a kernel and what prepares it ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_UNIT_RUNTIME_PREPARATIONFIXTURE_H
#define DL_TEST_UNIT_RUNTIME_PREPARATIONFIXTURE_H

#include "LaunchFixture.h"
#include "fake_cuda.h"

#include <utility>

namespace dl::test {

enum KernelIndex { Main, Prepare };
constexpr int Workspace = NumArgs;

/// Launches of the prepared kernel on the CPU.
class PreparationTest : public LaunchTest {
protected:
  void SetUp() override { prepare(makePreparedManifest()); }

  /// Two rows of three tokens and two heads, and a workspace that holds no numbers.
  void setWorkspace(std::vector<int64_t> shape) {
    workspace.init(std::move(shape), NAN);
    workspace.view.dtype = dlk_dtype_data_type(DLK_U8);
  }

  dlk_status launchPrepared(const std::vector<dlk_scalar> &scalars = {}, void *stream = nullptr) {
    dlk_tensor views[NumArgs + 1];
    for (int i = 0; i < NumArgs; ++i)
      views[i] = tensors[i].view;
    views[Workspace] = workspace.view;
    return dlk_launch(plan, views, NumArgs + 1, scalars.data(),
                      static_cast<int32_t>(scalars.size()), stream);
  }

  void expectRefusal(const std::string &message, dlk_status status = DLK_INVALID_ARGUMENT) {
    EXPECT_EQ(launchPrepared(), status);
    EXPECT_EQ(dlk_last_error(), message);
    for (float value : workspace.memory)
      EXPECT_TRUE(std::isnan(value));
  }

  Tensor workspace;
};

/// The same package for a CUDA device: blocks of 8 threads, 16 of the preparation, and 4 of a
/// variant for one row.
class PreparedDriverTest : public PreparationTest {
protected:
  void SetUp() override { setUpFor(makePreparedManifest()); }

  void setUpFor(nlohmann::json prepared) {
    fake_reset();
    manifest = std::move(prepared);
    fake_cuda.param_bytes = manifest["kernels"][0]["param_bytes"];
    nlohmann::json &kernels = manifest["kernels"];
    for (nlohmann::json &kernel : kernels) {
      kernel["target"] = "sm_80";
      kernel["format"] = "ptx";
      kernel["threads"] = &kernel == &kernels[Main] ? 8 : 16;
    }
    nlohmann::json few = kernels[Main];
    few["name"] = "few";
    few["variant_of"] = kernels[Main]["name"];
    few["when"] = {{{"expr", "N"}, {"max", 1}}};
    few["threads"] = 4;
    kernels.push_back(few);
  }

  dlk_status open(uint32_t flags = 0, int kernel = Main) {
    TearDown();
    package = nullptr;
    plan = nullptr;
    const std::string bytes = makePackage(manifest, {"code", ""});
    EXPECT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
        << dlk_last_error();
    setRows(2);
    const dlk_status status =
        dlk_prepare(dlk_kernel_at(package, kernel), {DLK_DEVICE_CUDA, 0}, flags, &plan);
    fake_clear_log();
    return status;
  }

  /// Of `tokens` tokens, each.
  void setRows(int64_t rows, int64_t tokens = 1) {
    setSizes(rows, tokens, 2, 2);
    setWorkspace({rows * tokens / 32 + rows, 2, 24});
    for (Tensor &tensor : tensors)
      tensor.view.device = {DLK_DEVICE_CUDA, 0};
    workspace.view.device = {DLK_DEVICE_CUDA, 0};
  }

  dlk_status launchOnStream() { return launchPrepared({}, &stream); }

  nlohmann::json manifest;
  int stream = 0;
};

} // namespace dl::test

#endif // DL_TEST_UNIT_RUNTIME_PREPARATIONFIXTURE_H
