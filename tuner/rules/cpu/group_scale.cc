#include "tuner/rules/cpu/group_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "codegen/c/c_codes.h"
#include "codegen/c/c_lookup.h"
#include "codegen/c/c_packed.h"
#include "ir/visitor.h"
#include "schedule/primitives/weight/unscale.h"
#include "schedule/primitives/weight/widen_operand.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

constexpr int64_t kLeastGroup = 8;       // k elements per group that justify scaling its sum
constexpr int kWord = 32;                // bits per word in which vectors are read
constexpr int64_t kMostTerms = 1 << 15;  // products of bytes whose sum surely fits 32 bits

// The intrinsic whose lanes each have their own k elements in both operands. The weight's codes and
// their positions in groups of four must be unpackable for it. Null if there is none.
const Intrinsic* row_for_each_lane(const Workload& workload, ElemType other, const Target& target) {
  const WeightFormat& format = *workload.weight;
  const Buffer stored = stored_weight(workload).buffer;
  const bool plain = format.of == 4 && format.vector == 1 && format.zero.empty() &&
                     !format.scale.empty() && format.k_dims.size() == 1;
  if (!plain || bits_of(stored->elem) >= 8) return nullptr;
  const int64_t k = const_shape(stored)[static_cast<size_t>(format.k_dims[0])];
  const int64_t columns = const_shape(stored)[static_cast<size_t>(format.column_dim)];
  const int64_t group = std::min(format.group, k);
  if (k % group != 0 || group % format.of != 0) return nullptr;
  for (const Intrinsic* row : intrinsics_of(target)) {
    if (!row->takes_each()) continue;
    const std::vector<Buffer> operands = row->semantics().operands();
    const std::vector<int64_t>& extents = row->semantics().extents;
    const ElemType to = operands[2]->elem;
    const auto width = static_cast<int>(extents[0] * extents[1]);
    const int64_t word = bits_of(to) / bits_of(stored->elem);
    bool fits = operands[1]->elem == other && has_codes(stored->elem, to, width) &&
                holds_codes(stored->elem, to, 0) && has_neighbours(ElemType::u2, word) &&
                columns % extents[0] == 0 && format.keep % extents[1] == 0 &&
                group / format.of * format.keep % (extents[1] * word) == 0;
    if (fits) return row;
  }
  return nullptr;
}

// The way in which an intrinsic takes the operands.
struct Way {
  const Intrinsic* row;
  int64_t offset;  // added to the weight's codes
};

class Grouper {
 public:
  // `value` is the block of the dequantized weight; none if the weight was compressed.
  Grouper(RuleContext& c, Block block, std::optional<Block> value, std::optional<KeptWeight> kept)
      : c_(c), block_(std::move(block)), value_(std::move(value)), kept_(std::move(kept)),
        format_(*c.input.workload.weight) {}

  std::optional<GroupScale> run() {
    if (!find_roles()) return std::nullopt;
    std::optional<Way> way = find_way();
    // Without scales, or with groups to be padded, only an intrinsic is worth it.
    std::vector<std::string> answers = {"sums", "elements"};
    const bool without = scaled() && is_even();
    bool sums = scaled() && (way || without)
                    ? c_.t.choose(block_.name + ".scales", answers) == "sums"
                    : way.has_value();
    if (!sums) return std::nullopt;
    GroupScale result{.sums = integers() ? ElemType::i32 : ElemType::f32,
                      .k = k_,
                      .length = along_k(),
                      .whole_window = one_group(),
                      .factored = scaled() || (integers() && !exact()),
                      .tensor = {},
                      .widened = {},
                      .padding = {},
                      .gathered = {}};
    if (!way) {
      take_words(result);
      return result;
    }
    std::vector<std::string> rows = {std::string(way->row->name), "none"};
    // 8-bit integers cost fewer bytes as stored than in the intrinsic's type.
    if (whole() && without && !integers() && is_integer(stored_->elem) && has_few_rows()) {
      std::swap(rows[0], rows[1]);
    }
    const std::string key = block_.name + ".intrinsic";
    const bool uneven = extent(j_) % lanes(*way->row) != 0;
    if (c_.t.choose(key, rows) == "none") return without ? std::optional(result) : std::nullopt;
    if (uneven) pad_columns(*way->row);
    if (pads(*way->row)) result.padding = pad(*way->row);
    choose_decoding(*way->row);
    std::vector<Buffer> operands = way->row->semantics().operands();
    result.sums = operands[0]->elem;
    result.length = along_k() / terms(*way->row);
    result.word = word_of(*way->row);
    result.summed = way->offset != 0 || !format_.zero.empty() || !format_.offset.empty();
    result.factored |= result.summed;
    Block widened = c_.s.widen_operand(stored_->name, operands[2]->elem, way->offset);
    if (whole()) {
      c_.s.precompute(widened);
    } else {
      result.widened = widened;
    }
    if (value_) c_.s.compute_inline(*value_);
    lay_out(*way->row, widened.name, result.widened);
    if (kept_) result.gathered = gather(*way->row);
    result.each_lane = way->row->takes_each();
    int last = static_cast<int>(node().iters.size()) - 1;
    result.tensor = TensorTile{way->row, j_, last - 1, last};
    return result;
  }

