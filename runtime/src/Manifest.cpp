//===- Manifest.cpp - What a package says about its kernels ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The file is untrusted: every member is checked for type and range, every parameter offset against
// param_bytes, every symbol used by a launch against those that an argument binds.
//
//===----------------------------------------------------------------------===//
#include "Manifest.h"
#include "JsonReader.h"
#include "Links.h"

#include <algorithm>
#include <cmath>

using namespace dl::runtime;

static constexpr int64_t maxInt32 = INT32_MAX;

static dlk_dtype readDType(const JsonReader &reader) {
#define X(NAME, TEXT, CODE, BITS) TEXT,
  return static_cast<dlk_dtype>(reader.choice({DLK_FOR_EACH_DTYPE(X)}));
#undef X
}

static dlk_role readRole(const JsonReader &reader) {
#define X(NAME, TEXT) TEXT,
  return static_cast<dlk_role>(reader.choice({DLK_FOR_EACH_ROLE(X)}));
#undef X
}

static dlk_format readFormat(const JsonReader &reader) {
#define X(NAME, TEXT) TEXT,
  return static_cast<dlk_format>(reader.choice({DLK_FOR_EACH_FORMAT(X)}));
#undef X
}

static Expression readExpression(const JsonReader &reader, const SymbolNames &symbols) {
  Expression result;
  std::string error;
  if (reader && !Expression::parse(*reader.raw(), symbols, result, error))
    reader.fail(error);
  return result;
}

namespace {
/// Which bytes of the parameter struct are taken: fields may not overlap or leave the struct.
class ParamMap {
public:
  explicit ParamMap(uint32_t bytes) : taken(bytes, false) {}

  int32_t claim(const JsonReader &reader, uint32_t bytes) {
    int64_t offset = reader.integer(0, DLK_MAX_PARAM_BYTES);
    if (reader.failed())
      return 0;
    if (offset % bytes != 0 || offset + bytes > int64_t(taken.size())) {
      reader.fail("expected a multiple of " + std::to_string(bytes) + " with room for " +
                  std::to_string(bytes) + " bytes in param_bytes = " +
                  std::to_string(taken.size()) + ", got " + std::to_string(offset));
      return 0;
    }
    auto begin = taken.begin() + offset;
    if (std::find(begin, begin + bytes, true) != begin + bytes)
      reader.fail("overlaps another parameter at byte " + std::to_string(offset));
    std::fill_n(begin, bytes, true);
    return static_cast<int32_t>(offset);
  }

private:
  std::vector<bool> taken;
};

/// Reads one kernel.
class KernelReader {
public:
  KernelReader(const Manifest &manifest, const JsonReader &root, Kernel &kernel)
      : manifest(manifest), symbols(manifest.symbols), root(root), kernel(kernel),
        params(readParamBytes()) {}

  void read();

private:
  uint32_t readParamBytes();
  void readIdentity();
  void readResources();
  void readArguments();
  void checkLog();
  Argument readArgument(const JsonReader &reader);
  Dimension readDimension(const JsonReader &size, const JsonReader &strides, size_t index);
  void readBinding(Dimension &dim);
  void checkRole(const JsonReader &reader, const Argument &arg);
  void checkArray(const JsonReader &reader, const Argument &arg);
  void noteRole(const JsonReader &reader, dlk_role role, int32_t index);
  void bindDefaults();
  void readScalars();
  Requirement readRequirement(const JsonReader &reader);
  void readRequirements();
  void readLinks();
  void labelArguments();
  bool isBound(const Expression &expression) const;
  /// Every symbol of `expression` must get its value from an argument, or have a default.
  void checkBound(const JsonReader &reader, const Expression &expression);

  const Manifest &manifest;
  const SymbolNames &symbols;
  JsonReader root;
  Kernel &kernel;
  ParamMap params;
  bool bound[DLK_MAX_SYMBOLS] = {};
};
} // namespace

uint32_t KernelReader::readParamBytes() {
  kernel.paramBytes = root.at("param_bytes").integer(0, DLK_MAX_PARAM_BYTES);
  return kernel.paramBytes;
}

