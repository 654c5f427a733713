#include "runtime/check/weight_packing.h"

#include <fmt/format.h>

#include "runtime/compile/compile.h"
#include "runtime/tensor/tensor_view.h"

namespace tilewright {
namespace {

int64_t bytes_of(const KernelParam& p) {
  int64_t count = 1;
  for (int64_t extent : concrete_shape(p, {})) count *= extent;
  return bytes_for(p.elem, count);
}

// The operand that a packing function reads.
void* weight(const KernelFunction& pack, const KernelParam& param, OperandSet& operands) {
  HostArray* array = operands.find(param.name);
  if (array == nullptr) {
    throw KernelError(fmt::format("packing function '{}' reads '{}', which is no operand",
                                  pack.symbol, param.name));
  }
  std::vector<int64_t> shape = concrete_shape(param, {});
  if (array->elem() != param.elem || array->shape() != shape) {
    throw KernelError(fmt::format("packing function '{}' reads '{}' as {}{}, the operand is {}{}",
                                  pack.symbol, param.name, to_string(param.elem),
                                  describe_shape(shape), to_string(array->elem()),
                                  describe_shape(array->shape())));
  }
  return array->data();
}

}  // namespace

CompiledPacking compile_packing(const KernelSource& packing) {
  if (packing.code.empty()) return {};
  return {compile(packing).object, host_processor()};
}

std::map<std::string, Workspace> pack_weights(const CudaDescription& program, OperandSet& operands,
                                              ThreadPool& pool) {
  std::map<std::string, Workspace> packed;
  const KernelSource& source = program.source.packing;
  if (source.code.empty()) return packed;
  bool compiled = !program.packing.object.empty() && program.packing.processor == host_processor();
  Kernel kernel(compiled ? program.packing.object : compile_packing(source).object,
                source.description);
  const std::vector<KernelFunction>& packs = kernel.description().packs;
  for (size_t i = 0; i < packs.size(); ++i) {
    const KernelParam& made = packs[i].params.back();
    std::vector<void*> args;
    for (size_t p = 0; p + 1 < packs[i].params.size(); ++p) {
      args.push_back(weight(packs[i], packs[i].params[p], operands));
    }
    auto at = packed.emplace(made.name, Workspace(bytes_of(made))).first;
    args.push_back(at->second.data());
    Workspace workspace(workspace_bytes(packs[i], pool.threads()));
    kernel.pack(i, args.data(), pool.context(workspace.data()));
  }
  return packed;
}

}  // namespace tilewright
