#include "tuner/rules/group_scale.h"

#include <algorithm>

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
  Grouper(RuleContext& c, Block block, Block value)
      : c_(c), block_(std::move(block)), value_(std::move(value)),
        format_(*c.input.workload.weight) {}

  std::optional<GroupScale> run() {
    if (!find_roles()) return std::nullopt;
    std::vector<std::string> answers = {"sums", "elements"};
    if (c_.t.choose_added(block_.name + ".scales", answers, "elements") == "elements")
      return std::nullopt;
    GroupScale result{integers() ? ElemType::i32 : ElemType::f32, format_.group, {}, {}, 1};
    std::optional<Way> way = find_way();
    if (!way) return result;
    std::vector<std::string> rows = {std::string(way->row->name), "none"};
    const std::string key = block_.name + ".intrinsic";
    std::string answer = whole() ? c_.t.choose_added(key, rows, "none") : c_.t.choose(key, rows);
    if (answer == "none") return result;
    std::vector<Buffer> operands = way->row->semantics().operands();
    result.sums = operands[0]->elem;
    result.length = format_.group / terms(*way->row);
    result.word = word_of(*way->row);
    Block widened = c_.s.widen_operand(format_.weight, operands[2]->elem, way->offset);
    if (whole()) {
      c_.s.precompute(widened);
    } else {
      result.widened = widened;
    }
    c_.s.compute_inline(value_);
    lay_out(*way->row, widened.name, result.widened);
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
  static int64_t lanes(const Intrinsic& row) { return row.semantics().extents[0]; }
  static int64_t terms(const Intrinsic& row) { return row.semantics().extents[1]; }

  // C[…, j] += cast(A[…, k]) * B_value[…, k, …, j, …], in f32, over whole groups of k.
  bool find_roles() {
    const StoreNode& store = store_of(node());
    auto* sum = store.value.as<BinaryNode>();
    auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
    bool sums = product && product->op == BinaryOp::Mul && store.buffer->elem == ElemType::f32;
    if (!sums || !analyze(c_.s, block_).constant) return false;
    const std::string& dequantized = store_of(c_.s.node(value_)).buffer->name;
    const LoadNode* other = nullptr;
    for (const Expr& factor : {product->a, product->b}) {
      auto* widened = factor.as<CastNode>();
      auto* load = (widened ? widened->value : factor).as<LoadNode>();
      if (!load || load->predicate.defined()) return false;
      if (load->buffer->name != dequantized) other = load;
    }
    if (!other) return false;
    other_ = other->buffer;
    stored_ = find_param(c_.s, format_.weight)->buffer;
    if (integers() && format_.group > kMostTerms) return false;
    j_ = plain_iterator(node(), store.indices.back());
    std::vector<Expr> at = indices_of(node(), dequantized);
    k_ = plain_iterator(node(), at[static_cast<size_t>(format_.k_dims[0])]);
    bool plain = std::all_of(at.begin(), at.end(),
                             [&](const Expr& e) { return plain_iterator(node(), e) >= 0; });
    return plain && j_ >= 0 && k_ >= 0 && node().iters[k_].kind == IterKind::Reduce &&
           analyze(c_.s, block_).reduce.size() == 1 && format_.group >= kLeastGroup &&
           extent(k_) % format_.group == 0 && other->indices.back().same_as(node().iters[k_].var);
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
                  extent(j_) % lanes(*row) == 0 &&
                  format_.group % (terms(*row) * word_of(*row)) == 0;
      if (!fits) continue;
      for (int64_t offset : {int64_t{0}, int64_t{1} << (bits_of(stored_->elem) - 1)}) {
        if (holds_codes(stored_->elem, to, offset)) return Way{row, offset};
      }
    }
    return std::nullopt;
  }

  // Iterators of the intrinsic become the block's last two, and those of its second operand and of
  // the codes that this is made of.
  void lay_out(const Intrinsic& row, const std::string& operand,
               const std::optional<Block>& widened) {
    int rank = static_cast<int>(indices_of(node(), operand).size());
    IndexMap map = intrinsic_digits(row, rank, format_.column_dim, format_.k_dims[0]);
    c_.s.prepack(widened ? format_.weight : operand, map);
    if (widened) {
      c_.s.transform_layout(operand, map);
      c_.s.transform_block_layout(*widened, map);
    }
    int iters = static_cast<int>(node().iters.size());
    c_.s.transform_block_layout(block_, intrinsic_digits(row, iters, j_, k_));
  }

  RuleContext& c_;
  Block block_, value_;
  const WeightFormat& format_;
  Buffer other_, stored_;  // the other operand, and the weight's codes
  int j_ = -1, k_ = -1;    // iterators
};

}  // namespace

std::optional<GroupScale> prepare_group_scale(RuleContext& c, const Block& block) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format || (format->scale.empty() && format->zero.empty())) return std::nullopt;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if (!value || format->k_dims.size() != 1) return std::nullopt;
  return Grouper(c, block, *value).run();
}

}  // namespace tilewright
