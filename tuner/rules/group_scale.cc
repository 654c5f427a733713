#include "tuner/rules/group_scale.h"

#include <algorithm>
#include <bit>

#include "codegen/c_codes.h"
#include "ir/visitor.h"
#include "schedule/primitives/widen_operand.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

constexpr int64_t kLeastGroup = 8;       // terms of a sum that are worth a scaling
constexpr int64_t kMostTerms = 1 << 15;  // products of bytes whose sum is sure to fit 32 bits

// How an intrinsic takes the operands.
struct Way {
  const Intrinsic* row;
  int64_t offset;  // added to the weight's values
};

class Grouper {
 public:
  // `value`: the block that says what the weight is worth; none where it was compressed.
  Grouper(RuleContext& c, Block block, std::optional<Block> value, std::optional<KeptWeight> kept)
      : c_(c), block_(std::move(block)), value_(std::move(value)), kept_(std::move(kept)),
        format_(*c.input.workload.weight) {}

  std::optional<GroupScale> run() {
    if (!find_roles()) return std::nullopt;
    std::vector<std::string> answers = {"sums", "elements"};
    if (c_.t.choose_added(block_.name + ".scales", answers, "elements") == "elements")
      return std::nullopt;
    GroupScale result{integers() ? ElemType::i32 : ElemType::f32, group(), {}, {}, 1, {}, false};
    std::optional<Way> way = find_way();
    if (!way) return result;
    std::vector<std::string> rows = {std::string(way->row->name), "none"};
    const std::string key = block_.name + ".intrinsic";
    std::string answer = whole() ? c_.t.choose_added(key, rows, "none") : c_.t.choose(key, rows);
    if (answer == "none") return result;
    std::vector<Buffer> operands = way->row->semantics().operands();
    result.sums = operands[0]->elem;
    result.length = group() / terms(*way->row);
    result.word = word_of(*way->row);
    result.summed = way->offset != 0 || !format_.zero.empty();
    Block widened = c_.s.widen_operand(stored_->name, operands[2]->elem, way->offset);
    if (whole()) {
      c_.s.precompute(widened);
    } else {
      result.widened = widened;
    }
    if (value_) c_.s.compute_inline(*value_);
    lay_out(*way->row, widened.name, result.widened);
    if (kept_) result.gathered = gather();
    int last = static_cast<int>(node().iters.size()) - 1;
    result.tensor = TensorTile{way->row, j_, last - 1, last};
    return result;
  }

 private:
  const BlockNode& node() const { return c_.s.node(block_); }
  int64_t extent(int iter) const { return *as_int(node().iters[iter].extent); }
  // Elements of whole bytes, which are brought into the intrinsic's type at load.
  bool whole() const { return bits_of(stored_->elem) == 8; }
  bool integers() const { return is_integer(other_->elem) && is_integer(stored_->elem); }
  // Iterations of the reduction that share a scale.
  int64_t group() const {
    return kept_ ? format_.group / format_.of * format_.keep : format_.group;
  }
  static int64_t lanes(const Intrinsic& row) { return row.semantics().extents[0]; }
  static int64_t terms(const Intrinsic& row) { return row.semantics().extents[1]; }

  // C[…, j] += cast(A[…, k]) * B_value[…, k, …, j, …], in f32, over whole groups of k.
  bool find_roles() {
    const StoreNode& store = store_of(node());
    auto* sum = store.value.as<BinaryNode>();
    auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
    bool sums = product && product->op == BinaryOp::Mul && store.buffer->elem == ElemType::f32;
    if (!sums) return false;
    const std::string dequantized =
        kept_ ? kept_->values : store_of(c_.s.node(*value_)).buffer->name;
    const LoadNode* other = nullptr;
    for (const Expr& factor : {product->a, product->b}) {
      auto* widened = factor.as<CastNode>();
      auto* load = (widened ? widened->value : factor).as<LoadNode>();
      bool element = load && !load->predicate.defined();
      if (!element && !kept_) return false;
      if (element && load->buffer->name != dequantized) other = load;
    }
    if (!other) return false;
    other_ = other->buffer;
    stored_ = find_param(c_.s, kept_ ? kept_->values : format_.weight)->buffer;
    if (integers() && group() > kMostTerms) return false;
    if (kept_ && format_.group % format_.of != 0) return false;
    j_ = plain_iterator(node(), store.indices.back());
    std::vector<Expr> at = indices_of(node(), dequantized);
    k_ = plain_iterator(node(), at[static_cast<size_t>(format_.k_dims[0])]);
    bool plain = std::all_of(at.begin(), at.end(),
                             [&](const Expr& e) { return plain_iterator(node(), e) >= 0; });
    if (!plain || j_ < 0 || k_ < 0 || node().iters[k_].kind != IterKind::Reduce) return false;
    BlockFacts facts = analyze(c_.s, block_);
    return !facts.dynamic[j_] && !facts.dynamic[k_] && facts.reduce.size() == 1 &&
           group() >= kLeastGroup && extent(k_) % group() == 0 &&
           (kept_ || other->indices.back().same_as(node().iters[k_].var));
  }

