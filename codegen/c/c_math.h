// Elementary functions of vectors in generated C.
#pragma once

#include <string>

namespace tilewright {

// The text of a helper that computes `op` for vectors of f32 by polynomials. Null where the
// function is left to the compiler, lane by lane. Placeholders are those of c_prelude.cc. The
// helper may call {splat}, {min}, {max}, {select} and {scale}, which multiplies its first operand
// by two to the second, a whole number. Each function is within 6 ulp of the exact value over all
// floats, subnormal ones included.
const char* vector_math(const std::string& op);

}  // namespace tilewright
