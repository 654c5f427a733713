// Copies of windows by maps of pixels: what they move against a plain loop over a convolution's places, and
// those that no device makes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "emulator/emulator.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;
using Tensor = EmulatedLaunch::Tensor;

// A convolution over images of i32, sizes width first.
struct Convolution {
  int64_t images, channels;
  std::vector<int64_t> image, filter;
  int64_t stride = 1, dilation = 1, pad = 0;

  size_t rank() const { return image.size(); }
  int64_t places(size_t x) const {
    return (image[x] + 2 * pad - dilation * (filter[x] - 1) - 1) / stride + 1;
  }
  int64_t elements() const {
    return std::accumulate(image.begin(), image.end(), images * channels, std::multiplies<>());
  }
};

TensorMapValues map_of(const Convolution& c, int64_t channels, int64_t pixels) {
  TensorMapValues map;
  map.elem = ElemType::i32;
  map.rank = static_cast<int>(c.rank()) + 2;
  map.dims[0] = c.channels;
  map.box = {channels, pixels, 1, 1, 1};
  PixelBox& box = map.pixels.emplace();
  int64_t stride = 4 * c.channels;
  for (size_t x = 0; x <= c.rank(); ++x) {
    map.dims[x + 1] = x < c.rank() ? c.image[x] : c.images;
    map.strides[x + 1] = stride;
    stride *= map.dims[x + 1];
    if (x == c.rank()) break;
    box.lower[x] = -c.pad;
    box.upper[x] = c.pad - c.dilation * (c.filter[x] - 1);
    box.steps[x] = c.stride;
  }
  return map;
}

// The element of the operand at a place, or 0 beyond it; element i is worth i + 1.
int value_at(const Convolution& c, int64_t image, const std::vector<int64_t>& place,
             int64_t channel) {
  if (image < 0 || image >= c.images || channel < 0 || channel >= c.channels) return 0;
  int64_t flat = image;
  for (size_t x = c.rank(); x-- > 0;) {
    if (place[x] < 0 || place[x] >= c.image[x]) return 0;
    flat = flat * c.image[x] + place[x];
  }
  return static_cast<int>(flat * c.channels + channel + 1);
}

// The expected copy of `pixels` windows from the `first` on, for an element of the filter.
std::vector<int> windows(const Convolution& c, int64_t first, int64_t pixels, int64_t channel,
                         int64_t channels, const std::vector<int64_t>& element) {
  std::vector<int> all;
  for (int64_t p = first; p < first + pixels; ++p) {
    int64_t rest = p;
    std::vector<int64_t> place;
    for (size_t x = 0; x < c.rank(); ++x) {
      place.push_back(rest % c.places(x) * c.stride - c.pad + element[x] * c.dilation);
      rest /= c.places(x);
    }
    for (int64_t k = 0; k < channels; ++k) all.push_back(value_at(c, rest, place, channel + k));
  }
  return all;
}

// Runs one copy, whose arguments behind the map are these, and hands out what it brought.
EmulatorResult run_copy(const TensorMapValues& map, std::vector<int>& a, std::vector<int>& out,
                        const std::string& function, const std::string& arguments) {
  const std::string text = fmt::format(R"(
extern "C" __global__ void kernel(TW_TENSOR_MAP A, TW_OUT(int) C) {{
  const int t = threadIdx.x;
  TW_SHARED(int, s, 0, {0});
  TW_SHARED(unsigned long long, b, {1}, 1);
  if (t == 0) {{ tw_mbarrier_init(b, 1); tw_mbarrier_fence_init(); }}
  __syncwarp();
  if (t == 0) {{
    tw_mbarrier_arrive_expect_tx(b, {1});
    {2}(s, A, {3}, b);
  }}
  tw_mbarrier_wait(b, 0);
  for (int i = t; i < {0}; i += 32) C[i] = s[i];
}})",
                                       out.size(), 4 * out.size(), function, arguments);
  EmulatedLaunch launch{"kernel", {1, 1, 1}, {32, 1, 1}, 32768, {Tensor{0, map}, LaunchBuffer{1}},
                        0};
  auto bytes = [](const std::vector<int>& v) { return static_cast<int64_t>(4 * v.size()); };
  return emulate(text, {launch}, {{"A", a.data(), bytes(a)}, {"C", out.data(), bytes(out), false}});
}

