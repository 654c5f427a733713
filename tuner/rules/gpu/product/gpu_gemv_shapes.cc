#include "tuner/rules/gpu/product/gpu_gemv_shapes.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright {
namespace {

constexpr int64_t kBusyWarps = 12;          // per SM, whose loads keep memory busy
constexpr int64_t kSectorBits = 256;        // bits that memory reads together
constexpr int64_t kMostShared = 48 * 1024;  // bytes for threads' sums

}  // namespace

std::string GemvShape::name() const { return fmt::format("{}x{}/{}", across, deep, each); }

std::vector<GemvShape> gemv_shapes_of_warps(const GemvSizes& sizes, const GpuFacts& gpu) {
  constexpr int64_t kWarps[][2] = {{8, 1}, {4, 2}, {2, 4}, {1, 8}, {4, 1}, {1, 4}, {1, 2}, {1, 1}};
  std::vector<GemvShape> shapes;
  for (int64_t each : {4, 2, 1}) {
    for (const auto& [across, deep] : kWarps) {
      bool whole = sizes.rows % (across * each) == 0;
      bool useful = sizes.terms > deep * kWarpLanes * sizes.vector;
      if (whole && useful && each * sizes.vectors <= kMostGemvSums) {
        shapes.push_back({across, deep, each});
      }
    }
  }
  const int64_t rows = sizes.rows * sizes.batch;
  auto busy = std::find_if(shapes.begin(), shapes.end(), [&](const GemvShape& s) {
    return rows / s.each * s.deep >= gpu.sms * kBusyWarps;
  });
  if (busy == shapes.end() && !shapes.empty()) busy = std::prev(shapes.end());
  if (busy != shapes.end()) std::rotate(shapes.begin(), busy, std::next(busy));
  return shapes;
}

std::vector<GemvShape> gemv_shapes_of_threads(const GemvSizes& sizes, const GpuFacts& gpu) {
  std::vector<GemvShape> shapes;
  for (int64_t threads : {256, 512, 128}) {
    for (int64_t across : {32, 16, 8, 4, 2, 1}) {
      bool whole = sizes.rows % (across * sizes.vector) == 0;
      bool sectors = across * sizes.vector * sizes.bits % kSectorBits == 0;
      bool fits = threads * sizes.vector * sizes.vectors * 4 <= kMostShared;
      bool useful = sizes.terms > threads / across * kGemvRows;
      if (whole && sectors && fits && useful) {
        shapes.push_back({across, threads / across, sizes.vector});
      }
    }
  }
  const int64_t columns = sizes.rows * sizes.batch;
  auto busy = std::find_if(shapes.begin(), shapes.end(), [&](const GemvShape& s) {
    return columns / (s.across * s.each) >= gpu.sms;
  });
  if (busy == shapes.end()) {
    busy = std::max_element(shapes.begin(), shapes.end(),
                            [](const auto& a, const auto& b) { return a.across > b.across; });
  }
  if (busy != shapes.end()) std::rotate(shapes.begin(), busy, std::next(busy));
  return shapes;
}

}  // namespace tilewright
