// What nests of matrix instructions with a sparse operand have in common, whether warps carry them out or
// warpgroups: kept elements of A, their places, and the operand that is read at these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/sparse_mma_rows.h"
#include "ir/simplify.h"
#include "ir/stmt.h"
#include "ir/visitor.h"

namespace tilewright {

// The nest's parts, by what they read: the elements, the places of these, and the operand that is
// read there.
struct SparseParts {
  std::vector<const ForNode*> loops;
  const StoreNode* store = nullptr;
  const LoadNode* values = nullptr;
  const LoadNode* places = nullptr;
  const LoadNode* gathered = nullptr;

  const ForNode& terms() const { return *loops.back(); }
};

// Without the operands that are not there.
SparseParts sparse_parts_of(const ForNode& loop);

// `e` with `with` in the place of the load of the buffer, and of what converts it.
Expr in_place_of(const Buffer& buffer, const Expr& with, const Expr& e);

// An index of the nest at given values of its variables, 0 for all others.
class SparseIndex {
 public:
  SparseIndex(const SparseParts& parts, Analyzer& known);
  Expr at(const Expr& index, const Expr& var, int64_t value) const;
  Expr first(const Expr& index) const;
  // How far the index moves from 0 to `value` of the variable; nothing where that is no number.
  std::optional<int64_t> moved(const Expr& index, const Expr& var, int64_t value) const;

 private:
  Analyzer& known_;
  VarMap zero_;
};

// Requires the innermost loop to run over the terms of all instructions that share a word of metadata,
// and the gathered operand to be read at `keep` of each `of` neighbours: term r stands r / keep * of
// further on, and a place counts once. Throws LoweringError.
void require_sparse_terms(const ForNode& loop, const SparseMmaRow& row, const SparseParts& parts,
                          const SparseIndex& index);

// As if the elements were all there, `step` of the gathered operand apart: the loop over terms runs
// over `extent`, those of one instruction.
ForNode whole_sparse_nest(const SparseParts& parts, int64_t extent, int64_t step);

// The metadata of a nest as its schedule has them.
struct SparseWords {
  Expr start;             // of this lane's word for the first of the outer loops' iterations
  int64_t next_step = 0;  // how far the elements of A of the instructions of one word lie apart
  std::vector<int64_t> steps;  // of the words, along each loop but the last three
};

// Throws LoweringError where words, or elements of A, do not move with their fragments.
SparseWords sparse_words_of(const ForNode& loop, const SparseMmaRow& row, const SparseParts& parts,
                            const SparseIndex& index);

}  // namespace tilewright
