#include "tuner/rules/gpu/gpu_packable.h"

#include <algorithm>

#include "codegen/cuda/instructions/cuda_mma.h"
#include "ir/compare.h"
#include "kernel/prelude/cuda_prelude.h"
#include "schedule/primitives/weight/unscale.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

// The row with this operand A and accumulators of the block's type, or integer accumulators if
// scales are applied to them. Null if there is none.
const Instruction* row_for(ElemType operand, ElemType sums, bool scaled, const Target& target) {
  return first_row(mma_rows(), target.gpu.compute_capability, [&](const Instruction& row) {
    return takes_packed(row, operand, sums, scaled) && row.split.empty() &&
           row.a_registers() == 4 && row.b_registers() == 2 && is_printed(row);
  });
}

// The row that takes elements of fewer than 8 bits as stored, beside the codes minus their zero
// points; null if there is none.
const Instruction* row_of_few_bits(ElemType codes, std::optional<ElemType> zeros, ElemType other,
                                   ElemType sums, bool scaled, const Target& target) {
  return first_row(mma_rows(), target.gpu.compute_capability, [&](const Instruction& row) {
    const bool taken = codes == row.operand && !zeros;
    const bool made =
        has_code_registers(codes, row.operand) && holds_differences(codes, zeros, row.operand);
    return row.b_operand() == other && row.operand_bits() < 8 && (taken || made) &&
           (row.acc == sums || scaled) && is_printed(row);
  });
}

