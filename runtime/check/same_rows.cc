#include "runtime/check/same_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ir/visitor.h"

namespace tilewright {
namespace {

std::vector<int64_t> inner(const OperandInfo& info) {
  return info.shape.empty() ? info.shape
                            : std::vector<int64_t>(info.shape.begin() + 1, info.shape.end());
}

bool has_dim_outermost(const Buffer& buffer, const Expr& dim) {
  return !buffer->shape.empty() && buffer->shape[0].get() == dim.get();
}

// Whether the dimension is the buffer's outermost one or has no part in its shape.
bool is_outermost_at_most(const Buffer& buffer, const Expr& dim) {
  for (size_t d = 0; d < buffer->shape.size(); ++d) {
    const bool outermost = d == 0 && has_dim_outermost(buffer, dim);
    if (!outermost && uses_var(buffer->shape[d], dim)) return false;
  }
  return true;
}

}  // namespace

bool rows_are_apart(const Workload& workload) {
  if (workload.dims.size() != 1) return false;
  const Expr dim = workload.dims[0].var;
  if (!has_dim_outermost(workload.output(), dim)) return false;
  for (const Param& p : workload.inputs) {
    if (!is_outermost_at_most(p.buffer, dim)) return false;
  }
  for (const Stage& stage : workload.stages) {
    if (!is_outermost_at_most(stage.output, dim) || uses_var(stage.value, dim)) return false;
    for (const ReduceAxis& axis : stage.reduce_axes) {
      if (uses_var(axis.extent, dim)) return false;
    }
  }
  return true;
}

bool values_begin_alike(const std::vector<OperandInfo>& few, const std::vector<OperandInfo>& many) {
  for (size_t i = 0; i < few.size(); ++i) {
    if (few[i].role == ParamRole::Output) continue;
    const bool same = few[i].range == many[i].range && few[i].hard == many[i].hard &&
                      few[i].pattern.has_value() == many[i].pattern.has_value();
    const bool sparse_of_other_shape = few[i].pattern && few[i].shape != many[i].shape;
    if (!same || sparse_of_other_shape || inner(few[i]) != inner(many[i])) return false;
  }
  return true;
}

bool begins_alike(OperandSet& few, OperandSet& many) {
  if (&few == &many) return true;
  for (size_t i = 0; i < few.infos().size(); ++i) {
    if (inner(few.infos()[i]) != inner(many.infos()[i])) return false;
  }
  HostArray &part = few.output(), &whole = many.output();
  return part.bytes() < whole.bytes() &&
         std::memcmp(part.data(), whole.data(), static_cast<size_t>(part.bytes())) == 0;
}

std::string rows_identity(OperandSet& operands) {
  return fmt::format("{:016x}", operands.output().hash());
}

}  // namespace tilewright