void KernelReader::readIdentity() {
  kernel.name = root.at("name").text();
  kernel.kind = root.at("kind").text();
  kernel.target = root.at("target").text();
  kernel.format = readFormat(root.at("format"));
  kernel.entry = root.at("entry").text();
  kernel.blob = root.at("blob").integer(0, int64_t(manifest.blobs.size()) - 1);
  JsonReader dims = root.at("dims");
  kernel.keyDim = dims.at("K").integer(1, maxInt32);
  kernel.valueDim = dims.at("V").integer(1, maxInt32);
  static constexpr const char *layouts[] = {"kv", "vk"};
  kernel.stateLayout = layouts[root.at("state_layout").choice({"kv", "vk"})];
  kernel.stateType = root.at("state_type").text();
  kernel.ioType = root.at("io_type").text();
  static constexpr const char *indexTypes[] = {"i32", "i64"};
  JsonReader indexType = root.find("index_type");
  kernel.indexType = indexTypes[indexType ? indexType.choice({"i32", "i64"}) : 0];
  if (JsonReader pdl = root.find("pdl"))
    kernel.pdl = pdl.flag();
  if (JsonReader schedule = root.find("schedule"))
    kernel.schedule = schedule.text();
  for (auto [key, place] : {std::pair("window", &kernel.window),
                            {"max_tokens", &kernel.maxTokens},
                            {"ring", &kernel.ring},
                            {"checkpoint_interval", &kernel.checkpointInterval}})
    if (JsonReader number = root.find(key))
      *place = static_cast<int32_t>(number.integer(1, maxInt32));
  if ((kernel.format == DLK_FORMAT_SO) != (kernel.target == "cpu"))
    root.at("format").fail("expected 'so' for the target cpu and only there");
}

void KernelReader::readResources() {
  auto optional = [&](const char *key, int64_t high) -> uint32_t {
    JsonReader reader = root.find(key);
    return reader ? reader.integer(0, high) : 0;
  };
  kernel.threads = root.at("threads").integer(1, 1024);
  kernel.sharedBytes = optional("shared_bytes", 1 << 20);
  kernel.registers = optional("registers", 1 << 10);
  kernel.spillBytes = optional("spill_bytes", maxInt32);
  kernel.scratchBytes = optional("scratch_bytes", 1 << 30);
  JsonReader grid = root.at("grid");
  if (grid.size() != 3)
    grid.fail("expected three expressions");
  for (size_t i = 0; i < 3 && i < grid.size(); ++i) {
    kernel.grid[i] = readExpression(grid[i], symbols);
    checkBound(grid[i], kernel.grid[i]);
  }
}

/// "X" and ["add", "X", NUMBER] bind X.
void KernelReader::readBinding(Dimension &dim) {
  const std::vector<Expression::Node> &nodes = dim.size.postfix();
  bool isSum = nodes.size() == 3 && nodes[0].op == Expression::Op::Symbol &&
               nodes[1].op == Expression::Op::Number && nodes[2].op == Expression::Op::Add &&
               nodes[1].value >= 0 && nodes[1].value <= maxInt32;
  if (!isSum && !dim.size.isSymbol())
    return;
  dim.symbol = static_cast<int32_t>(nodes[0].value);
  dim.offset = isSum ? nodes[1].value : 0;
}

Dimension KernelReader::readDimension(const JsonReader &size, const JsonReader &strides,
                                      size_t index) {
  Dimension dim;
  dim.size = readExpression(size, symbols);
  if (size.failed())
    return dim;
  if (dim.size.isNumber() && dim.size.leaf() < 1)
    size.fail("expected a positive number, got " + std::to_string(dim.size.leaf()));
  readBinding(dim);
  dim.text = dim.size.str(symbols);
  JsonReader stride = strides[index];
  if (stride.raw() && stride.raw()->is_null())
    dim.fixedStride = 1;
  else if (stride.raw() && stride.raw()->is_object())
    dim.fixedStride = stride.at("fixed").integer(1, int64_t(1) << 40);
  else
    dim.strideOffset = params.claim(stride, 4);
  return dim;
}

/// An array of integers that belongs to rows or slots. Checked mode reads them, so it relies on
/// their types and shapes.
struct ArrayRule {
  dlk_role role;
  int32_t Kernel::*place; // where the kernel remembers it
  bool isBytes, isFixed;  // u8; i32 alone, not i64
  int64_t columns;        // 0: none, -1: a symbol, or none
  const char *text;
};