 private:
  const BlockNode& node() const { return c_.s.node(block_); }
  int64_t extent(int iter) const { return *as_int(node().iters[iter].extent); }
  bool scaled() const { return !format_.scale.empty() || !format_.zero.empty(); }
  // Whether whole-byte elements are converted to the intrinsic's type at load.
  bool whole() const { return bits_of(stored_->elem) == 8 && !decodes_bytes_; }
  bool integers() const { return is_integer(other_->elem) && is_integer(stored_->elem); }
  // Whether the whole accumulator is an integer.
  bool exact() const { return is_integer(c_.s.output(block_)->elem); }
  // k of the whole reduction, and k per scale.
  int64_t all_terms() const {
    int64_t product = 1;
    for (int i : reduce_) product *= extent(i);
    return product;
  }
  int64_t group() const {
    if (padded_) return *padded_;
    if (!scaled()) return all_terms();
    return kept_ ? format_.group / format_.of * format_.keep : format_.group;
  }
  bool one_group() const { return group() >= all_terms(); }
  // Iterations of k that share a scale.
  int64_t along_k() const { return std::min(group(), extent(k_)); }
  static int64_t lanes(const Intrinsic& row) { return row.semantics().extents[0]; }
  static int64_t terms(const Intrinsic& row) { return row.semantics().extents[1]; }

  // Matches C[…, j] += cast(A[…, k]) * B_value[…, k, …, j, …], in f32 or i32, over whole groups of
  // k.
  bool find_roles() {
    const StoreNode& store = store_of(node());
    auto* sum = store.value.as<BinaryNode>();
    auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
    const ElemType acc = store.buffer->elem;
    bool sums =
        product && product->op == BinaryOp::Mul && (acc == ElemType::f32 || acc == ElemType::i32);
    if (!sums) return false;
    const std::string dequantized = kept_ ? kept_->values : c_.s.output(*value_)->name;
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
    if (kept_) row_of_each_ = row_for_each_lane(c_.input.workload, other_->elem, c_.input.target);
    if (kept_ && format_.group % format_.of != 0) return false;
    j_ = plain_iterator(node(), store.indices.back());
    std::vector<Expr> at = indices_of(node(), dequantized);
    k_ = plain_iterator(node(), at[static_cast<size_t>(format_.k_dims.back())]);
    bool plain = std::all_of(at.begin(), at.end(),
                             [&](const Expr& e) { return plain_iterator(node(), e) >= 0; });
    if (!plain || j_ < 0 || k_ < 0 || node().iters[k_].kind != IterKind::Reduce) return false;
    BlockFacts facts = analyze(c_.s, block_);
    reduce_ = facts.reduce;
    bool constant = !facts.dynamic[j_];
    for (int i : reduce_) constant &= !facts.dynamic[i];
    return constant && (kept_ || other->indices.back().same_as(node().iters[k_].var)) &&
           fits_groups();
  }

  // Whether groups are long enough, and none continues from one row of k into the next, unless one
  // group covers all of them.
  bool fits_groups() const {
    if (reduce_.size() > 1 && kept_) return false;
    return (is_even() || can_pad()) && along_k() >= kLeastGroup &&
           (!integers() || group() <= kMostTerms);
  }
  // Whether all groups have one length.
  bool is_even() const { return one_group() || extent(k_) % group() == 0; }
  bool can_pad() const { return value_ && !kept_ && reduce_.size() == 1; }

