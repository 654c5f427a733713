#include <fmt/format.h>

#include "ir/ops/builders.h"
#include "ir/ops/conv_geometry.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"
#include "ir/ops/weight.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

void normalize_conv(Spec& spec, int rank) {
  normalize_types(spec);
  normalize_epilogue(spec);
  normalize_weight(spec);
  normalize_extents(spec, rank);
  check_window(spec, rank);
  int64_t groups = spec.get<int64_t>("groups");
  for (const char* key : {"ci", "co"}) {
    DimSize channels = spec.get<DimSize>(key);
    if (channels.is_dynamic()) throw KeyError(key, "channels cannot be a range");
    if (channels.min % groups != 0) {
      throw KeyError("groups",
                     fmt::format("{} groups do not divide {}={}", groups, key, channels.min));
    }
  }
}

// The kernel's axes, outermost first.
std::vector<WeightAxis> window_weight_axes(const Window& window) {
  std::vector<WeightAxis> axes;
  for (const Axis& a : window.kernel_axes()) axes.push_back({a.name, a.extent});
  return axes;
}

// Y[n, y.., co] += X[n, y*stride + r*dilation.., ci] * W[r.., ci, co], with X padded first.
Workload build_conv(const Spec& spec, int rank) {
  WorkloadBuilder b(spec);
  const bool channels_last = spec.get<std::string>("layout") == "nhwc";
  const int64_t groups = b.count("groups");
  const int64_t group_in = spec.get<DimSize>("ci").min / groups;
  const int64_t group_out = spec.get<DimSize>("co").min / groups;
  Window window = read_window(b, rank);
  auto place = [&](Expr first, std::vector<Expr> spatial, Expr channel) {
    spatial.insert(spatial.begin() + 0, std::move(first));
    spatial.insert(channels_last ? spatial.end() : spatial.begin() + 1, std::move(channel));
    return spatial;
  };
  Expr n = b.dim("n"), ci = b.dim("ci"), co = b.dim("co");
  Buffer X = b.input("X", b.dtype, place(n, window.input, ci));
  // W[r.., ci/groups, co], or W[co, ci/groups, r..] where channels come first.
  auto weight_index = [&](const std::vector<Expr>& r, const Expr& in, const Expr& out) {
    std::vector<Expr> index = r;
    index.insert(channels_last ? index.end() : index.begin(), in);
    index.insert(channels_last ? index.end() : index.begin(), out);
    return index;
  };
  std::vector<WeightAxis> stored = window_weight_axes(window);
  stored.insert(channels_last ? stored.end() : stored.begin(), {"ci", group_in});
  stored.insert(channels_last ? stored.end() : stored.begin(), {"co", co, WeightAxis::Column});
  WeightOperand W(b, "W", stored);
  std::vector<Axis> axes = window.output_axes();
  axes.insert(axes.begin(), {"n", n});
  const int channel = channels_last ? rank + 1 : 1;
  axes.insert(axes.begin() + channel, {"co", co});
  const int first = channels_last ? 1 : 2;
  Buffer padded = pad_stage(b, X, window, first);
  std::vector<Axis> reduce_axes = window.kernel_axes();
  reduce_axes.push_back({"ci", group_in});
  b.accumulate(
      "Y", axes, reduce_axes,
      [&](const Point& p, const Point& r) {
        std::vector<Expr> at, taps(r.begin(), r.end() - 1);
        for (int d = 0; d < rank; ++d) {
          at.push_back(
              plus(times(p[first + d], window.stride[d]), times(r[d], window.dilation[d])));
        }
        Expr in = r.back();
        if (groups > 1) in = plus(times(quotient(p[channel], group_out), group_in), in);
        return cast(b.acc, load(padded, place(p[0], at, in))) *
               W.value(weight_index(taps, r.back(), p[channel]));
      },
      channel);
  return b.finish();
}

void normalize_depthwise(Spec& spec) {
  normalize_types(spec);
  normalize_epilogue(spec);
  normalize_weight(spec);
  normalize_extents(spec, 2);
  check_window(spec, 2);
  if (spec.get<DimSize>("c").is_dynamic()) throw KeyError("c", "channels cannot be a range");
}