std::vector<int> counted(const Convolution& c) {
  std::vector<int> a(static_cast<size_t>(c.elements()));
  std::iota(a.begin(), a.end(), 1);
  return a;
}

std::string coordinates(const Convolution& c, int64_t first, int64_t channel,
                        const std::vector<int64_t>& element) {
  std::string text = std::to_string(channel), offsets;
  int64_t rest = first;
  for (size_t x = 0; x < c.rank(); ++x) {
    text += fmt::format(", {}", rest % c.places(x) * c.stride - c.pad);
    rest /= c.places(x);
    offsets += fmt::format(", {}", element[x] * c.dilation);
  }
  return text + fmt::format(", {}", rest) + offsets;
}

TEST(Im2col, MovesTheWindowsOfAConvolution) {
  struct Case {
    Convolution c;
    int64_t first, pixels, channel, channels;
    std::vector<int64_t> element;
  };
  for (const Case& t : std::vector<Case>{
           {{2, 8, {9, 7}, {3, 3}, 1, 1, 1}, 0, 64, 0, 8, {0, 0}},
           {{2, 8, {9, 7}, {3, 3}, 1, 1, 1}, 40, 64, 0, 8, {2, 1}},  // over the last image
           {{3, 16, {9, 8}, {3, 3}, 2, 1, 1},
            17,
            24,
            8,
            8,
            {1, 2}},  // strides, a part of the channels
           {{2, 12, {11, 10}, {3, 2}, 1, 2, 2},
            30,
            40,
            8,
            8,
            {2, 1}},  // dilation, a tail of channels
           {{2, 8, {6, 5}, {1, 1}, 1, 1, 0}, 10, 32, 0, 8, {0, 0}},
           {{2, 8, {10, 9}, {1, 1}, 3, 1, 0}, 5, 16, 0, 8, {0, 0}},
           {{4, 8, {17}, {3}, 2, 1, 1}, 7, 32, 4, 4, {2}},
           {{2, 4, {5, 4, 3}, {3, 3, 2}, 1, 1, 1}, 25, 96, 0, 4, {1, 2, 1}}}) {
    SCOPED_TRACE(coordinates(t.c, t.first, t.channel, t.element));
    std::vector<int> a = counted(t.c), out(static_cast<size_t>(t.pixels * t.channels));
    const TensorMapValues map = map_of(t.c, t.channels, t.pixels);
    ASSERT_EQ(tensor_map_problem(map, 0), "");
    const EmulatorResult result =
        run_copy(map, a, out, fmt::format("tw_tensor_im2col_{}d", map.rank),
                 coordinates(t.c, t.first, t.channel, t.element));
    ASSERT_TRUE(result.ok()) << result.fault->to_string();
    EXPECT_EQ(out, windows(t.c, t.first, t.pixels, t.channel, t.channels, t.element));
    EXPECT_EQ(result.counters.bulk_bytes, 4 * t.pixels * t.channels);
  }
}

const Convolution kStrided{2, 8, {9, 9}, {3, 3}, 2, 1, 1};

TEST(Im2col, PlacesThatAreNoneOfTheBoundingBoxAreFaults) {
  std::vector<int> a = counted(kStrided), out(8 * 16);
  const TensorMapValues map = map_of(kStrided, 8, 16);
  auto report = [&](const std::string& arguments,
                    const std::string& function = "tw_tensor_im2col_4d") {
    const EmulatorResult result = run_copy(map, a, out, function, arguments);
    if (!result.fault) return std::string("no fault");
    EXPECT_EQ(result.fault->kind, FaultKind::BadCopy);
    return result.fault->to_string();
  };
  EXPECT_EQ(report("0, -1, 7, 1, 2, 2"), "no fault");
  EXPECT_THAT(report("0, 0, 7, 1, 2, 2"),
              HasSubstr("loads windows of A from 0 along dimension 1; its bounding box has -1 to 7 "
                        "in steps of 2"));
  EXPECT_THAT(report("0, -1, 9, 1, 2, 2"), HasSubstr("from 9 along dimension 2"));
  EXPECT_THAT(report("0, -1, -1, 0, 0, 256"),
              HasSubstr("an offset of 256 along dimension 2; there may be 0 to 255"));
  EXPECT_THAT(report("0, -1, -1, 0", "tw_tensor_load_4d"),
              HasSubstr("loads a TMA tile by the tensor map of A, which is one of windows"));
}