static constexpr ArrayRule arrayRules[] = {
    {DLK_ROLE_SLOTS_IN, &Kernel::slotsIn, false, false, -1, "[\"N\"] or [\"N\", symbol]"},
    {DLK_ROLE_SLOTS_OUT, &Kernel::slotsOut, false, false, -1, "[\"N\"] or [\"N\", symbol]"},
    {DLK_ROLE_ROW_STARTS, &Kernel::rowStarts, false, false, 0, "[[\"add\", \"N\", 1]]"},
    {DLK_ROLE_ROW_FLAGS, &Kernel::rowFlags, true, true, 0, "[\"N\"]"},
    {DLK_ROLE_ACCEPTED, &Kernel::accepted, false, false, 0, "[\"N\"]"},
    {DLK_ROLE_CURSORS, &Kernel::cursors, false, true, 4, "[symbol, 4]"},
    {DLK_ROLE_DESCRIPTORS, &Kernel::descriptors, false, true, 12, "[\"N\", 12]"},
    {DLK_ROLE_FLUSH, &Kernel::flush, true, true, 0, "[\"N\"]"},
    {DLK_ROLE_CHECKPOINT_SLOTS, &Kernel::checkpointSlots, false, false, -1,
     "[\"N\"] or [\"N\", symbol]"},
    {DLK_ROLE_CHECKPOINT_OFFSETS, &Kernel::checkpointOffsets, false, false, 0, "[\"N\"]"},
    {DLK_ROLE_COUNTS, &Kernel::counts, false, false, 0, "[\"N\"]"}};

static const ArrayRule *findArrayRule(dlk_role role) {
  for (const ArrayRule &rule : arrayRules)
    if (rule.role == role)
      return &rule;
  return nullptr;
}

static bool hasArrayShape(const ArrayRule &rule, const std::vector<Dimension> &dims,
                          int32_t rowSymbol) {
  if (dims.empty() || dims.size() > 2 || (rule.columns > 0 && dims.size() == 1))
    return false;
  const bool isOfSlots = rule.role == DLK_ROLE_CURSORS;
  const int64_t offset = rule.role == DLK_ROLE_ROW_STARTS ? 1 : 0;
  if (isOfSlots ? !dims[0].size.isSymbol()
                : rowSymbol < 0 || dims[0].symbol != rowSymbol || dims[0].offset != offset)
    return false;
  if (dims.size() == 1)
    return true;
  return rule.columns < 0 ? dims[1].size.isSymbol()
                          : dims[1].size.isNumber() && dims[1].size.leaf() == rule.columns;
}

void KernelReader::checkArray(const JsonReader &reader, const Argument &arg) {
  const ArrayRule *rule = findArrayRule(arg.role);
  if (!rule)
    return;
  bool typeFits = rule->isBytes   ? arg.dtype == DLK_U8
                  : rule->isFixed ? arg.dtype == DLK_I32
                                  : arg.dtype == DLK_I32 || arg.dtype == DLK_I64;
  if (!typeFits || !hasArrayShape(*rule, arg.dims, manifest.rowSymbol))
    reader.fail(std::string("expected ") +
                (rule->isBytes   ? "u8"
                 : rule->isFixed ? "i32"
                                 : "i32 or i64") +
                " and the shape " + rule->text + " for the role " + dlk_role_name(arg.role));
}

void KernelReader::checkRole(const JsonReader &reader, const Argument &arg) {
  const bool isEither =
      arg.role == DLK_ROLE_LOG || arg.role == DLK_ROLE_CURSORS || arg.role == DLK_ROLE_DESCRIPTORS;
  const bool isOutput = arg.role == DLK_ROLE_OUTPUT || arg.role == DLK_ROLE_STATE_OUT ||
                        arg.role == DLK_ROLE_STATE || arg.role == DLK_ROLE_WORKSPACE;
  if (!isEither && arg.written != isOutput)
    reader.at("access").fail(std::string("expected ") + (isOutput ? "w or rw" : "r") +
                             " for the role " + dlk_role_name(arg.role));
  checkArray(reader, arg);
  const bool isPool = arg.role == DLK_ROLE_STATE_IN || arg.role == DLK_ROLE_STATE_OUT ||
                      arg.role == DLK_ROLE_STATE || arg.role == DLK_ROLE_LOG;
  if (isPool && (arg.dims.empty() || !arg.dims[0].size.isSymbol() || arg.minRank == 0))
    reader.at("shape").fail("expected a symbol as the first dimension of a state or a log");
}

/// Remembers where the arrays of rows and slots stand: there is one of each.
void KernelReader::noteRole(const JsonReader &reader, dlk_role role, int32_t index) {
  const ArrayRule *rule = findArrayRule(role);
  if (!rule)
    return;
  int32_t &place = kernel.*rule->place;
  if (place >= 0)
    reader.at("role").fail(std::string("expected one argument of the role ") + dlk_role_name(role));
  place = index;
}

