// The computation of a tensor intrinsic, and whether a loop nest computes exactly that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/buffer.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// The computation of an intrinsic: one reduction over small dense operands,
//
//   expr:expr="C[j] += A[k] * B[j,k]",dims.j=16,dims.k=4,dtype=u8,dtypes.B=i8
//
// in the inline form of operator specs. An operand is stored as its shape says, row-major and
// without gaps. Here a step of k is one element of B, and a step of j is four.
struct TensorSemantics {
  Stage stage;
  std::vector<int64_t> extents;  // extents of the axes, then of the reduce axes

  // The iterators in the order of `extents`.
  std::vector<Var> iterators() const;
  // The output, then the inputs in the order in which they appear.
  std::vector<Buffer> operands() const;
  // The strides of `operand` in elements, one per iterator.
  std::vector<int64_t> strides(const Buffer& operand) const;

  // Throws SpecError for text that is no spec, and IrError for a spec that is no single reduction
  // of constant extents.
  static TensorSemantics parse(const std::string& text);
};

// A perfect nest of loops around one store, in terms of the loops' variables.
struct TensorNest {
  std::vector<const ForNode*> loops;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
};

// The program's operand that takes the place of an intrinsic's operand.
struct TensorOperand {
  Buffer buffer;
  Expr base;  // index of its first element in the buffer, row-major, outside the nest
};

struct TensorMatch {
  std::vector<TensorOperand> operands;  // in the order of TensorSemantics::operands()
  std::vector<const ForNode*> loops;    // loops for extents of more than 1, in their order
};

// Maps the nest's loops to the intrinsic's iterators by their strides in the operands, whatever the
// loops' order and names. Loops of one iteration are ignored. When the nest computes something
// else, or its operands have another memory layout, the result is the reason. It names the operand
// or the iterator. `known` holds the ranges of the variables around the nest.
std::variant<TensorMatch, std::string> match_tensor(const TensorSemantics& semantics,
                                                    const TensorNest& nest, Analyzer& known);

}  // namespace tilewright
