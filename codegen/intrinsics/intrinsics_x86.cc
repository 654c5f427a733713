// AVX-512, AVX2 and their extensions. The elements of b for one lane stand together. The elements
// of a, 32 bits in all, are the same for every lane, or stand as b's do. Rows use inline assembly,
// since compilers differ in the names and types of their builtins. Operands of 256 bits have
// constraint x: v may be a register that only AVX-512 can name. Braces of a template are escaped:
// they would choose between syntaxes.
#include "codegen/intrinsics/intrinsic_rows.h"

namespace tilewright {
namespace {

// `all` holds a's 32 bits in each lane.
constexpr const char* kBroadcast =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
)";

std::string with_broadcast(const std::string& text) {
  return kBroadcast + text + "  return acc;\n}\n";
}

// One instruction that adds to the accumulator.
std::string adds(const std::string& instruction, bool wide) {
  return with_broadcast(
      wide ? R"(  __asm__(")" + instruction +
                 R"( %2, %1, %0" : "+v"(acc) : "v"(all), "vm"(*(const {B}*)b));)" + "\n"
           : R"(  __asm__(")" + instruction +
                 R"( %2, %1, %0" : "+x"(acc) : "x"(all), "xm"(*(const {B}*)b));)" + "\n");
}

// The same with swapped operands: where they are bytes, the lanes' (b) are unsigned.
std::string adds_lanes(const std::string& instruction, bool wide) {
  return with_broadcast(
      wide ? R"(  __asm__(")" + instruction +
                 R"( %1, %2, %0" : "+v"(acc) : "v"(all), "v"(*(const {B}*)b));)" + "\n"
           : R"(  __asm__(")" + instruction +
                 R"( %1, %2, %0" : "+x"(acc) : "x"(all), "x"(*(const {B}*)b));)" + "\n");
}

// Products of 16-bit integers, added in pairs to 32 bits: exact.
std::string multiplies_words(bool wide) {
  return with_broadcast(wide ? R"(  {I} pairs;
  __asm__("vpmaddwd %2, %1, %0" : "=v"(pairs) : "v"(all), "vm"(*(const {B}*)b));
  acc += pairs;
)"
                             : R"(  {I} pairs;
  __asm__("vpmaddwd %2, %1, %0" : "=x"(pairs) : "x"(all), "xm"(*(const {B}*)b));
  acc += pairs;
)");
}

// The same for bytes, each widened to 16 bits. It is exact for all values, and reads a weight as it
// is stored.
constexpr const char* kWidenedBytes =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  FIRST x[2];
  __builtin_memcpy(x, a, 2);
  {I} all = (int32_t)((uint32_t)x[1] << 16 | (uint16_t)x[0]) - ({I}){0}, wide, pairs;
  __asm__("WIDEN %1, %0" : "=x"(wide) : "xm"(*(const {B}*)b));
  __asm__("vpmaddwd %2, %1, %0" : "=x"(pairs) : "x"(all), "x"(wide));
  acc += pairs;
  return acc;
}
)";

// `first`, `second`: whether the operands are signed.
Intrinsic widens_bytes(std::string_view name, std::string_view computes, bool first, bool second) {
  std::string code = kWidenedBytes;
  auto put = [&](const std::string& place, const char* text) {
    code.replace(code.find(place), place.size(), text);
  };
  put("FIRST", first ? "int8_t" : "uint8_t");
  put("WIDEN", second ? "vpmovsxbw" : "vpmovzxbw");
  return {name, computes, {"avx2"}, code};
}

// Products of bytes, added in pairs to 16 bits with saturation, then to 32 bits.
std::string multiplies_bytes(bool wide) {
  return with_broadcast(wide ? R"(  {I} pairs, ones = 0x10001 - ({I}){0};
  __asm__("vpmaddubsw %2, %1, %0" : "=v"(pairs) : "v"(all), "vm"(*(const {B}*)b));
  __asm__("vpmaddwd %2, %1, %0" : "=v"(pairs) : "v"(pairs), "v"(ones));
  acc += pairs;
)"
                             : R"(  {I} pairs, ones = 0x10001 - ({I}){0};
  __asm__("vpmaddubsw %2, %1, %0" : "=x"(pairs) : "x"(all), "xm"(*(const {B}*)b));
  __asm__("vpmaddwd %2, %1, %0" : "=x"(pairs) : "x"(pairs), "x"(ones));
  acc += pairs;
)");
}

