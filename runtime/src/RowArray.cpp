//===- RowArray.cpp - An array of integers, for checked mode --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowArray.h"

using namespace dl::runtime;

dlk_status RowArray::read(const Kernel &kernel, int32_t index, const ArgumentChecker &args,
                          const Executable &executable) {
  if (index < 0)
    return DLK_OK;
  label = kernel.args[index].label.c_str();
  const BoundArgument &arg = args[index];
  if (arg.isNull)
    return DLK_OK;
  const size_t rank = kernel.args[index].dims.size();
  for (size_t i = 0; i < rank; ++i)
    strides[i] = arg.strides[i];
  if (rank > 1)
    width = arg.shape[1];
  bytes = dlk_dtype_bytes(kernel.args[index].dtype);
  return executable.read(arg.begin, arg.end - arg.begin, copy, data);
}
