// Operands of a product with matrix instructions on their way to the instructions.
#pragma once

#include <optional>
#include <string>

#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/product/gpu_product.h"
#include "tuner/rules/gpu/weight/gpu_sparse.h"

namespace tilewright {

// How activations that are gathered get k as rows of their tile: by a kernel of their own, or by the
// copy to shared memory.
inline constexpr const char* kAhead = "ahead";
inline constexpr const char* kByTile = "tile";

// Neighbours per access to A and to B.
struct GpuVectors {
  int64_t a, b;
};

// Pads the product to whole tiles and stages its operands (gpu_stage_operands()), a packed weight
// in registers. Lays out a plain weight in memory as its roles say, and transposes activations that
// are gathered.
GpuVectors gpu_stage_operands_of(RuleContext& c, GpuProduct& p, const GpuProductPlan& plan);

// A weight whose elements instructions take from registers, in their order and without scales. Its
// codes, in the same order, are staged in shared memory and in registers.
class PackedWeight {
 public:
  // `elements` is the product's operand B, of which a tile has tile.n columns and tile.k rows;
  // `chunk` rows are unpacked at a time.
  PackedWeight(RuleContext& c, const Block& product, const std::string& elements,
               const Packable& weight, const TensorTileSizes& tile, int64_t chunk);

  // Places a tile of codes, and its elements or those of a `chunk` of k, for `warps` that share the
  // columns.
  void place(const Loop& k_outer, const std::optional<Loop>& chunk, const GpuTileCopies& copies,
             int64_t warps);
  // Stages scales and zero points of groups beside the codes.
  void stage_scales(const Block& sums, const Loop& k_outer, const GpuTileCopies& copies) const;
  void copy_codes(const GpuTileCopies& copies) const;

 private:
  // Unpacks a tile's codes into elements in the threads that multiply them, under the first `around`
  // loops of their block.
  void unpack(size_t around, int64_t warps);
  // Leaves out the zeros of a pattern; metadata say where they were. Returns the parameter with the
  // kept elements.
  std::string compress(const Block& product, const std::string& elements,
                       const TensorTileSizes& tile);

  RuleContext& c_;
  const Packable& w_;  // outlives this
  PackedLayout layout_;
  Block elements_, shared_, codes_;
  std::optional<GpuPlaces> places_;
};

}  // namespace tilewright
