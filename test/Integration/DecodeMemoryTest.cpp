//===- DecodeMemoryTest.cpp - Strides, alignment, aliasing, shapes --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"

#include <cstring>

using namespace dl::test;

template <typename Function> static void forProblems(Function f) {
  forOperators([&](const Operator &op, const std::string &layout) {
    f(makeProblem(op, {3, 2, 2, 4, 64, 64}, layout));
  });
}

/// Puts arguments side by side into one buffer whose rows are tokens: columns of a projection.
static void makeColumns(std::vector<Argument> &arguments, const std::vector<std::string> &names) {
  int64_t width = 0;
  for (const std::string &name : names) {
    const Argument &part = find(arguments, name);
    width += part.numElements() / (part.shape[0] * part.shape[1]);
  }
  const Argument &first = find(arguments, names.front());
  const int64_t bytes = dlk_dtype_bytes(first.info.dtype), tokens = first.shape[1];
  auto memory = std::make_shared<Memory>(first.shape[0] * tokens * width * bytes);
  std::fill(memory->image.begin(), memory->image.end(), 0xff);
  int64_t column = 0;
  for (const std::string &name : names) {
    Argument &part = find(arguments, name);
    Argument wide = part;
    wide.memory = memory;
    wide.byteOffset = column * bytes;
    wide.strides[0] = tokens * width;
    wide.strides[1] = width;
    int64_t inner = 1;
    for (size_t i = wide.shape.size(); i-- > 2; inner *= wide.shape[i])
      wide.strides[i] = inner;
    column += inner;
    for (int64_t i = 0; i < part.numElements(); ++i)
      std::memcpy(&memory->image[wide.place(i)], &part.memory->image[part.place(i)], bytes);
    part = wide;
  }
}

TEST(DecodeMemory, ColumnsOfWideBuffersR045) {
  for (const char *name : {"gdn", "kda", "rwkv6"})
    for (int64_t HQ : {2, 4}) // HV = 2 HQ and HV = HQ
      for (const char *layout : {"kv", "vk"}) {
        SCOPED_TRACE(std::string(name) + " HQ=" + std::to_string(HQ));
        const Problem problem = makeProblem(operatorOf(name), {3, 2, HQ, 4, 64, 64}, layout);
        LaunchOptions contiguous, columns;
        contiguous.padding = 0;
        columns.change = [&](std::vector<Argument> &arguments) {
          makeColumns(arguments, {problem.op.query(), "k", "v"});
          if (problem.op.kind == Operator::GDN)
            makeColumns(arguments, {"a", "b"});
        };
        const Outcome want = launch(problem, contiguous), got = launch(problem, columns);
        check(problem, want);
        EXPECT_EQ(got.status, DLK_OK) << got.message;
        EXPECT_TRUE(sameBits(got.o, want.o) && sameBits(got.pool, want.pool));
      }
}

/// An output may be columns too, beside other data that stays.
TEST(DecodeMemory, OutputsIntoAWideBufferR045) {
  forProblems([](const Problem &problem) {
    LaunchOptions options;
    options.padding = 5;
    options.change = [&](std::vector<Argument> &arguments) { makeColumns(arguments, {"o", "v"}); };
    launchAndCheck(problem, options);
  });
}

/// One token's numbers for all rows: a stride of 0.
TEST(DecodeMemory, InputsMayRepeat) {
  forProblems([](Problem problem) {
    Tensor &k = problem.tensors.at("k");
    for (int64_t b = 1; b < 3; ++b)
      for (int64_t t = 0; t < 2; ++t)
        for (int64_t h = 0; h < 2; ++h)
          k.setVector({b, t, h}, k.vector({0, t, h}));
    LaunchOptions options;
    options.change = [](std::vector<Argument> &arguments) { find(arguments, "k").strides[0] = 0; };
    launchAndCheck(problem, options);
  });
}

//===----------------------------------------------------------------------===//
// Aliasing
//===----------------------------------------------------------------------===//

/// `launch` compares every input's bytes, before and after, in every test; here an output takes the
/// place of an input.
TEST(DecodeMemory, OutputsMayNotOverlapInputsR046) {
  forProblems([](const Problem &problem) {
    for (const std::string name : {"v", problem.op.query(), "k"}) {
      LaunchOptions options;
      options.change = [&](std::vector<Argument> &arguments) {
        Argument &o = find(arguments, "o");
        const Argument &other = find(arguments, name);
        o.memory = other.memory;
        o.byteOffset = other.byteOffset;
        if (name == "v")
          o.strides = other.strides;
      };
      expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected memory of its own");
    }
  });
}

TEST(DecodeMemory, OutputsMayNotOverlapByARowR046) {
  forProblems([](const Problem &problem) {
    LaunchOptions options;
    options.padding = 0;
    options.change = [](std::vector<Argument> &arguments) {
      Argument &o = find(arguments, "o");
      Argument &v = find(arguments, "v");
      const int64_t row = v.strides[0] * 2;
      auto memory = std::make_shared<Memory>(6 * row); // v in rows 0 to 2, o in rows 2 to 4
      std::fill(memory->image.begin(), memory->image.end(), 0xff);
      v.memory = o.memory = memory;
      v.byteOffset = 0;
      o.byteOffset = 2 * row;
    };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected memory of its own");
  });
}

