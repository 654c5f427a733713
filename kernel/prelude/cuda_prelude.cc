#include "kernel/prelude/cuda_prelude.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include "kernel/instructions/mma_rows.h"
#include "kernel/prelude/asm_operands.h"
#include "kernel/prelude/cuda_async_prelude.h"
#include "kernel/prelude/cuda_mma.h"
#include "kernel/prelude/cuda_wgmma.h"

namespace tilewright {
namespace {

using asm_text::operands;
using asm_text::places;

using Piece = PreludePiece;

constexpr const char* kBase = R"(
#define TW_FN __device__ __forceinline__
TW_FN unsigned tw_bits(float x) { return __float_as_uint(x); }
TW_FN float tw_float(unsigned bits) { return __uint_as_float(bits); }
)";

constexpr const char* kPower = R"(
TW_FN float tw_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
)";

// The factor of exponents whose shift is so large that roundings of it would leave the range of an f16:
// it keeps the shift at 2^23 then, where neighbouring floats are 1 apart.
constexpr const char* kSoftened = R"(
TW_FN float tw_softened(float shift) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(fabsf(shift) * 0x1p-23f));
  return fminf(1.0f, r);
}
TW_FN float tw_either(bool condition, float a, float b) { return condition ? a : b; }
)";

// A divisor near zero is scaled, since its reciprocal might be none.
constexpr const char* kQuotient = R"(
TW_FN float tw_quotient(float x, float y) {
  const float scale = fabsf(y) < 0x1p-64f ? 0x1p64f : 1.0f;
  return x * scale * __frcp_rn(y * scale);
}
)";

constexpr const char* kConversions = R"(
TW_FN unsigned short tw_f16_bits(float x) {
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
TW_FN float tw_f16_value(unsigned short bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}
#if __CUDA_ARCH__ >= 890
#define TW_FP8_CVT
TW_FN unsigned short tw_cvt_e4m3x2(float upper, float lower) {
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(upper), "f"(lower));
  return r;
}
TW_FN unsigned short tw_cvt_e5m2x2(float upper, float lower) {
  unsigned short r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(upper), "f"(lower));
  return r;
}
TW_FN unsigned tw_cvt_f16x2_e4m3x2(unsigned short pair) {
  unsigned r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair));
  return r;
}
#endif
TW_FN unsigned short tw_bf16_bits(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned short r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
#else
  unsigned u = tw_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}
)";

constexpr const char* kOperands = R"(
#define TW_IN(T) const T* __restrict__
#define TW_MADE(T) const T*
#define TW_OUT(T) T* __restrict__
#define TW_INOUT(T) T*
)";

// Aligns the array to 1024 bytes, after which the pattern of the widest swizzle repeats.
constexpr const char* kShared = R"(
extern __shared__ __align__(1024) unsigned char tw_smem[];
#define TW_SHARED(T, name, byte_offset, count) \
  T* const name = reinterpret_cast<T*>(tw_smem + (byte_offset))
)";

constexpr const char* kAs = R"(
template <class U, class T> TW_FN U* tw_as(T* p) { return reinterpret_cast<U*>(p); }
template <class U, class T> TW_FN const U* tw_as(const T* p) {
  return reinterpret_cast<const U*>(p);
}
)";

// Accesses as one word, so that the compiler need not prove that the lanes make one.
constexpr const char* kVectors = R"(
template <int BYTES> struct tw_word {};
template <> struct tw_word<1> { typedef unsigned char type; };
template <> struct tw_word<2> { typedef unsigned short type; };
template <> struct tw_word<4> { typedef unsigned type; };
template <> struct tw_word<8> { typedef uint2 type; };
template <> struct tw_word<16> { typedef uint4 type; };
template <int N, class T> TW_FN tw_vec<T, N> tw_ld(const T* p) {
  typedef typename tw_word<N * sizeof(T)>::type word;
  union { word whole; tw_vec<T, N> lanes; } u;
  u.whole = *reinterpret_cast<const word*>(p);
  return u.lanes;
}
template <int N, class T> TW_FN void tw_st(T* p, tw_vec<T, N> v) {
  typedef typename tw_word<N * sizeof(T)>::type word;
  union { word whole; tw_vec<T, N> lanes; } u;
  u.lanes = v;
  *reinterpret_cast<word*>(p) = u.whole;
}
)";

constexpr const char* kAddress = R"(
TW_FN unsigned tw_shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
)";

