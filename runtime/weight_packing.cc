#include "runtime/weight_packing.h"

#include "runtime/compile.h"

namespace tilewright {

std::map<std::string, Workspace> pack_weights(const KernelSource& packing, OperandSet& operands) {
  std::map<std::string, Workspace> packed;
  if (packing.code.empty()) return packed;
  Kernel kernel(compile(packing).object, packing.description);
  const std::vector<KernelFunction>& packs = kernel.description().packs;
  for (size_t i = 0; i < packs.size(); ++i) {
    const KernelParam& made = packs[i].params.back();
    std::vector<void*> args;
    for (size_t p = 0; p + 1 < packs[i].params.size(); ++p) {
      args.push_back(operands.at(packs[i].params[p].name).data());
    }
    int64_t count = 1;
    for (int64_t extent : concrete_shape(made, {})) count *= extent;
    auto at = packed.emplace(made.name, Workspace(bytes_for(made.elem, count))).first;
    args.push_back(at->second.data());
    Workspace workspace(workspace_bytes(packs[i], 1));
    kernel.pack(i, args.data(), serial_context(workspace.data()));
  }
  return packed;
}

}  // namespace tilewright
