//===- PackageFuzzer.cpp - Packages from anywhere, read by the runtime ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// An input that starts as a package does is opened as it is. Any other input is a manifest: around
// it a container with the right hashes is put, and its reference graph is read and evaluated too.
// Nothing here loads or runs code.
//
//===----------------------------------------------------------------------===//
#include "JsonMutator.h"
#include "PackageBuilder.h"
#include "reference/Reference.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using nlohmann::json;

// NOLINTBEGIN(readability-identifier-naming): libFuzzer gives the names
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// What must hold whatever the input is.
static void require(bool condition, const char *what) {
  if (condition)
    return;
  std::fprintf(stderr, "package_fuzzer: expected %s; last error: %s\n", what, dlk_last_error());
  std::abort();
}

//===----------------------------------------------------------------------===//
// What is done with a package
//===----------------------------------------------------------------------===//

namespace {
/// Calls everything that asks a package something.
class Walk {
public:
  Walk(const dlk_package *package, uint64_t seed);
  void run();

private:
  void readKernel(const dlk_kernel *kernel);
  void readArguments(const dlk_kernel *kernel, int32_t count);
  void readScalars(const dlk_kernel *kernel, int32_t count);
  void findKernel(const dlk_kernel_info &info);
  void trySizes(const dlk_kernel *kernel, int32_t numArgs);
  void useText(const char *text) {
    require(text != nullptr, "text, not a null pointer");
    textBytes += std::strlen(text);
  }

  const dlk_package *package;
  std::minstd_rand random;
  std::vector<std::string> symbols = {"none"};
  size_t textBytes = 0;
};
} // namespace

static constexpr dlk_device cpu = {DLK_DEVICE_CPU, 0};

Walk::Walk(const dlk_package *package, uint64_t seed)
    : package(package), random(static_cast<std::minstd_rand::result_type>(seed)) {
  size_t bytes = 0;
  const char *text = dlk_package_manifest(package, &bytes);
  require(std::strlen(text) <= bytes && text[bytes] == 0, "a manifest that ends in zero");
  json manifest = json::parse(text, text + bytes);
  for (const json &symbol : manifest["symbols"])
    symbols.push_back((symbol.is_object() ? symbol["name"] : symbol).get<std::string>());
}

void Walk::readArguments(const dlk_kernel *kernel, int32_t count) {
  dlk_arg_info arg;
  for (int32_t i = 0; i < count; ++i) {
    require(dlk_kernel_get_arg(kernel, i, &arg) == DLK_OK, "every argument to be told");
    require(arg.rank >= 0 && arg.rank <= DLK_MAX_RANK, "a rank within bounds");
    require(dlk_dtype_bytes(arg.dtype) > 0, "a known data type");
    require(arg.align > 0, "an alignment");
    useText(arg.name);
    useText(dlk_role_name(arg.role));
    for (int32_t dim = 0; dim < arg.rank; ++dim)
      useText(arg.shape[dim]);
  }
  for (int32_t index : {-1, count, INT32_MAX})
    require(dlk_kernel_get_arg(kernel, index, &arg) == DLK_INVALID_ARGUMENT,
            "an index out of range to be refused");
}

void Walk::readScalars(const dlk_kernel *kernel, int32_t count) {
  dlk_scalar_info scalar;
  for (int32_t i = 0; i < count; ++i) {
    require(dlk_kernel_get_scalar(kernel, i, &scalar) == DLK_OK, "every scalar to be told");
    useText(scalar.name);
    useText(dlk_dtype_name(scalar.dtype));
  }
  require(dlk_kernel_get_scalar(kernel, count, &scalar) == DLK_INVALID_ARGUMENT,
          "an index out of range to be refused");
}

