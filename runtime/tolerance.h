// How far a right kernel may be from the value computed in f64.
//
// A kernel that adds up the same terms in any order, each rounded to the accumulator's type with
// unit roundoff u, differs from the exact sum by at most  n u S  to first order, with n the number
// of terms and S the sum of their magnitudes (Higham, Accuracy and Stability of Numerical
// Algorithms, 4.2). Roundings behave like independent errors, so that with probability over
// 1 - 2n exp(-l^2/2) the difference is below  l sqrt(n) u S  (Higham and Mary, A New Approach to
// Probabilistic Rounding Error Analysis, 2019); l = 8 makes the exception rarer than 1e-13 n. The
// smaller of both keeps the bound below one average term up to n = 16384 in f32, so that a term
// that was left out shows. A constant number of roundings more stands for elementary functions
// (which a kernel may approximate) and for the operations around the sum.
#pragma once

#include "ir/evaluate.h"
#include "ir/tensor_expr.h"

namespace tilewright {

struct Tolerance {
  ElemType out = ElemType::f32;
  // The largest unit roundoff among the types that the workload does float arithmetic in; 0: none.
  double arithmetic = 0;
  // The largest among the types that it rounds intermediate values to (where a value near a tie may
  // go either way); 0: none.
  double storage = 0;

  // Integers only: the output must be equal.
  bool exact() const { return arithmetic == 0 && storage == 0 && !is_float(out); }
  // The largest difference from `want` that a right kernel may have.
  double bound(const Oracle::Value& want) const;
};

// What the tensor expression says of its own types.
Tolerance tolerance_of(const Workload& workload);

}  // namespace tilewright
