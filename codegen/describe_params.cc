#include <fmt/core.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "ir/printer.h"
#include "ir/simplify.h"

namespace tilewright {
namespace {

// A constant, or -1 - d for dynamic dimension d.
int64_t describe_extent(const Program& program, const Buffer& buffer, const Expr& written) {
  const Expr extent = simplify(written);
  if (auto value = as_int(extent)) return *value;
  const std::vector<DimVar>& dims = program.dims;
  auto at = std::find_if(dims.begin(), dims.end(),
                         [&](const DimVar& d) { return extent.same_as(d.var); });
  if (at == dims.end()) {
    throw LoweringError(fmt::format(
        "a size of '{}' is {}, which the caller of a kernel cannot give: each size that is known "
        "only at launch has to be a dynamic dimension itself",
        buffer->name, to_string(extent)));
  }
  return -1 - (at - dims.begin());
}

}  // namespace

std::vector<KernelParam> describe_params(const Program& program) {
  std::vector<KernelParam> params;
  for (const Param& p : program.params) {
    KernelParam k{p.buffer->name, p.buffer->elem, {}, p.role};
    for (const Expr& extent : p.buffer->shape) {
      k.shape.push_back(describe_extent(program, p.buffer, extent));
    }
    params.push_back(std::move(k));
  }
  return params;
}

}  // namespace tilewright
