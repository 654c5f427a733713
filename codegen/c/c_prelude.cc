// The helpers of generated C; each is written only when used. Placeholders: {T} is the value type,
// {M} the mask type of as many lanes, {S} the scalar type. {L} is the number of lanes, {name} the
// helper's name.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/c/c_codes.h"
#include "codegen/c/c_lanes.h"
#include "codegen/c/c_lookup.h"
#include "codegen/c/c_math.h"
#include "codegen/c/c_narrow.h"
#include "codegen/c/c_packed.h"
#include "codegen/c/c_scaled.h"
#include "codegen/c/c_types.h"
#include "codegen/c/c_window.h"
#include "codegen/intrinsics/intrinsics.h"
#include "codegen/lowering.h"

namespace tilewright {
namespace {

// A list of lanes compiles faster than arithmetic on a scalar and a vector.
constexpr const char* kSplat = R"(static inline {T} {name}({S} x) { return ({T}){{lanes}}; }
)";

// x times 2^n for whole n from -151 to 128 and 0.5 < |x| < sqrt(2). Two steps reach infinite results. n below -126, as
// exp() of a masked or a far smaller score has, gives 0 in place of a subnormal number: for each instruction with such
// an operand or result, Intel's processors take an assist of 150 cycles.
constexpr const char* kScale = R"(static inline {T} {name}({T} x, {T} n) {
  {M} i = __builtin_convertvector(n, {M}), half = i >> 1;
  {T} kept = ({T})(({M})x & ~(n < -126.0f));
  return (kept * ({T})((half + 127) << 23)) * ({T})((i - half + 127) << 23);
}
)";
constexpr const char* kScale512 = R"(static inline {T} {name}({T} x, {T} n) {
  unsigned short kept = __builtin_ia32_cmpps512_mask(n, {splat}(-126.0f), 21, (unsigned short)-1, 4);
  return ({T})__builtin_ia32_scalefps512_mask(x, n, ({T}){0}, kept, 4);
}
)";

constexpr const char* kSelect = R"(static inline {T} {name}({M} m, {T} a, {T} b) {
  return ({T})((({M})a & m) | (({M})b & ~m));
}
)";

// Lane by lane: the compiler turns the loop into vector instructions where there are any.
constexpr const char* kLanes1 = R"(static inline {T} {name}({T} a) {
  {T} r;
  for (int i = 0; i < {L}; ++i) r[i] = {body};
  return r;
}
)";
constexpr const char* kLanes2 = R"(static inline {T} {name}({T} a, {T} b) {
  {T} r;
  for (int i = 0; i < {L}; ++i) r[i] = {body};
  return r;
}
)";
constexpr const char* kLanesSelect = R"(static inline {T} {name}({M} m, {T} a, {T} b) {
  {T} r;
  for (int i = 0; i < {L}; ++i) r[i] = m[i] ? a[i] : b[i];
  return r;
}
)";
constexpr const char* kBuiltin2 = R"(static inline {T} {name}({T} a, {T} b) { return {body}; }
)";

// Loads and stores of the first n lanes; the other lanes read as zero and stay unwritten. GCC 12
// treats a masked store as a store of all lanes, and drops earlier stores to the others. It also
// makes a masked store of the loop here. The barrier in front makes the earlier stores count as
// read.
constexpr const char* kLoadHead = R"(static inline {V} {name}(const {E}* p, int64_t n) {
  {V} r = {0};
  if (n >= {L}) return *(const {U}*)p;
  for (int i = 0; i < {L}; ++i) if (i < n) r[i] = p[i];
  return r;
}
)";
constexpr const char* kLoadPart =
    R"(static inline {V} {name}(const {E}* p, int64_t from, int64_t to) {
  {V} r = {0};
  if (from <= 0 && to >= {L}) return *(const {U}*)p;
  for (int i = 0; i < {L}; ++i) if (i >= from && i < to) r[i] = p[i];
  return r;
}
)";
constexpr const char* kStoreHead = R"(static inline void {name}({E}* p, {V} v, int64_t n) {
  if (n >= {L}) { *({U}*)p = v; return; }
  __asm__ volatile("" : : "r"(p) : "memory");
  for (int i = 0; i < {L}; ++i) if (i < n) p[i] = v[i];
}
)";
// With masks (AVX-512): {K} is the builtin's suffix, {M} the mask's type, {S} the element of the vectors that
// it takes and {B} their bytes.
constexpr const char* kLoadHeadMasked = R"(static inline {V} {name}(const {E}* p, int64_t n) {
  {M} m = n >= {L} ? ({M})~({M})0 : n <= 0 ? 0 : ({M})((({M})1 << n) - 1);
  typedef {S} vector __attribute__((vector_size({B})));
  return ({V})__builtin_ia32_loaddqu{K}_mask((const void*)p, (vector){0}, m);
}
)";
constexpr const char* kLoadPartMasked =
    R"(static inline {V} {name}(const {E}* p, int64_t from, int64_t to) {
  {M} m = to >= {L} ? ({M})~({M})0 : to <= 0 ? 0 : ({M})((({M})1 << to) - 1);
  m = from >= {L} ? 0 : from <= 0 ? m : ({M})(m & ({M})((({M})~({M})0) << from));
  typedef {S} vector __attribute__((vector_size({B})));
  return ({V})__builtin_ia32_loaddqu{K}_mask((const void*)p, (vector){0}, m);
}
)";
constexpr const char* kStoreHeadMasked = R"(static inline void {name}({E}* p, {V} v, int64_t n) {
  {M} m = n >= {L} ? ({M})~({M})0 : n <= 0 ? 0 : ({M})((({M})1 << n) - 1);
  __asm__ volatile("" : : "r"(p) : "memory");
  typedef {S} vector __attribute__((vector_size({B})));
  __builtin_ia32_storedqu{K}_mask((void*)p, (vector)v, m);
}
)";

