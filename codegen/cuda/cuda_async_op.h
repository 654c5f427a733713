// Statements of sm_90 threads: barriers, mbarriers and TMA copies (CallOp, ir/expr.h), and what a TMA
// copy moves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/call_table.h"
#include "ir/stmt.h"

namespace tilewright {

/// Additional data of an im2col copy, per dimension of an image, the outermost first. They are
/// offsets to the element of the filter, and the bounding box and the steps of its map (PixelBox,
/// kernel/tensor_map.h).
struct BoxPixels {
  std::vector<Expr> offsets;
  std::vector<int64_t> lower, upper, steps;
};

/// The TMA tile of an operand that one copy moves. Dimensions are outermost first, as the schedule
/// knows the operand: rows of its dense array.
struct TensorBox {
  std::vector<Expr> at;      ///< the first element; beyond the operand there are zeros
  std::vector<Expr> dims;    ///< the operand's extents
  std::vector<int64_t> box;  ///< elements; for im2col, pixels in the place of the width
  std::optional<BoxPixels> pixels = {};

  int64_t elements() const;
};

/// A TMA copy by a tensor map.
struct TensorTransfer {
  bool is_store = false;
  Expr shared;     ///< a Load: the first element in shared memory
  Buffer operand;  ///< in global memory
  TensorBox box;
  Expr mbarrier = {};  ///< a Load: it counts the bytes of a load
  int64_t blocks = 1;  ///< blocks of the cluster that get the tile
};

/// The copy that a call is; nothing for other calls.
std::optional<TensorTransfer> tensor_transfer(const Expr& call);

Stmt call_statement(CallOp op, std::vector<Expr> args = {});
/// An mbarrier is an element of an array that a Load names. `bytes` of 0: an arrival alone.
Stmt arrive(const Expr& mbarrier, int64_t bytes = 0);
Stmt load_box(const Expr& to, const Buffer& operand, const Expr& mbarrier, const TensorBox& box,
              int64_t blocks = 1);
Stmt store_box(const Expr& from, const Buffer& operand, const TensorBox& box);

}  // namespace tilewright