Argument KernelReader::readArgument(const JsonReader &reader) {
  Argument arg;
  arg.name = reader.at("name").text();
  arg.role = readRole(reader.at("role"));
  arg.dtype = readDType(reader.at("dtype"));
  const size_t access = reader.at("access").choice({"r", "w", "rw"});
  arg.read = access != 1;
  arg.written = access != 0;
  if (JsonReader nullable = reader.find("nullable"))
    arg.nullable = nullable.flag();
  uint32_t elementBytes = dlk_dtype_bytes(arg.dtype);
  arg.align = elementBytes;
  if (JsonReader align = reader.find("align"))
    arg.align = std::max<uint32_t>(elementBytes, align.integer(1, 1024));
  if (arg.align & (arg.align - 1))
    reader.at("align").fail("expected a power of two, got " + std::to_string(arg.align));
  arg.pointerOffset = params.claim(reader.at("pointer"), 8);
  JsonReader shape = reader.at("shape"), strides = reader.at("strides");
  if (shape.size() > DLK_MAX_RANK)
    shape.fail("expected at most " + std::to_string(DLK_MAX_RANK) + " dimensions");
  if (strides.size() != shape.size())
    strides.fail("expected one entry per dimension");
  for (size_t i = 0; i < shape.size() && !reader.failed(); ++i)
    arg.dims.push_back(readDimension(shape[i], strides, i));
  arg.minRank = static_cast<int32_t>(arg.dims.size());
  if (JsonReader minRank = reader.find("min_rank"))
    arg.minRank = minRank.integer(0, arg.minRank);
  if (!reader.failed())
    checkRole(reader, arg);
  return arg;
}

void KernelReader::readArguments() {
  JsonReader args = root.at("args");
  if (args.size() > DLK_MAX_ARGS)
    args.fail("expected at most " + std::to_string(DLK_MAX_ARGS) + " arguments");
  for (size_t i = 0; i < args.size() && !root.failed(); ++i) {
    Argument arg = readArgument(args[i]);
    if (args[i].failed())
      return;
    noteRole(args[i], arg.role, static_cast<int32_t>(i));
    for (const Dimension &dim : arg.dims)
      if (dim.symbol >= 0 && !arg.nullable)
        bound[dim.symbol] = true;
    if (!arg.nullable)
      kernel.numRequiredArgs = static_cast<int32_t>(i) + 1;
    kernel.args.push_back(std::move(arg));
  }
  bindDefaults();
  for (size_t i = 0; i < kernel.args.size(); ++i)
    for (const Dimension &dim : kernel.args[i].dims)
      checkBound(args[i].at("shape"), dim.size);
}

bool KernelReader::isBound(const Expression &expression) const {
  for (const Expression::Node &node : expression.postfix())
    if (node.op == Expression::Op::Symbol && !bound[node.value])
      return false;
  return true;
}

/// A default is of use if its own symbols have values; those stand before it or have no default.
void KernelReader::bindDefaults() {
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Expression &value = manifest.symbolRules[i].defaultValue;
    if (!value.postfix().empty() && isBound(value))
      bound[i] = true;
  }
}

void KernelReader::checkBound(const JsonReader &reader, const Expression &expression) {
  for (const Expression::Node &node : expression.postfix())
    if (node.op == Expression::Op::Symbol && !bound[node.value])
      reader.fail("'" + symbols[node.value] +
                  "' is not a dimension of any argument that must be given");
}