void Walk::findKernel(const dlk_kernel_info &info) {
  dlk_query query = {};
  const dlk_kernel *found = nullptr;
  dlk_find(package, &query, cpu, &found);
  query = {info.name,         info.kind,       info.target,  info.key_dim,    info.value_dim,
           info.state_layout, info.state_type, info.io_type, info.index_type, 0};
  query.no_ptx = static_cast<int32_t>(random() % 2);
  dlk_status status = dlk_find(package, &query, cpu, &found);
  bool isForCpu = std::strcmp(info.target, "cpu") == 0;
  require(status == (isForCpu ? DLK_OK : DLK_NOT_FOUND), "a kernel for the cpu to be found");
  require((found != nullptr) == isForCpu, "a kernel exactly when one is found");
  query.key_dim ^= 1;
  query.io_type = "%s";
  dlk_find(package, &query, cpu, &found);
}

void Walk::trySizes(const dlk_kernel *kernel, int32_t numArgs) {
  static constexpr int64_t values[] = {1,
                                       2,
                                       3,
                                       4,
                                       7,
                                       16,
                                       33,
                                       64,
                                       128,
                                       0,
                                       -1,
                                       1 << 20,
                                       INT32_MAX,
                                       int64_t(1) << 31,
                                       int64_t(1) << 40,
                                       INT64_MAX};
  // Mostly sizes that are allowed: the others are refused early.
  const size_t choices = random() % 4 ? 9 : std::size(values);
  std::vector<dlk_size> sizes;
  for (const std::string &name : symbols)
    if (name != "none" ? random() % 16 : random() % 16 == 0)
      sizes.push_back({name.c_str(), values[random() % choices]});
  if (!sizes.empty() && random() % 16 == 0)
    sizes.push_back(sizes[random() % sizes.size()]);
  if (random() % 16 == 0)
    sizes.push_back({nullptr, 1});
  const int32_t count = static_cast<int32_t>(sizes.size());
  char reason[64];
  const size_t room = random() % (sizeof(reason) + 1);
  dlk_status status = dlk_supported(kernel, cpu, sizes.data(), count, reason, room);
  if (room > 0)
    require(std::strlen(reason) < room && (status == DLK_OK || room == 1 || *reason),
            "a reason within its buffer");
  uint64_t bytes = 0;
  dlk_workspace_bytes(kernel, sizes.data(), count, &bytes);
  for (int32_t i = 0; i < numArgs; ++i) {
    int64_t shape[DLK_MAX_RANK] = {};
    dlk_arg_info arg;
    dlk_kernel_get_arg(kernel, i, &arg);
    if (dlk_arg_shape(kernel, i, sizes.data(), count, shape) == DLK_OK)
      require(std::all_of(shape, shape + arg.rank, [](int64_t size) { return size >= 0; }),
              "no negative dimensions");
  }
}

void Walk::readKernel(const dlk_kernel *kernel) {
  dlk_kernel_info info;
  require(dlk_kernel_get_info(kernel, &info) == DLK_OK, "every kernel to be told");
  for (const char *text : {info.name, info.kind, info.target, info.schedule, info.state_layout,
                           info.state_type, info.io_type, info.variant_of, info.prepares})
    useText(text);
  require(info.num_args >= 0 && info.num_args <= DLK_MAX_ARGS, "arguments within bounds");
  require(info.num_scalars >= 0 && info.num_scalars <= DLK_MAX_SCALARS, "scalars within bounds");
  readArguments(kernel, info.num_args);
  readScalars(kernel, info.num_scalars);
  findKernel(info);
  dlk_supported(kernel, cpu, nullptr, 0, nullptr, 0);
  for (int i = 0; i < 4; ++i)
    trySizes(kernel, info.num_args);
}

void Walk::run() {
  size_t bytes = 0;
  useText(dlk_package_spec(package, &bytes));
  useText(dlk_package_operator(package));
  const int32_t count = dlk_kernel_count(package);
  require(!dlk_kernel_at(package, count) && !dlk_kernel_at(package, -1), "no kernel out of range");
  for (int32_t i = 0; i < std::min(count, 8); ++i)
    readKernel(dlk_kernel_at(package, i));
}

