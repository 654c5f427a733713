// Matrix instructions of a warp with a gathered B.
#include <fmt/format.h>

#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_sparse_parts.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {

std::optional<MmaNest> match_gathered_mma(const ForNode& loop, const Instruction& row,
                                          Analyzer& known) {
  const SparseParts p = sparse_parts_of(loop);
  if (!p.values || !is_private(p.values->buffer) || !p.places) return std::nullopt;
  const NestIndex at(p.loops, known);
  const Buffer& of = p.places->buffer;
  const Expr &index = p.gathered->indices[0], &word = p.places->indices[0];
  auto step = as_int(simplify(at.first(in_place_of(of, Expr(1), index)) -
                              at.first(in_place_of(of, Expr(0), index))));
  bool same = p.loops.size() >= 3 && step.has_value();
  for (const ForNode* l : p.loops) {
    const int64_t last = as_int(l->extent).value_or(1) - 1;
    same = same && (l == &p.terms() || at.moved(word, l->var, last) == 0);
  }
  if (!same) {
    fail_mma(loop,
             fmt::format("'{}' is not read at places that are the same for all rows and columns",
                         p.gathered->buffer->name));
  }
  MmaNest nest = match_mma_as(whole_sparse_nest(p, row.k, *step), row, known);
  if (nest.b.column != 1 || row.b_registers() * 8 != row.k) {
    fail_mma(loop,
             fmt::format("the columns of '{}', which is read at places, are no neighbours of 16 "
                         "bits in a tile",
                         p.gathered->buffer->name));
  }
  VarMap first;
  Var term("row");
  for (const ForNode* l : p.loops) first[l->var.get()] = 0;
  first[p.terms().var.get()] = term;
  KnowledgeScope scope(known);
  known.bind(term, Expr(0), Expr(row.k));
  nest.gather = {term, known.simplify(substitute(index, first))};
  return nest;
}

}  // namespace tilewright