void KernelReader::readScalars() {
  JsonReader scalars = root.find("scalars");
  if (scalars.size() > DLK_MAX_SCALARS)
    scalars.fail("expected at most " + std::to_string(DLK_MAX_SCALARS) + " scalars");
  for (size_t i = 0; i < scalars.size() && !root.failed(); ++i) {
    JsonReader reader = scalars[i];
    Scalar scalar;
    scalar.name = reader.at("name").text();
    scalar.dtype = readDType(reader.at("dtype"));
    bool isKnown = scalar.dtype == DLK_F32 || scalar.dtype == DLK_F64 || scalar.dtype == DLK_I32 ||
                   scalar.dtype == DLK_I64;
    if (!isKnown)
      reader.at("dtype").fail("expected f32, f64, i32 or i64");
    scalar.offset = params.claim(reader.at("offset"), dlk_dtype_bytes(scalar.dtype));
    JsonReader value = reader.find("value"), parts = reader.find("parts");
    if (parts) {
      if (value || kernel.partScalar >= 0)
        parts.fail("expected one scalar that counts parts, and it without 'value'");
      if (scalar.dtype != DLK_I32)
        reader.at("dtype").fail("expected i32 for the number of a part");
      kernel.partScalar = static_cast<int32_t>(i);
      value = parts;
    }
    if (value) {
      scalar.value = readExpression(value, symbols);
      checkBound(value, scalar.value);
      if (scalar.dtype != DLK_I32 && scalar.dtype != DLK_I64)
        reader.at("dtype").fail("expected i32 or i64 for a computed scalar");
    } else {
      scalar.fromCaller = true;
      kernel.callerScalars.push_back(static_cast<int32_t>(i));
      if (JsonReader value = reader.find("default")) {
        scalar.hasDefault = true;
        scalar.defaultValue = value.number();
        bool isInteger = scalar.dtype == DLK_I32 || scalar.dtype == DLK_I64;
        if (isInteger && (scalar.defaultValue != std::floor(scalar.defaultValue) ||
                          std::abs(scalar.defaultValue) > maxInt32))
          value.fail("expected an integer");
      }
    }
    kernel.scalars.push_back(std::move(scalar));
  }
}

Requirement KernelReader::readRequirement(const JsonReader &reader) {
  Requirement requirement;
  requirement.expression = readExpression(reader.at("expr"), symbols);
  checkBound(reader.at("expr"), requirement.expression);
  JsonReader equals = reader.find("equals"), low = reader.find("min"), high = reader.find("max");
  if (equals)
    requirement.low = requirement.high = equals.integer(INT64_MIN, INT64_MAX);
  if (low)
    requirement.low = low.integer(INT64_MIN, INT64_MAX);
  if (high)
    requirement.high = high.integer(INT64_MIN, INT64_MAX);
  if (!equals && !low && !high)
    reader.fail("expected one of equals, min, max");
  return requirement;
}

void KernelReader::readRequirements() {
  JsonReader requirements = root.find("requires");
  for (size_t i = 0; i < requirements.size() && !root.failed(); ++i) {
    Requirement requirement = readRequirement(requirements[i]);
    requirement.message = requirements[i].at("message").text();
    kernel.requirements.push_back(std::move(requirement));
  }
}

void KernelReader::readLinks() {
  for (auto [key, name] :
       {std::pair("variant_of", &kernel.variantOf), {"prepares", &kernel.prepares}})
    if (JsonReader reader = root.find(key)) {
      *name = reader.text();
      if (name->empty())
        reader.fail("expected the name of a kernel");
    }
  if (kernel.variantOf.empty())
    return;
  JsonReader when = root.at("when");
  for (size_t i = 0; i < when.size() && !root.failed(); ++i)
    kernel.when.push_back(readRequirement(when[i]));
}

/// What plans and what is planned agree on these numbers.
void KernelReader::checkLog() {
  if (kernel.cursors < 0 && kernel.descriptors < 0)
    return;
  for (const char *key : {"window", "max_tokens", "ring"})
    root.at(key).integer(1, maxInt32);
  const int64_t least = int64_t(std::max(kernel.window, kernel.maxTokens)) + kernel.maxTokens;
  if (!root.failed() && kernel.ring < least)
    root.at("ring").fail("expected at least max(window, max-tokens) + max-tokens = " +
                         std::to_string(least) + ", got " + std::to_string(kernel.ring));
  if (kernel.plansLog() && kernel.cursors < 0)
    root.at("args").fail("expected an argument of the role cursors beside descriptors");
}

void KernelReader::labelArguments() {
  for (Argument &arg : kernel.args) {
    auto sameName = [&](const Argument &other) { return other.name == arg.name; };
    arg.label = "'" + arg.name + "'";
    if (std::count_if(kernel.args.begin(), kernel.args.end(), sameName) > 1)
      arg.label += std::string(" (") + dlk_role_name(arg.role) + ")";
  }
}

void KernelReader::read() {
  readIdentity();
  readArguments();
  checkLog();
  readResources();
  readScalars();
  readRequirements();
  readLinks();
  labelArguments();
}

