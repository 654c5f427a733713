#include "tuner/rules/gpu_packable.h"

#include "codegen/cuda_mma.h"
#include "codegen/cuda_prelude.h"
#include "ir/visitor.h"
#include "schedule/primitives/unscale.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

// Of what the block reads.
std::optional<ElemType> read_elem(const BlockNode& n, const std::string& buffer) {
  std::optional<ElemType> elem;
  for_each_expr(store_of(n).value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load && load->buffer->name == buffer) elem = load->buffer->elem;
  });
  return elem;
}

// The row with this first operand, and sums of the block's type, or of integers where scales are
// applied to them.
const MmaRow* row_for(ElemType operand, ElemType sums, bool scaled, const Target& target) {
  for (const MmaRow& row : mma_rows()) {
    bool fits = row.operand == operand && row.b_operand() == operand && !row.tf32 &&
                row.split.empty() && row.a_registers() == 4 && row.b_registers() == 2 &&
                is_printed(row) && row.runs_on(target.gpu.compute_capability);
    if (fits && (row.acc == sums || (scaled && row.acc == ElemType::i32))) return &row;
  }
  return nullptr;
}

}  // namespace

std::optional<ElemType> gpu_param_elem(const Schedule& s, const std::string& buffer) {
  const Param* p = buffer.empty() ? nullptr : find_param(s, buffer);
  return p ? std::optional(p->buffer->elem) : std::nullopt;
}

std::optional<Packable> packable_as_it_is(RuleContext& c, const Block& block, const GpuRoles& r) {
  const BlockNode& n = c.s.node(block);
  std::vector<Expr> indices = indices_of(n, r.b);
  auto other = read_elem(n, r.a);
  bool fits = r.batch.empty() && as_int(n.iters[static_cast<size_t>(r.i)].extent) &&
              plain_iterator(n, indices_of(n, r.a).back()) == r.k && is_weight(c.s, r.b) &&
              indices.size() == 2 && other && gpu_param_elem(c.s, r.b) == other;
  if (!fits) return std::nullopt;
  const MmaRow* row = row_for(*other, store_of(n).buffer->elem, false, c.input.target);
  if (!row) return std::nullopt;
  const int64_t k = *as_int(n.iters[static_cast<size_t>(r.k)].extent);
  Packable p{{}, *other, *other, *row, nullptr, false, 0, k};
  const int along = plain_iterator(n, indices[0]) == r.k ? 0 : 1;
  p.format.weight = r.b;
  p.format.k_dims = {along};
  p.format.column_dim = 1 - along;
  return p;
}

std::optional<Packable> packable(RuleContext& c, const Block& block, const GpuRoles& r,
                                 Multiplied how) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  bool has_form = format && (value || how != Multiplied::All) && format->k_dims.size() == 1;
  if (!has_form || !r.batch.empty()) return std::nullopt;
  const BlockNode& n = c.s.node(block);
  std::string worth = value ? store_of(c.s.node(*value)).buffer->name : format->weight;
  auto other = read_elem(n, r.a);
  const int along = plain_iterator(n, indices_of(n, r.a).back());
  // What is looked up by its terms' places may run along either axis.
  bool runs = along == r.k || (how == Multiplied::Kept && along == r.i);
  bool fits = r.b == worth && other && runs && (!value || c.s.consumers(*value).size() == 1);
  auto codes = gpu_param_elem(c.s, format->weight);
  bool exact = codes && other &&
               (value ? holds_differences(*codes, gpu_param_elem(c.s, format->zero), *other)
                      : *codes == *other);
  const bool doubled = !exact && value && codes && other && how == Multiplied::All &&
                       format->zero.empty() && has_code_halves(*codes, *other);
  if (!fits || !(exact || doubled)) return std::nullopt;
  const bool scaled = !format->scale.empty();
  const ElemType sums = store_of(n).buffer->elem;
  const int64_t k = *as_int(n.iters[static_cast<size_t>(r.k)].extent);
  const int64_t group = scaled && format->group < k ? format->group : 0;
  Packable p{value, *codes, *other, {}, nullptr, scaled, group, k};
  p.doubled = doubled;
  p.format = *format;
  if (how == Multiplied::Halves) {
    p.sparse = gpu_sparse_row(*format, k, *other, sums, scaled, c.input.target);
    if (!p.sparse) return std::nullopt;
    p.row = p.sparse->stored();
    p.keep = p.sparse->keep;
    p.of = p.sparse->of;
  } else if (const MmaRow* row = row_for(*other, sums, scaled, c.input.target)) {
    p.row = *row;
  } else {
    return std::nullopt;
  }
  if (how == Multiplied::Kept) {
    if (!gpu_gathers(*format, k, *other)) return std::nullopt;
    p.keep = format->keep;
    p.of = format->of;
    p.vector = format->vector;
  }
  if (group % p.terms() != 0) return std::nullopt;
  return p;
}

}  // namespace tilewright
