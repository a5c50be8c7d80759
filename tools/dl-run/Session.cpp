//===- Session.cpp - The package, the device and the options of a run -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "Status.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace dl;
using namespace dl::run;

void run::check(dlk_status status) {
  if (status != DLK_OK)
    throw Error(dlk_last_error());
}

std::string run::format(const char *pattern, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof(buffer), pattern, arguments);
  va_end(arguments);
  return buffer;
}

void run::showProgress(const std::string &text) {
  if (isatty(STDERR_FILENO))
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

void Table::print() const {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(i + 1 < row.size() ? widths[i] - row[i].size() + 2 : 0, ' ');
    std::printf("%s\n", line.c_str());
  }
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

std::string Shape::str() const {
  return format("B=%lld,T=%lld,HQ=%lld,HV=%lld", (long long)B, (long long)T, (long long)HQ,
                (long long)HV);
}

static std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<Shape> run::parseShapes(const std::string &text,
                                    const std::map<std::string, std::vector<int64_t>> &defaults) {
  std::map<std::string, std::vector<int64_t>> given;
  if (!text.empty())
    for (const std::string &part : split(text, ',')) {
      size_t equals = part.find('=');
      std::string name = part.substr(0, equals);
      if (equals == std::string::npos || !defaults.count(name) || given.count(name))
        throw Error("--shape: expected each of B, T, HQ, HV at most once, as in "
                    "B=1+64,T=1,HQ=16,HV=32; got '" +
                    part + "'");
      for (const std::string &number : split(part.substr(equals + 1), '+')) {
        char *end = nullptr;
        long long value = std::strtoll(number.c_str(), &end, 10);
        if (number.empty() || *end || value < 1 || value > INT32_MAX)
          throw Error("--shape: expected positive numbers for " + name + ", got '" + number + "'");
        given[name].push_back(value);
      }
    }
  auto sizes = [&](const char *name, const char *alternative) {
    if (given.count(name))
      return given[name];
    return alternative && given.count(alternative) ? std::vector<int64_t>{0} : defaults.at(name);
  };
  std::vector<Shape> shapes;
  for (int64_t B : sizes("B", nullptr))
    for (int64_t T : sizes("T", nullptr))
      for (int64_t HQ : sizes("HQ", "HV"))
        for (int64_t HV : sizes("HV", "HQ"))
          shapes.push_back({B, T, HQ ? HQ : HV, HV ? HV : HQ});
  return shapes;
}

std::string KernelEntry::target() const {
  return std::string(info.target) + (info.format == DLK_FORMAT_PTX ? " ptx" : "");
}

std::vector<int64_t> KernelEntry::argShape(size_t index, const Sizes &sizes) const {
  const dlk_size all[] = {{"B", sizes.B},
                          {"T", sizes.T},
                          {"HQ", sizes.HQ},
                          {"HV", sizes.HV},
                          {"N", sizes.N},
                          {"pool_in", sizes.pool},
                          {"pool_out", sizes.pool},
                          {"src_width", sizes.sourceWidth},
                          {"dst_width", sizes.destinationWidth},
                          {"slots", sizes.pool}}; // of logs; other packages need not know it
  int64_t result[DLK_MAX_RANK];
  check(dlk_arg_shape(handle, static_cast<int32_t>(index), all, info.ring ? 10 : 9, result));
  return {result, result + args[index].rank};
}

bool KernelEntry::hasRole(dlk_role role) const {
  return std::any_of(args.begin(), args.end(),
                     [&](const dlk_arg_info &arg) { return arg.role == role; });
}

std::string KernelEntry::whyNoCase() const {
  if (isPreparation())
    return "part of " + std::string(info.prepares) + ", which it prepares";
  return info.ring == 0 ? ""
                        : "expected a decode kernel, got one of the kind " + std::string(info.kind);
}

//===----------------------------------------------------------------------===//
// Session
//===----------------------------------------------------------------------===//

Session::Session(const Options &options) : options(options) {
  check(dlk_package_open_file(options.package.c_str(), &package));
  manifest = nlohmann::json::parse(dlk_package_manifest(package, nullptr));
}

Session::~Session() {
  dlk_package_close(package);
  if (context) {
    runtime::cuda::Context current;
    driver->ctxPop(&current);
    driver->primaryRelease(facts.handle);
  }
}

void Session::openDevice() {
  bool isChosen = !options.device.empty();
  if (isChosen)
    check(dlk_device_parse(options.device.c_str(), &device));
  else
    device = {DLK_DEVICE_CUDA, 0};
  if (device.type == DLK_DEVICE_CPU)
    return;
  dlk_status status = runtime::cuda::getDevice(device.id, driver, facts);
  if (status != DLK_OK && !isChosen) {
    device = {DLK_DEVICE_CPU, 0};
    return;
  }
  check(status);
  checkCuda(driver->primaryRetain(&context, facts.handle), "cuDevicePrimaryCtxRetain");
  checkCuda(driver->ctxPush(context), "cuCtxPushCurrent");
}

void Session::checkCuda(runtime::cuda::Result result, const char *what) const {
  if (result)
    throw Error(deviceText() + ": " + what + " failed with " +
                runtime::cuda::errorName(*driver, result));
}

std::string Session::deviceText() const {
  return isCuda() ? "cuda:" + std::to_string(device.id) : "cpu";
}

/// The driver's own number ("570.86.15"), which only its management library tells; else empty.
static std::string driverRelease() {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library)
    return "";
  auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  auto version =
      reinterpret_cast<int (*)(char *, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  auto shutdown = reinterpret_cast<int (*)()>(dlsym(library, "nvmlShutdown"));
  char text[96] = "";
  if (init && version && shutdown && init() == 0) {
    if (version(text, sizeof(text)) != 0)
      text[0] = 0;
    shutdown();
  }
  dlclose(library);
  return text;
}

nlohmann::json Session::environment() const {
  char date[32] = "";
  std::time_t now = std::time(nullptr);
  std::tm utc = {};
  if (gmtime_r(&now, &utc))
    std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
  nlohmann::json result = {{"device", deviceText()},
                           {"date", date},
                           {"package", options.package},
                           {"operator", dlk_package_operator(package)},
                           {"generator", manifest.value("generator", "")},
                           {"runtime", dlk_runtime_version()}};
  if (isCuda()) {
    char name[128] = "";
    checkCuda(driver->deviceGetName(name, sizeof(name), facts.handle), "cuDeviceGetName");
    result["device_name"] = name;
    result["compute_capability"] = facts.computeCapability;
    result["driver"] = driver->version;
    result["driver_release"] = driverRelease();
  }
  return result;
}

std::vector<KernelEntry> Session::kernels(bool runnable) const {
  std::vector<KernelEntry> result;
  int numMatching = 0;
  for (int32_t i = 0; i < dlk_kernel_count(package); ++i) {
    KernelEntry entry;
    entry.handle = dlk_kernel_at(package, i);
    check(dlk_kernel_get_info(entry.handle, &entry.info));
    std::string label = entry.info.name + (" " + entry.target());
    if (label.find(options.kernel) == std::string::npos)
      continue;
    ++numMatching;
    if (runnable && dlk_supported(entry.handle, device, nullptr, 0, nullptr, 0) != DLK_OK)
      continue;
    entry.args.resize(entry.info.num_args);
    for (int32_t a = 0; a < entry.info.num_args; ++a)
      check(dlk_kernel_get_arg(entry.handle, a, &entry.args[a]));
    entry.scalars.resize(entry.info.num_scalars);
    for (int32_t s = 0; s < entry.info.num_scalars; ++s)
      check(dlk_kernel_get_scalar(entry.handle, s, &entry.scalars[s]));
    result.push_back(std::move(entry));
  }
  if (numMatching == 0)
    throw Error("--kernel: no kernel of the package contains '" + options.kernel +
                "' in its name and target");
  if (result.empty())
    throw Error("--device: no kernel runs on " + deviceText() + "; `dl-run info " +
                options.package + "` lists the targets");
  return result;
}

reference::Operator Session::reference() const {
  reference::Operator op;
  std::string error;
  if (!manifest.contains("reference"))
    throw Error(options.package + ": the package holds no reference");
  if (!reference::Operator::parse(manifest["reference"], op, error))
    throw Error(options.package + ": " + error);
  return op;
}

//===----------------------------------------------------------------------===//
// Device memory
//===----------------------------------------------------------------------===//

Buffer::Buffer(const Session &session, size_t bytes) : session(&session), bytes(bytes) {
  size_t rounded = (std::max<size_t>(bytes, 1) + 255) / 256 * 256;
  if (session.isCuda()) {
    runtime::cuda::DevicePtr pointer = 0;
    if (session.driver->memAlloc(&pointer, rounded) != 0)
      throw Error(session.deviceText() + ": no memory for " + std::to_string(bytes) + " bytes");
    memory = reinterpret_cast<char *>(pointer);
    return;
  }
  memory = static_cast<char *>(std::aligned_alloc(256, rounded));
  if (!memory)
    throw Error("cpu: no memory for " + std::to_string(bytes) + " bytes");
}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(session, other.session);
  std::swap(memory, other.memory);
  std::swap(bytes, other.bytes);
  return *this;
}

Buffer::~Buffer() {
  if (!memory)
    return;
  if (session->isCuda())
    session->driver->memFree(reinterpret_cast<runtime::cuda::DevicePtr>(memory));
  else
    std::free(memory);
}

void Buffer::upload(const void *from, size_t offset, size_t count) {
  if (session->isCuda())
    session->checkCuda(
        session->driver->memcpyHtoD(reinterpret_cast<runtime::cuda::DevicePtr>(memory + offset),
                                    from, count),
        "cuMemcpyHtoD");
  else
    std::memcpy(memory + offset, from, count);
}

void Buffer::download(void *to, size_t count) const {
  if (session->isCuda())
    session->checkCuda(
        session->driver->memcpyDtoH(to, reinterpret_cast<runtime::cuda::DevicePtr>(memory), count),
        "cuMemcpyDtoH");
  else
    std::memcpy(to, memory, count);
}
