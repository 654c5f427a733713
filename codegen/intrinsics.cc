#include "codegen/intrinsics.h"

#include <algorithm>
#include <map>

#include "ir/error.h"

namespace tilewright {
namespace {

// The elements of b for one lane stand together; those of a, 32 bits in all, are the same for every
// lane. Inline assembly, since compilers differ in the names and types of their builtins.
constexpr const char* kVpdpbusd512 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(all), "vm"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kVpdpbusd256 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("{vex} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(all), "xm"(*(const {B}*)b));
  return acc;
}
)";
// The other way round: of the two operands the one of the lanes is unsigned.
constexpr const char* kVpdpbusdLanes512 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("vpdpbusd %1, %2, %0" : "+v"(acc) : "v"(all), "v"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kVpdpbusdLanes256 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("{vex} vpdpbusd %1, %2, %0" : "+x"(acc) : "x"(all), "x"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kVdpbf16ps512 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(all), "vm"(*(const {B}*)b));
  return acc;
}
)";
// Products of 16-bit integers, added in pairs to 32 bits: exact, where pairs of products of bytes
// (vpmaddubsw) saturate at 16.
constexpr const char* kVpmaddwd512 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0}, pairs;
  __asm__("vpmaddwd %2, %1, %0" : "=v"(pairs) : "v"(all), "vm"(*(const {B}*)b));
  return acc + pairs;
}
)";
constexpr const char* kVpmaddwd256 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0}, pairs;
  __asm__("vpmaddwd %2, %1, %0" : "=x"(pairs) : "x"(all), "xm"(*(const {B}*)b));
  return acc + pairs;
}
)";
constexpr const char* kSdot = R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(all), "w"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kUdot = R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("udot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(all), "w"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kUsdot = R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("usdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(all), "w"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kBfdot = R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__("bfdot %0.4s, %1.8h, %2.8h" : "+w"(acc) : "w"(all), "w"(*(const {B}*)b));
  return acc;
}
)";

std::vector<Intrinsic> make_table() {
  return {
      {"avx512.vpdpbusd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"avx512f", "avx512vnni"},
       kVpdpbusd512},
      {"avx512.vpdpbusd_lanes",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=i8,dtypes.B=u8)",
       {"avx512f", "avx512vnni"},
       kVpdpbusdLanes512},
      {"avx512.vdpbf16ps",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=2,dtype=bf16,out=f32)",
       {"avx512f", "avx512bf16"},
       kVdpbf16ps512},
      {"avx512.vpmaddwd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=2,dtype=i16)",
       {"avx512f", "avx512bw"},
       kVpmaddwd512},
      {"avxvnni.vpdpbusd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"avx2", "avxvnni"},
       kVpdpbusd256},
      {"avxvnni.vpdpbusd_lanes",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=4,dtype=i8,dtypes.B=u8)",
       {"avx2", "avxvnni"},
       kVpdpbusdLanes256},
      {"avx2.vpmaddwd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=2,dtype=i16)",
       {"avx2"},
       kVpmaddwd256},
      {"neon.sdot",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=4,dtype=i8)",
       {"neon", "dotprod"},
       kSdot},
      {"neon.udot",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=4,dtype=u8)",
       {"neon", "dotprod"},
       kUdot},
      {"neon.usdot",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"neon", "i8mm"},
       kUsdot},
      {"neon.bfdot",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=2,dtype=bf16,out=f32)",
       {"neon", "bf16"},
       kBfdot},
  };
}

}  // namespace

const TensorSemantics& Intrinsic::semantics() const {
  static const std::map<std::string_view, TensorSemantics> parsed = [] {
    std::map<std::string_view, TensorSemantics> map;
    for (const Intrinsic& row : intrinsics()) {
      bool added = map.emplace(row.name, TensorSemantics::parse(std::string(row.computes))).second;
      TW_ASSERT(added, "two intrinsics of one name: " + std::string(row.name));
    }
    return map;
  }();
  return parsed.at(name);
}

const std::vector<Intrinsic>& intrinsics() {
  static const std::vector<Intrinsic> table = make_table();
  return table;
}

const Intrinsic* find_intrinsic(std::string_view name) {
  for (const Intrinsic& row : intrinsics()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<const Intrinsic*> intrinsics_of(const Target& target) {
  std::vector<const Intrinsic*> list;
  for (const Intrinsic& row : intrinsics()) {
    bool has_all = std::all_of(row.features.begin(), row.features.end(), [&](const auto& f) {
      return target.has(f) || target.extensions.count(f) != 0;
    });
    if (has_all) list.push_back(&row);
  }
  return list;
}

const Intrinsic* find_dot(const Target& target, Type acc, Type a, Type b) {
  for (const Intrinsic* row : intrinsics_of(target)) {
    std::vector<Type> types;
    for (const Buffer& operand : row->semantics().operands()) {
      types.emplace_back(operand->elem, static_cast<int>(*num_elements(operand)));
    }
    if (types == std::vector<Type>{acc, a, b}) return row;
  }
  return nullptr;
}

}  // namespace tilewright