  // The granularity of k for the row and for packed words of codes.
  int64_t unit(const Intrinsic& row) const { return terms(row) * word_of(row); }
  bool pads(const Intrinsic& row) const { return !is_even() || along_k() % unit(row) != 0; }
  int64_t padded(const Intrinsic& row) const { return round_up(along_k(), unit(row)); }
  // Whether the row takes groups as they are, or padded at a small cost in work.
  bool takes_groups(const Intrinsic& row) const {
    if (!pads(row)) return true;
    const int64_t groups = ceil_div(extent(k_), along_k());
    return can_pad() && 2 * groups * padded(row) <= 3 * extent(k_);
  }

  // Whether columns fill vectors, or can be padded at a small cost in work.
  bool takes_columns(const Intrinsic& row) const {
    const int64_t vectors = ceil_div(extent(j_), lanes(row));
    return extent(j_) % lanes(row) == 0 ||
           (value_ && !kept_ && 2 * vectors * lanes(row) <= 3 * extent(j_));
  }

  // Pads the weight's columns with zeros at load, and the result likewise.
  void pad_columns(const Intrinsic& row) {
    const BlockNode& value = c_.s.node(*value_);
    std::vector<int64_t> multiples(value.iters.size(), 1);
    const Expr& column = store_of(value).indices[static_cast<size_t>(format_.column_dim)];
    multiples[static_cast<size_t>(plain_iterator(value, column))] = lanes(row);
    c_.s.pad_einsum(*value_, multiples);
    std::vector<std::string> made = c_.s.trace().steps.back().results;
    for (size_t i = 0; i + 1 < made.size(); ++i) c_.s.precompute({made[i]});
    c_.s.compute_inline({made.back()});
    const std::string stored = stored_->name;
    for (const std::string& name : inputs_of(c_.s.node(*value_))) {
      if (name.starts_with(stored + "_pad")) stored_ = find_param(c_.s, name)->buffer;
    }
    multiples.assign(node().iters.size(), 1);
    multiples[static_cast<size_t>(j_)] = lanes(row);
    c_.s.pad_einsum(block_, multiples);
    unpad_result(c_, block_);
  }

  // Pads each group of both operands with zeros, the weight's at load. Returns the block that pads
  // the other operand.
  Block pad(const Intrinsic& row) {
    const int64_t to = padded(row);
    std::vector<Block> made = c_.s.pad_groups(block_, *value_, along_k(), to);
    padded_ = to;
    c_.s.precompute(made[1]);
    stored_ = find_param(c_.s, made[1].name)->buffer;
    other_ = c_.s.output(made[0]);
    for (const Block& writer : c_.s.producers(made[0])) {
      bool ours = analyze(c_.s, writer).role == BlockRole::Injective;
      if (ours && c_.s.consumers(writer).size() == 1) c_.s.compute_inline(writer);
    }
    return made[0];
  }

  // Asks whether codes are extracted from packed words. An unsigned code takes one mask, a signed
  // one two shifts. So signed codes are stored with an offset, which the sums of the other operand
  // subtract. If a permutation looks up the code's value, it makes no difference.
  void take_words(GroupScale& result) {
    const int bits = bits_of(stored_->elem), lanes = c_.input.target.lanes(bits_of(ElemType::f32));
    const int64_t word = kWord / bits;
    bool fits = value_ && !integers() && bits < 8 && along_k() % word == 0 &&
                !has_value_table(stored_->elem, lanes, c_.input.target);
    if (!fits) return;
    const std::string key = block_.name + "." + format_.weight + ".codes";
    result.masked = c_.t.choose(key, std::vector<std::string>{"words", "any"}) == "words";
    if (result.masked) result.word = word;
    const auto type = parse_elem_type(fmt::format("u{}", bits));
    bool is_signed = info(stored_->elem).kind == ElemKind::Int;
    if (!result.masked || !is_signed || !holds_codes(stored_->elem, *type, offset_of(bits))) return;
    c_.s.precompute(c_.s.widen_operand(stored_->name, *type, offset_of(bits)));
    c_.s.compute_inline(*value_);
    result.factored = true;
  }

  static int64_t offset_of(int bits) { return int64_t{1} << (bits - 1); }

  bool has_few_rows() const { return tilewright::has_few_rows(c_.s, block_, j_); }

