// Workloads as tensor expressions: what to compute, with no word on how.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct ReduceAxis {
  Var var;
  Expr extent;
};

// One output element a point of `axes` (extents: the output's shape):
//   output[axes] = value                        when reducer is None
//   output[axes] = reduce over reduce_axes of value, from the identity of the reducer
// `value` may read inputs and the outputs of earlier stages, at any index expression of the axes.
struct Stage {
  Buffer output;
  std::vector<Var> axes;
  std::vector<ReduceAxis> reduce_axes;
  Reducer reducer = Reducer::None;
  Expr value;
};

// How the constant operand is stored, where a spec's `w` says so. Its element [k, column] is worth
// (weight - zero) * scale, with the scale and the zero point of group k / group of the column; k
// counts through `k_dims` in row-major order. The stages say the same; this says it to those that
// make test data, check a caller's files, or choose a layout.
struct WeightFormat {
  std::string weight;         // buffer names: "B", "B.scale", "B.zero"
  std::string scale, zero;    // "" where there are none
  int64_t group = 0;          // elements along k that share them
  std::vector<int> k_dims;    // dimensions of the weight that are summed over, in order
  std::vector<int> own_dims;  // those in which each product has a weight of its own
  int column_dim = 0;
  // Of each `of` elements along k at most `keep` are worth anything, the same ones in `vector`
  // neighbouring columns. 0 of 0: dense.
  int64_t keep = 0, of = 0, vector = 1;

  bool sparse() const { return of > 0; }
  bool operator==(const WeightFormat&) const = default;
};

// An operator with its sizes. Stages stand in order of dependence; the last one writes the output.
struct Workload {
  std::string op;         // "matmul"
  std::string canonical;  // canonical spec text, JSON with sorted keys and defaults filled in
  std::string label;      // the user's name for it, or ""; no part of its identity
  std::vector<Param> inputs;
  std::vector<DimVar> dims;
  std::vector<Stage> stages;
  std::optional<WeightFormat> weight;  // absent: a plain dense one, or none
  double flops = 0;                    // 2 a multiply-add; with a dynamic dimension, at its maximum

  const Buffer& output() const { return stages.back().output; }
  // 16 hex digits: xxh3 of `canonical`. The workload's identity in the database.
  std::string hash() const;
};

// Each dynamic dimension at the largest size of its range.
std::map<std::string, int64_t> largest_sizes(const Workload& workload);

// The loop nest of a workload: a block a stage, named like the stage's output, under serial loops
// named like the axes (made unique by a number). Intermediate outputs are allocated in "root".
Program lower(const Workload& workload);

// Text of the stages as index notation, one line each: "C[i, j] += A[i, k] * B[k, j]".
std::string to_string(const Workload& workload);

}  // namespace tilewright
