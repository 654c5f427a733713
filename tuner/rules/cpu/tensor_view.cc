#include "tuner/rules/cpu/tensor_view.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

class Viewer {
 public:
  Viewer(RuleContext& c, const Block& block, const TensorMapping& mapping)
      : c_(c), block_(block), m_(mapping),
        k_(mapping.k), at_{mapping.a, mapping.b, mapping.j, -1, mapping.weight, false} {}

  TensorView run() {
    order_iterators();
    if (m_.fetch == Fetch::Gathered) gather();
    fuse_terms();
    at_.k = k_.back();
    if (m_.fetch == Fetch::Moved) move();
    if (m_.fetch == Fetch::Rows) flatten_rows();
    order_result();
    order_second();
    return at_;
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  int size() { return static_cast<int>(node().iters.size()); }
  int64_t extent(int iter) { return *as_int(node().iters[iter].extent); }
  bool is_term(int iter) const { return std::find(k_.begin(), k_.end(), iter) != k_.end(); }

  void transform(const std::function<std::vector<Expr>(const std::vector<Var>&)>& fn) {
    c_.s.transform_block_layout(block_, IndexMap::make(size(), fn));
  }

  // Orders the spatial iterators with j last; its group, if any, takes its old place. The
  // reductions follow, the fused ones last.
  void order_iterators() {
    std::vector<int> spatial, reduce;
    for (int i = 0; i < size(); ++i) {
      bool ours = node().iters[i].kind == IterKind::Spatial;
      if (ours && (i != m_.j || m_.group > 0)) spatial.push_back(i);
      if (!ours && !(k_.size() > 1 && is_term(i))) reduce.push_back(i);
    }
    bool last = plain_iterator(node(), store_of(node()).indices.back()) == m_.j;
    if (last && m_.group == 0 && k_.size() == 1) return;  // j stays where it is
    if (k_.size() > 1) reduce.insert(reduce.end(), k_.begin(), k_.end());
    transform([&](const std::vector<Var>& x) {
      std::vector<Expr> out;
      for (int i : spatial) out.push_back(i == m_.j ? floordiv(x[i], m_.group) : Expr(x[i]));
      out.push_back(m_.group > 0 ? floormod(x[m_.j], m_.group) : Expr(x[m_.j]));
      for (int i : reduce) out.push_back(x[i]);
      return out;
    });
    at_.j = static_cast<int>(spatial.size());
    auto place = [&](int i) {
      return at_.j + 1 +
             static_cast<int>(std::find(reduce.begin(), reduce.end(), i) - reduce.begin());
    };
    for (int& k : k_) k = place(k);
  }

  // Makes the first operand a matrix (im2col): a copy over the block's iterators. The copy's loops
  // still run over the window and read neighbours.
  void gather() { at_.a = c_.s.output(c_.s.reindex(block_, at_.a))->name; }

  void fuse_terms() {
    if (k_.size() == 1) return;
    int first = k_.front();
    std::vector<int64_t> extents, dims;
    for (int k : k_) extents.push_back(extent(k));
    // A gathered copy has one dimension per iterator that reads its operand; iterators of extent 1
    // have none.
    const std::vector<Expr> read = indices_of(node(), at_.a);
    for (const Expr& index : read) {
      const int iter = plain_iterator(node(), index);
      if (iter >= 0 && is_term(iter)) dims.push_back(extent(iter));
    }
    auto fused = [&](const std::vector<Var>& x, const std::vector<int64_t>& last, size_t from) {
      std::vector<Expr> out(x.begin(), x.begin() + static_cast<long>(from));
      Expr sum = 0;
      for (size_t n = 0; n < last.size(); ++n) sum = sum * last[n] + x[from + n];
      out.push_back(sum);
      return out;
    };
    transform([&](const auto& x) { return fused(x, extents, static_cast<size_t>(first)); });
    k_ = {first};
    if (m_.fetch != Fetch::Gathered || dims.size() < 2) return;
    c_.s.transform_layout(at_.a, IndexMap::make(static_cast<int>(read.size()), [&](const auto& x) {
                            return fused(x, dims, read.size() - dims.size());
                          }));
  }

  // Makes the first operand a buffer of its own, so that its layout is free.
  void own_first() {
    if (has_one_reader(c_.s, at_.a)) return;
    at_.a = c_.s.output(c_.s.cache_read(block_, at_.a, Scope::Global))->name;
  }

  // Sets its layout and reorders the loops that write it, so that they write neighbours.
  void lay_first_out(const IndexMap& map) {
    Block writer = writer_of(c_.s, at_.a);
    c_.s.transform_layout(at_.a, map);
    const BlockNode& n = c_.s.node(writer);
    at_.own = n.iters.size() == map.inputs.size();
    if (at_.own) c_.s.transform_block_layout(writer, map);
  }

  // Moves the dimension along k, or its last digit, to the end.
  void move() {
    own_first();
    int64_t terms = extent(at_.k);
    auto d = static_cast<size_t>(m_.k_dim);
    std::vector<Expr> indices = indices_of(node(), at_.a);
    bool whole = plain_iterator(node(), indices[d]) == at_.k;
    lay_first_out(IndexMap::make(static_cast<int>(indices.size()), [&](const std::vector<Var>& x) {
      std::vector<Expr> out;
      for (size_t i = 0; i < x.size(); ++i) {
        if (i != d) out.push_back(x[i]);
        if (i == d && !whole) out.push_back(floordiv(x[i], terms));
      }
      out.push_back(whole ? Expr(x[d]) : floormod(x[d], terms));
      return out;
    }));
  }

  // Fuses its last two dimensions.
  void flatten_rows() {
    own_first();
    std::vector<Expr> indices = indices_of(node(), at_.a);
    int64_t inner = *as_int(c_.s.output(writer_of(c_.s, at_.a))->shape.back());
    lay_first_out(IndexMap::make(static_cast<int>(indices.size()), [&](const std::vector<Var>& x) {
      std::vector<Expr> out(x.begin(), x.end() - 2);
      out.push_back(x[x.size() - 2] * inner + x.back());
      return out;
    }));
  }

  // Makes j the last index of the result, and reorders its readers likewise.
  void order_result() {
    const StoreNode& store = store_of(node());
    if (plain_iterator(node(), store.indices.back()) == at_.j) return;
    bool inlines = !is_output(c_.s, store.buffer->name);
    for (const Expr& index : store.indices) inlines &= plain_iterator(node(), index) >= 0;
    Block back = c_.s.reindex(block_, store.buffer->name);
    if (!inlines) return;
    c_.s.compute_inline(back);
    for (const Block& reader : c_.s.consumers(block_)) order_reader(reader);
  }

  // Orders an injective reader's iterators as it reads the result.
  void order_reader(const Block& reader) {
    const BlockNode& n = c_.s.node(reader);
    if (analyze(c_.s, reader).role != BlockRole::Injective) return;
    std::vector<Expr> read = indices_of(n, c_.s.output(block_)->name);
    std::vector<int> order;
    for (const Expr& index : read) order.push_back(plain_iterator(n, index));
    std::vector<int> sorted = order, all(n.iters.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    if (sorted != all || order == all) return;
    c_.s.transform_block_layout(
        reader, IndexMap::make(static_cast<int>(order.size()), [&](const std::vector<Var>& x) {
          std::vector<Expr> out;
          for (int i : order) out.push_back(x[i]);
          return out;
        }));
  }

  // Makes each index of the second operand an iterator.
  void order_second() {
    bool plain = true;
    for (const Expr& index : indices_of(node(), at_.b)) plain &= plain_iterator(node(), index) >= 0;
    if (plain && at_.weight) return;
    Block copy = c_.s.reindex(block_, at_.b);
    at_.b = c_.s.output(copy)->name;
    if (at_.weight) c_.s.precompute(copy);
  }

  RuleContext& c_;
  const Block& block_;
  const TensorMapping& m_;
  std::vector<int> k_;
  TensorView at_;
};

}  // namespace

TensorView view_as_intrinsic(RuleContext& c, const Block& block, const TensorMapping& mapping) {
  return Viewer(c, block, mapping).run();
}

Block writer_of(const Schedule& s, const std::string& buffer) {
  for (const Block& b : s.blocks()) {
    if (s.output(b)->name == buffer) return b;
  }
  throw ScheduleError(RefusalKind::NotFound, "prepare_tensor", "no block writes '" + buffer + "'",
                      s.program());
}

bool has_one_reader(const Schedule& s, const std::string& buffer) {
  return !find_param(s, buffer) && s.consumers(writer_of(s, buffer)).size() == 1;
}

std::map<std::string, std::string> pad_iterators(Schedule& s, const Block& block,
                                                 const std::vector<int64_t>& multiples) {
  const std::vector<std::string> before = inputs_of(s.node(block));
  s.pad_einsum(block, multiples);
  const std::vector<std::string> after = inputs_of(s.node(block));
  std::map<std::string, std::string> now;
  for (size_t i = 0; i < before.size(); ++i) now[before[i]] = after[i];
  return now;
}

}  // namespace tilewright