Workload build_depthwise(const Spec& spec) {
  WorkloadBuilder b(spec);
  Window window = read_window(b, 2);
  Expr n = b.dim("n"), c = b.dim("c");
  Buffer X = b.input("X", b.dtype, {n, window.input[0], window.input[1], c});
  std::vector<WeightAxis> stored = window_weight_axes(window);
  stored.push_back({"c", c, WeightAxis::Column});
  WeightOperand W(b, "W", stored);
  Buffer padded = pad_stage(b, X, window, 1);
  std::vector<Axis> axes = window.output_axes();
  axes.insert(axes.begin(), {"n", n});
  axes.push_back({"c", c});
  b.accumulate(
      "Y", axes, window.kernel_axes(),
      [&](const Point& p, const Point& r) {
        Expr y = plus(times(p[1], window.stride[0]), times(r[0], window.dilation[0]));
        Expr x = plus(times(p[2], window.stride[1]), times(r[1], window.dilation[1]));
        return cast(b.acc, load(padded, {p[0], y, x, p[3]})) * W.value({r[0], r[1], p[3]});
      },
      3);
  return b.finish();
}

Operator conv_operator(int rank, void (*normalize)(Spec&), Workload (*build)(const Spec&)) {
  static const char* kSummary[] = {"", "convolution over one axis", "convolution over two axes",
                                   "convolution over three axes"};
  static const char* kOperands[] = {
      "", "X[n,l,ci]  W[k,ci/groups,co], constant  bias[co]  D[n,ol,co]  ->  Y[n,ol,co]",
      "X[n,h,w,ci]  W[kh,kw,ci/groups,co], constant  bias[co]  D[n,oh,ow,co]  ->  Y[n,oh,ow,co]; "
      "nchw: X[n,ci,h,w]  W[co,ci/groups,kh,kw]  ->  Y[n,co,oh,ow]",
      "X[n,d,h,w,ci]  W[kd,kh,kw,ci/groups,co], constant  bias[co]  D[n,od,oh,ow,co]  ->  "
      "Y[n,od,oh,ow,co]"};
  static const char* kExample[] = {"", "conv1d:n=1,l=256,ci=64,co=128,kernel=3,stride=2,pad=1",
                                   "conv2d:n=1,h=56,w=56,ci=64,co=64,kernel=3,pad=1",
                                   "conv3d:n=1,d=16,h=14,w=14,ci=256,co=256,kernel=3,pad=1"};
  std::vector<KeyDef> own = window_keys(rank, true);
  own.insert(own.begin(), size_key("n", "images"));
  own.insert(own.begin() + 1 + rank,
             {size_key("ci", "input channels"), size_key("co", "output channels")});
  own.push_back(count_key("groups", "groups of channels that do not mix", 1, 1));
  own.push_back(
      choice_key("layout", "channels last (nhwc) or first (nchw)", {"nhwc", "nchw"}, "nhwc"));
  own.push_back(epilogue_key());
  return {fmt::format("conv{}d", rank),
          kSummary[rank],
          kOperands[rank],
          kExample[rank],
          join({own, type_keys(), weight_keys()}),
          normalize,
          build};
}

}  // namespace

std::vector<Operator> convolution_operators() {
  std::vector<KeyDef> depthwise = window_keys(2, true);
  depthwise.insert(depthwise.begin(), size_key("n", "images"));
  depthwise.insert(depthwise.begin() + 3, size_key("c", "channels"));
  depthwise.push_back(epilogue_key());
  return join_operators(
      {{conv_operator(
            1, [](Spec& s) { normalize_conv(s, 1); },
            [](const Spec& s) { return build_conv(s, 1); }),
        conv_operator(
            2, [](Spec& s) { normalize_conv(s, 2); },
            [](const Spec& s) { return build_conv(s, 2); }),
        conv_operator(
            3, [](Spec& s) { normalize_conv(s, 3); },
            [](const Spec& s) { return build_conv(s, 3); }),
        {"depthwise_conv2d", "convolution of each channel by itself",
         "X[n,h,w,c]  W[kh,kw,c], constant  bias[c]  D[n,oh,ow,c]  ->  Y[n,oh,ow,c]",
         "depthwise_conv2d:n=1,h=112,w=112,c=32,kernel=3,pad=1",
         join({depthwise, type_keys(), weight_keys()}), normalize_depthwise, build_depthwise}},
       special_convolution_operators()});
}

}  // namespace tilewright::ops
