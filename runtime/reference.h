// Right values of some elements of a workload's output, and the comparison with them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/array.h"
#include "runtime/tolerance.h"
#include "runtime/verdict.h"

namespace tilewright {

// `count` flat indices of an array of this shape, ascending, without repetition: the corners first
// of all (16 at most), the elements around the ends, then one from each of equal stretches, chosen
// by the seed. All of them when the array is no larger than `count`.
std::vector<int64_t> sample_indices(const std::vector<int64_t>& shape, int count, uint64_t seed);

struct Reference {
  std::vector<int64_t> indices;
  std::vector<Oracle::Value> values;
  Tolerance tolerance;
};

using OracleFn = std::function<Oracle::Value(int64_t flat_index)>;
Reference make_reference(const std::vector<int64_t>& shape, const Tolerance& tolerance, int count,
                         uint64_t seed, const OracleFn& oracle);

struct CheckResult {
  Verdict verdict = Verdict::Ok;
  std::string message;  // empty when ok
  // The first wrong element: its flat index, what stands there and what should, and how far apart
  // they may be. -1 when the fault is of another kind.
  int64_t index = -1;
  double got = 0, want = 0, bound = 0;
  // Largest |got - want| / max(|want|, magnitude) over the elements that were compared.
  double max_rel_error = 0;
  int compared = 0;
};

// Compares the sampled elements of `output`.
CheckResult compare(const HostArray& output, const Reference& reference);

// "[2, 0, 7]": the subscripts of a flat index.
std::string subscripts(const std::vector<int64_t>& shape, int64_t flat_index);

}  // namespace tilewright