  // Asks where one-byte floats are decoded. In the kernel they halve the bytes that it reads, but
  // each costs some work there.
  void choose_decoding(const Intrinsic& row) {
    auto width = static_cast<int>(lanes(row) * terms(row));
    const ElemType to = row.semantics().operands()[2]->elem;
    const int in_word = bits_of(to) / bits_of(stored_->elem);
    bool fits =
        whole() && has_codes(stored_->elem, to, width) && along_k() % (terms(row) * in_word) == 0;
    if (!fits) return;
    std::vector<std::string> ways = {"load", "kernel"};
    if (has_few_rows()) std::swap(ways[0], ways[1]);
    const std::string key = block_.name + "." + format_.weight + ".decoded";
    decodes_bytes_ = c_.t.choose(key, ways) == "kernel";
  }

  // Codes of the weight per word as wide as an element of the intrinsic's operand.
  int64_t word_of(const Intrinsic& row) const {
    if (whole()) return 1;
    return bits_of(row.semantics().operands()[2]->elem) / bits_of(stored_->elem);
  }

  std::optional<Way> find_way() const {
    for (const Intrinsic* row : intrinsics_of(c_.input.target)) {
      std::vector<Buffer> operands = row->semantics().operands();
      if (operands.size() != 3 || row->semantics().extents.size() != 2) continue;
      if (row->takes_each() && (!kept_ || row != row_of_each_)) continue;
      const ElemType to = operands[2]->elem;
      auto width = static_cast<int>(lanes(*row) * terms(*row));
      bool taken = whole() ? bits_of(to) <= 16 : has_codes(stored_->elem, to, width);
      bool fits = operands[1]->elem == other_->elem && row->takes_second(stored_->elem) && taken &&
                  takes_columns(*row) && takes_groups(*row) &&
                  (!kept_ || row == row_of_each_ || gathers(*row));
      if (!fits) continue;
      for (int64_t offset : {int64_t{0}, offset_of(bits_of(stored_->elem))}) {
        const bool is_rounded = offset == 0 && rounding() == to;
        if (is_rounded || holds_codes(stored_->elem, to, offset)) return Way{row, offset};
      }
    }
    return std::nullopt;
  }

  // The type to which dequantized values are rounded, if they are.
  std::optional<ElemType> rounding() const {
    return value_ ? rounding_of(store_of(c_.s.node(*value_)).value) : std::nullopt;
  }

  // Whether the accumulator's lanes share the rows of a compressed weight, and permutations can
  // select the other operand's elements.
  bool gathers(const Intrinsic& row) const {
    auto power = [](int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); };
    return format_.vector % lanes(row) == 0 && bits_of(other_->elem) == 16 && power(format_.of) &&
           power(format_.keep);
  }

  // Gathers the other operand's elements in the order of the kept rows. The row numbers are stored
  // in that order, too, like codes if each lane has rows of its own.
  Block gather(const Intrinsic& row) {
    const size_t rank = indices_of(node(), kept_->rows).size();
    const auto k = static_cast<size_t>(format_.k_dims[0]);
    c_.s.prepack(kept_->rows, row.takes_each()
                                  ? intrinsic_digits(row, static_cast<int>(rank),
                                                     format_.column_dim, format_.k_dims[0])
                                  : moved_index(rank, k, rank - 1));
    return c_.s.reindex(block_, other_->name);
  }

  // Makes the intrinsic's iterators the last two of the block, of the second operand, and of the
  // codes that this is made from.
  void lay_out(const Intrinsic& row, const std::string& operand,
               const std::optional<Block>& widened) {
    int rank = static_cast<int>(indices_of(node(), operand).size());
    IndexMap map = intrinsic_digits(row, rank, format_.column_dim, format_.k_dims.back());
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
  Buffer other_, stored_;  // the other operand; the weight's codes
  const Intrinsic* row_of_each_ = nullptr;
  int j_ = -1, k_ = -1;  // iterators
  std::vector<int> reduce_;
  bool decodes_bytes_ = false;     // one-byte elements are decoded in the kernel
  std::optional<int64_t> padded_;  // elements of a zero-padded group
};

}  // namespace

bool looks_up_for_each_lane(const Workload& workload, ElemType other, const Target& target) {
  return row_for_each_lane(workload, other, target) != nullptr;
}

std::optional<GroupScale> prepare_group_scale(RuleContext& c, const Block& block,
                                              const std::optional<KeptWeight>& kept) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format) return std::nullopt;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  const bool scaled = !format->scale.empty() || !format->zero.empty();
  if (!value && (!kept || !scaled)) return std::nullopt;
  return Grouper(c, block, value, kept).run();
}

}  // namespace tilewright