// The same with swapped operands: the lanes' bytes (b) are unsigned.
std::string multiplies_bytes_of_lanes(bool wide) {
  return with_broadcast(wide ? R"(  {I} pairs, ones = 0x10001 - ({I}){0};
  __asm__("vpmaddubsw %1, %2, %0" : "=v"(pairs) : "v"(all), "v"(*(const {B}*)b));
  __asm__("vpmaddwd %2, %1, %0" : "=v"(pairs) : "v"(pairs), "v"(ones));
  acc += pairs;
)"
                             : R"(  {I} pairs, ones = 0x10001 - ({I}){0};
  __asm__("vpmaddubsw %1, %2, %0" : "=x"(pairs) : "x"(all), "x"(*(const {B}*)b));
  __asm__("vpmaddwd %2, %1, %0" : "=x"(pairs) : "x"(pairs), "x"(ones));
  acc += pairs;
)");
}

// Each lane has its own terms of k in both operands.
constexpr const char* kEach =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(*(const {A}*)a), "vm"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kOuter512 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  {T} all = *(const float*)a - ({T}){0};
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(all), "vm"(*(const {B}*)b));
  return acc;
}
)";
constexpr const char* kOuter256 =
    R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  {T} all = *(const float*)a - ({T}){0};
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(all), "xm"(*(const {B}*)b));
  return acc;
}
)";

// Two products of a u8 with numbers up to this magnitude stay within 16 bits: 2 * 255 * 64 < 32768.
constexpr int64_t kMostOfBytes = 64;

}  // namespace

std::vector<Intrinsic> x86_rows() {
  return {
      {"avx512.vpdpbusd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"avx512f", "avx512vnni"},
       adds("vpdpbusd", true)},
      {"avx512.vpdpbusd_lanes",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=i8,dtypes.B=u8)",
       {"avx512f", "avx512vnni"},
       adds_lanes("vpdpbusd", true)},
      {"avx512.vdpbf16ps",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=2,dtype=bf16,out=f32)",
       {"avx512f", "avx512bf16"},
       adds("vdpbf16ps", true)},
      {"avx512.vdpbf16ps_each",
       R"(expr:expr="C[j] += A[j,k] * B[j,k]",dims.j=16,dims.k=2,dtype=bf16,out=f32)",
       {"avx512f", "avx512bf16"},
       kEach},
      {"avx512.vpmaddubsw",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"avx512f", "avx512bw"},
       multiplies_bytes(true),
       kMostOfBytes},
      {"avx512.vpmaddubsw_lanes",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=i8,dtypes.B=u8)",
       {"avx512f", "avx512bw"},
       multiplies_bytes_of_lanes(true),
       kMostOfBytes},
      {"avx512.vpmaddwd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=2,dtype=i16)",
       {"avx512f", "avx512bw"},
       multiplies_words(true)},
      {"avx512.vfmadd231ps",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=1)",
       {"avx512f"},
       kOuter512},
      {"avxvnni.vpdpbusd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"avx2", "avxvnni"},
       adds("%{vex%} vpdpbusd", false)},
      {"avxvnni.vpdpbusd_lanes",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=4,dtype=i8,dtypes.B=u8)",
       {"avx2", "avxvnni"},
       adds_lanes("%{vex%} vpdpbusd", false)},
      {"avx2.vpmaddubsw",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=4,dtype=u8,dtypes.B=i8)",
       {"avx2"},
       multiplies_bytes(false),
       kMostOfBytes},
      {"avx2.vpmaddubsw_lanes",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=4,dtype=i8,dtypes.B=u8)",
       {"avx2"},
       multiplies_bytes_of_lanes(false),
       kMostOfBytes},
      {"avx2.vpmaddwd",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=2,dtype=i16)",
       {"avx2"},
       multiplies_words(false)},
      widens_bytes("avx2.vpmaddwd_i8_i8",
                   R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=2,dtype=i8)", true, true),
      widens_bytes("avx2.vpmaddwd_u8_i8",
                   R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=2,dtype=u8,dtypes.B=i8)",
                   false, true),
      widens_bytes("avx2.vpmaddwd_i8_u8",
                   R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=2,dtype=i8,dtypes.B=u8)",
                   true, false),
      widens_bytes("avx2.vpmaddwd_u8_u8",
                   R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=2,dtype=u8)", false, false),
      {"avx2.vfmadd231ps",
       R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=8,dims.k=1)",
       {"avx2", "fma"},
       kOuter256},
  };
}

}  // namespace tilewright
