#include "tuner/rules/tensor.h"

#include <algorithm>
#include <map>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

// How values of one type are stored as another, exactly.
struct Conversion {
  ElemType from, to;
  int64_t offset;
};
constexpr Conversion kConversions[] = {
    {ElemType::i8, ElemType::u8, 128},
    {ElemType::u8, ElemType::i8, -128},
    {ElemType::i8, ElemType::i16, 0},
    {ElemType::u8, ElemType::i16, 0},
};

std::optional<Conversion> conversion(ElemType from, ElemType to) {
  if (from == to) return Conversion{from, to, 0};
  for (const Conversion& c : kConversions) {
    if (c.from == from && c.to == to) return c;
  }
  return std::nullopt;
}

// The load that a factor is, through a cast.
const LoadNode* factor_load(const Expr& e) {
  auto* widened = e.as<CastNode>();
  auto* load = (widened ? widened->value : e).as<LoadNode>();
  return load && !load->predicate.defined() ? load : nullptr;
}

// A product of a weight and another operand, summed, as an intrinsic's accumulator, second and first
// operand: C[…, j] += A[…, k] * B[…, k, …, j, …].
struct Contraction {
  std::string a, b;                   // buffers
  ElemType a_type, b_type, sum_type;  // as they are
  int j = -1, k = -1;                 // iterators
};

class Preparer {
 public:
  Preparer(RuleContext& c, Block block) : c_(c), block_(std::move(block)) {}

