// Weighted sums of an output's elements against what they should be.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/oracle/evaluate.h"
#include "runtime/tensor/array.h"

namespace tilewright {

// The numbers of the sums from which the output's lie too far, the farthest first and those that are
// not finite in the output last. Sums that are not known to be finite numbers are passed over.
//
// Let the elements of a sum have the weights w and the errors e within which right elements lie
// (Oracle::Value::error). Their weighted sum is right within 2 sqrt(sum of (w e)^2), as an element is
// within 2 e: the roundings of all of them are independent, or take no notice of the weights' signs.
// Rounding to the output's type, which has unit roundoff u, makes errors spread evenly over
// u |element| to either side; 4 u sqrt(sum of (w element)^2) is 7 times their deviation. An element
// that is wrong by d moves the sum by 4 d at least, so that with sums of n elements of like size
// one shows that is off by about 3 sqrt(n) e, and one of a narrow output type by 6 sqrt(n) u of their
// size. Sums of integers are exact. Errors that cancel within one sum are not seen: two of the same
// size do so once in eight times.
std::vector<int64_t> sums_that_are_off(const HostArray& output, const Oracle::Sums& sums,
                                       const Oracle::ParallelFn& parallel = {});

// The flat indices of the elements of a sum.
std::vector<int64_t> elements_of_sum(const Oracle::Sums& sums, int64_t number);

}  // namespace tilewright
