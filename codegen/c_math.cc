// The polynomials were fitted for the least maximal relative error by iteratively reweighted least
// squares (Lawson, 1961) on Chebyshev nodes; splits of the arguments are those of Cody and Waite,
// "Software Manual for the Elementary Functions", 1980.
#include "codegen/c_math.h"

#include <map>

namespace tilewright {
namespace {

// x = n ln 2 + r, a Taylor polynomial of degree 7 on |r| <= ln(2) / 2 (error under 1 ulp), scaled
// by 2^n in two steps so that subnormal results are reached.
constexpr const char* kExp = R"(static inline {T} {name}({T} x) {
  const {T} hi = {splat}(88.7228394f), lo = {splat}(-104.0f);
  {T} c = {min}({max}(x, lo), hi);
  {T} n = (c * 1.44269504f + 12582912.0f) - 12582912.0f;  /* rounds: 1.5 * 2^23 */
  {T} r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  {T} p = {splat}(1.98412698e-4f);
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  {M} i = __builtin_convertvector(n, {M});
  {M} half = i >> 1;
  {T} s1 = ({T})((half + 127) << 23), s2 = ({T})((i - half + 127) << 23);
  {T} y = (p * s1) * s2;
  y = {select}(x > hi, {splat}(__builtin_inff()), y);
  y = {select}(x < lo, {splat}(0.0f), y);
  return {select}(x != x, x, y);
}
)";

// x = m 2^e with m in [sqrt(1/2), sqrt(2)), log(1 + f) = f - f^2 / 2 + f^3 p(f).
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

// An odd polynomial near zero, 1 - 2 / (exp(2 |x|) + 1) beyond.
constexpr const char* kTanh = R"(static inline {T} {name}({T} x) {
  {M} sign = ({M})x & (int)0x80000000;
  {T} a = ({T})(({M})x & 0x7fffffff), t = x * x;
  {T} p = {splat}(-5.717036562e-3f);
  p = p * t + 2.065057900e-2f;
  p = p * t - 5.374349526e-2f;
  p = p * t + 1.333149125e-1f;
  p = p * t - 3.333328392e-1f;
  {T} near = (p * t) * x + x;
  {T} far = 1.0f - 2.0f / ({exp}(2.0f * {min}(a, {splat}(10.0f))) + 1.0f);
  far = ({T})(({M})far | sign);
  {T} y = {select}(a < 0.625f, near, far);
  return {select}(x != x, x, y);
}
)";

// An odd polynomial up to 1, 1 - exp(q(|x|)) beyond, where q is the logarithm of erfc.
constexpr const char* kErf = R"(static inline {T} {name}({T} x) {
  {M} sign = ({M})x & (int)0x80000000;
  {T} a = ({T})(({M})x & 0x7fffffff), t = x * x;
  {T} p = {splat}(7.853857698e-5f);
  p = p * t - 8.010192518e-4f;
  p = p * t + 5.188327560e-3f;
  p = p * t - 2.685381187e-2f;
  p = p * t + 1.128358515e-1f;
  p = p * t - 3.761262582e-1f;
  p = p * t + 1.128379166e+0f;
  {T} b = {min}(a, {splat}(3.95f)), q = {splat}(-2.169763587e-5f);
  q = q * b + 4.414728772e-4f;
  q = q * b - 4.205285689e-3f;
  q = q * b + 2.521034170e-2f;
  q = q * b - 1.084221016e-1f;
  q = q * b - 6.332163960e-1f;
  q = q * b - 1.129580311e+0f;
  q = q * b + 1.884676579e-4f;
  {T} far = 1.0f - {exp}(q);
  far = ({T})(({M})far | sign);
  {T} y = {select}(a < 1.0f, p * x, far);
  return {select}(x != x, x, y);
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
