#include "kernel/cuda_source.h"

#include "base/error.h"
#include "ir/arith/simplify.h"

namespace tilewright {

int64_t size_at(const Expr& size, const CudaSource& source, const std::vector<int64_t>& dims) {
  Analyzer known;
  for (size_t d = 0; d < dims.size() && d < source.dims.size(); ++d) {
    known.bind(source.dims[d].var, Interval::point(dims[d]));
  }
  auto value = as_int(known.simplify(size));
  if (!value) throw Error("a size of a CUDA kernel is no number at these dimensions");
  return *value;
}

TensorMapValues tensor_map_at(const TensorMap& map, const CudaSource& source,
                              const std::vector<int64_t>& dims) {
  return values_of(map, [&](const Expr& size) { return size_at(size, source, dims); });
}

std::string_view cuda_kind(std::string_view text) {
  auto has = [&](std::string_view name) { return text.find(name) != std::string_view::npos; };
  if (has("__cluster_dims__(")) return "clusters";
  if (has("tw_wgmma_m") || has("tw_wgmma_sp_m")) return "wgmma";
  return has("tw_mma_") ? "mma" : "threads";
}

}  // namespace tilewright