// Devices without asynchronous copies copy at once, which keeps the meaning.
constexpr const char* kCopies = R"(
#if __CUDA_ARCH__ >= 800
template <int BYTES> TW_FN void tw_cp_async_zfill(void* to, const void* from, int valid) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
  if (BYTES == 16) {  // past the first-level cache, which only 16 bytes may be
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;"
                 :: "r"(tw_shared_address(to)), "l"(from), "n"(16), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(tw_shared_address(to)), "l"(from), "n"(BYTES), "r"(valid) : "memory");
  }
}
template <int BYTES> TW_FN void tw_cp_async(void* to, const void* from) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;"
                 :: "r"(tw_shared_address(to)), "l"(from), "n"(16) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(tw_shared_address(to)), "l"(from), "n"(BYTES) : "memory");
  }
}
TW_FN void tw_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> TW_FN void tw_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
#else
template <int BYTES> TW_FN void tw_cp_async_zfill(void* to, const void* from, int valid) {
  for (int i = 0; i < BYTES; ++i) {
    ((unsigned char*)to)[i] = i < valid ? ((const unsigned char*)from)[i] : 0;
  }
}
template <int BYTES> TW_FN void tw_cp_async(void* to, const void* from) {
  typedef typename tw_word<BYTES>::type word;
  *(word*)to = *(const word*)from;
}
TW_FN void tw_cp_async_commit() {}
template <int PENDING> TW_FN void tw_cp_async_wait() {}
#endif
)";

// Packed 32-bit registers of arrays whose elements a thread keeps in registers.
constexpr const char* kWords = R"(
TW_FN unsigned tw_word_at(const void* p) { return *reinterpret_cast<const unsigned*>(p); }
TW_FN void tw_put_word(void* p, unsigned word) { *reinterpret_cast<unsigned*>(p) = word; }
)";

constexpr const char* kPairs = R"(
// (x & mask) ^ other, which compilers take two instructions for where both are constants.
TW_FN unsigned tw_and_xor(unsigned x, unsigned mask, unsigned other) {
  unsigned r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(other));
  return r;
}
TW_FN unsigned tw_twice_f16(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %1;" : "=r"(r) : "f"(x));
  return r;
#else
  return tw_pack(tw_f16(x), tw_f16(x));
#endif
}
TW_FN unsigned tw_twice_bf16(float x) {
#if __CUDA_ARCH__ >= 800
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(r) : "f"(x));
  return r;
#else
  return tw_pack(tw_bf16(x), tw_bf16(x));
#endif
}
TW_FN unsigned tw_fma_f16x2(unsigned a, unsigned b, unsigned c) {
  unsigned r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
TW_FN unsigned tw_fma_bf16x2(unsigned a, unsigned b, unsigned c) {
#if __CUDA_ARCH__ >= 800
  unsigned r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  float low = tw_float(a << 16) * tw_float(b << 16) + tw_float(c << 16);
  float high = tw_float(a & 0xffff0000u) * tw_float(b & 0xffff0000u) + tw_float(c & 0xffff0000u);
  return tw_pack(tw_bf16(low), tw_bf16(high));
#endif
}
)";

// Not volatile, so that two lookups of one code become one.
constexpr const char* kLookup = R"(
TW_FN unsigned tw_lookup(unsigned mine, unsigned code) {
  unsigned r;
  asm("shfl.sync.idx.b32 %0, %1, %2, 0x101f, 0xffffffff;" : "=r"(r) : "r"(mine), "r"(code));
  return r;
}
)";

constexpr const char* kDp4a = R"(
TW_FN int tw_dp4a(int a, int b, int c) { return __dp4a(a, b, c); }
TW_FN unsigned tw_dp4a(unsigned a, unsigned b, unsigned c) { return __dp4a(a, b, c); }
TW_FN int tw_dp4a(unsigned a, int b, int c) {
  int r;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
)";

Piece ldmatrix_piece(int count, bool transposed) {
  std::string name = fmt::format("tw_ldmatrix_x{}{}", count, transposed ? "_trans" : "");
  return {
      {name},
      fmt::format("\nTW_FN void {}(unsigned (&r)[{}], const void* row) {{\n"
                  "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%{}];\"\n"
                  "      : {} : \"r\"(tw_shared_address(row)) : \"memory\");\n}}\n",
                  name, count, count, transposed ? ".trans" : "", places(0, count), count,
                  operands("=r", "r", count))};
}

