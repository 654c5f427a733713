// A quantized weight matrix in the form that workloads know, whatever format it was stored in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor/array.h"
#include "runtime/tensor/operands.h"

namespace tilewright::weights {

// Element (i, j) of the k x n matrix is worth, with g the group of row i,
//
//     (q[i, j] - zero[g, j]) * scale[g, j]         or, where `offset` is there,
//     q[i, j] * scale[g, j] + offset[g, j]
//
// `q` is packed, sub-byte types lowest bits first: the operand `B` of a matmul with `w.dtype`.
struct QuantizedWeight {
  HostArray q;                      // [k, n]
  HostArray scale;                  // [groups, n]
  std::optional<HostArray> zero;    // integers [groups, n]
  std::optional<HostArray> offset;  // floats [groups, n]
  int64_t group = 0;                // rows that share a scale
  // The group of each row, where the rows are not in the order of the groups (act-order); else
  // empty: row i is of group i / group.
  std::vector<int32_t> group_of_row;
  // The type that the format's own arithmetic gives, to which each value is rounded.
  ElemType value_type = ElemType::f32;

  int64_t k() const { return q.shape()[0]; }
  int64_t n() const { return q.shape()[1]; }
  int64_t groups() const { return scale.shape()[0]; }
  int64_t group_at(int64_t row) const {
    return group_of_row.empty() ? row / group : group_of_row[static_cast<size_t>(row)];
  }
};

// The values row-major [k, n], bit for bit those of the format's reference implementation. That is
// the formula above in f32, rounded to `value_type`: the product of a code and a scale is exact in
// f32 in every format that is read here, so that neither the order of operations nor a fused
// multiply-add changes a bit.
std::vector<float> dequantize(const QuantizedWeight& weight);

// A weight as operands of a workload: `NAME`, `NAME.scale` and `NAME.zero` or `NAME.offset`, which
// are the names of its arrays.
struct WeightOperands {
  std::vector<HostArray> arrays;
  // For act-order: row r of the operand is row order[r] of the weight, so that groups are in order,
  // and the other factor's columns have to be taken in that order, too. Else empty.
  std::vector<int64_t> order;
};

// Hands the arrays over. Throws FileError that begins with `what` when the rows of an act-order
// weight do not make whole groups.
WeightOperands to_operands(QuantizedWeight weight, const std::string& what);

}  // namespace tilewright::weights
