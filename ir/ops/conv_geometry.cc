#include "ir/ops/conv_geometry.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"

namespace tilewright::ops {

std::vector<Expr> Window::kernel_exprs() const { return {kernel.begin(), kernel.end()}; }

std::vector<Axis> Window::kernel_axes() const {
  std::vector<Axis> axes;
  for (size_t d = 0; d < names.size(); ++d)
    axes.push_back({fmt::format("k{}", names[d]), kernel[d]});
  return axes;
}

std::vector<Axis> Window::output_axes() const {
  std::vector<Axis> axes;
  for (size_t d = 0; d < names.size(); ++d)
    axes.push_back({fmt::format("o{}", names[d]), output[d]});
  return axes;
}

std::vector<std::string> spatial_names(int rank) {
  if (rank == 1) return {"l"};
  if (rank == 2) return {"h", "w"};
  return {"d", "h", "w"};
}

std::vector<KeyDef> window_keys(int rank, bool dilates) {
  std::vector<KeyDef> keys;
  for (const std::string& name : spatial_names(rank)) {
    keys.push_back(size_key(name, "input size along " + name));
  }
  keys.push_back({.name = "kernel",
                  .kind = KeyKind::Extents,
                  .doc = "window size: one number, or one per axis as RxS",
                  .required = true,
                  .min = 1});
  keys.push_back(extents_key("stride", "step of the window", 1, 1));
  keys.push_back(extents_key("pad", "zeros on each side of an axis", 0, 0));
  if (dilates) keys.push_back(extents_key("dilation", "step between the window's taps", 1, 1));
  return keys;
}

std::vector<int64_t> extents(const Spec& spec, const std::string& key, int rank) {
  std::vector<int64_t> values = spec.get<std::vector<int64_t>>(key);
  if (values.size() == 1) values.resize(rank, values[0]);
  return values;
}

void normalize_extents(Spec& spec, int rank) {
  for (const char* key : {"kernel", "stride", "pad", "dilation"}) {
    if (!spec.has(key)) continue;
    auto values = spec.get<std::vector<int64_t>>(key);
    size_t count = values.size();
    if (count != 1 && count != static_cast<size_t>(rank)) {
      throw KeyError(key, fmt::format("{} has {} spatial ax{}, got {} numbers", spec.op, rank,
                                      rank == 1 ? "is" : "es", count));
    }
    bool equal =
        std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
    if (equal) spec.params[key] = std::vector<int64_t>{values[0]};
  }
}

void check_window(const Spec& spec, int rank) {
  std::vector<int64_t> kernel = extents(spec, "kernel", rank), pad = extents(spec, "pad", rank);
  std::vector<int64_t> dilation(rank, 1);
  if (spec.has("dilation")) dilation = extents(spec, "dilation", rank);
  std::vector<std::string> names = spatial_names(rank);
  for (int d = 0; d < rank; ++d) {
    int64_t span = dilation[d] * (kernel[d] - 1) + 1;
    int64_t size = spec.get<DimSize>(names[d]).min + 2 * pad[d];
    if (span > size) {
      throw KeyError("kernel", fmt::format("the window spans {} elements along {}, but the padded "
                                           "input has {}",
                                           span, names[d], size));
    }
  }
}

Window read_window(WorkloadBuilder& b, int rank) {
  const Spec& spec = b.spec();
  Window w;
  w.names = spatial_names(rank);
  w.kernel = extents(spec, "kernel", rank);
  w.stride = extents(spec, "stride", rank);
  w.pad = extents(spec, "pad", rank);
  w.dilation =
      spec.has("dilation") ? extents(spec, "dilation", rank) : std::vector<int64_t>(rank, 1);
  for (int d = 0; d < rank; ++d) {
    w.input.push_back(b.dim(w.names[d]));
    int64_t fixed = 2 * w.pad[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
    w.output.push_back(plus(quotient(plus(w.input[d], fixed), w.stride[d]), 1));
  }
  return w;
}

Buffer pad_stage(WorkloadBuilder& b, const Buffer& X, const Window& window, int first) {
  auto padded = [&](size_t d) { return window.pad[d] > 0; };
  size_t rank = window.names.size();
  std::vector<Axis> axes;
  bool any = false;
  for (int d = 0; d < X->rank(); ++d) axes.push_back({d == 0 ? "n" : "c", X->shape[d]});
  for (size_t d = 0; d < rank; ++d) {
    axes[first + d] = {window.names[d], plus(window.input[d], 2 * window.pad[d])};
    any = any || padded(d);
  }
  if (!any) return X;
  return b.compute("X_pad", b.dtype, axes, [&](const Point& p) {
    Point from = p;
    Expr inside;
    for (size_t d = 0; d < rank; ++d) {
      if (!padded(d)) continue;
      const Expr& at = p[first + d];
      inside = both(inside, at >= Expr(window.pad[d]));
      inside = both(inside, at < plus(window.input[d], window.pad[d]));
      from[first + d] = minus(at, window.pad[d]);
    }
    return select(inside, load(X, from), make_const(b.dtype, 0));
  });
}

}  // namespace tilewright::ops