// The reverse of ldmatrix, on devices that have one instruction for it.
Piece stmatrix_piece(int count, bool transposed) {
  std::string name = fmt::format("tw_stmatrix_x{}{}", count, transposed ? "_trans" : "");
  return {
      {name},
      fmt::format("\nTW_FN void {}(void* row, const unsigned (&r)[{}]) {{\n"
                  "  asm volatile(\"stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%0], {{{}}};\"\n"
                  "      :: \"r\"(tw_shared_address(row)), {} : \"memory\");\n}}\n",
                  name, count, count, transposed ? ".trans" : "", places(1, count),
                  operands("r", "r", count))};
}

// The identifiers of a text.
std::set<std::string, std::less<>> words_of(std::string_view text) {
  std::set<std::string, std::less<>> words;
  auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end > at) words.emplace(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// All functions for elements of a few bits at once: a compiler drops those that are not called.
Piece codes_piece(std::string_view text) {
  Piece piece{{}, std::string(text)};
  for (size_t at = 0; (at = piece.text.find("TW_FN ", at)) != std::string::npos;) {
    at = piece.text.find(" tw_", at) + 1;
    piece.names.push_back(piece.text.substr(at, piece.text.find('(', at) - at));
  }
  return piece;
}

std::vector<Piece> make_pieces() {
  std::vector<Piece> pieces = {
      {{"TW_FN", "tw_bits", "tw_float"}, kBase},
      {{"tw_exp2"}, kPower},
      {{"tw_softened", "tw_either"}, kSoftened},
      {{"tw_quotient"}, kQuotient},
      {{"TW_IN", "TW_MADE", "TW_OUT", "TW_INOUT"}, kOperands},
      {{"TW_SHARED"}, kShared},
      {{"tw_f16_bits", "tw_f16_value", "tw_bf16_bits", "tw_cvt_e4m3x2", "tw_cvt_e5m2x2",
        "tw_cvt_f16x2_e4m3x2", "TW_FP8_CVT"},
       kConversions},
      {{"tw_vec", "tw_f16", "tw_bf16", "tw_e4m3", "tw_e5m2", "tw_tf32", "tw_pack", "tw_swizzle"},
       std::string(cuda_types())},
      {{"tw_and_xor", "tw_twice_f16", "tw_twice_bf16", "tw_fma_f16x2", "tw_fma_bf16x2"}, kPairs},
      codes_piece(cuda_codes()),
      {{"tw_lookup"}, kLookup},
      codes_piece(cuda_tables()),
      {{"tw_as"}, kAs},
      {{"tw_word_at", "tw_put_word"}, kWords},
      {{"tw_ld", "tw_st", "tw_word"}, kVectors},
      {{"tw_shared_address"}, kAddress},
      {{"tw_cp_async", "tw_cp_async_zfill", "tw_cp_async_commit", "tw_cp_async_wait"}, kCopies},
      {{"tw_dp4a"}, kDp4a},
  };
  for (Piece& piece : async_prelude()) pieces.push_back(std::move(piece));
  for (int count : {1, 2, 4}) {
    for (bool transposed : {false, true}) {
      pieces.push_back(ldmatrix_piece(count, transposed));
      pieces.push_back(stmatrix_piece(count, transposed));
    }
  }
  pieces.push_back({{"TW_MMA_SP"}, std::string(sparse_mma_name())});
  for (const auto* rows : {&mma_rows(), &sparse_mma_rows()}) {
    for (const Instruction& row : *rows) {
      pieces.push_back({{"tw_mma_" + std::string(row.name)}, mma_function(row)});
    }
  }
  pieces.push_back({{"tw_operand", "tw_wgmma_operand", "tw_wgmma_fence", "tw_wgmma_commit",
                     "tw_wgmma_wait", "tw_wgmma_hold", "tw_wgmma_settle"},
                    std::string(wgmma_basics())});
  return pieces;
}

}  // namespace

std::string cuda_prelude(std::string_view kernel) {
  static const std::vector<Piece> pieces = make_pieces();
  std::set<std::string, std::less<>> words = words_of(kernel);
  std::string text;
  // There are hundreds of these rows; only those that the kernel names are printed.
  for (const Instruction* row : wgmma_rows_of(kernel)) text += wgmma_functions(*row);
  words.merge(words_of(text));
  // A piece uses only earlier ones, so one walk from the last to the first finds all.
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    bool used = std::any_of(piece->names.begin(), piece->names.end(),
                            [&](const std::string& name) { return words.contains(name); });
    if (!used) continue;
    words.merge(words_of(piece->text));
    text.insert(0, piece->text);
  }
  return text;
}

std::string cuda_translation_unit(std::string_view kernel, std::string_view name) {
  return fmt::format("{}\n#line 1 \"{}\"\n{}", cuda_prelude(kernel), name, kernel);
}

}  // namespace tilewright