/// Returns whether it is a package.
static bool openPackage(const char *data, size_t size, uint64_t seed) {
  dlk_package *package = nullptr;
  dlk_status status = dlk_package_open_memory(data, size, &package);
  require((status == DLK_OK) == (package != nullptr), "a package exactly when it is opened");
  if (!package) {
    require(status == DLK_BAD_PACKAGE && *dlk_last_error(), "a bad package, with a message");
    return false;
  }
  Walk(package, seed).run();
  dlk_package_close(package);
  return true;
}

static void readReference(const std::string &text) {
  using namespace dl::reference;
  json manifest = json::parse(text, nullptr, false);
  if (!manifest.is_object() || !manifest.contains("reference"))
    return;
  Operator op;
  std::string error;
  if (!Operator::parse(manifest["reference"], op, error)) {
    require(!error.empty(), "a message about a graph that is refused");
    return;
  }
  // Sizes that differ, so that a mistaken axis shows.
  const Dims dims = {2, 3};
  const Values numbers(6, 0.5);
  Evaluator::Operands operands;
  operands.inputs.assign(op.inputs.size(), numbers.data());
  operands.params.assign(op.params.size(), numbers.data());
  std::vector<Values> states(op.states.size(), numbers), outputs(op.outputs.size());
  Evaluator(op, dims).step(operands, states, &outputs);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string input(reinterpret_cast<const char *>(data), size);
  const uint64_t seed = XXH3_64bits(data, size);
  // What is refused is not kept: a change to something legal comes further than one more change to
  // something that is refused already.
  constexpr int keep = 0, drop = -1;
  if (input.compare(0, 6, DLK_MAGIC, 6) == 0)
    return openPackage(input.data(), input.size(), seed) ? keep : drop;
  const std::string package = dl::test::makePackageFromText(input, {"code", "// spec\n"});
  const bool isPackage = openPackage(package.data(), package.size(), seed);
  readReference(input);
  return isPackage ? keep : drop;
}

//===----------------------------------------------------------------------===//
// Mutation
//===----------------------------------------------------------------------===//

/// Makes the header right for the bytes that follow it, as far as `random` wants.
static void seal(std::string &package, std::minstd_rand &random) {
  DlkHeader header;
  if (package.size() < sizeof(header))
    return;
  std::memcpy(&header, package.data(), sizeof(header));
  std::memcpy(header.magic, DLK_MAGIC, DLK_MAGIC_BYTES);
  header.version = DLK_FORMAT_VERSION;
  header.header_bytes = sizeof(header);
  header.file_bytes = package.size();
  // The manifest of a package that has become longer or shorter ends where the file does.
  if (random() % 4 && header.manifest_offset <= package.size())
    header.manifest_bytes = package.size() - header.manifest_offset;
  if (header.manifest_offset <= package.size() &&
      header.manifest_bytes <= package.size() - header.manifest_offset) {
    XXH128_hash_t hash =
        XXH3_128bits(package.data() + header.manifest_offset, header.manifest_bytes);
    header.manifest_hash_lo = hash.low64;
    header.manifest_hash_hi = hash.high64;
  }
  std::memcpy(&package[0], &header, sizeof(header));
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  std::string input(reinterpret_cast<char *>(data), size);
  const bool isPackage = input.compare(0, 6, DLK_MAGIC, 6) == 0;
  if (!isPackage && random() % 8) {
    std::string changed = dl::test::mutateJson(input, random);
    if (changed != input && changed.size() <= maxSize) {
      std::copy(changed.begin(), changed.end(), data);
      return changed.size();
    }
  }
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (isPackage && random() % 8) {
    std::string package(reinterpret_cast<char *>(data), size);
    seal(package, random);
    std::copy(package.begin(), package.end(), data);
  }
  return size;
}
// NOLINTEND(readability-identifier-naming)