  // Codes of the weight in a word as wide as an element of the intrinsic's operand.
  int64_t word_of(const Intrinsic& row) const {
    return bits_of(row.semantics().operands()[2]->elem) / bits_of(stored_->elem);
  }

  std::optional<Way> find_way() const {
    for (const Intrinsic* row : intrinsics_of(c_.input.target)) {
      std::vector<Buffer> operands = row->semantics().operands();
      if (operands.size() != 3 || row->semantics().extents.size() != 2) continue;
      const ElemType to = operands[2]->elem;
      auto width = static_cast<int>(lanes(*row) * terms(*row));
      bool taken = whole() ? is_integer(stored_->elem) && bits_of(to) == 8
                           : has_codes(stored_->elem, to, width);
      bool fits = operands[1]->elem == other_->elem && row->takes_second(stored_->elem) && taken &&
                  extent(j_) % lanes(*row) == 0 && group() % (terms(*row) * word_of(*row)) == 0 &&
                  (!kept_ || gathers(*row));
      if (!fits) continue;
      for (int64_t offset : {int64_t{0}, int64_t{1} << (bits_of(stored_->elem) - 1)}) {
        if (holds_codes(stored_->elem, to, offset)) return Way{row, offset};
      }
    }
    return std::nullopt;
  }

  // Whether the lanes of the accumulator share the rows of a compressed weight, and what they are
  // multiplied with can be picked by permutations.
  bool gathers(const Intrinsic& row) const {
    auto power = [](int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); };
    return format_.vector % lanes(row) == 0 && bits_of(other_->elem) == 16 && power(format_.of) &&
           power(format_.keep);
  }

  // Elements of the other operand in the order of the kept rows, whose numbers lie in it, too.
  Block gather() {
    const size_t rank = indices_of(node(), kept_->rows).size();
    const auto k = static_cast<size_t>(format_.k_dims[0]);
    c_.s.prepack(kept_->rows,
                 IndexMap::make(static_cast<int>(rank), [&](const std::vector<Var>& x) {
                   std::vector<Expr> order(x.begin(), x.end());
                   std::rotate(order.begin() + static_cast<long>(k),
                               order.begin() + static_cast<long>(k) + 1, order.end());
                   return order;
                 }));
    return c_.s.reindex(block_, other_->name);
  }

  // Iterators of the intrinsic become the block's last two, and those of its second operand and of
  // the codes that this is made of.
  void lay_out(const Intrinsic& row, const std::string& operand,
               const std::optional<Block>& widened) {
    int rank = static_cast<int>(indices_of(node(), operand).size());
    IndexMap map = intrinsic_digits(row, rank, format_.column_dim, format_.k_dims[0]);
    c_.s.prepack(widened ? stored_->name : operand, map);
    if (widened) {
      c_.s.transform_layout(operand, map);
      c_.s.transform_block_layout(*widened, map);
    }
    int iters = static_cast<int>(node().iters.size());
    c_.s.transform_block_layout(block_, intrinsic_digits(row, iters, j_, k_));
  }

  RuleContext& c_;
  Block block_;
  std::optional<Block> value_;
  std::optional<KeptWeight> kept_;
  const WeightFormat& format_;
  Buffer other_, stored_;  // the other operand, and the weight's codes
  int j_ = -1, k_ = -1;    // iterators
};

}  // namespace

std::optional<GroupScale> prepare_group_scale(RuleContext& c, const Block& block,
                                              const std::optional<KeptWeight>& kept) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format || (format->scale.empty() && format->zero.empty())) return std::nullopt;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if ((!value && !kept) || format->k_dims.size() != 1) return std::nullopt;
  return Grouper(c, block, value, kept).run();
}

}  // namespace tilewright
