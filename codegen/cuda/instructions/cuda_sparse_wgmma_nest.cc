// Loop nests that are asynchronous sparse matrix instructions (wgmma).
#include <fmt/format.h>

#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_sparse_parts.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"

namespace tilewright {

WgmmaNest match_sparse_wgmma(const ForNode& loop, const Instruction& row, const Expr& thread,
                             const SwizzledRow& swizzled_row, Analyzer& known) {
  const SparseParts p = sparse_parts_of(loop);
  const bool found = p.values && is_private(p.values->buffer) && p.places &&
                     is_private(p.places->buffer) &&
                     bits_of(p.places->buffer->elem) == row.index_bits;
  if (!found) {
    throw LoweringError(fmt::format(
        "loop '{}' is marked as wgmma '{}': it must multiply elements in registers by those at "
        "places in registers, {} bits each",
        loop.var.name(), mma_mark(loop), row.index_bits));
  }
  const SparseIndex index(p, known);
  require_sparse_terms(loop, row, p, index);
  const ForNode whole = whole_sparse_nest(p, row.k, 1);
  WgmmaNest nest = match_whole_wgmma(whole, thread, swizzled_row, known);
  const SparseWords words = sparse_words_of(loop, row, p, index);
  nest.sparse = {p.places->buffer, words.start, 0, 0, words.next_step};
  for (size_t l = 0; l < words.steps.size(); ++l) {
    // Like operands, words of further rows of A move with the accumulators.
    const bool is_along_k = index.moved(p.store->indices[0], p.loops[l]->var, 1) == 0;
    (is_along_k ? nest.sparse.step : nest.sparse.fragment) = words.steps[l];
  }
  return nest;
}

}  // namespace tilewright