// Scalars ---------------------------------------------------------------------------------------
constexpr const char* kFloorDiv = R"(static inline {S} {name}({S} a, {S} b) {
  {S} q = a / b;
  return q - (q * b != a && (a < 0) != (b < 0));
}
)";
constexpr const char* kFloorMod = R"(static inline {S} {name}({S} a, {S} b) {
  {S} r = a % b;
  return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}
)";
std::string lane_body(const std::string& op, ElemType elem) {
  std::string f = elem == ElemType::f64 ? "" : "f";
  static const std::map<std::string, std::string> fns = {
      {"sqrt", "__builtin_sqrt"}, {"log", "__builtin_log"},     {"tanh", "__builtin_tanh"},
      {"erf", "__builtin_erf"},   {"floor", "__builtin_floor"}, {"round", "__builtin_rint"},
      {"exp", "__builtin_exp"},
  };
  if (op == "abs")
    return is_float(elem) ? "__builtin_fabs" + f + "(a[i])" : "a[i] < 0 ? -a[i] : a[i]";
  if (op == "rsqrt") return "1 / __builtin_sqrt" + f + "(a[i])";
  return fns.at(op) + f + "(a[i])";
}

std::string extremum(const std::string& op, Type type, const Target& target) {
  bool f32 = type.elem == ElemType::f32;
  if (f32 && type.lanes == 16 && target.has("avx512f")) {
    return fmt::format("({{T}})__builtin_ia32_{}ps512_mask(a, b, a, (unsigned short)-1, 4)", op);
  }
  // GCC takes a loop of four lanes apart, once it is inlined into a loop.
  if (f32 && (type.lanes == 8 || type.lanes == 4) && target.has("avx")) {
    return fmt::format("({{T}})__builtin_ia32_{}ps{}(a, b)", op, type.lanes == 8 ? "256" : "");
  }
  return "";
}

}  // namespace

ElemType compute_elem(ElemType elem) {
  if (is_float(elem)) return bits_of(elem) < 32 ? ElemType::f32 : elem;
  return bits_of(elem) < 8 ? ElemType::i32 : elem;
}

std::string storage_type(ElemType elem) {
  const ElemInfo& t = info(elem);
  if (t.bits < 8) return "uint8_t";
  switch (elem) {
    case ElemType::f64: return "double";
    case ElemType::f32: return "float";
    case ElemType::f16: return "_Float16";
    case ElemType::bf16: return "uint16_t";
    case ElemType::f8e4m3:
    case ElemType::f8e5m2:
    case ElemType::e8m0:
    case ElemType::boolean: return "uint8_t";
    case ElemType::index: return "int64_t";
    default: return fmt::format("{}int{}_t", t.kind == ElemKind::UInt ? "u" : "", t.bits);
  }
}

void Prelude::need(Type type) { vectors_.insert({static_cast<int>(type.elem), type.lanes}); }

std::string Prelude::value_type(Type type) {
  if (type.elem == ElemType::boolean) {
    if (type.lanes == 1) return "int32_t";
    type.elem = ElemType::i32;
  }
  type.elem = compute_elem(type.elem);
  if (type.lanes == 1) return storage_type(type.elem);
  need(type);
  return "tw_" + to_string(type);
}

