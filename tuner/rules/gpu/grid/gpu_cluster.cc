#include "tuner/rules/gpu/grid/gpu_cluster.h"

#include <vector>

#include "codegen/cuda/cuda_cluster.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"

namespace tilewright {
namespace {

constexpr const char* kAlone = "1x1";
constexpr const char* kRows = "2x1";
constexpr const char* kTwoColumns = "1x2";
constexpr int64_t kPair = 2;

}  // namespace

GpuCluster gpu_choose_cluster(RuleContext& c, const std::string& name, const std::string& copies,
                              int64_t rows, int64_t columns) {
  if (!gpu_has_producers(copies)) return {};
  std::vector<std::string> shapes = {kAlone};
  if (rows >= kPair) shapes.emplace_back(kRows);
  if (columns >= kPair) shapes.emplace_back(kTwoColumns);
  const std::string shape = c.t.choose(name + ".cluster", shapes);
  return {shape == kRows ? kPair : 1, shape == kTwoColumns ? kPair : 1};
}

void gpu_mark_cluster(RuleContext& c, const GpuCluster& cluster, const Loop& blocks) {
  if (cluster.blocks() > 1) c.s.annotate(blocks, kClusterKey, cluster.blocks());
}

}  // namespace tilewright
