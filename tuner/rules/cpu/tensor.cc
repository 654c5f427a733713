#include "tuner/rules/cpu/tensor.h"

#include <algorithm>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/tensor_mapping.h"
#include "tuner/rules/cpu/tensor_view.h"

namespace tilewright {
namespace {

class Preparer {
 public:
  Preparer(RuleContext& c, Block block) : c_(c), block_(std::move(block)) {}

  std::optional<TensorTile> run() {
    std::optional<TensorMapping> mapping = choose();
    if (!mapping) return std::nullopt;
    row_ = mapping->row;
    at_ = view_as_intrinsic(c_, block_, *mapping);
    pad();
    convert_second();
    convert_first();
    lay_out();
    int last = static_cast<int>(node().iters.size()) - 1;
    return TensorTile{row_, at_.j, last - 1, last};
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  std::vector<Buffer> shapes() const { return row_->semantics().operands(); }
  int64_t lanes() const { return row_->semantics().extents[0]; }
  int64_t terms() const { return row_->semantics().extents[1]; }
  int64_t extent(int iter) { return *as_int(node().iters[iter].extent); }

  std::optional<TensorMapping> choose() {
    std::vector<const Intrinsic*> rows = intrinsics_of(c_.input.target);
    TensorMappings ways = find_tensor_mappings(c_.s, block_, rows);
    if (ways.list.empty()) return std::nullopt;
    // The dequantized values of a few-bit weight are not worth packing in each run.
    bool made = weight_value_of(c_.s, block_, c_.input.workload).has_value();
    if (made && !ways.list[0].weight) return std::nullopt;
    // With few rows, the bytes of the weight count most.
    if (has_few_rows(c_.s, block_, ways.list[0].j)) {
      std::stable_sort(ways.list.begin(), ways.list.end(), [](const auto& x, const auto& y) {
        return second_bits(*x.row) < second_bits(*y.row);
      });
    }
    return c_.t.choose_or_none(block_.name + ".intrinsic", ways.list,
                               [](const TensorMapping& m) { return m.name; });
  }

  static int second_bits(const Intrinsic& row) {
    return bits_of(row.semantics().operands()[2]->elem);
  }

  void pad() {
    if (extent(at_.j) % lanes() == 0 && extent(at_.k) % terms() == 0) return;
    std::vector<int64_t> multiples(node().iters.size(), 1);
    multiples[at_.j] = lanes();
    multiples[at_.k] = terms();
    const auto now = pad_iterators(c_.s, block_, multiples);
    const std::string before_a = at_.a, before_b = at_.b;
    at_.a = now.at(at_.a);
    at_.b = now.at(at_.b);
    if (at_.b != before_b) {
      if (at_.weight) {
        c_.s.precompute(writer_of(c_.s, at_.b));
      } else {
        c_.s.compute_inline(writer_of(c_.s, before_b));
      }
    }
    if (at_.a != before_a && at_.own) c_.s.compute_inline(writer_of(c_.s, before_a));
    unpad_result(c_, block_);
  }

  void convert_second() { at_.b = converted(at_.b, shapes()[2]->elem, at_.weight); }
  void convert_first() { at_.a = converted(at_.a, shapes()[1]->elem, false); }

  // Converts the operand to the intrinsic's type. The converted operand, and the sums that take
  // back an offset, are computed at load if they depend on a weight only.
  std::string converted(const std::string& operand, ElemType type, bool at_load) {
    ElemType from = buffer_of(operand)->elem;
    if (from == type) return operand;
    const bool is_param = find_param(c_.s, operand) != nullptr;
    std::vector<Block> made =
        c_.s.convert_operand(block_, operand, type, conversion(from, type)->offset);
    std::string result = c_.s.output(made[0])->name;
    if (at_load) {
      c_.s.precompute(made[0]);
    } else if (!is_param && c_.s.consumers(writer_of(c_.s, operand)).size() == 1) {
      c_.s.compute_inline(writer_of(c_.s, operand));
    }
    if (made.size() > 1 && !at_load && at_.weight) c_.s.precompute(made[1]);
    return result;
  }

  // The operand's buffer, as the block reads it.
  Buffer buffer_of(const std::string& operand) {
    Buffer found;
    for_each_expr(store_of(node()).value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && load->buffer->name == operand) found = load->buffer;
    });
    return found;
  }

  // Makes the intrinsic's iterators the block's last two, and the last two dimensions of b.
  void lay_out() {
    std::vector<Expr> second = indices_of(node(), at_.b);
    int j = -1, k = -1;
    for (size_t d = 0; d < second.size(); ++d) {
      if (plain_iterator(node(), second[d]) == at_.j) j = static_cast<int>(d);
      if (plain_iterator(node(), second[d]) == at_.k) k = static_cast<int>(d);
    }
    IndexMap map = intrinsic_digits(*row_, static_cast<int>(second.size()), j, k);
    if (at_.weight) {
      c_.s.prepack(at_.b, map);
    } else {
      c_.s.transform_layout(at_.b, map);
    }
    int iters = static_cast<int>(node().iters.size());
    c_.s.transform_block_layout(block_, intrinsic_digits(*row_, iters, at_.j, at_.k));
  }

  RuleContext& c_;
  Block block_;
  TensorView at_;
  const Intrinsic* row_ = nullptr;
};

}  // namespace

IndexMap intrinsic_digits(const Intrinsic& row, int rank, int j, int k) {
  const int64_t lanes = row.semantics().extents[0], terms = row.semantics().extents[1];
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    std::vector<Expr> out(x.begin(), x.end());
    out[j] = floordiv(x[j], lanes);
    out[k] = floordiv(x[k], terms);
    out.push_back(floormod(x[j], lanes));
    out.push_back(floormod(x[k], terms));
    return out;
  });
}

void unpad_result(RuleContext& c, const Block& block) {
  std::vector<Block> readers = c.s.consumers(block);
  if (readers.size() != 1) return;
  std::string copy = c.s.output(readers[0])->name;
  if (!is_output(c.s, copy)) c.s.compute_inline(readers[0]);
}

std::optional<TensorTile> prepare_tensor(RuleContext& c, const Block& block) {
  return Preparer(c, block).run();
}

std::string explain_match(const Schedule& s, const Block& block, const Target& target) {
  return find_tensor_mappings(s, block, intrinsics_of(target)).refusal;
}

}  // namespace tilewright