std::string Prelude::memory_type(ElemType elem, int lanes) {
  memory_vectors_.insert({static_cast<int>(elem), lanes});
  return fmt::format("tw_{}x{}_mem", info(elem).name, lanes);
}

namespace {

// Whether the target loads and stores some lanes of such a vector by a mask.
bool has_masks(const Target& target, int bits, int bytes) {
  if (bytes != 64 && ((bytes != 32 && bytes != 16) || !target.has("avx512vl"))) return false;
  return bits == 32 ? target.has("avx512f") : (bits == 8 || bits == 16) && target.has("avx512bw");
}

}  // namespace

std::string Prelude::helper(const std::string& op, Type type) {
  std::string name = fmt::format("tw_{}_{}", op, to_string(type));
  if (!have_.insert(name).second) return name;
  std::map<std::string, std::string> values = {{"name", name}, {"L", std::to_string(type.lanes)}};
  ElemType elem = type.elem;
  bool narrow = is_float(elem) && bits_of(elem) < 32;
  if (op == "load" || op == "store" || op == "load_head" || op == "load_part" ||
      op == "store_head") {
    values["E"] = storage_type(elem);
    values["U"] = memory_type(elem, type.lanes);
    values["V"] = values["U"];
    const int bits = bits_of(elem), bytes = bits * type.lanes / 8;
    const bool masked = has_masks(target_, bits, bytes);
    const char* text = op == "load_head"   ? (masked ? kLoadHeadMasked : kLoadHead)
                       : op == "load_part" ? (masked ? kLoadPartMasked : kLoadPart)
                       : masked            ? kStoreHeadMasked
                                           : kStoreHead;
    values["K"] = fmt::format("{}{}", bits == 8 ? "qi" : bits == 16 ? "hi" : "si", 8 * bytes);
    values["M"] = fmt::format("uint{}_t", std::max(8, type.lanes));
    values["S"] = bits == 8 ? "char" : bits == 16 ? "short" : "int";
    values["B"] = std::to_string(bytes);
    helpers_ += fill_template(text, values);
    return name;
  }
  std::string text = codes_helper(*this, op, type, values);
  if (text.empty()) text = window_helper(*this, op, type, values);
  if (text.empty()) text = neighbours_helper(*this, op, type, values);
  if (text.empty()) text = packed_helper(*this, target_, op, type, values);
  if (text.empty()) text = scaled_helper(*this, op, type, values);
  if (text.empty()) text = narrow_helper(*this, target_, op, type, values);
  if (!text.empty()) {
    helpers_ += text;
    return name;
  }
  TW_ASSERT(!narrow, "helpers compute in f32 or wider");
  values["S"] = value_type(type.with_lanes(1));
  values["T"] = value_type(type);
  values["M"] = value_type(Type(ElemType::i32, type.lanes));
  if (op == "floordiv" || op == "floormod") {
    std::string scalar_text = fill_template(op == "floordiv" ? kFloorDiv : kFloorMod, values);
    if (type.lanes == 1) {
      helpers_ += scalar_text;
    } else {
      values["body"] = helper(op, type.with_lanes(1)) + "(a[i], b[i])";
      helpers_ += fill_template(kLanes2, values);
    }
    return name;
  }
  if (op == "scale") {
    bool wide = type.lanes == 16 && target_.has("avx512f");
    if (wide) values["splat"] = helper("splat", type);
    helpers_ += fill_template(wide ? kScale512 : kScale, values);
    return name;
  }
  if (op == "splat") {
    values["lanes"] = fmt::format("{}", fmt::join(std::vector<std::string>(type.lanes, "x"), ", "));
    helpers_ += fill_template(kSplat, values);
    return name;
  }
  if (op == "select") {
    bool same_width = bits_of(elem) == 32;
    helpers_ += fill_template(same_width ? kSelect : kLanesSelect, values);
    return name;
  }
  if (op == "min" || op == "max") {
    std::string body = extremum(op, type, target_);
    std::string sign = op == "min" ? "<" : ">";
    if (type.lanes == 1) body = fmt::format("a {} b ? a : b", sign);
    bool lanes = body.empty();
    values["body"] =
        lanes ? fmt::format("a[i] {} b[i] ? a[i] : b[i]", sign) : fill_template(body, values);
    helpers_ += fill_template(lanes ? kLanes2 : kBuiltin2, values);
    return name;
  }
  const char* polynomial = elem == ElemType::f32 && type.lanes > 1 ? vector_math(op) : nullptr;
  if (polynomial) {
    for (const char* used : {"min", "max", "select", "scale", "splat"}) {
      bool wanted = std::string_view(polynomial).find("{" + std::string(used) + "}") !=
                    std::string_view::npos;
      if (wanted) values[used] = helper(used, type);
    }
    helpers_ += fill_template(polynomial, values);
    return name;
  }
  values["body"] = lane_body(op, elem);
  helpers_ += fill_template(kLanes1, values);
  return name;
}

