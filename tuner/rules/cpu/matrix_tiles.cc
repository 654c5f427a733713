#include "tuner/rules/cpu/matrix_tiles.h"

#include <algorithm>
#include <array>

#include "base/ceil_div.h"
#include "ir/compare.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/matrix_view.h"
#include "tuner/rules/cpu/tensor_roles.h"
#include "tuner/rules/cpu/tensor_view.h"

namespace tilewright {
namespace {

// The block's iterators and operands, as in C[i, j] += A[i, k] * B[…].
struct Product {
  int i = -1, j = -1, k = -1;
  std::string a, b, result;
};

class TilePreparer {
 public:
  TilePreparer(RuleContext& c, Block block)
      : c_(c), block_(std::move(block)), facts_(analyze(c.s, block_)) {}

  std::optional<TensorTile> run() {
    const std::optional<TensorRoles> roles = read_roles();
    if (!roles) return std::nullopt;
    const bool plain = find_product(*roles);
    const std::optional<MatrixAxes> axes = plain ? std::nullopt : find_axes(*roles);
    if ((!plain && !axes) || !choose_row()) return std::nullopt;
    const int64_t neighbours = sizes_[2];  // of a window
    if (axes) {
      view_as_matrix(c_, block_, *axes, terms());
      facts_ = analyze(c_.s, block_);
      const std::optional<TensorRoles> matrices = read_roles();
      const bool found = matrices && find_product(*matrices);
      TW_ASSERT(found, "a convolution's matrices are a product");
    }
    pad();
    own_operands();
    lay_out();
    return TensorTile{row_, 1, 4, 5, 3, 6, axes ? round_up(neighbours, terms()) : 0};
  }

 private:
  const BlockNode& node() const { return c_.s.node(block_); }
  // The largest extent.
  int64_t extent(int iter) const { return facts_.extents[static_cast<size_t>(iter)]; }
  // Extents of a tile: rows, columns, groups of neighbouring k elements, k elements per group.
  int64_t size(size_t n) const { return row_->semantics().extents[n]; }
  int64_t terms() const { return size(2) * size(3); }

  // The block as a sum of products with a weight.
  std::optional<TensorRoles> read_roles() {
    if (weight_value_of(c_.s, block_, c_.input.workload)) return std::nullopt;
    std::string refusal;
    std::vector<TensorRoles> readings = tensor_roles(c_.s, block_, &refusal);
    if (readings.empty() || !readings[0].refusal.empty() || !readings[0].weight)
      return std::nullopt;
    const TensorRoles& roles = readings[0];
    types_ = {roles.sum->buffer->elem, roles.a->buffer->elem, roles.b->buffer->elem};
    return roles;
  }

  // Matches a matrix times a weight, each of two dimensions, with a matrix as result; nothing else.
  bool find_product(const TensorRoles& roles) {
    if (node().iters.size() != 3) return false;
    auto plain = [&](const std::vector<Expr>& indices) {
      std::vector<int> iters;
      for (const Expr& e : indices) iters.push_back(plain_iterator(node(), e));
      bool all = std::find(iters.begin(), iters.end(), -1) == iters.end();
      return all && iters.size() == 2 ? iters : std::vector<int>{};
    };
    const std::vector<int> sum = plain(roles.sum->indices), a = plain(roles.a->indices),
                           b = plain(roles.b->indices);
    if (sum.empty() || a.empty() || b.empty() || a[0] != sum[0]) return false;
    p_ = {sum[0],
          sum[1],
          a[1],
          roles.a->buffer->name,
          roles.b->buffer->name,
          roles.sum->buffer->name};
    const bool reduces = node().iters[static_cast<size_t>(p_.k)].kind == IterKind::Reduce;
    // The rows of a launch may vary; the weight's sizes may not.
    for (int n : {p_.j, p_.k}) {
      if (!as_int(node().iters[static_cast<size_t>(n)].extent)) return false;
    }
    sizes_ = {extent(p_.i), extent(p_.j), extent(p_.k)};
    return reduces && ((b[0] == p_.j && b[1] == p_.k) || (b[0] == p_.k && b[1] == p_.j));
  }

  // The axes of a convolution whose windows are worth copying.
  std::optional<MatrixAxes> find_axes(const TensorRoles& roles) {
    std::optional<MatrixAxes> axes = matrix_axes(node(), roles);
    if (!axes || roles.reuse_of_a < kWorthAGather) return std::nullopt;
    sizes_ = {1, extent(axes->column), extent(axes->terms.back())};
    for (int i : axes->rows) sizes_[0] *= extent(i);
    return axes;
  }

  // Asks for a tile instruction with the operands' types. Padding may at most double each extent.
  bool choose_row() {
    std::vector<std::string> answers;
    for (const Intrinsic* row : intrinsics_of(c_.input.target)) {
      const std::vector<int64_t>& extents = row->semantics().extents;
      if (extents.size() != 4) continue;
      std::vector<ElemType> types;
      for (const Buffer& operand : row->semantics().operands()) types.push_back(operand->elem);
      bool fits = types == types_ && 2 * sizes_[0] >= extents[0] && 2 * sizes_[1] >= extents[1] &&
                  2 * sizes_[2] >= extents[2] * extents[3];
      if (fits) answers.emplace_back(row->name);
    }
    if (answers.empty()) return false;
    answers.emplace_back("none");
    row_ = find_intrinsic(c_.t.choose(block_.name + ".tiles", answers));
    return row_ != nullptr;
  }

