// The polynomials and rational functions were fitted for the least maximal relative error. The
// method is iteratively reweighted least squares (Lawson, 1961) on Chebyshev nodes. The splits of
// the arguments are those of Cody and Waite, "Software Manual for the Elementary Functions", 1980.
#include "codegen/c/c_math.h"

#include <map>

namespace tilewright {
namespace {

// Splits x = n ln 2 + r with |r| <= ln(2) / 2, and approximates exp(r) by a polynomial. The extrema
// keep a NaN, which is their second operand.
constexpr const char* kExp = R"(static inline {T} {name}({T} x) {
  {T} c = {min}({splat}(89.0f), {max}({splat}(-105.0f), x));
  {T} n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;  /* rounds: 1.5 * 2^23 */
  {T} r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  {T} p = {splat}(1.395047682e-3f);
  p = p * r + 8.368882434e-3f;
  p = p * r + 4.166620601e-2f;
  p = p * r + 1.666651890e-1f;
  p = p * r + 5.000000095e-1f;
  p = (p * r) * r + r + 1.0f;
  return {scale}(p, n);
}
)";

// Splits x = m 2^e with m in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2 / 2 + f^3 p(f).
constexpr const char* kLog = R"(static inline {T} {name}({T} x) {
  const {T} inf = {splat}(__builtin_inff());
  {M} tiny = x < 1.17549435e-38f;
  {T} scaled = {select}(tiny, x * 8388608.0f, x);  /* 2^23: subnormals become normal */
  {M} bits = ({M})scaled;
  {M} e = (bits - 0x3f3504f3) >> 23;
  {T} f = ({T})(bits - (e << 23)) - 1.0f;
  {T} n = __builtin_convertvector(e + (tiny & -23), {T});
  {T} p = {splat}(6.915368060e-2f);
  p = p * f - 1.178980769e-1f;
  p = p * f + 1.187297630e-1f;
  p = p * f - 1.238434847e-1f;
  p = p * f + 1.421865809e-1f;
  p = p * f - 1.666925082e-1f;
  p = p * f + 2.000222661e-1f;
  p = p * f - 2.499998660e-1f;
  p = p * f + 3.333331044e-1f;
  {T} y = ((p * f) * (f * f) - n * 2.12194440e-4f - 0.5f * (f * f)) + f + n * 0.693359375f;
  y = {select}(x == inf, inf, y);
  y = {select}(x == 0.0f, -inf, y);
  return {select}((x < 0.0f) | (x != x), {splat}(__builtin_nanf("")), y);
}
)";

// Odd rational functions, up to the argument from which the result rounds to 1.
constexpr const char* kTanh = R"(static inline {T} {name}({T} x) {
  {T} c = {min}({splat}(9.01f), {max}({splat}(-9.01f), x)), t = c * c;
  {T} p = {splat}(1.333699736e-08f);
  p = p * t + 2.059639484e-05f;
  p = p * t + 3.494818969e-03f;
  p = p * t + 1.338037845e-01f;
  p = p * t + 9.999999792e-01f;
  {T} q = {splat}(7.769347998e-07f);
  q = q * t + 3.284375778e-04f;
  q = q * t + 2.587405745e-02f;
  q = q * t + 4.671369387e-01f;
  q = q * t + 1.000000000e+00f;
  return {min}({splat}(1.0f), {max}({splat}(-1.0f), (c * p) / q));
}
)";

constexpr const char* kErf = R"(static inline {T} {name}({T} x) {
  {T} c = {min}({splat}(3.95f), {max}({splat}(-3.95f), x)), t = c * c;
  {T} p = {splat}(2.025881767e-06f);
  p = p * t + 2.846875827e-04f;
  p = p * t + 3.808214844e-03f;
  p = p * t + 5.287562071e-02f;
  p = p * t + 1.915517279e-01f;
  p = p * t + 1.128379144e+00f;
  {T} q = {splat}(3.783151654e-05f);
  q = q * t + 1.170735861e-03f;
  q = q * t + 1.505520293e-02f;
  q = q * t + 1.145601958e-01f;
  q = q * t + 5.030909749e-01f;
  q = q * t + 1.000000000e+00f;
  return {min}({splat}(1.0f), {max}({splat}(-1.0f), (c * p) / q));
}
)";

}  // namespace

const char* vector_math(const std::string& op) {
  static const std::map<std::string, const char*> texts = {
      {"exp", kExp}, {"log", kLog}, {"tanh", kTanh}, {"erf", kErf}};
  auto it = texts.find(op);
  return it == texts.end() ? nullptr : it->second;
}

}  // namespace tilewright
