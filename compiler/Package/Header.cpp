//===- Header.cpp - What a launcher needs to know of kernels, as C ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Header.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace {
/// A member of a parameter struct.
struct Member {
  int64_t offset;
  std::string type, name, extent, comment;
};

/// Kernels of one name: the same parameters for several targets.
using Group = SmallVector<const json::Object *>;

class HeaderWriter {
public:
  explicit HeaderWriter(raw_ostream &os) : os(os) {}
  void write(StringRef stem, ArrayRef<const json::Object *> kernels);

private:
  void writeKernel(StringRef name, const Group &group);
  void writeStruct(const json::Object &kernel, const Group &group, StringRef structName);
  void writeTarget(const json::Object &kernel, StringRef prefix);
  void define(const Twine &name, const Twine &value) {
    os << "#define " << name << ' ' << value << '\n';
  }

  raw_ostream &os;
};
} // namespace

//===----------------------------------------------------------------------===//
// Text of parts
//===----------------------------------------------------------------------===//

/// Letters, digits and underscores, not beginning with a digit.
static std::string identifier(StringRef text) {
  std::string result;
  for (char c : text)
    result += isAlnum(c) ? c : '_';
  if (result.empty() || isDigit(result.front()))
    result = "_" + result;
  return result;
}

static bool isKeyword(StringRef word) {
  static const StringSet<> keywords = {
      "auto",    "bool",     "break",    "case",   "char",     "class",    "const",    "continue",
      "default", "delete",   "do",       "double", "else",     "enum",     "extern",   "false",
      "float",   "for",      "goto",     "if",     "inline",   "int",      "long",     "namespace",
      "new",     "operator", "private",  "public", "register", "restrict", "return",   "short",
      "signed",  "sizeof",   "static",   "struct", "switch",   "template", "this",     "true",
      "typedef", "union",    "unsigned", "using",  "virtual",  "void",     "volatile", "while"};
  return keywords.contains(word);
}

/// Comments and strings hold nothing but printable text that cannot end them.
static std::string quoteFree(StringRef text) {
  std::string result;
  for (char c : text)
    result += isPrint(c) && c != '"' && c != '\\' && c != '*' ? c : '_';
  return result;
}

/// An expression of the manifest over N, B, T, HQ and HV. Sizes are positive, so that C's division
/// rounds as the manifest's does.
static std::string expression(const json::Value &value) {
  if (std::optional<StringRef> symbol = value.getAsString())
    return "(int64_t)(" + symbol->str() + ")";
  const json::Array *parts = value.getAsArray();
  if (!parts)
    return formatv("{0}", value);
  StringRef op = *(*parts)[0].getAsString();
  std::string result = expression((*parts)[1]);
  for (const json::Value &part : drop_begin(*parts, 2)) {
    std::string operand = expression(part);
    if (op == "ceildiv")
      result = formatv("(({0} + {1} - 1) / {1})", result, operand);
    else if (op == "min" || op == "max")
      result = formatv("({0} {2} {1} ? {0} : {1})", result, operand, op == "min" ? "<" : ">");
    else
      result = formatv("({0} {2} {1})", result, operand,
                       StringSwitch<StringRef>(op)
                           .Case("add", "+")
                           .Case("sub", "-")
                           .Case("mul", "*")
                           .Case("div", "/")
                           .Default("%"));
  }
  return result;
}

/// The same for people: HV / HQ.
static std::string formula(const json::Value &value) {
  std::string text = expression(value);
  for (size_t at; (at = text.find("(int64_t)(")) != std::string::npos;) {
    text.erase(text.find(')', at + 10), 1);
    text.erase(at, 10);
  }
  if (StringRef(text).starts_with("(") && StringRef(text).count('(') == 1)
    text = text.substr(1, text.size() - 2);
  return text;
}

static std::string scalarType(StringRef dtype) {
  return StringSwitch<std::string>(dtype)
      .Case("f32", "float")
      .Case("f64", "double")
      .Case("i64", "int64_t")
      .Case("u8", "uint8_t")
      .Default("int32_t");
}

static bool isPool(StringRef role) { return role.starts_with("state"); }

