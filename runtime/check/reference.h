// Right values of a workload's output, and the comparison with them.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/oracle/evaluate.h"
#include "runtime/check/verdict.h"
#include "runtime/tensor/array.h"

namespace tilewright {

class OperandSet;
class ThreadPool;

// `count` flat indices of an array of this shape, ascending, without repetition: the corners first
// of all (16 at most), the elements around the ends, then one from each of equal stretches, chosen
// by the seed. All of them when the array is no larger than `count`.
std::vector<int64_t> sample_indices(const std::vector<int64_t>& shape, int count, uint64_t seed);

// What one element of an output must be.
struct Expected {
  double value;  // rounded to the output's type
  float bound;   // the allowed error
  float scale;   // that relative errors are relative to: the larger of the value and its magnitude
};

Expected expected(ElemType out, const Oracle::Value& want);

using OracleFn = std::function<Oracle::Value(int64_t flat_index)>;

// Right values of elements of an output.
struct Reference {
  std::vector<int64_t> indices = {};  // empty: every element, in order
  std::vector<Expected> values = {};
  // Weighted sums of all elements, where `values` has a sample of them. Those that are off are looked
  // at an element at a time (`look`, which must be there with them).
  std::optional<Oracle::Sums> sums = std::nullopt;
  OracleFn look = {};
  // Elements that are not finite, or have no finite bound, are passed over: what a kernel makes of
  // an overflow is its own.
  bool finite_only = false;

  int64_t index_of(size_t i) const {
    return indices.empty() ? static_cast<int64_t>(i) : indices[i];
  }
  // Whether it has every element.
  bool is_whole() const { return indices.empty() && !sums; }
  // The first `count` elements of a whole one.
  Reference first(int64_t count) const;
};

// Of `count` elements: see sample_indices(). Of fewer, from everywhere, where that would take longer
// than `seconds`, but of 16 at least.
Reference make_reference(ElemType out, const std::vector<int64_t>& shape, int count, uint64_t seed,
                         const OracleFn& oracle,
                         double seconds = std::numeric_limits<double>::infinity());
// Of every element.
Reference whole_reference(ElemType out, const std::vector<int64_t>& shape, Oracle& oracle,
                          const Oracle::ParallelFn& parallel = {});

// What the right values of an output may take.
struct ReferenceLimits {
  double seconds = 12;   // of one thread, for all elements, or for the sums of all
  double bytes = 2.5e9;  // likewise
  int samples = 4096;    // elements to compare where all of them take more
  double sample_seconds = std::numeric_limits<double>::infinity();
};

// Of every element where that keeps to the limits; else of samples, and sums of as few elements each
// as keep to the limits, where the oracle has such sums. The seed chooses samples and weights.
Reference reference_of(const std::shared_ptr<Oracle>& oracle, const HostArray& output,
                       const ReferenceLimits& limits, uint64_t seed,
                       const Oracle::ParallelFn& parallel = {});

// The oracle of a workload on these operands. Both must outlive it.
std::shared_ptr<Oracle> oracle_on(const Workload& workload, OperandSet& operands,
                                  const std::map<std::string, int64_t>& dims,
                                  NarrowSums narrow = {});

// Runs the oracle's loops on a pool, which must outlive it. What a body throws is thrown again when
// all are done.
Oracle::ParallelFn parallel_on(ThreadPool& pool);

// How far a right kernel may be from the value computed in f64.
//
// A kernel that adds up n terms in any order, each sum rounded to a type with unit roundoff u,
// differs from the exact sum by at most  n u S  to first order, with S the sum of the terms'
// magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). Roundings behave like
// independent errors, so that with probability over 1 - 2n exp(-l^2/2) the difference is below
// l sqrt(n) u S  (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).
// The oracle carries this with l = 4 through every operation to the output. Here it counts twice:
// l = 8 makes the exception rarer than 1e-13 n, and a kernel may approximate an elementary function
// more coarsely than a library. The bound stays below one average term up to n = 16384 in f32, so
// that a term that was left out shows. Half a unit of the output's type is its own rounding, another
// half the rounding of a value that lay near a tie. Where the oracle knows of no rounding at all, as
// in sums of integers, copies and maxima, the value must be equal.
double allowed_error(ElemType out, const Oracle::Value& want);

struct CheckResult {
  Verdict verdict = Verdict::Ok;
  std::string message;  // empty when ok
  // The first wrong element: its flat index, what stands there and what should, and how far apart
  // they may be. -1 when the fault is of another kind.
  int64_t index = -1;
  double got = 0, want = 0, bound = 0;
  // Largest |got - want| / max(|want|, magnitude) over the elements that were compared.
  double max_rel_error = 0;
  int64_t compared = 0;    // elements by themselves
  double run_seconds = 0;  // that the first checked run took; 0 where only values were compared
};

// Compares the elements of `output` that the reference has, and all others by their sums where it has
// those.
CheckResult compare(const HostArray& output, const Reference& reference,
                    const Oracle::ParallelFn& parallel = {});

// "[2, 0, 7]": the subscripts of a flat index.
std::string subscripts(const std::vector<int64_t>& shape, int64_t flat_index);

}  // namespace tilewright
