// Sparse weights that matrix instructions of GPUs take without what they leave out: where their kept
// elements stood, from memory to where instructions want it.
#pragma once

#include "codegen/sparse_mma_rows.h"
#include "ir/index_map.h"
#include "tuner/rules/rules.h"

namespace tilewright {

struct GpuTileCopies;

// The row that multiplies activations of this type by a weight of this form and `k` rows into sums of
// that type, or of integers where scales are applied to them; null when there is none.
const SparseMmaRow* gpu_sparse_row(const WeightFormat& format, int64_t k, ElemType operand,
                                   ElemType sums, bool scaled, const Target& target);

// Whether instructions for dense operands may take what a weight of this form and `k` rows keeps, and
// the activations of `operand` that belong to it: columns of whole fragments share their rows.
bool gpu_gathers(const WeightFormat& format, int64_t k, ElemType operand);

// Terms along k, zeros included, of the instructions that share a register of metadata.
int64_t gpu_sparse_terms(const SparseMmaRow& row);

// How the places of a weight's kept elements lie in memory: its columns n and kept rows r, at `column`
// and `k` of the dimensions, to [n / tile_n, r / tile_r, place in the tile], where the word of a lane
// for 16 columns and as many kept rows as share a word is followed by the next lane's.
IndexMap metadata_map(const SparseMmaRow& row, int rank, int column, int k, int64_t tile_n,
                      int64_t tile_r);

// The same of a pattern that `vector` columns share, a byte each: columns of a tile that share one lie
// together. Takes the rows and groups of columns that the kept elements' parameter has.
IndexMap places_map(int rank, int column, int k, int64_t vector, int64_t tile_n, int64_t tile_r);

// Where the elements of a block's tiles stood, on the way there.
class GpuPlaces {
 public:
  // `rows`: the parameter that says so, which `block` reads; it is laid out by `map` and read from
  // shared memory, or as words of lanes from registers.
  GpuPlaces(RuleContext& c, const Block& block, const std::string& rows, const IndexMap& map,
            bool in_registers);
  // Under the loop over tiles along k: copied as all tiles are, and each lane has its words for the
  // columns of its warp.
  void place(const Loop& k_outer, const GpuTileCopies& copies, int64_t warps);

 private:
  void bind_words(int64_t warps);

  RuleContext& c_;
  Block shared_;
  std::optional<Block> words_;
};

}  // namespace tilewright
