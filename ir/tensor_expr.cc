#include "ir/tensor_expr.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <set>

#include "base/error.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Names already used in the program: dimensions first, then loops as they are made.
class LoopNames {
 public:
  explicit LoopNames(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) used_.insert(d.var.name());
  }
  std::string make(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !used_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

 private:
  std::set<std::string> used_;
};

Stmt lower_stage(const Stage& stage, LoopNames& names) {
  std::vector<IterVar> iters;
  std::vector<Expr> indices;
  VarMap to_block;
  auto add = [&](const Var& axis, const Expr& extent, IterKind kind) {
    IterVar iter{Var(fmt::format("v{}", axis.name())), extent, kind, Var(names.make(axis.name()))};
    to_block[axis.get()] = iter.var;
    if (kind == IterKind::Spatial) indices.push_back(iter.var);
    iters.push_back(std::move(iter));
  };
  for (size_t d = 0; d < stage.axes.size(); ++d) {
    add(stage.axes[d], stage.output->shape[d], IterKind::Spatial);
  }
  for (const ReduceAxis& r : stage.reduce_axes) add(r.var, r.extent, IterKind::Reduce);

  Expr value = substitute(stage.value, to_block);
  Stmt init;
  if (stage.reducer != Reducer::None) {
    init = make_store(stage.output, indices, identity_of(stage.reducer, stage.output->elem));
    value = combine(stage.reducer, load(stage.output, indices), value);
  }
  Stmt body = make_store(stage.output, indices, value);
  Stmt nest = make_block(stage.output->name, iters, body, init);
  for (auto it = iters.rbegin(); it != iters.rend(); ++it) {
    nest = make_for(Var(it->binding), 0, it->extent, ForKind::Serial, nest);
  }
  return nest;
}

}  // namespace

std::string Workload::hash() const {
  return fmt::format("{:016x}", XXH3_64bits(canonical.data(), canonical.size()));
}

std::map<std::string, int64_t> largest_sizes(const Workload& workload) {
  std::map<std::string, int64_t> sizes;
  for (const DimVar& d : workload.dims) sizes[d.var.name()] = d.max;
  return sizes;
}

Program lower(const Workload& workload) {
  TW_ASSERT(!workload.stages.empty(), "a workload without stages");
  Program program{workload.op, workload.inputs, workload.dims, {}};
  program.params.push_back({workload.output(), ParamRole::Output});
  LoopNames names(workload.dims);
  std::vector<Stmt> nests;
  std::vector<Buffer> allocs;
  for (const Stage& stage : workload.stages) {
    nests.push_back(lower_stage(stage, names));
    if (stage.output != workload.output()) allocs.push_back(stage.output);
  }
  program.body = make_block("root", {}, make_seq(std::move(nests)), {}, {}, std::move(allocs));
  return program;
}

}  // namespace tilewright
