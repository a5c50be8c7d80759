/*===- plugin.c - Loads the runtime, and a kernel, without the maths library -===*
 *
 * Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 *   plugin LIBDLK PKG.dlk
 *
 * A process that links no maths library and loads the runtime as a plugin would be, so that what
 * the runtime itself needs is visible to the runtime alone. A host object still has to load.
 *
 *===----------------------------------------------------------------------===*/
#include "dl/dlk.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;

static void *find(const char *name) {
  void *function = dlsym(library, name);
  if (!function) {
    fprintf(stderr, "plugin: %s\n", dlerror());
    exit(1);
  }
  return function;
}

int main(int argc, char **argv) {
  if (argc != 3 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL))) {
    fprintf(stderr, "plugin: %s\n", argc != 3 ? "usage: plugin LIBDLK PKG.dlk" : dlerror());
    return 1;
  }
  if (dlsym(RTLD_DEFAULT, "expf")) {
    fprintf(stderr, "plugin: expf is visible from the start: this tests nothing\n");
    return 1;
  }
  dlk_status (*open_file)(const char *, dlk_package **) =
      (dlk_status (*)(const char *, dlk_package **))find("dlk_package_open_file");
  const dlk_kernel *(*kernel_at)(const dlk_package *, int32_t) =
      (const dlk_kernel *(*)(const dlk_package *, int32_t))find("dlk_kernel_at");
  dlk_status (*prepare)(const dlk_kernel *, dlk_device, uint32_t, dlk_plan **) =
      (dlk_status (*)(const dlk_kernel *, dlk_device, uint32_t, dlk_plan **))find("dlk_prepare");
  const char *(*last_error)(void) = (const char *(*)(void))find("dlk_last_error");

  dlk_package *package;
  dlk_plan *plan;
  const dlk_device cpu = {DLK_DEVICE_CPU, 0};
  if (open_file(argv[2], &package) != DLK_OK ||
      prepare(kernel_at(package, 0), cpu, 0, &plan) != DLK_OK) {
    fprintf(stderr, "plugin: %s\n", last_error());
    return 1;
  }
  puts("loaded");
  return 0;
}
