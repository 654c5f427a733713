// Sparse metadata of weights that matrix instructions take without their zeros: the positions of
// kept elements, on their way from memory to the instructions.
#pragma once

#include "ir/arith/index_map.h"
#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/rules.h"

namespace tilewright {

struct GpuTileCopies;

// Whether the row multiplies a packed weight by activations of this type. Accumulators are of type
// `sums`, or integers if scales are applied to them.
bool takes_packed(const Instruction& row, ElemType operand, ElemType sums, bool scaled);

// The mma.sp row for such activations and a weight of this form with `k` rows. Null if there is
// none.
const Instruction* gpu_sparse_row(const WeightFormat& format, int64_t k, ElemType operand,
                                  ElemType sums, bool scaled, const Target& target);

// Whether dense instructions can take the kept elements of a weight of this form with `k` rows,
// with gathered activations of type `operand`. The columns of whole fragments must share their
// rows.
bool gpu_gathers(const WeightFormat& format, int64_t k, ElemType operand);

// k, zeros included, of the instructions that share a register of metadata.
int64_t gpu_sparse_terms(const Instruction& row);

// The layout of sparse metadata in memory. Maps the weight's columns n and kept rows r to [n /
// tile_n, r / tile_r, position in the tile]. They are at `column` and `k` of the dimensions. A
// lane's 32-bit word covers 16 columns and the kept rows that share it; the next lane's word
// follows.
IndexMap metadata_map(const Instruction& row, int rank, int column, int k, int64_t tile_n,
                      int64_t tile_r);

// The same for a pattern that `vector` columns share, a byte per index. The columns of a tile that
// share one are adjacent. Takes the rows and column groups of the kept elements' parameter.
IndexMap places_map(int rank, int column, int k, int64_t vector, int64_t tile_n, int64_t tile_r);

// Brings the metadata of a block's tiles to its instructions.
class GpuPlaces {
 public:
  // `rows` is the metadata parameter, which `block` reads. It is laid out by `map`, and read from
  // shared memory or, with `in_registers`, as 32-bit words of lanes from registers.
  GpuPlaces(RuleContext& c, const Block& block, const std::string& rows, const IndexMap& map,
            bool in_registers);
  // Places the copies under the loop over k tiles: copied like all tiles. Each lane loads the words
  // for its warp's columns.
  void place(const Loop& k_outer, const GpuTileCopies& copies, int64_t warps);

 private:
  void bind_words(int64_t warps);

  RuleContext& c_;
  Block shared_;
  std::optional<Block> words_;
};

}  // namespace tilewright
