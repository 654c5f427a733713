// Buffers: named, typed, row-major compact storage in a memory scope.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace tilewright {

// The memory that holds a buffer. On a CPU, Shared is not used, Register is a vector register (or a
// scalar), and Local is a small array private to the thread. Fragments are the register tiles of an
// MMA instruction, which an index map spreads over the lanes of a warp.
enum class Scope : uint8_t { Global, Shared, Local, Register, FragmentA, FragmentB, FragmentC };

std::string_view name_of(Scope scope);
std::optional<Scope> parse_scope(std::string_view name);

struct BufferNode {
  const std::string name;
  const ElemType elem;
  const std::vector<Expr> shape;  // index expressions: constants or functions of the program's
                                  // dimensions
  const Scope scope;
  /// Rows of shared memory that lie swizzled: the elements of a row whose 16-byte vectors change
  /// places by the row's number, so that eight rows' vectors lie in different banks. 0: none do.
  const int64_t swizzled_row = 0;

  int rank() const { return static_cast<int>(shape.size()); }
};

// Throws IrError for an empty name, a constant extent under 1, and swizzled rows that are not in
// shared memory or no power of two long. A rank of 0 is one element.
Buffer make_buffer(std::string name, ElemType elem, std::vector<Expr> shape,
                   Scope scope = Scope::Global, int64_t swizzled_row = 0);
// The buffer with another shape, everything else kept.
Buffer with_shape(const Buffer& buffer, std::vector<Expr> shape);
// The product of the extents, or nothing when one is symbolic.
std::optional<int64_t> num_elements(const Buffer& buffer);
// The constant extents; throws IrError when one is symbolic.
std::vector<int64_t> const_shape(const Buffer& buffer);

}  // namespace tilewright