static std::string memberName(const json::Object &arg) {
  std::string name = identifier(*arg.getString("name"));
  StringRef role = arg.getString("role").value_or("");
  if (isPool(role))
    name += role.substr(StringRef("state").size()).str(); // S_in, S_out
  return isKeyword(name) ? name + "_" : name;
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

/// The strictest alignment that a target asks of an argument: vectors may differ in width.
static int64_t alignmentOf(size_t index, const Group &group) {
  int64_t most = 1;
  for (const json::Object *kernel : group)
    most = std::max(most, *(*kernel->getArray("args"))[index].getAsObject()->getInteger("align"));
  return most;
}

static void addArgument(const json::Object &arg, int64_t align, std::vector<Member> &members) {
  std::string name = memberName(arg), sizes, free;
  int64_t firstStride = -1, count = 0;
  const json::Array &shape = *arg.getArray("shape");
  for (auto [size, stride] : zip(shape, *arg.getArray("strides"))) {
    std::string text = formula(size);
    sizes += (sizes.empty() ? "" : ", ") + text;
    if (std::optional<int64_t> place = stride.getAsInteger()) {
      firstStride = count++ ? firstStride : *place;
      free += (free.empty() ? "" : ", ") + text;
    }
  }
  bool written = arg.getString("access") != StringRef("r");
  std::string comment = formatv("{0} [{1}], aligned to {2}", *arg.getString("dtype"), sizes, align);
  if (arg.getBoolean("nullable").value_or(false))
    comment += ", or null";
  members.push_back({*arg.getInteger("pointer"), written ? "void *" : "const void *", name, "",
                     quoteFree(comment)});
  if (count)
    members.push_back({firstStride, "uint32_t ", name + "_strides", formatv("[{0}]", count),
                       quoteFree("in elements, of " + free)});
}

static void addScalar(const json::Object &scalar, std::vector<Member> &members) {
  std::string comment = "given by the caller";
  if (const json::Value *parts = scalar.get("parts"))
    comment = "0, 1 .. in as many launches as " + formula(*parts);
  else if (const json::Value *value = scalar.get("value"))
    comment = "must be " + formula(*value);
  else if (const json::Value *fallback = scalar.get("default"))
    comment = formatv("usually {0}", *fallback);
  members.push_back({*scalar.getInteger("offset"), scalarType(*scalar.getString("dtype")) + " ",
                     memberName(scalar), "", quoteFree(comment)});
}

/// All members in the order of memory, each with a name of its own.
static std::vector<Member> membersOf(const json::Object &kernel, const Group &group) {
  std::vector<Member> members;
  for (auto [index, arg] : enumerate(*kernel.getArray("args")))
    addArgument(*arg.getAsObject(), alignmentOf(index, group), members);
  for (const json::Value &scalar : *kernel.getArray("scalars"))
    addScalar(*scalar.getAsObject(), members);
  sort(members, [](const Member &a, const Member &b) { return a.offset < b.offset; });
  StringSet<> taken;
  for (Member &member : members)
    while (!taken.insert(member.name).second)
      member.name += "_";
  return members;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void HeaderWriter::writeStruct(const json::Object &kernel, const Group &group,
                               StringRef structName) {
  std::vector<Member> members = membersOf(kernel, group);
  size_t width = 0;
  for (const Member &m : members)
    width = std::max(width, m.type.size() + m.name.size() + m.extent.size() + 1);
  os << "typedef struct " << structName << " {\n";
  for (const Member &m : members) {
    std::string text = m.type + m.name + m.extent + ";";
    os << "  " << left_justify(text, width) << " /* " << m.comment << " */\n";
  }
  os << "} " << structName << ";\n";
  for (const Member &m : members)
    os << formatv("DL_STATIC_ASSERT(offsetof({0}, {1}) == {2}, \"{1}\");\n", structName, m.name,
                  m.offset);
  os << formatv("DL_STATIC_ASSERT(sizeof({0}) == {1}, \"size\");\n", structName,
                *kernel.getInteger("param_bytes"));
}

void HeaderWriter::writeTarget(const json::Object &kernel, StringRef prefix) {
  std::string name =
      prefix.str() + "_" + identifier(StringRef(*kernel.getString("target")).upper());
  if (kernel.getString("target") == StringRef("cpu")) {
    define(name + "_SCRATCH_BYTES", Twine(kernel.getInteger("scratch_bytes").value_or(0)));
  } else {
    define(name + "_THREADS", Twine(*kernel.getInteger("threads")));
    define(name + "_SHARED_BYTES", Twine(kernel.getInteger("shared_bytes").value_or(0)));
  }
  for (auto [axis, value] : zip("XYZ", *kernel.getArray("grid")))
    define(name + "_GRID_" + Twine(axis) + "(N, B, T, HQ, HV)", "(" + expression(value) + ")");
}

void HeaderWriter::writeKernel(StringRef name, const Group &group) {
  const json::Object &kernel = *group.front();
  std::string lower = identifier(name), prefix = StringRef(lower).upper();
  os << "\n/*===- " << quoteFree(name) << " -===*/\n\n";
  define(prefix + "_ENTRY", "\"" + *kernel.getString("entry") + "\"");
  if (const json::Object *dims = kernel.getObject("dims");
      dims && kernel.getString("kind") != StringRef("tile")) {
    define(prefix + "_K", Twine(*dims->getInteger("K")));
    define(prefix + "_V", Twine(*dims->getInteger("V")));
  }
  for (auto [member, name] : {std::pair("window", "_WINDOW"),
                              {"max_tokens", "_MAX_TOKENS"},
                              {"ring", "_RING"},
                              {"checkpoint_interval", "_CHECKPOINT_INTERVAL"}})
    if (std::optional<int64_t> number = kernel.getInteger(member))
      define(prefix + name, Twine(*number));
  for (const json::Object *target : group)
    writeTarget(*target, prefix);
  std::string condition;
  for (const json::Value &requirement : *kernel.getArray("requires")) {
    const json::Object &row = *requirement.getAsObject();
    os << "/* " << quoteFree(*row.getString("message")) << " */\n";
    for (auto [member, op] : {std::pair("equals", "=="), {"min", ">="}, {"max", "<="}})
      if (std::optional<int64_t> bound = row.getInteger(member))
        condition += formatv("{0}{1} {2} {3}", condition.empty() ? "" : " && ",
                             expression(*row.get("expr")), op, *bound);
  }
  define(prefix + "_SUPPORTED(N, B, T, HQ, HV)", condition.empty() ? "1" : "(" + condition + ")");
  os << '\n';
  writeStruct(kernel, group, lower + "_params");
}

void HeaderWriter::write(StringRef stem, ArrayRef<const json::Object *> kernels) {
  std::string guard = "DL_" + StringRef(identifier(stem)).upper() + "_H";
  os << "/* Made by dl-compile: what a launcher needs to know of the kernels.\n"
        " *\n"
        " * A GPU kernel takes one struct by value: launch NAME_ENTRY with grid (GRID_X, GRID_Y,\n"
        " * GRID_Z), blocks of (THREADS, 1, 1) and SHARED_BYTES of dynamic shared memory. The cpu\n"
        " * target's entry is\n"
        " *   int32_t entry(const void *params, const uint32_t block[3], void *scratch);\n"
        " * called once per block of the grid, with SCRATCH_BYTES of scratch memory aligned to "
        "64.\n"
        " *\n"
        " * Sizes: N rows, B batch entries of T tokens, HQ key heads, HV value heads; pool_in and\n"
        " * pool_out slots, src_width, dst_width and checkpoint_width slots per row, slots those "
        "of a log's pools.\n"
        " * Strides that are not in a struct are those of a packed matrix or vector; the others\n"
        " * must be multiples of the argument's alignment in bytes.\n"
        " */\n";
  os << formatv("#ifndef {0}\n#define {0}\n\n#include <stddef.h>\n#include <stdint.h>\n\n", guard);
  os << "#ifndef DL_STATIC_ASSERT\n#ifdef __cplusplus\n#define DL_STATIC_ASSERT static_assert\n"
        "#else\n#define DL_STATIC_ASSERT _Static_assert\n#endif\n#endif\n";
  MapVector<StringRef, Group> groups;
  for (const json::Object *kernel : kernels)
    groups[*kernel->getString("name")].push_back(kernel);
  for (auto &[name, group] : groups)
    writeKernel(name, group);
  os << "\n#endif /* " << guard << " */\n";
}

std::string dl::package::emitHeader(StringRef stem, ArrayRef<const json::Object *> kernels) {
  std::string text;
  raw_string_ostream stream(text);
  HeaderWriter(stream).write(stem, kernels);
  return text;
}
