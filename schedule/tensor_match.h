// What a tensor intrinsic computes, and whether a loop nest computes just that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/buffer.h"
#include "ir/simplify.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// The computation of an intrinsic: one reduction over small dense operands,
//
//   expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=u8,dtypes.B=i8
//
// in the inline form of operator specs. An operand lies in memory as its shape says, row-major and
// without gaps: here a step of k is one element of B, a step of j four.
struct TensorSemantics {
  Stage stage;
  std::vector<int64_t> extents;  // of the axes, then of the reduce axes

  // The iterators in the order of `extents`.
  std::vector<Var> iterators() const;
  // The output, then the inputs in the order in which they appear.
  std::vector<Buffer> operands() const;
  // The elements of `operand` between neighbours along each iterator.
  std::vector<int64_t> strides(const Buffer& operand) const;

  // Throws SpecError for text that is no spec, and IrError for a spec that is no single reduction of
  // constant extents.
  static TensorSemantics parse(const std::string& text);
};

// A perfect nest of loops around one store, in terms of the loops' variables.
struct TensorNest {
  std::vector<const ForNode*> loops;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
};

// What stands in the place of an intrinsic's operand.
struct TensorOperand {
  Buffer buffer;
  Expr base;  // its first element's place in the buffer, row-major, outside the nest
};

struct TensorMatch {
  std::vector<TensorOperand> operands;  // in the order of TensorSemantics::operands()
  std::vector<const ForNode*> loops;    // for extents of more than 1, in their order
};

// Maps the nest's loops to the intrinsic's iterators by the steps that they make in the operands,
// whatever the order of the loops and their names; loops of one iteration count for nothing. Where the nest computes something else, or its
// operands lie otherwise in memory, the answer is the reason: it names the operand or the iterator.
// `known` holds the ranges of the variables around the nest.
std::variant<TensorMatch, std::string> match_tensor(const TensorSemantics& semantics,
                                                    const TensorNest& nest, Analyzer& known);

}  // namespace tilewright
