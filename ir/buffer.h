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

  int rank() const { return static_cast<int>(shape.size()); }
};

// Throws IrError for an empty name or a constant extent under 1. A rank of 0 is one element.
Buffer make_buffer(std::string name, ElemType elem, std::vector<Expr> shape,
                   Scope scope = Scope::Global);
// The product of the extents, or nothing when one is symbolic.
std::optional<int64_t> num_elements(const Buffer& buffer);
// The constant extents; throws IrError when one is symbolic.
std::vector<int64_t> const_shape(const Buffer& buffer);

}  // namespace tilewright
