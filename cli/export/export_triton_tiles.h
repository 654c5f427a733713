// What Triton's text needs of a kernel: the tiling that its config chooses, the product that it
// computes.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright::cli {

/// A config's choices in Triton's terms.
struct TritonTiling {
  int64_t m = 0, n = 0, k = 0;  ///< powers of two
  int64_t warps = 1, stages = 1;
  int64_t parts = 1;           ///< split-K
  int64_t group = 1;           ///< rows of tiles that run side by side; swapped: columns
  int64_t blocks_per_sm = 0;   ///< of a persistent grid; 0: one block per tile
  bool is_swapped = false;     ///< swap AB: tiles run along the rows first
  std::string precision = {};  ///< of tl.dot beside f32: "ieee", "tf32", "tf32x3"
  std::string notes = {};      ///< comments on choices that Triton's text lacks
};

/// The stages of a product of two matrices, or of stacks of them.
struct TritonProduct {
  const Stage* sum = nullptr;
  const Stage* dequantized = nullptr;  ///< null: `b` is a dense parameter
  std::vector<const Stage*> epilogue;
  const LoadNode *a = nullptr, *b = nullptr;
  Var i, j, k;

  /// The read of a parameter that belongs to the weight; null if the weight has none.
  const LoadNode* weight_load(const std::string& buffer) const;
  /// Whether a group's products are multiplied by a scale.
  bool is_scaled(const Workload& workload) const;
  /// The read of the weight's elements, dense or stored codes.
  const LoadNode& codes(const Workload& workload) const;
};

/// Refuses the workload (UsageError) with what would be accepted.
[[noreturn]] void refuse_triton(const Workload& workload, const std::string& why);

/// Text of a database in a comment: control characters, which could begin a line of the program, become
/// spaces.
std::string one_line(std::string text);

/// Throws UsageError if the workload is not one product.
TritonProduct triton_product(const Workload& workload);

/// Throws UsageError if Triton's text cannot compute the product: types, zero points, reads of the epilogue.
void check_triton(const Workload& workload, const TritonProduct& product);

/// `config` is a JSON object. Throws UsageError if it has no tiles, none that divide the weight's groups, or
/// parts that do not divide k.
TritonTiling triton_tiling(const Workload& workload, const TritonProduct& product,
                           const std::string& config);

}  // namespace tilewright::cli
