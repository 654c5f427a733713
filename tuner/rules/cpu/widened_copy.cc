#include "tuner/rules/cpu/widened_copy.h"

#include <algorithm>

#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitives/weight/widen_operand.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

int64_t count_reads(const Stmt& s, const Buffer& buffer) {
  int64_t reads = 0;
  for_each_expr(s, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    reads += load && load->buffer == buffer ? 1 : 0;
  });
  return reads;
}

}  // namespace

std::optional<ElemType> widened_type(const Schedule& s, const Block& block,
                                     const std::string& operand) {
  const Param* param = find_param(s, operand);
  if (!param) return std::nullopt;
  std::optional<ElemType> type;
  int64_t casts = 0;
  for_each_expr(store_of(s.node(block)).value, [&](const Expr& e) {
    auto* cast = e.as<CastNode>();
    auto* load = cast ? cast->value.as<LoadNode>() : nullptr;
    if (!load || load->buffer != param->buffer || load->predicate.defined()) return;
    if (type && *type != cast->type.elem) return;
    type = cast->type.elem;
    ++casts;
  });
  const ElemType stored = param->buffer->elem;
  if (!type || !is_float(*type) || !holds_codes(stored, *type, 0)) return std::nullopt;
  if (casts != count_reads(s.module().main.body, param->buffer)) return std::nullopt;
  return type;
}

bool reads_one_row(const Schedule& s, const Block& block, const std::string& operand) {
  const std::vector<Expr> indices = indices_of(s.node(block), operand);
  auto is_zero = [](const Expr& e) { return is_int(e, 0); };
  return std::all_of(indices.begin(), indices.end() - 1, is_zero) &&
         plain_iterator(s.node(block), indices.back()) >= 0;
}

std::string widen_at_load(Schedule& s, const std::string& weight, ElemType type) {
  const Block made = s.widen_operand(weight, type, 0);
  std::string result = s.output(made)->name;
  s.precompute(made);
  return result;
}

}  // namespace tilewright