/// Reads the defaults, when all names are known. They form no circle: one refers to symbols before
/// its own and to those that have none.
static void readDefaults(const JsonReader &reader, Manifest &manifest) {
  std::vector<SymbolRule> &rules = manifest.symbolRules;
  for (size_t i = 0; i < rules.size() && !reader.failed(); ++i)
    if (reader[i].raw()->is_object())
      if (JsonReader value = reader[i].find("default"))
        rules[i].defaultValue = readExpression(value, manifest.symbols);
  for (size_t i = 0; i < rules.size(); ++i)
    for (const Expression::Node &node : rules[i].defaultValue.postfix())
      if (node.op == Expression::Op::Symbol && node.value >= int64_t(i) &&
          !rules[node.value].defaultValue.postfix().empty())
        reader[i].fail("expected a default of symbols that stand before it or have none, got '" +
                       manifest.symbols[node.value] + "'");
}

/// A symbol is a name, or an object with a name.
static void readSymbols(const JsonReader &reader, Manifest &manifest) {
  if (reader.size() > DLK_MAX_SYMBOLS)
    reader.fail("expected at most " + std::to_string(DLK_MAX_SYMBOLS) + " symbols");
  auto isObject = [&](size_t i) { return reader[i].raw() && reader[i].raw()->is_object(); };
  auto &symbols = manifest.symbols;
  for (size_t i = 0; i < reader.size() && !reader.failed(); ++i) {
    std::string name = (isObject(i) ? reader[i].at("name") : reader[i]).text();
    if (name.empty() || std::find(symbols.begin(), symbols.end(), name) != symbols.end())
      reader[i].fail("expected a new name, got '" + name + "'");
    manifest.symbolRules.emplace_back();
    if (isObject(i))
      if (JsonReader minimum = reader[i].find("min"))
        manifest.symbolRules.back().minimum = minimum.integer(0, 1);
    int32_t *known = name == "N"   ? &manifest.rowSymbol
                     : name == "B" ? &manifest.batchSymbol
                     : name == "T" ? &manifest.tokenSymbol
                                   : nullptr;
    if (known)
      *known = static_cast<int32_t>(i);
    symbols.push_back(std::move(name));
  }
  readDefaults(reader, manifest);
}

static Blob readBlob(const JsonReader &reader, uint64_t fileBytes) {
  Blob blob;
  blob.offset = reader.at("offset").integer(sizeof(DlkHeader), INT64_MAX);
  blob.bytes = reader.at("bytes").integer(0, INT64_MAX);
  if (!reader.failed() && (blob.offset > fileBytes || blob.bytes > fileBytes - blob.offset))
    reader.fail("bytes " + std::to_string(blob.offset) + " + " + std::to_string(blob.bytes) +
                " lie outside the file of " + std::to_string(fileBytes));
  if (blob.offset % DLK_BLOB_ALIGNMENT)
    reader.at("offset").fail("expected a multiple of " + std::to_string(DLK_BLOB_ALIGNMENT));
  std::string hash = reader.at("hash").text();
  bool isHex = hash.size() == 32 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!isHex) {
    reader.at("hash").fail("expected 32 lower-case hexadecimal digits");
    return blob;
  }
  blob.hashHigh = std::strtoull(hash.substr(0, 16).c_str(), nullptr, 16);
  blob.hashLow = std::strtoull(hash.substr(16).c_str(), nullptr, 16);
  return blob;
}

bool dl::runtime::parseManifest(const char *text, size_t bytes, uint64_t fileBytes,
                                Manifest &manifest, std::string &error) {
  nlohmann::json json = nlohmann::json::parse(text, text + bytes, nullptr, false);
  if (json.is_discarded()) {
    error = "the manifest is not valid JSON";
    return false;
  }
  error.clear();
  JsonReader root(&json, "", error);
  root.at("format").integer(DLK_FORMAT_VERSION, DLK_FORMAT_VERSION);
  manifest.operatorName = root.at("operator").text();
  if (JsonReader generator = root.find("generator"))
    manifest.generator = generator.text();
  readSymbols(root.at("symbols"), manifest);
  JsonReader blobs = root.at("blobs");
  for (size_t i = 0; i < blobs.size() && !root.failed(); ++i)
    manifest.blobs.push_back(readBlob(blobs[i], fileBytes));
  if (JsonReader spec = root.find("spec"))
    manifest.specBlob = spec.integer(0, int64_t(manifest.blobs.size()) - 1);
  JsonReader kernels = root.at("kernels");
  for (size_t i = 0; i < kernels.size() && !root.failed(); ++i) {
    manifest.kernels.emplace_back();
    KernelReader(manifest, kernels[i], manifest.kernels.back()).read();
  }
  if (error.empty())
    linkKernels(kernels, manifest);
  return error.empty();
}