std::string Prelude::reduce_lanes(bool is_sum, Type vector, int count) {
  std::string name =
      fmt::format("tw_lane_{}_{}_{}", is_sum ? "sum" : "max", count, to_string(vector));
  if (have_.insert(name).second) helpers_ += lane_reduction(*this, name, is_sum, vector, count);
  return name;
}

namespace {

// The function of an intrinsic that takes operand "a" or "b" by value instead of by address.
std::string by_value(std::string code, const std::string& operand) {
  const std::string type = operand == "a" ? "{A}" : "{B}";
  auto replace = [&](const std::string& from, const std::string& to) {
    size_t at = code.find(from);
    TW_ASSERT(at != std::string::npos, "the code of an intrinsic has no '" + from + "'");
    code.replace(at, from.size(), to);
    TW_ASSERT(code.find(from) == std::string::npos,
              "the code of an intrinsic has '" + from + "' twice");
  };
  replace("const void* " + operand, type + " " + operand);
  replace("*(const " + type + "*)" + operand, operand);
  return code;
}

}  // namespace

// The target's intrinsic for these types, with the declarations and features that it needs.
const Intrinsic& Prelude::use_dot(Type acc, Type a, Type b) {
  const Intrinsic* row = find_dot(target_, acc, a, b);
  if (!row) {
    throw LoweringError(fmt::format("target '{}' has no intrinsic for dot({}, {}, {})",
                                    target_.name, to_string(acc), to_string(a), to_string(b)));
  }
  const KernelSection& section = row->section;
  if (!section.code.empty()) sections_.emplace(section.begin, section.end);
  if (have_.insert(std::string(section.code)).second) helpers_ += section.code;
  for (const std::string& feature : row->features) {
    if (!target_.has(feature)) extensions_.insert(feature);
  }
  return *row;
}

std::string Prelude::tile_operation(Type acc, Type a, Type b) {
  return std::string(use_dot(acc, a, b).tile_operation);
}

std::string Prelude::dot(Type acc, Type a, Type b, bool a_by_value, bool b_by_value) {
  const Intrinsic& row = use_dot(acc, a, b);
  std::string name = "tw_" + std::string(row.name);
  std::replace(name.begin(), name.end(), '.', '_');
  std::string code = row.code;
  if (a_by_value) {
    name += "_of";
    code = by_value(code, "a");
  }
  if (b_by_value) {
    name += "_value";
    code = by_value(code, "b");
  }
  if (!have_.insert(name).second) return name;
  helpers_ += fill_template(code, {{"name", name},
                                   {"T", value_type(acc)},
                                   {"I", value_type(Type(ElemType::i32, acc.lanes))},
                                   {"A", memory_type(a.elem, a.lanes)},
                                   {"B", memory_type(b.elem, b.lanes)}});
  return name;
}

bool Prelude::may_use(const std::string& feature) {
  if (target_.has(feature)) return true;
  if (target_.extensions.count(feature) == 0) return false;
  extensions_.insert(feature);
  return true;
}

void Prelude::need_sections(const std::set<std::pair<std::string, std::string>>& sections) {
  sections_.insert(sections.begin(), sections.end());
}

std::set<std::pair<std::string, std::string>> Prelude::take_sections() {
  return std::exchange(sections_, {});
}

std::string Prelude::text() const {
  std::string text;
  auto declare = [&](const std::set<std::pair<int, int>>& types, bool memory) {
    for (auto [e, lanes] : types) {
      auto elem = static_cast<ElemType>(e);
      std::string scalar = storage_type(elem);
      int bytes = std::max(1, bits_of(elem) / 8) * lanes;
      text += memory ? fmt::format(
                           "typedef {} tw_{}x{}_mem __attribute__((vector_size({}), "
                           "aligned(1), may_alias));\n",
                           scalar, info(elem).name, lanes, bytes)
                     : fmt::format("typedef {} tw_{}x{} __attribute__((vector_size({})));\n",
                                   scalar, info(elem).name, lanes, bytes);
    }
  };
  declare(vectors_, false);
  declare(memory_vectors_, true);
  return text + "\n" + helpers_;
}

}  // namespace tilewright