TEST(DecodeMemory, PoolsMayNotOverlapInPartR046) {
  forProblems([](const Problem &problem) {
    LaunchOptions options;
    options.padding = 0;
    options.change = [](std::vector<Argument> &arguments) {
      for (Argument &argument : arguments)
        if (argument.info.role == DLK_ROLE_STATE_OUT)
          argument.byteOffset += 4 * argument.strides[1]; // by a head
    };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected memory of its own");
  });
}

TEST(DecodeMemory, AnOutputMayNotOverlapItself) {
  forProblems([](const Problem &problem) {
    LaunchOptions options;
    options.change = [](std::vector<Argument> &arguments) { find(arguments, "o").strides[0] = 0; };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "so that elements do not overlap");
  });
}

//===----------------------------------------------------------------------===//
// Alignment
//===----------------------------------------------------------------------===//

/// Every argument in turn a few bytes off: right, or refused by name. Never a fault on the device.
TEST(DecodeMemory, EveryArgumentShiftedR047) {
  forProblems([](const Problem &problem) {
    dlk_kernel_info info;
    ASSERT_EQ(dlk_kernel_get_info(kernelOf(problem), &info), DLK_OK);
    Problem named = problem;
    named.n.B = 1; // in a row, so that every array is given
    named.n.T = 6;
    for (auto &[name, tensor] : named.tensors)
      if (tensor.shape().size() > 2) {
        Shape shape = tensor.shape();
        shape[0] = 1, shape[1] = 6;
        Tensor row(shape);
        row.values() = tensor.values();
        tensor = row;
      }
    named.starts = {0, 2, 4, 6};
    named.hasState = named.accepted = {1, 1, 1};
    named.sources = named.destinations = {2, 0, 1};
    for (int32_t i = 0; i < info.num_args; ++i)
      for (uint64_t shift : {2, 4, 8}) {
        dlk_arg_info arg;
        ASSERT_EQ(dlk_kernel_get_arg(kernelOf(problem), i, &arg), DLK_OK);
        SCOPED_TRACE(std::string(arg.name) + " by " + std::to_string(shift));
        LaunchOptions options;
        options.inPlace = false;
        options.change = [&](std::vector<Argument> &arguments) {
          Argument &moved = arguments[i];
          std::vector<unsigned char> &image = moved.memory->image;
          std::rotate(image.begin(), image.end() - shift, image.end());
          moved.byteOffset += shift;
        };
        if (shift % arg.align == 0)
          launchAndCheck(named, options);
        else
          expectRefused(named, options, DLK_INVALID_ARGUMENT,
                        "expected an address aligned to " + std::to_string(arg.align) + " bytes");
      }
  });
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// Every dimension of every argument in turn is one too large.
TEST(DecodeMemory, EveryDimensionOffByOneR048) {
  forProblems([](const Problem &problem) {
    dlk_kernel_info info;
    ASSERT_EQ(dlk_kernel_get_info(kernelOf(problem), &info), DLK_OK);
    for (int32_t i = 0; i < info.num_args; ++i) {
      dlk_arg_info arg;
      ASSERT_EQ(dlk_kernel_get_arg(kernelOf(problem), i, &arg), DLK_OK);
      if (arg.nullable)
        continue;
      for (int32_t d = 0; d < arg.rank; ++d) {
        if (std::string(arg.shape[d]).rfind("pool_", 0) == 0) // of any size
          continue;
        SCOPED_TRACE(std::string(arg.name) + " dimension " + std::to_string(d));
        LaunchOptions options;
        options.inPlace = false;
        options.change = [&](std::vector<Argument> &arguments) {
          Argument &wrong = arguments[i];
          wrong.shape[d] += 1;
          if (d > 0) // room for it
            for (int32_t e = 0; e < d; ++e)
              wrong.strides[e] *= 2;
          wrong.memory = std::make_shared<Memory>(wrong.memory->image.size() * 4);
          std::fill(wrong.memory->image.begin(), wrong.memory->image.end(), 0xff);
        };
        expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected ");
      }
    }
  });
}

TEST(DecodeMemory, ParametersOfAnotherLengthR048) {
  const Problem problem = makeProblem(operatorOf("kda"), {2, 1, 2, 4, 64, 64}, "kv");
  LaunchOptions options;
  options.change = [](std::vector<Argument> &arguments) {
    Argument &bias = find(arguments, "dt_bias");
    bias.shape = {4};
    bias.strides = {1};
  };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'dt_bias' rank: expected 2, got 1");
  options.change = [](std::vector<Argument> &arguments) {
    find(arguments, "dt_bias").shape[0] = 2;
  };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'dt_bias' dimension 0: expected HV = 4");
  options.change = [](std::vector<Argument> &arguments) { find(arguments, "A_log").shape[0] = 2; };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'A_log' dimension 0: expected HV = 4");
  options.change = [](std::vector<Argument> &arguments) { find(arguments, "b").shape[2] = 2; };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'b' dimension 2: expected HV = 4");
}

TEST(DecodeMemory, OtherTypesAreRefusedR085) {
  const Problem problem = makeProblem(operatorOf("gdn"), {2, 1, 2, 4, 64, 64}, "kv");
  for (const char *name : {"q", "k", "v", "a", "b", "A_log", "S", "o"}) {
    LaunchOptions options;
    options.inPlace = false;
    options.change = [&](std::vector<Argument> &arguments) {
      find(arguments, name).info.dtype = DLK_F16;
    };
    SCOPED_TRACE(name);
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "got f16");
  }
}
