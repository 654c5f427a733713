// The corners of im2col tensor maps that generated convolutions have, against those that CUTLASS
// computes for the same sizes (tests/golden/cute/windows.txt).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
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

  explicit CutlassConvolution(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word >> word;
    for (auto* list : {&image, &filter, &pad, &stride, &dilation, &lower, &upper}) {
      words >> word;
      std::istringstream numbers(word);
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
  std::ifstream in(test::source_dir() / "tests" / "golden" / "cute" / "windows.txt");
  std::vector<CutlassConvolution> all;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("conv ")) all.emplace_back(line);
  }
  return all;
}

TEST(CutlassCorners, AreThoseOfGeneratedConvolutions) {
  int compared = 0;
  for (const CutlassConvolution& c : cutlass_convolutions()) {
    // wgmma takes 64 rows.
    if (c.rows() < WgmmaRow::m) continue;
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
