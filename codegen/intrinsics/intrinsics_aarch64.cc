// NEON and SVE. SVE instructions compute on registers of any length. Their effect on the first 128
// bits, which are the NEON registers, does not depend on that length. Rows of 4 lanes therefore
// hold for every length.
#include "codegen/intrinsics/intrinsic_rows.h"

namespace tilewright {
namespace {

// The instruction computes %0 += %1 * %2, with a's 32 bits in each lane of %1.
std::string adds(const std::string& instruction) {
  return R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  {I} all = x - ({I}){0};
  __asm__(")" +
         instruction + R"(" : "+w"(acc) : "w"(all), "w"(*(const {B}*)b));
  return acc;
}
)";
}

// The same for SVE instructions. Compilers before GCC 13 cannot print an operand as a z register,
// so the operands have fixed registers: z28 += z29 * z30.
std::string adds_scalable(const std::string& instruction) {
  return R"(static inline {T} {name}({T} acc, const void* a, const void* b) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  register {T} sum __asm__("v28") = acc;
  register {I} all __asm__("v29") = x - ({I}){0};
  register {B} lanes __asm__("v30") = *(const {B}*)b;
  __asm__(")" +
         instruction + R"(" : "+w"(sum) : "w"(all), "w"(lanes));
  return sum;
}
)";
}

constexpr const char* kDotSigned =
    R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=4,dtype=i8)";
constexpr const char* kDotUnsigned =
    R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=4,dtype=u8)";
constexpr const char* kDotMixed =
    R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=4,dtype=u8,dtypes.B=i8)";
constexpr const char* kDotBf16 =
    R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=2,dtype=bf16,out=f32)";
constexpr const char* kF32 = R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=1)";

}  // namespace

std::vector<Intrinsic> aarch64_rows() {
  return {
      {"neon.sdot", kDotSigned, {"neon", "dotprod"}, adds("sdot %0.4s, %1.16b, %2.16b")},
      {"neon.udot", kDotUnsigned, {"neon", "dotprod"}, adds("udot %0.4s, %1.16b, %2.16b")},
      {"neon.usdot", kDotMixed, {"neon", "i8mm"}, adds("usdot %0.4s, %1.16b, %2.16b")},
      {"neon.bfdot", kDotBf16, {"neon", "bf16"}, adds("bfdot %0.4s, %1.8h, %2.8h")},
      {"neon.fmla", kF32, {"neon"}, adds("fmla %0.4s, %1.4s, %2.4s")},
      {"sve.sdot", kDotSigned, {"sve"}, adds_scalable("sdot z28.s, z29.b, z30.b")},
      {"sve.udot", kDotUnsigned, {"sve"}, adds_scalable("udot z28.s, z29.b, z30.b")},
      {"sve.usdot", kDotMixed, {"sve", "i8mm"}, adds_scalable("usdot z28.s, z29.b, z30.b")},
      {"sve.bfdot", kDotBf16, {"sve", "bf16"}, adds_scalable("bfdot z28.s, z29.h, z30.h")},
  };
}

}  // namespace tilewright
