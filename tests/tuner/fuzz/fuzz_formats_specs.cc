#include <fmt/core.h>

#include "ir/ops/spec.h"
#include "ir/type.h"
#include "tests/tuner/fuzz/fuzz_formats.h"

namespace tilewright::test {
namespace {

// Mostly small; sometimes one, and sometimes more than a vector.
int64_t size(Draw& draw, int64_t most) {
  if (draw.chance(12)) return 1;
  return draw.chance(20) ? draw.between(1, 2 * most) : draw.between(1, most);
}

std::string matmul(Draw& draw) {
  int64_t k = size(draw, 24);
  std::string text = fmt::format("matmul:m={},n={},k={}", size(draw, 6), size(draw, 18), k);
  if (draw.chance(12)) text += fmt::format(",batch={}", draw.between(2, 3));
  if (draw.chance(20)) text += ",trans_a=true";
  if (draw.chance(30)) text += ",trans_b=true";
  static const std::vector<std::string> kEpilogues = {"[bias]", "[bias,relu]", "[add]",
                                                      "[relu,add]"};
  if (draw.chance(25)) text += ",epilogue=" + draw.of(kEpilogues);
  return text;
}

std::string convolution(Draw& draw) {
  int64_t ci = draw.between(1, 4), co = size(draw, 9), kernel = draw.between(1, 3);
  int64_t side = kernel + draw.between(0, 2);
  std::string text;
  switch (draw.below(6)) {
    case 0:
      text = fmt::format("conv1d:n=2,l={},ci={},co={},kernel={}", side + 2, ci, co, kernel);
      break;
    case 1:
    case 2:
      text = fmt::format("conv2d:n=1,h={},w={},ci={},co={},kernel={}", side, side, ci, co, kernel);
      if (draw.chance(40)) text += ",layout=nchw";
      if (draw.chance(25)) text += ",epilogue=[bias,relu]";
      break;
    case 3:
      text = fmt::format("conv2d:n=1,h={},w=3,ci={},co={},kernel={}x1,groups=2", side, 2 * ci,
                         2 * co, kernel);
      break;
    case 4:
      text = fmt::format("depthwise_conv2d:n=1,h={},w={},c={},kernel={}", side, side, co, kernel);
      break;
    default:
      text = fmt::format("conv2d_transpose:n=1,h=2,w=3,ci={},co={},kernel={}", ci, co, kernel);
  }
  if (draw.chance(30)) text += ",stride=2";
  if (kernel > 1 && draw.chance(50)) text += ",pad=1";
  return text;
}

// The sparsity pattern, and the number of columns that share it.
std::string sparsity(Draw& draw) {
  static const std::vector<int64_t> kSizes = {2, 3, 4, 4, 5, 8, 16, 32, 64};
  int64_t of = draw.of(kSizes), keep = draw.between(1, draw.chance(70) ? (of + 1) / 2 : of);
  static const std::vector<int64_t> kVectors = {1, 1, 2, 3, 8, 16};
  return fmt::format(",w.sparse={}:{},w.vector={}", keep, of, draw.of(kVectors));
}

std::string format(Draw& draw, bool integer_sum) {
  constexpr int kIntegers = 8;  // leading integer types
  static const std::vector<std::string> kTypes = {"i8", "u8", "i4",  "u4",     "i2",     "u2",
                                                  "i1", "u1", "nf4", "f8e4m3", "f8e5m2", "f4e2m1"};
  static const std::vector<std::string> kScales = {"f32", "f16", "bf16", "e8m0", "f8e4m3", "none"};
  static const std::vector<std::string> kZeros = {"u8", "u4", "u2", "u1", "f16"};
  static const std::vector<std::string> kOffsets = {"f32", "f16", "bf16"};
  std::string type =
      integer_sum ? kTypes[static_cast<size_t>(draw.below(kIntegers))] : draw.of(kTypes);
  std::string text = ",w.dtype=" + type, scale = integer_sum ? "none" : draw.of(kScales);
  text += ",w.scale=" + scale;
  bool shifted = draw.chance(45);
  if (shifted) text += ",w.zero=" + draw.of(kZeros);
  if (!shifted && draw.chance(35)) text += ",w.offset=" + draw.of(kOffsets);
  if (scale != "none" || shifted) {
    text += fmt::format(",w.group={}", draw.chance(25) ? -1 : draw.between(1, 20));
  }
  return text;
}

std::string draw_spec(Draw& draw) {
  std::string text = draw.chance(68) ? matmul(draw) : convolution(draw);
  static const std::vector<std::string> kTypes = {"f32",  "f32", "f32", "bf16",
                                                  "bf16", "f16", "f64"};
  bool integers = draw.chance(35), integer_sum = integers && draw.chance(50);
  if (integers) {
    text += draw.chance(50) ? ",dtype=i8" : ",dtype=u8";
    if (!integer_sum) text += ",acc=f32";
  } else {
    text += ",dtype=" + draw.of(kTypes);
  }
  bool low = draw.chance(80);
  if (low) text += format(draw, integer_sum);
  if (!low || draw.chance(45)) text += sparsity(draw);
  return text;
}

}  // namespace

// Specs that the parser refuses are drawn again.
std::string random_format_spec(Draw& draw) {
  while (true) {
    std::string text = draw_spec(draw);
    try {
      parse_spec(text);
      return text;
    } catch (const SpecError&) {
    }
  }
}

}  // namespace tilewright::test