// The block that widens a parameter of fewer than 8 bits to bytes, at the same indices.
std::optional<Block> bytes_of_few_bits(const Schedule& s, const std::string& operand) {
  for (const Block& b : s.blocks()) {
    const StoreNode& store = store_of(s.node(b));
    auto* bytes = store.buffer->name == operand ? store.value.as<CastNode>() : nullptr;
    auto* load = bytes ? bytes->value.as<LoadNode>() : nullptr;
    const bool widens = load && bits_of(load->buffer->elem) < 8 &&
                        find_param(s, load->buffer->name) && s.consumers(b).size() == 1;
    auto same = [](const Expr& x, const Expr& y) { return equal(x, y); };
    if (widens && std::equal(load->indices.begin(), load->indices.end(), store.indices.begin(),
                             store.indices.end(), same)) {
      return b;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ElemType> gpu_param_elem(const Schedule& s, const std::string& buffer) {
  const Param* p = buffer.empty() ? nullptr : find_param(s, buffer);
  return p ? std::optional(p->buffer->elem) : std::nullopt;
}

std::optional<Packable> packable_as_it_is(RuleContext& c, const Block& block, const GpuRoles& r) {
  const BlockNode& n = c.s.node(block);
  std::vector<Expr> indices = indices_of(n, r.b);
  const ElemType other = read_elem(n, r.a);
  bool fits = r.batch.empty() && as_int(n.iters[static_cast<size_t>(r.i)].extent) &&
              plain_iterator(n, indices_of(n, r.a).back()) == r.k && is_weight(c.s, r.b) &&
              indices.size() == 2 && gpu_param_elem(c.s, r.b) == other;
  if (!fits) return std::nullopt;
  const Instruction* row = row_for(other, store_of(n).buffer->elem, false, c.input.target);
  if (!row) return std::nullopt;
  const int64_t k = *as_int(n.iters[static_cast<size_t>(r.k)].extent);
  Packable p{{}, other, other, *row, nullptr, false, 0, k};
  const int along = plain_iterator(n, indices[0]) == r.k ? 0 : 1;
  p.format.weight = r.b;
  p.format.k_dims = {along};
  p.format.column_dim = 1 - along;
  return p;
}

std::optional<Packable> packable_beside_few_bits(RuleContext& c, const Block& block,
                                                 const GpuRoles& r) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload),
                       bytes = bytes_of_few_bits(c.s, r.a);
  const BlockNode& n = c.s.node(block);
  // Inlining drops the iterator of a single vector; such products belong to threads anyway
  // (GemvWords).
  auto is_many = [&](int x) { return !is_int(n.iters[static_cast<size_t>(x)].extent, 1); };
  bool fits = value && bytes && is_many(r.i) && is_many(r.j) && !format->sparse() &&
              format->offset.empty() && format->k_dims.size() == 1 && r.batch.empty() &&
              r.b == c.s.output(*value)->name && c.s.consumers(*value).size() == 1 &&
              plain_iterator(n, indices_of(n, r.a).back()) == r.k;
  if (!fits) return std::nullopt;
  const bool scaled = !format->scale.empty();
  const ElemType codes = *gpu_param_elem(c.s, format->weight);
  const std::string stored = inputs_of(c.s.node(*bytes))[0];
  const Instruction* row =
      row_of_few_bits(codes, gpu_param_elem(c.s, format->zero), *gpu_param_elem(c.s, stored),
                      store_of(n).buffer->elem, scaled, c.input.target);
  if (!row) return std::nullopt;
  const int64_t k = *as_int(n.iters[static_cast<size_t>(r.k)].extent);
  const int64_t group = scaled && format->group < k ? format->group : 0;
  // Rows must begin at 32-bit words: threads copy whole words, and conditions must not split them.
  if (k % row->packed() != 0 || group % row->k != 0) return std::nullopt;
  Packable p{value, codes, row->operand, *row, nullptr, scaled, group, k};
  p.format = *format;
  p.bytes = bytes;
  p.stored = stored;
  return p;
}

std::optional<Packable> packable(RuleContext& c, const Block& block, const GpuRoles& r,
                                 Multiplied how) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  // Offsets need the sums of the activations, which no fragment has.
  bool has_form = format && (value || how != Multiplied::All) && format->k_dims.size() == 1 &&
                  format->offset.empty();
  if (!has_form || r.batch.size() != format->own_dims.size()) return std::nullopt;
  // Stacks of matrices must be dense, with the stack as first dimension.
  const bool is_stack = !r.batch.empty();
  if (is_stack && (how != Multiplied::All || format->own_dims != std::vector<int>{0})) {
    return std::nullopt;
  }
  const BlockNode& n = c.s.node(block);
  std::string worth = value ? c.s.output(*value)->name : format->weight;
  const ElemType other = read_elem(n, r.a);
  const int along = plain_iterator(n, indices_of(n, r.a).back());
  // Gathered activations may be contiguous along either axis.
  bool runs = along == r.k || (how == Multiplied::Kept && along == r.i);
  bool fits = r.b == worth && runs && (!value || c.s.consumers(*value).size() == 1);
  auto codes = gpu_param_elem(c.s, format->weight);
  // Values rounded to a type other than the activations' are not in any table.
  const auto rounded = value ? rounding_of(store_of(c.s.node(*value)).value) : std::nullopt;
  if (rounded && *rounded != other) return std::nullopt;
  bool exact =
      codes && (value ? holds_differences(*codes, gpu_param_elem(c.s, format->zero), other, rounded)
                      : *codes == other);
  const bool doubled = !exact && value && codes && how == Multiplied::All && format->zero.empty() &&
                       has_code_halves(*codes, other);
  if (!fits || !(exact || doubled)) return std::nullopt;
  const bool scaled = !format->scale.empty();
  const ElemType sums = store_of(n).buffer->elem;
  const int64_t k = *as_int(n.iters[static_cast<size_t>(r.k)].extent);
  // With k = 1, codes of neighbouring columns share bytes; a single column is not a tile.
  if (k == 1 || largest_extent(c.s, n.iters[static_cast<size_t>(r.j)].extent) == 1) {
    return std::nullopt;
  }
  const int64_t group = scaled && format->group < k ? format->group : 0;
  Packable p{value, *codes, other, {}, nullptr, scaled, group, k};
  p.doubled = doubled;
  p.format = *format;
  if (how == Multiplied::Halves) {
    p.sparse = gpu_sparse_row(*format, k, other, sums, scaled, c.input.target);
    if (!p.sparse) return std::nullopt;
    p.row = p.sparse->stored();
    p.keep = p.sparse->keep;
    p.of = p.sparse->of;
  } else if (const Instruction* row = row_for(other, sums, scaled, c.input.target)) {
    p.row = *row;
  } else {
    return std::nullopt;
  }
  if (how == Multiplied::Kept) {
    if (!gpu_gathers(*format, k, other)) return std::nullopt;
    p.keep = format->keep;
    p.of = format->of;
    p.vector = format->vector;
  }
  if (group % p.terms() != 0) return std::nullopt;
  return p;
}

}  // namespace tilewright