TEST(Im2col, MapsThatNoDeviceTakesAreRefused) {
  auto problem = [](auto change) {
    TensorMapValues map = map_of(kStrided, 8, 16);
    change(map);
    return tensor_map_problem(map, 0);
  };
  EXPECT_EQ(problem([](TensorMapValues&) {}), "");
  EXPECT_EQ(problem([](TensorMapValues& m) { m.box[1] = 1024; }), "");
  EXPECT_EQ(problem([](TensorMapValues& m) { m.box[1] = 1025; }),
            "a copy moves 1025 pixels; there may be 1 to 1024");
  EXPECT_EQ(problem([](TensorMapValues& m) { m.pixels->lower[1] = -129; }),
            "a corner of its bounding box is -129 along dimension 2; it may be -128 to 127");
  EXPECT_EQ(problem([](TensorMapValues& m) { m.pixels->upper[0] = -10; }),
            "its bounding box is empty along dimension 1: from -1 to -2");
  EXPECT_EQ(problem([](TensorMapValues& m) { m.pixels->steps[0] = 9; }),
            "it has steps of 9 along dimension 1; there may be 1 to 8");
  EXPECT_THAT(problem([](TensorMapValues& m) { m.rank = 2; }), HasSubstr("it has 2 dimensions"));
  EXPECT_THAT(problem([](TensorMapValues& m) { m.box[0] = 2; }),
              HasSubstr("a row of its box has 8 bytes; it has a multiple of 16"));
  // Corners of images of three dimensions are numbers of five bits.
  const Convolution deep{1, 4, {20, 20, 20}, {3, 3, 3}, 1, 1, 17};
  EXPECT_THAT(tensor_map_problem(map_of(deep, 4, 16), 0), HasSubstr("it may be -16 to 15"));

  std::vector<int> a = counted(kStrided), out(8 * 16);
  TensorMapValues wide = map_of(kStrided, 8, 16);
  wide.pixels->steps[1] = 0;
  const EmulatorResult result = run_copy(wide, a, out, "tw_tensor_im2col_4d", "0, -1, -1, 0, 0, 0");
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, FaultKind::BadLaunch);
  EXPECT_THAT(result.fault->to_string(), HasSubstr("it has steps of 0 along dimension 2"));
}

TEST(Im2col, ReachesAllBlocksOfACluster) {
  const Convolution c{2, 8, {6, 6}, {3, 3}, 1, 1, 1};
  const std::string text = R"(
extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(TW_TENSOR_MAP A, TW_OUT(int) C) {
  const int t = threadIdx.x, rank = tw_cluster_rank();
  TW_SHARED(int, s, 0, 512);
  TW_SHARED(unsigned long long, b, 2048, 1);
  if (t == 0) { tw_mbarrier_init(b, 1); tw_mbarrier_fence_init(); }
  tw_cluster_arrive();
  tw_cluster_wait();
  if (t == 0) {
    tw_mbarrier_arrive_expect_tx(b, 2048);
    tw_tensor_im2col_multicast_4d(s + rank * 256, A, 0, -1, rank * 5 - 1, 0, 1, 1, b, 3);
  }
  tw_mbarrier_wait(b, 0);
  for (int i = t; i < 512; i += 32) C[rank * 512 + i] = s[i];
  tw_cluster_arrive();
  tw_cluster_wait();
})";
  std::vector<int> a = counted(c), out(1024);
  EmulatedLaunch launch{
      "kernel", {2, 1, 1}, {32, 1, 1}, 4096, {Tensor{0, map_of(c, 8, 32)}, LaunchBuffer{1}}, 0};
  const EmulatorResult result =
      emulate(text, {launch}, {{"A", a.data(), 4 * c.elements()}, {"C", out.data(), 4096, false}});
  ASSERT_TRUE(result.ok()) << result.fault->to_string();
  std::vector<int> want = windows(c, 0, 32, 0, 8, {1, 1});
  const std::vector<int> second = windows(c, 30, 32, 0, 8, {1, 1});
  want.insert(want.end(), second.begin(), second.end());
  EXPECT_EQ(std::vector<int>(out.begin(), out.begin() + 512), want);
  EXPECT_EQ(std::vector<int>(out.begin() + 512, out.end()), want);
}

}  // namespace
}  // namespace tilewright
