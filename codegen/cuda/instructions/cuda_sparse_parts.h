// Common parts of sparse matrix instruction nests, for warps and warpgroups: A's kept elements,
// their places, and the operand that is read at these.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda/instructions/cuda_product_nest.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"
#include "ir/visitor.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {

// The nest's parts, by what they read: the kept elements, their places, and the operand that is
// read there.
struct SparseParts {
  std::vector<const ForNode*> loops;
  const StoreNode* store = nullptr;
  const LoadNode* values = nullptr;
  const LoadNode* places = nullptr;
  const LoadNode* gathered = nullptr;

  const ForNode& terms() const { return *loops.back(); }
};

// Operands that the nest lacks are null.
SparseParts sparse_parts_of(const ForNode& loop);

// `e` with the load of the buffer, and a conversion of it, replaced by `with`.
Expr in_place_of(const Buffer& buffer, const Expr& with, const Expr& e);

// The nest as if A were dense, with elements of the gathered operand `step` apart. The loop over k
// runs over `extent`, that of one instruction.
ForNode whole_sparse_nest(const SparseParts& parts, int64_t extent, int64_t step);

// The sparse metadata of a nest as its schedule lays them out.
struct SparseWords {
  Buffer words;
  Expr start;                      // this lane's word for the first step and fragment of A
  int64_t step = 0, fragment = 0;  // distances to the words of others
  int64_t next = 0;  // the distance between elements of A for the instructions of one word
};

// The nest of a sparse row as if A were dense. A's elements and their places must be in registers,
// and the innermost loop must run over k of all instructions that share a word of metadata. Throws
// LoweringError.
ForNode dense_nest_of(const ForNode& loop, const Instruction& row, Analyzer& known);
// Its metadata. Throws LoweringError where words, or elements of A, do not move with their fragments.
SparseWords sparse_words_of(const ForNode& loop, const Instruction& row, Analyzer& known);
// A lane's word: each counter times its distance further on.
std::string sparse_word(const SparseWords& words,
                        const std::vector<std::pair<std::string, int64_t>>& further,
                        CudaExpr& expr);

}  // namespace tilewright