  void pad() {
    std::vector<int64_t> multiples(3, 1);
    multiples[static_cast<size_t>(p_.i)] = size(0);
    multiples[static_cast<size_t>(p_.j)] = size(1);
    multiples[static_cast<size_t>(p_.k)] = terms();
    bool whole = true;
    for (int n : {p_.i, p_.j, p_.k}) {
      const auto at = static_cast<size_t>(n);
      whole &= !facts_.dynamic[at] && extent(n) % multiples[at] == 0;
    }
    if (whole) return;
    const auto now = pad_iterators(c_.s, block_, multiples);
    const std::string windows = p_.a, weight = p_.b;
    p_.a = now.at(p_.a);
    p_.b = now.at(p_.b);
    if (p_.b != weight) c_.s.precompute(writer_of(c_.s, p_.b));
    if (p_.a != windows && has_one_reader(c_.s, windows)) {
      c_.s.compute_inline(writer_of(c_.s, windows));
    }
    p_.result = c_.s.output(block_)->name;
    unpad_result(c_, block_);
  }

  // Makes buffers of its own, so that their layout is free.
  void own_operands() {
    if (!has_one_reader(c_.s, p_.a))
      p_.a = c_.s.output(c_.s.cache_read(block_, p_.a, Scope::Global))->name;
    if (is_output(c_.s, p_.result)) c_.s.cache_write(block_, p_.result, Scope::Global);
    p_.result = c_.s.output(block_)->name;
  }

  // Makes the operands' tiles contiguous, and a tile's iterators the block's last.
  void lay_out() {
    const int64_t rows = size(0), columns = size(1), pair = size(3), k = terms();
    c_.s.transform_layout(p_.a, IndexMap::make(2, [&](const std::vector<Var>& x) {
                            return std::vector<Expr>{
                                floordiv(x[0], rows), floordiv(x[1], k), floormod(x[0], rows),
                                floordiv(floormod(x[1], k), pair), floormod(x[1], pair)};
                          }));
    const std::vector<Expr> indices = indices_of(node(), p_.b);
    const size_t j = plain_iterator(node(), indices[0]) == p_.j ? 0 : 1;
    c_.s.prepack(p_.b, IndexMap::make(2, [&](const std::vector<Var>& x) {
                   const Var &column = x[j], &term = x[1 - j];
                   return std::vector<Expr>{floordiv(term, k), floordiv(column, columns),
                                            floordiv(floormod(term, k), pair),
                                            floormod(column, columns), floormod(term, pair)};
                 }));
    c_.s.transform_layout(p_.result, IndexMap::make(2, [&](const std::vector<Var>& x) {
                            return std::vector<Expr>{floordiv(x[0], rows), floordiv(x[1], columns),
                                                     floormod(x[0], rows), floormod(x[1], columns)};
                          }));
    c_.s.transform_block_layout(block_, IndexMap::make(3, [&](const std::vector<Var>& x) {
                                  const auto at = [&](int n) { return x[static_cast<size_t>(n)]; };
                                  const Var i = at(p_.i), column = at(p_.j), term = at(p_.k);
                                  return std::vector<Expr>{
                                      floordiv(i, rows),         floordiv(column, columns),
                                      floordiv(term, k),         floormod(i, rows),
                                      floormod(column, columns), floordiv(floormod(term, k), pair),
                                      floormod(term, pair)};
                                }));
  }

  RuleContext& c_;
  Block block_;
  BlockFacts facts_;
  Product p_;
  std::array<int64_t, 3> sizes_{};  // rows, columns and terms of the product
  std::vector<ElemType> types_;
  const Intrinsic* row_ = nullptr;
};

}  // namespace

std::optional<TensorTile> prepare_tiles(RuleContext& c, const Block& block) {
  return TilePreparer(c, block).run();
}

bool reads_tiles(const Schedule& s, const Block& product, const Block& reader,
                 const std::optional<TensorTile>& tensor) {
  if (!tensor || !tensor->is_tile() || !can_take_in(s, product, reader)) return false;
  const BlockNode& node = s.node(reader);
  const std::vector<Expr> read = indices_of(node, s.output(product)->name);
  if (read.size() != 4 || node.iters.size() != 2) return false;
  const std::vector<int64_t>& size = tensor->row->semantics().extents;
  for (size_t d : {0, 1}) {
    const Var& iter = node.iters[d].var;
    const bool digits =
        equal(read[d], floordiv(iter, size[d])) && equal(read[d + 2], floormod(iter, size[d]));
    if (!digits) return false;
  }
  return true;
}

void split_into_tiles(Schedule& s, const Block& reader, const Intrinsic& row) {
  const std::vector<int64_t>& size = row.semantics().extents;
  std::vector<Loop> loops = s.loops(reader), order(4);
  for (size_t d : {0, 1}) {
    const std::vector<Loop> parts = s.split(loops[loops.size() - 2 + d], {-1, size[d]});
    order[d] = parts[0];
    order[d + 2] = parts[1];
  }
  s.reorder(order);
}

}  // namespace tilewright
