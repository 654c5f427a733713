// Workloads as tensor expressions: they define the computation and leave the schedule open.
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

// One output element per point of `axes` (extents: the output's shape):
//   output[axes] = value                        when reducer is None
//   output[axes] = reduce over reduce_axes of value, from the identity of the reducer
//
// `value` may read inputs and the outputs of earlier stages, at any index expression of the axes.
struct Stage {
  Buffer output;
  std::vector<Var> axes;
  std::vector<ReduceAxis> reduce_axes;
  Reducer reducer = Reducer::None;
  Expr value;
};

// The storage format of the constant operand, where a spec's `w` keys give one. The dequantized
// value of element [k, column] is (weight - zero) * scale + offset. The scale, the zero point and the
// offset are those of group k / group of the column. k counts through `k_dims` in row-major order. The stages
// express the same; this record serves code that makes test data, checks a caller's files or
// chooses a layout.
struct WeightFormat {
  std::string weight;               // buffer names: "B", "B.scale", "B.zero", "B.offset"
  std::string scale, zero, offset;  // "" where there are none; an offset stands beside a scale
  int64_t group = 0;                // elements along k that share all of these
  std::vector<int> k_dims;          // dimensions of the weight that are summed over, in order
  std::vector<int> own_dims;        // dimensions along which each index has a weight of its own
  int column_dim = 0;
  // N:M sparsity: of each `of` elements along k at most `keep` are nonzero, at the same positions
  // in `vector` neighbouring columns. 0 of 0: dense.
  int64_t keep = 0, of = 0, vector = 1;

  bool sparse() const { return of > 0; }
  // True when the buffer of this name is the weight or belongs to it.
  bool has(const std::string& buffer) const {
    return buffer == weight || buffer == scale || buffer == zero || buffer == offset;
  }
  bool operator==(const WeightFormat&) const = default;
};

// An operator with its sizes. Stages are in order of dependence; the last one writes the output.
struct Workload {
  std::string op;         // "matmul"
  std::string canonical;  // canonical spec text, JSON with sorted keys and defaults filled in
  std::string label;      // the user's name for it, or ""; not part of its identity
  std::vector<Param> inputs;
  std::vector<DimVar> dims;
  std::vector<Stage> stages;
  std::optional<WeightFormat> weight;  // absent: a plain dense weight, or none
  double flops = 0;                    // 2 per multiply-add; with a dynamic dimension, at its
                                       // maximum

  const Buffer& output() const { return stages.back().output; }
  // 16 hex digits: xxh3 of `canonical`. The workload's identity in the database.
  std::string hash() const;
};

// The largest size of each dynamic dimension's range.
std::map<std::string, int64_t> largest_sizes(const Workload& workload);

// The loop nest of a workload: one block per stage, named after the stage's output. Its serial
// loops are named after the axes (made unique by a number). Intermediate outputs are allocated in
// "root".
Program lower(const Workload& workload);

// The stages in index notation, one line each: "C[i, j] += A[i, k] * B[k, j]".
std::string to_string(const Workload& workload);

}  // namespace tilewright
