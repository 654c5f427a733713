// Special convolutions: transposed, and of capsules.
#include <fmt/format.h>

#include "ir/ops/conv_geometry.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"
#include "ir/ops/weight.h"

namespace tilewright::ops {
namespace {

void check_channels(const Spec& spec) {
  for (const char* key : {"ci", "co"}) {
    if (spec.get<DimSize>(key).is_dynamic()) throw KeyError(key, "channels cannot be a range");
  }
}

void normalize_transpose(Spec& spec) {
  normalize_types(spec);
  normalize_epilogue(spec);
  normalize_weight(spec);
  normalize_extents(spec, 2);
  check_channels(spec);
  std::vector<int64_t> kernel = extents(spec, "kernel", 2), pad = extents(spec, "pad", 2),
                       stride = extents(spec, "stride", 2);
  std::vector<std::string> names = spatial_names(2);
  for (int d = 0; d < 2; ++d) {
    if (pad[d] >= kernel[d]) {
      throw KeyError("pad",
                     fmt::format("a transposed convolution crops by pad, which must be under "
                                 "the kernel's {}, got {}",
                                 kernel[d], pad[d]));
    }
    int64_t size = (spec.get<DimSize>(names[d]).min - 1) * stride[d] + kernel[d] - 2 * pad[d];
    if (size < 1)
      throw KeyError("pad", fmt::format("cropping leaves no output along {}", names[d]));
  }
}

// output = (input - 1) stride - 2 pad + kernel.
Window transpose_window(WorkloadBuilder& b) {
  const Spec& spec = b.spec();
  Window w;
  w.names = spatial_names(2);
  w.kernel = extents(spec, "kernel", 2);
  w.stride = extents(spec, "stride", 2);
  w.pad = extents(spec, "pad", 2);
  w.dilation = {1, 1};
  for (int d = 0; d < 2; ++d) {
    w.input.push_back(b.dim(w.names[d]));
    int64_t fixed = w.kernel[d] - 2 * w.pad[d];
    w.output.push_back(plus(times(minus(w.input[d], 1), w.stride[d]), fixed));
  }
  return w;
}

// The input spread out by the stride with zeros between, and with kernel - 1 - pad zeros around it.
// The transposed convolution is a plain one over this, with the kernel's taps in reverse.
Buffer spread_stage(WorkloadBuilder& b, const Buffer& X, const Window& w, const Expr& n,
                    const Expr& ci) {
  std::vector<Axis> axes = {{"n", n}};
  for (int d = 0; d < 2; ++d) {
    axes.push_back({w.names[d], plus(w.output[d], w.kernel[d] - 1)});
  }
  axes.push_back({"c", ci});
  return b.compute("X_pad", b.dtype, axes, [&](const Point& p) {
    Point from = p;
    Expr inside;
    for (int d = 0; d < 2; ++d) {
      int64_t border = w.kernel[d] - 1 - w.pad[d];
      Expr at = minus(p[1 + d], border);
      if (border > 0) inside = both(inside, p[1 + d] >= Expr(border));
      Expr end = plus(times(minus(w.input[d], 1), w.stride[d]), border + 1);
      inside = both(inside, p[1 + d] < end);
      if (w.stride[d] > 1) inside = both(inside, eq(floormod(at, Expr(w.stride[d])), Expr(0)));
      from[1 + d] = quotient(at, w.stride[d]);
    }
    return select(inside, load(X, from), make_const(b.dtype, 0));
  });
}

Workload build_transpose(const Spec& spec) {
  WorkloadBuilder b(spec);
  Window w = transpose_window(b);
  Expr n = b.dim("n"), ci = b.dim("ci"), co = b.dim("co");
  Buffer X = b.input("X", b.dtype, {n, w.input[0], w.input[1], ci});
  WeightOperand W(
      b, "W",
      {{"kh", w.kernel[0]}, {"kw", w.kernel[1]}, {"ci", ci}, {"co", co, WeightAxis::Column}});
  Buffer spread = spread_stage(b, X, w, n, ci);
  std::vector<Axis> axes = w.output_axes(), reduce_axes = w.kernel_axes();
  axes.insert(axes.begin(), {"n", n});
  axes.push_back({"co", co});
  reduce_axes.push_back({"ci", ci});
  b.accumulate(
      "Y", axes, reduce_axes,
      [&](const Point& p, const Point& r) {
        Expr y = minus(plus(p[1], w.kernel[0] - 1), r[0]),
             x = minus(plus(p[2], w.kernel[1] - 1), r[1]);
        return cast(b.acc, load(spread, {p[0], y, x, r[2]})) * W.value({r[0], r[1], r[2], p[3]});
      },
      3);
  return b.finish();
}

void normalize_capsule(Spec& spec) {
  normalize_types(spec);
  normalize_weight(spec);
  normalize_extents(spec, 2);
  check_window(spec, 2);
  check_channels(spec);
}

// Each channel is a capsule x capsule matrix, and each tap a matrix product.
Workload build_capsule(const Spec& spec) {
  WorkloadBuilder b(spec);
  Window w = read_window(b, 2);
  const int64_t cap = b.count("capsule");
  Expr n = b.dim("n"), ci = b.dim("ci"), co = b.dim("co");
  Buffer X = b.input("X", b.dtype, {n, w.input[0], w.input[1], cap, cap, ci});
  WeightOperand W(b, "W",
                  {{"kh", w.kernel[0]},
                   {"kw", w.kernel[1]},
                   {"cc", cap},
                   {"cb", cap, WeightAxis::Own},
                   {"ci", ci},
                   {"co", co, WeightAxis::Column}});
  Buffer padded = pad_stage(b, X, w, 1);
  std::vector<Axis> axes = {{"n", n},    {"oh", w.output[0]}, {"ow", w.output[1]},
                            {"ca", cap}, {"cb", cap},         {"co", co}};
  std::vector<Axis> reduce_axes = w.kernel_axes();
  reduce_axes.push_back({"cc", cap});
  reduce_axes.push_back({"ci", ci});
  b.accumulate(
      "Y", axes, reduce_axes,
      [&](const Point& p, const Point& r) {
        Expr y = plus(times(p[1], w.stride[0]), r[0]), x = plus(times(p[2], w.stride[1]), r[1]);
        return cast(b.acc, load(padded, {p[0], y, x, p[3], r[2], r[3]})) *
               W.value({r[0], r[1], r[2], p[4], r[3], p[5]});
      },
      5);
  return b.finish();
}

std::vector<KeyDef> keys_with_channels() {
  std::vector<KeyDef> keys = window_keys(2, false);
  keys.insert(keys.begin(), size_key("n", "images"));
  keys.insert(keys.begin() + 3,
              {size_key("ci", "input channels"), size_key("co", "output channels")});
  return keys;
}

}  // namespace

std::vector<Operator> special_convolution_operators() {
  std::vector<KeyDef> transpose = keys_with_channels(), capsule = keys_with_channels();
  transpose.push_back(epilogue_key());
  KeyDef size = count_key("capsule", "rows and columns of a capsule's matrix", 4, 1);
  size.max = 1024;
  capsule.push_back(size);
  return {{"conv2d_transpose", "transposed convolution: the gradient of conv2d by its input",
           "X[n,h,w,ci]  W[kh,kw,ci,co], constant  bias[co]  D[n,oh,ow,co]  ->  Y[n,oh,ow,co]",
           "conv2d_transpose:n=1,h=8,w=8,ci=256,co=128,kernel=4,stride=2,pad=1",
           join({transpose, type_keys(), weight_keys()}), normalize_transpose, build_transpose},
          {"capsule_conv2d", "convolution of capsule x capsule matrices",
           "X[n,h,w,capsule,capsule,ci]  W[kh,kw,capsule,capsule,ci,co], constant  ->  "
           "Y[n,oh,ow,capsule,capsule,co]",
           "capsule_conv2d:n=1,h=16,w=16,ci=32,co=32,kernel=3,stride=2,pad=1",
           join({capsule, type_keys(), weight_keys()}), normalize_capsule, build_capsule}};
}

}  // namespace tilewright::ops
