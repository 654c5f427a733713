#include "tuner/rules/cpu/matrix_view.h"

#include <algorithm>
#include <functional>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/tensor.h"
#include "tuner/rules/cpu/tensor_view.h"

namespace tilewright {
namespace {

// The index over several axes at once, the last one innermost.
Expr fused(const std::vector<Var>& x, const std::vector<int>& axes,
           const std::vector<int64_t>& sizes) {
  Expr sum = 0;
  for (int axis : axes) {
    const auto at = static_cast<size_t>(axis);
    sum = sum * sizes[at] + x[at];
  }
  return sum;
}

bool has(const std::vector<int>& axes, int iter) {
  return std::find(axes.begin(), axes.end(), iter) != axes.end();
}

class MatrixViewer {
 public:
  MatrixViewer(RuleContext& c, const Block& block, const MatrixAxes& axes)
      : c_(c), block_(block), axes_(axes) {
    std::string refusal;
    const TensorRoles roles = tensor_roles(c_.s, block_, &refusal).front();
    a_ = roles.a->buffer->name;
    b_ = roles.b->buffer->name;
  }

  void run(int64_t neighbours) {
    pad_terms(neighbours);
    for (const IterVar& iter : node().iters) extents_.push_back(*as_int(iter.extent));
    gather();
    c_.s.precompute(c_.s.reindex(block_, b_));
    flatten_result();
  }

 private:
  const BlockNode& node() const { return c_.s.node(block_); }

  void pad_terms(int64_t neighbours) {
    std::vector<int64_t> multiples(node().iters.size(), 1);
    multiples[static_cast<size_t>(axes_.terms.back())] = neighbours;
    if (*as_int(node().iters[static_cast<size_t>(axes_.terms.back())].extent) % neighbours == 0)
      return;
    const auto now = pad_iterators(c_.s, block_, multiples);
    const std::string unpadded_a = a_, unpadded_b = b_;
    a_ = now.at(a_);
    b_ = now.at(b_);
    if (b_ != unpadded_b) c_.s.precompute(writer_of(c_.s, b_));
    if (a_ != unpadded_a && has_one_reader(c_.s, unpadded_a)) {
      c_.s.compute_inline(writer_of(c_.s, unpadded_a));
    }
  }

  // Copies windows to rows of a matrix, and fuses the block's iterators.
  void gather() {
    const std::string source = a_;
    const bool ours = has_one_reader(c_.s, source);
    a_ = c_.s.output(c_.s.reindex(block_, source))->name;
    if (ours) c_.s.compute_inline(writer_of(c_.s, source));
    std::vector<int64_t> shape;
    std::vector<int> rows, terms;  // dimensions of the copy
    for (const Expr& index : indices_of(node(), a_)) {
      const int iter = plain_iterator(node(), index);
      (has(axes_.rows, iter) ? rows : terms).push_back(static_cast<int>(shape.size()));
      shape.push_back(extents_[static_cast<size_t>(iter)]);
    }
    c_.s.transform_block_layout(
        block_, IndexMap::make(static_cast<int>(extents_.size()), [&](const std::vector<Var>& x) {
          return std::vector<Expr>{fused(x, axes_.rows, extents_),
                                   x[static_cast<size_t>(axes_.column)],
                                   fused(x, axes_.terms, extents_)};
        }));
    const IndexMap map =
        IndexMap::make(static_cast<int>(shape.size()), [&](const std::vector<Var>& x) {
          return std::vector<Expr>{fused(x, rows, shape), fused(x, terms, shape)};
        });
    c_.s.transform_layout(a_, map);
    c_.s.transform_block_layout(writer_of(c_.s, a_), map);
  }

  // Makes the result a matrix, too: an intermediate with its readers, an output by a copy.
  void flatten_result() {
    const std::string result = c_.s.output(block_)->name;
    const std::vector<int64_t> shape = const_shape(c_.s.output(block_));
    if (is_output(c_.s, result)) {
      c_.s.reindex(block_, result);
      return;
    }
    std::vector<int> rows(shape.size() - 1);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
    const IndexMap map =
        IndexMap::make(static_cast<int>(shape.size()), [&](const std::vector<Var>& x) {
          return std::vector<Expr>{fused(x, rows, shape), x.back()};
        });
    c_.s.transform_layout(result, map);
    for (const Block& reader : c_.s.consumers(block_)) {
      const BlockNode& n = c_.s.node(reader);
      if (n.iters.size() != shape.size()) continue;
      bool same = analyze(c_.s, reader).role == BlockRole::Injective;
      for (size_t i = 0; i < shape.size(); ++i) same &= is_int(n.iters[i].extent, shape[i]);
      if (same) c_.s.transform_block_layout(reader, map);
    }
  }

  RuleContext& c_;
  const Block& block_;
  const MatrixAxes& axes_;
  std::string a_, b_;  // operands
  std::vector<int64_t> extents_;
};

}  // namespace

std::optional<MatrixAxes> matrix_axes(const BlockNode& block, const TensorRoles& roles) {
  if (!roles.weight || roles.lanes.size() != 1 || roles.lanes[0].group > 0) return std::nullopt;
  MatrixAxes axes{{}, {}, roles.lanes[0].iter};
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    const auto extent = as_int(iter.extent);
    const int at = static_cast<int>(i);
    if (!extent) return std::nullopt;
    if (iter.kind == IterKind::Reduce) {
      if (!has(roles.terms, at) && *extent > 1) return std::nullopt;
      axes.terms.push_back(at);
    } else if (at != axes.column) {
      for (const Expr& index : roles.b->indices) {
        if (uses_var(index, iter.var)) return std::nullopt;
      }
      axes.rows.push_back(at);
    }
  }
  const bool neighbours =
      !axes.terms.empty() && plain_iterator(block, roles.a->indices.back()) == axes.terms.back();
  const bool last = plain_iterator(block, roles.sum->indices.back()) == axes.column;
  return axes.rows.empty() || !neighbours || !last ? std::nullopt : std::optional(axes);
}

void view_as_matrix(RuleContext& c, const Block& block, const MatrixAxes& axes,
                    int64_t neighbours) {
  MatrixViewer(c, block, axes).run(neighbours);
}

void unroll_positions(Schedule& s, const Block& copy, int64_t neighbours) {
  constexpr int64_t kMostPositions = 32;
  const std::vector<Loop> loops = s.loops(copy);
  const auto lanes = as_int(s.node(loops.back()).extent);
  if (loops.size() < 2 || !lanes || neighbours < *lanes || neighbours % *lanes != 0) return;
  const Loop position = s.split(loops[loops.size() - 2], {-1, neighbours / *lanes})[0];
  const auto count = as_int(s.node(position).extent);
  if (count && *count <= kMostPositions) s.unroll(position);
}

}  // namespace tilewright
