// Matrix products, convolutions and pooling.
#include "models/onnx/step.h"
#include "models/onnx/window.h"

namespace tilewright::onnx {
namespace {

// [batch.., m, k] times [batch.., k, n]; one axis stands for a row or a column.
std::optional<Shape> product(Shape a, Shape b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.emplace_back(1);
  auto out = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!out) return std::nullopt;
  if (!row) out->push_back(a[a.size() - 2]);
  if (!column) out->push_back(b.back());
  return out;
}

void multiply(Step& s, size_t b, DataType type) {
  s.set(0, type, s.shape(0) && s.shape(b) ? product(*s.shape(0), *s.shape(b)) : std::nullopt);
}

void matmul(Step& s) { multiply(s, 1, s.type()); }
void matmul_integer(Step& s) { multiply(s, 1, DataType::Int32); }
void matmul_to_float(Step& s) { multiply(s, 1, s.type(2)); }
void qlinear_matmul(Step& s) { multiply(s, 3, s.type(7)); }

void fused_matmul(Step& s) {
  if (!s.shape(0) || !s.shape(1)) return;
  Shape a = *s.shape(0), b = *s.shape(1);
  if (s.node.integer("transBatchA", 0) != 0 || s.node.integer("transBatchB", 0) != 0) return;
  if (s.node.integer("transA", 0) != 0 && a.size() > 1) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (s.node.integer("transB", 0) != 0 && b.size() > 1) std::swap(b[b.size() - 1], b[b.size() - 2]);
  s.set(0, s.type(), product(a, b));
}

void gemm(Step& s, size_t b, DataType type) {
  if (!s.shape(0) || !s.shape(b) || s.shape(0)->size() != 2 || s.shape(b)->size() != 2) return;
  const size_t row = s.node.integer("transA", 0) != 0 ? 1 : 0;
  const size_t column = s.node.integer("transB", 0) != 0 ? 0 : 1;
  s.set(0, type, Shape{(*s.shape(0))[row], (*s.shape(b))[column]});
}

void gemm(Step& s) { gemm(s, 1, s.type()); }
// Without a scale of the results, these are floats.
void qgemm(Step& s) { gemm(s, 3, s.node.has_input(7) ? s.type(8) : DataType::Float); }

void matmul_nbits(Step& s) {
  if (!s.shape(0) || s.shape(0)->empty()) return;
  Shape out = *s.shape(0);
  out.back() = s.node.integer("N", 0);
  s.set(0, s.type(), out);
}

// The sizes behind the batch and the channels.
Shape spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

std::optional<std::vector<int64_t>> kernel_of(const Shape& weight) {
  std::vector<int64_t> kernel;
  for (const Extent& e : spatial(weight)) {
    if (!e.fixed()) return std::nullopt;
    kernel.push_back(e.number());
  }
  return kernel;
}

bool fits(const std::optional<Shape>& x, const std::optional<Shape>& w) {
  return x && w && x->size() > 2 && x->size() == w->size();
}

void convolve(Step& s, size_t w, DataType type) {
  if (!fits(s.shape(0), s.shape(w))) return s.set(0, type, std::nullopt);
  const Shape sizes = spatial(*s.shape(0));
  auto kernel = kernel_of(*s.shape(w));
  auto window = kernel ? window_of(s.node, sizes, kernel) : std::nullopt;
  auto out = window ? windowed(s.extents, *window, sizes) : std::nullopt;
  if (!out) return s.set(0, type, std::nullopt);
  out->insert(out->begin(), {(*s.shape(0))[0], (*s.shape(w))[0]});
  s.set(0, type, out);
}

void conv(Step& s) { convolve(s, 1, s.type()); }
void conv_integer(Step& s) { convolve(s, 1, DataType::Int32); }
void qlinear_conv(Step& s) { convolve(s, 3, s.type(7)); }

void conv_transpose(Step& s) {
  if (!fits(s.shape(0), s.shape(1))) return;
  const Shape sizes = spatial(*s.shape(0));
  auto kernel = kernel_of(*s.shape(1));
  auto window = kernel ? window_of(s.node, sizes, kernel, true) : std::nullopt;
  auto more = s.node.integers("output_padding").value_or(std::vector<int64_t>());
  auto out = window ? transposed(s.extents, *window, sizes, more) : std::nullopt;
  auto channels = s.extents.times((*s.shape(1))[1], s.node.integer("group", 1));
  if (!out || !channels) return;
  out->insert(out->begin(), {(*s.shape(0))[0], *channels});
  s.set(0, s.type(), out);
}

void pool(Step& s) {
  if (!s.shape(0) || s.shape(0)->size() < 3) return;
  const Shape sizes = spatial(*s.shape(0));
  auto window = window_of(s.node, sizes, std::nullopt);
  const bool round_up = s.node.integer("ceil_mode", 0) != 0;
  auto out = window ? windowed(s.extents, *window, sizes, round_up) : std::nullopt;
  if (!out) return;
  out->insert(out->begin(), s.shape(0)->begin(), s.shape(0)->begin() + 2);
  s.set(0, s.type(), out);
  s.set(1, DataType::Int64, out);  // the places of the largest
}

// The tensor that was pooled.
void unpool(Step& s) {
  if (!s.shape(0) || s.shape(0)->size() < 3) return;
  Shape out = *s.shape(0);
  if (s.node.has_input(2)) return s.set(0, s.type(), s.input(2).contents);
  const auto window = window_of(s.node, spatial(out), std::nullopt);
  for (size_t d = 0; window && d < window->rank(); ++d) {
    if (!out[d + 2].fixed()) return;
    out[d + 2] = window->pooled_from(d, out[d + 2].number());
  }
  if (window) s.set(0, s.type(), out);
}

void global_pool(Step& s, DataType type) {
  if (!s.shape(0) || s.shape(0)->size() < 3) return;
  Shape out(s.shape(0)->size(), 1);
  out[0] = (*s.shape(0))[0];
  out[1] = (*s.shape(0))[1];
  s.set(0, type, out);
}

void global_pool(Step& s) { global_pool(s, s.type()); }

void qlinear_global_pool(Step& s) {
  if (s.node.integer("channels_last", 0) == 0) global_pool(s, s.type(4));
}

}  // namespace

const Rules& product_rules() {
  static const Rules kRules = {{"MatMul", matmul},
                               {"MatMulInteger", matmul_integer},
                               {"QLinearMatMul", qlinear_matmul},
                               {"com.microsoft.MatMulIntegerToFloat", matmul_to_float},
                               {"com.microsoft.DynamicQuantizeMatMul", matmul},
                               {"Gemm", gemm},
                               {"com.microsoft.FusedMatMul", fused_matmul},
                               {"com.microsoft.FusedGemm", gemm},
                               {"com.microsoft.MatMulNBits", matmul_nbits},
                               {"tilewright.QuantizedLinear", matmul_nbits},
                               {"Conv", conv},
                               {"com.microsoft.FusedConv", conv},
                               {"ConvInteger", conv_integer},
                               {"QLinearConv", qlinear_conv},
                               {"ConvTranspose", conv_transpose},
                               {"MaxPool", pool},
                               {"AveragePool", pool},
                               {"LpPool", pool},
                               {"MaxUnpool", unpool},
                               {"com.microsoft.QGemm", qgemm},
                               {"com.microsoft.QLinearGlobalAveragePool", qlinear_global_pool},
                               {"GlobalAveragePool", global_pool},
                               {"GlobalMaxPool", global_pool}};
  return kRules;
}

}  // namespace tilewright::onnx
