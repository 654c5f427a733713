// The corners of im2col tensor maps that generated convolutions have, against those that CUTLASS
// computes for the same sizes (tests/golden/cute/windows.txt).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "kernel/instructions/wgmma_rows.h"
#include "tests/golden.h"
#include "tests/tuner/hopper.h"

namespace tilewright {
namespace {

constexpr int64_t kImages = 2;

// "conv RANK IMAGE FILTER PAD STRIDE DILATION LOWER UPPER", lists width first.
struct CutlassConvolution {
  std::vector<int64_t> image, filter, pad, stride, dilation, lower, upper;

  explicit CutlassConvolution(const std::vector<std::string>& words) {
    size_t at = 2;
    for (auto* list : {&image, &filter, &pad, &stride, &dilation, &lower, &upper}) {
      std::istringstream numbers(words.at(at++));
      for (std::string number; std::getline(numbers, number, ',');) {
        list->push_back(std::stoll(number));
      }
    }
  }
  // Positions of the filter in all images.
  int64_t rows() const {
    int64_t product = kImages;
    for (size_t x = 0; x < image.size(); ++x) {
      const int64_t room = image[x] + 2 * pad[x] - dilation[x] * (filter[x] - 1) - 1;
      product *= room < 0 ? 0 : room / stride[x] + 1;
    }
    return product;
  }
  std::string spec() const {
    return fmt::format(
        "conv2d:n={},h={},w={},ci=64,co=64,kernel={},pad={},stride={},dilation={},dtype=f16",
        kImages, image[1], image[0], filter[0], pad[0], stride[0], dilation[0]);
  }
};

std::vector<CutlassConvolution> cutlass_convolutions() {
  std::vector<CutlassConvolution> all;
  for (const auto& words : test::golden_words("cute/windows.txt")) {
    if (words[0] == "conv") all.emplace_back(words);
  }
  return all;
}

TEST(CutlassCorners, AreThoseOfGeneratedConvolutions) {
  int compared = 0;
  for (const CutlassConvolution& c : cutlass_convolutions()) {
    // wgmma takes 64 rows.
    if (c.rows() < kWarpgroupRows) continue;
    SCOPED_TRACE(c.spec());
    const Workload w = workload(c.spec());
    const Schedule s = gpu_schedule(
        w, hopper(),
        joined_choices(plain_wgmma(w, "64x64x64/64x64"),
                       {{".operands?", "gathered"}, {".copies?", "roles"}, {".cluster?", "1x1"}}));
    const CudaSource source = generate_cuda(s.module(), hopper());
    for (const CudaLaunch& launch : source.launches) {
      for (const TensorMap& map : launch.tensor_maps) {
        if (!map.pixels) continue;
        ++compared;
        for (size_t x = 0; x < c.image.size(); ++x) {
          EXPECT_EQ(map.pixels->lower[x], c.lower[x]) << x;
          // The last position may be short of the corner by less than a step.
          EXPECT_LE(map.pixels->upper[x], c.upper[x]) << x;
          EXPECT_GT(map.pixels->upper[x], c.upper[x] - c.stride[x]) << x;
          EXPECT_EQ(map.pixels->steps[x], c.stride[x]) << x;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace tilewright
