#include "tuner/rules/gpu/copy/gpu_window_copies.h"

#include <algorithm>
#include <vector>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/lowering.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"

namespace tilewright {
namespace {

constexpr int64_t kSpanBits = 128 * 8;
constexpr int64_t kAnyRows = 64;

// One dimension of a tile; `at` is an element of tile number `tile`.
struct TileLoop {
  Var tile{"tile"}, at{"at"};
  int64_t size;
  Expr extent;  // of the whole dimension

  Expr first() const { return tile * Expr(size); }
};

}  // namespace

bool gpu_is_one_copy(const RuleContext& c, const Block& block, const std::string& operand, int k,
                     int64_t terms, int64_t span_terms) {
  const BlockNode& n = c.s.node(block);
  const BlockNode& copy = c.s.node(gpu_writer(c.s, operand));
  const StoreNode& store = store_of(copy);
  const size_t rank = store.indices.size();
  std::vector<int> iters;
  for (const Expr& index : store.indices) iters.push_back(plain_iterator(copy, index));
  if (rank < 2 || std::find(iters.begin(), iters.end(), -1) != iters.end()) return false;

  const bool along = plain_iterator(n, indices_of(n, operand).back()) == k;
  auto extent = [&](size_t d) { return copy.iters[static_cast<size_t>(iters[d])].extent; };
  TileLoop rows, columns;
  rows.size = along ? kAnyRows : terms;
  rows.extent = extent(rank - 2);
  columns.extent = extent(rank - 1);
  const int64_t span = kSpanBits / bits_of(store.buffer->elem);
  columns.size = along ? terms : std::min(span, largest_extent(c.s, columns.extent));
  Analyzer known;
  for (const IterVar& iter : copy.iters) known.bind(iter.var, 0, iter.extent);
  for (const TileLoop* t : {&rows, &columns}) {
    known.bind(t->tile, 0, floordiv(t->extent + Expr(t->size - 1), Expr(t->size)));
  }
  const Var part("span");
  const Expr width = along ? Expr(span_terms) : Expr(columns.size);
  const Expr parts = along ? Expr(terms / span_terms) : Expr(1);
  known.bind(part, 0, parts);
  known.bind(columns.at, 0, width);
  // Rows have absolute positions, as in the lowering of such copies.
  const Expr in_tile = along ? part * Expr(span_terms) + columns.at : Expr(columns.at);
  const Expr column = columns.first() + in_tile;
  const VarMap places = {{copy.iters[static_cast<size_t>(iters[rank - 2])].var.get(), rows.at},
                         {copy.iters[static_cast<size_t>(iters[rank - 1])].var.get(), column}};
  const Expr inside = known.simplify(rows.at < rows.extent && column < columns.extent);
  const Buffer tile =
      make_buffer("tile", store.buffer->elem, {parts, Expr(rows.size), width}, Scope::Shared);
  Stmt s = make_if(inside, make_store(tile, {part, rows.at - rows.first(), columns.at},
                                      substitute(store.value, places)));
  s = make_for(columns.at, 0, width, ForKind::Serial, s);
  s = make_for(rows.at, rows.first(), Expr(rows.size), ForKind::Serial, s);
  s = make_for(part, 0, parts, ForKind::Serial, s, {{kInstructionKey, std::string(kTma)}});
  try {
    match_tensor_copy(*s.as<ForNode>(), known);
  } catch (const LoweringError&) {
    return false;
  }
  return true;
}

int64_t gpu_span_of_windows(const RuleContext& c, const Block& block, const std::string& operand,
                            int k, int64_t terms) {
  constexpr int64_t kNarrowest = 4;  // 32 bytes: threads copy shorter rows faster
  const BlockNode& n = c.s.node(block);
  if (plain_iterator(n, indices_of(n, operand).back()) != k) return 0;
  for (int64_t parts = 1; parts <= kNarrowest; parts *= 2) {
    if (gpu_is_one_copy(c, block, operand, k, terms, terms / parts)) return terms / parts;
  }
  return 0;
}

}  // namespace tilewright
