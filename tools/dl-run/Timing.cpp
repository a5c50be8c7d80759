//===- Timing.cpp - Timing launches on a CUDA stream ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Timing.h"

#include <algorithm>

using namespace dl::run;
using namespace dl::runtime::cuda;

double Samples::median() const {
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Samples::best() const { return *std::min_element(ms.begin(), ms.end()); }

nlohmann::json Samples::json() const {
  return {{"median_ms", median()},
          {"min_ms", best()},
          {"max_ms", *std::max_element(ms.begin(), ms.end())},
          {"repetitions", ms.size()}};
}

Timer::Timer(const Session &session) : session(session) {
  const Driver &driver = *session.driver;
  constexpr unsigned nonBlocking = 1;
  session.checkCuda(driver.streamCreate(&stream, nonBlocking), "cuStreamCreate");
  session.checkCuda(driver.eventCreate(&begin, 0), "cuEventCreate");
  session.checkCuda(driver.eventCreate(&end, 0), "cuEventCreate");
}

Timer::~Timer() {
  session.driver->eventDestroy(end);
  session.driver->eventDestroy(begin);
  session.driver->streamDestroy(stream);
}

Samples Timer::sample(const std::function<void()> &issue, int count, int repetitions) {
  const Driver &driver = *session.driver;
  // The first rounds warm up clocks and caches.
  constexpr int warmUps = 3;
  Samples samples;
  for (int i = 0; i < warmUps + repetitions; ++i) {
    session.checkCuda(driver.eventRecord(begin, stream), "cuEventRecord");
    issue();
    session.checkCuda(driver.eventRecord(end, stream), "cuEventRecord");
    session.checkCuda(driver.eventSynchronize(end), "the kernel");
    float ms = 0;
    session.checkCuda(driver.eventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
    if (i >= warmUps)
      samples.ms.push_back(ms / count);
  }
  return samples;
}

Samples Timer::onStream(const Launch &launch, int count, int repetitions) {
  return sample(
      [&] {
        for (int i = 0; i < count; ++i)
          launch(i, stream);
      },
      count, repetitions);
}

Samples Timer::inGraph(const Launch &launch, int count, int repetitions) {
  const Driver &driver = *session.driver;
  constexpr int globalMode = 0; // any call that is illegal in a capture fails it
  Graph graph = nullptr;
  GraphExec executable = nullptr;
  session.checkCuda(driver.streamBeginCapture(stream, globalMode), "cuStreamBeginCapture");
  try {
    for (int i = 0; i < count; ++i)
      launch(i, stream);
  } catch (...) {
    driver.streamEndCapture(stream, &graph);
    if (graph)
      driver.graphDestroy(graph);
    throw;
  }
  session.checkCuda(driver.streamEndCapture(stream, &graph), "cuStreamEndCapture");
  Result result = driver.graphInstantiate(&executable, graph, 0);
  driver.graphDestroy(graph);
  session.checkCuda(result, "cuGraphInstantiate");
  Samples samples =
      sample([&] { session.checkCuda(driver.graphLaunch(executable, stream), "cuGraphLaunch"); },
             count, repetitions);
  driver.graphExecDestroy(executable);
  return samples;
}

//===----------------------------------------------------------------------===//
// The ceiling
//===----------------------------------------------------------------------===//

// p[i] *= s for 16 bytes per thread; compiled by the driver for the chip at hand.
static constexpr char scalePtx[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 pointer, .param .u64 count, .param .f32 factor)
{
  .reg .pred %outside;
  .reg .b32 %block, %size, %thread;
  .reg .f32 %factor, %a, %b, %c, %d;
  .reg .b64 %pointer, %count, %index, %offset, %wide;
  ld.param.u64 %pointer, [pointer];
  ld.param.u64 %count, [count];
  ld.param.f32 %factor, [factor];
  cvta.to.global.u64 %pointer, %pointer;
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %index, %block, %size;
  cvt.u64.u32 %wide, %thread;
  add.u64 %index, %index, %wide;
  setp.ge.u64 %outside, %index, %count;
  @%outside ret;
  shl.b64 %offset, %index, 4;
  add.u64 %pointer, %pointer, %offset;
  ld.global.v4.f32 {%a, %b, %c, %d}, [%pointer];
  mul.f32 %a, %a, %factor;
  mul.f32 %b, %b, %factor;
  mul.f32 %c, %c, %factor;
  mul.f32 %d, %d, %factor;
  st.global.v4.f32 [%pointer], {%a, %b, %c, %d};
  ret;
}
)";

Ceiling::Ceiling(const Session &session) : session(session) {
  const Driver &driver = *session.driver;
  session.checkCuda(
      driver.libraryLoadData(&library, scalePtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
      "compiling the ceiling kernel");
  session.checkCuda(driver.libraryGetKernel(&kernel, library, "scale"), "cuLibraryGetKernel");
  Function function;
  session.checkCuda(driver.kernelGetFunction(&function, kernel), "cuKernelGetFunction");
}

Ceiling::~Ceiling() {
  if (library)
    session.driver->libraryUnload(library);
}

Samples Ceiling::measure(Timer &timer, size_t bytes, int rotations, int count, int repetitions) {
  const size_t vectors = std::max<size_t>(bytes / 16, 1);
  Buffer buffer(session, vectors * 16 * rotations);
  constexpr unsigned one = 0x3f800000; // 1.0f
  session.checkCuda(session.driver->memsetD32(reinterpret_cast<DevicePtr>(buffer.data()), one,
                                              vectors * 4 * rotations),
                    "cuMemsetD32");
  Samples best;
  for (unsigned threads : {128u, 256u, 512u, 1024u}) {
    auto launch = [&](int i, Stream stream) {
      uint64_t pointer = reinterpret_cast<uint64_t>(buffer.data()) + i % rotations * vectors * 16;
      uint64_t numVectors = vectors;
      float factor = 1;
      void *arguments[] = {&pointer, &numVectors, &factor};
      unsigned blocks = static_cast<unsigned>((vectors + threads - 1) / threads);
      session.checkCuda(session.driver->launchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream,
                                                     arguments, nullptr),
                        "the ceiling kernel");
    };
    Samples samples = timer.inGraph(launch, count, repetitions);
    if (best.ms.empty() || samples.median() < best.median())
      best = std::move(samples);
  }
  return best;
}