  std::optional<TensorTile> run() {
    auto found = find_contraction();
    if (!found) return std::nullopt;
    at_ = *found;
    std::vector<const Intrinsic*> rows = intrinsics_of(c_.input.target);
    auto best = std::find_if(rows.begin(), rows.end(), [&](auto* row) { return fits(*row); });
    if (best == rows.end()) return std::nullopt;
    row_ = *best;
    std::vector<std::string> answers = {std::string(row_->name), "none"};
    if (c_.t.choose(block_.name + ".intrinsic", answers) == "none") return std::nullopt;
    pad();
    convert_weight();
    convert_other();
    lay_out();
    int last = static_cast<int>(node().iters.size()) - 1;
    return TensorTile{row_, at_.j, last - 1, last};
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  std::vector<Buffer> shapes() const { return row_->semantics().operands(); }
  int64_t lanes() const { return row_->semantics().extents[0]; }
  int64_t terms() const { return row_->semantics().extents[1]; }

  // The roles of operands and iterators; nothing when the block is no such product.
  std::optional<Contraction> find_contraction() {
    const StoreNode& store = store_of(node());
    auto* sum = store.value.as<BinaryNode>();
    auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
    if (!product || product->op != BinaryOp::Mul || !analyze(c_.s, block_).constant) return {};
    const LoadNode *x = factor_load(product->a), *y = factor_load(product->b);
    if (!x || !y || x->buffer == y->buffer) return {};
    if (is_weight(c_.s, x->buffer->name)) std::swap(x, y);
    if (!is_weight(c_.s, y->buffer->name) || is_weight(c_.s, x->buffer->name)) return {};
    Contraction found{x->buffer->name, y->buffer->name, x->buffer->elem, y->buffer->elem,
                      store.buffer->elem};
    for (const Expr& index : y->indices) {
      if (plain_iterator(node(), index) < 0) return {};
    }
    found.j = plain_iterator(node(), store.indices.back());
    found.k = plain_iterator(node(), x->indices.back());
    if (found.j < 0 || found.k < 0) return {};
    const IterVar &j = node().iters[found.j], &k = node().iters[found.k];
    bool roles = j.kind == IterKind::Spatial && k.kind == IterKind::Reduce && uses(*y, j.var) &&
                 uses(*y, k.var) && !uses(*x, j.var);
    return roles ? std::optional(found) : std::nullopt;
  }

  static bool uses(const LoadNode& load, const Var& var) {
    return std::any_of(load.indices.begin(), load.indices.end(),
                       [&](const Expr& e) { return uses_var(e, var); });
  }

  // Types that convert, and sizes of which padding to whole tiles at most doubles the work.
  bool fits(const Intrinsic& row) {
    const TensorSemantics& semantics = row.semantics();
    std::vector<Buffer> operands = semantics.operands();
    if (operands.size() != 3 || semantics.extents.size() != 2) return false;
    auto a = conversion(at_.a_type, operands[1]->elem),
         b = conversion(at_.b_type, operands[2]->elem);
    bool types = operands[0]->elem == at_.sum_type && a && b && (a->offset == 0 || b->offset == 0);
    return types && 2 * extent(at_.j) >= semantics.extents[0] &&
           2 * extent(at_.k) >= semantics.extents[1];
  }
  int64_t extent(int iter) { return *as_int(node().iters[iter].extent); }

  void pad() {
    if (extent(at_.j) % lanes() == 0 && extent(at_.k) % terms() == 0) return;
    std::vector<int64_t> multiples(node().iters.size(), 1);
    multiples[at_.j] = lanes();
    multiples[at_.k] = terms();
    std::vector<std::string> before = inputs_of(node());
    c_.s.pad_einsum(block_, multiples);
    std::vector<std::string> after = inputs_of(node());
    auto now = [&](const std::string& name) {
      return after[std::find(before.begin(), before.end(), name) - before.begin()];
    };
    at_.a = now(at_.a);
    at_.b = now(at_.b);
    if (!find_param(c_.s, at_.b)) c_.s.precompute(block_called(at_.b));
    unpad();
  }

  // The block that writes a buffer.
  Block block_called(const std::string& buffer) {
    for (const Block& b : c_.s.blocks()) {
      if (store_of(c_.s.node(b)).buffer->name == buffer) return b;
    }
    throw ScheduleError(RefusalKind::NotFound, "prepare_tensor", "no block writes '" + buffer + "'",
                        c_.s.program());
  }

  // What reads the padded result reads it in place of the copy without the padding.
  void unpad() {
    std::vector<Block> readers = c_.s.consumers(block_);
    if (readers.size() != 1) return;
    std::string copy = store_of(c_.s.node(readers[0])).buffer->name;
    if (!is_output(c_.s, copy)) c_.s.compute_inline(readers[0]);
  }

  void convert_weight() {
    Conversion way = *conversion(at_.b_type, shapes()[2]->elem);
    if (way.from == way.to) return;
    std::vector<Block> made = c_.s.convert_operand(block_, at_.b, way.to, way.offset);
    at_.b = store_of(c_.s.node(made[0])).buffer->name;
    c_.s.precompute(made[0]);
  }

  void convert_other() {
    Conversion way = *conversion(at_.a_type, shapes()[1]->elem);
    if (way.from == way.to) return;
    bool ours = !find_param(c_.s, at_.a);
    std::string before = at_.a;
    std::vector<Block> made = c_.s.convert_operand(block_, at_.a, way.to, way.offset);
    at_.a = store_of(c_.s.node(made[0])).buffer->name;
    if (ours && c_.s.consumers(block_called(before)).size() == 1) {
      c_.s.compute_inline(block_called(before));
    }
    if (made.size() > 1) c_.s.precompute(made[1]);
  }

  // Iterators of the intrinsic become the block's last two, and the weight's last two dimensions.
  void lay_out() {
    int64_t lanes = this->lanes(), terms = this->terms();
    auto digits = [&](const std::vector<Var>& x, int j, int k) {
      std::vector<Expr> out(x.begin(), x.end());
      out[j] = floordiv(x[j], lanes);
      out[k] = floordiv(x[k], terms);
      out.push_back(floormod(x[j], lanes));
      out.push_back(floormod(x[k], terms));
      return out;
    };
    std::vector<Expr> weight = indices_of(node(), at_.b);
    int j = -1, k = -1;
    for (size_t d = 0; d < weight.size(); ++d) {
      if (plain_iterator(node(), weight[d]) == at_.j) j = static_cast<int>(d);
      if (plain_iterator(node(), weight[d]) == at_.k) k = static_cast<int>(d);
    }
    c_.s.prepack(at_.b, IndexMap::make(static_cast<int>(weight.size()),
                                       [&](const auto& x) { return digits(x, j, k); }));
    c_.s.transform_block_layout(
        block_, IndexMap::make(static_cast<int>(node().iters.size()),
                               [&](const auto& x) { return digits(x, at_.j, at_.k); }));
  }

  RuleContext& c_;
  Block block_;
  Contraction at_;
  const Intrinsic* row_ = nullptr;
};

}  // namespace

std::optional<TensorTile> prepare_tensor(RuleContext& c, const Block& block) {
  return Preparer(c, block).run();
}

}  // namespace tilewright
