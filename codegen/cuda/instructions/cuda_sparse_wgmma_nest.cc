// Loop nests that are asynchronous sparse matrix instructions (wgmma).
#include <fmt/format.h>

#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_sparse_parts.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"

namespace tilewright {

WgmmaNest match_sparse_wgmma(const ForNode& loop, const Instruction& row, const Expr& thread,
                             Analyzer& known) {
  const SparseParts p = sparse_parts_of(loop);
  const SparseIndex index(p, known);
  require_sparse_terms(loop, row, p, index);
  WgmmaNest nest = match_whole_wgmma(whole_sparse_nest(p, row.k, 1), thread, known);
  nest.sparse = sparse_words_of(loop, row, p, index);
  return nest;
}

}  // namespace tilewright
