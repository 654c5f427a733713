#include "examples/onnx_model/interpreter.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

using tilewright::Error;
using tilewright::onnx::Node;

namespace {

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

// [rows, k] times what `b(k, column)` gives.
template <class B>
Array product(const Array& a, int64_t columns, B b) {
  const int64_t k = a.shape.back(), rows = count_of(a.shape) / k;
  Array out{a.shape, std::vector<double>(static_cast<size_t>(rows * columns))};
  out.shape.back() = columns;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < k; ++r) sum += a.values[static_cast<size_t>(i * k + r)] * b(r, j);
      out.values[static_cast<size_t>(i * columns + j)] = sum;
    }
  }
  return out;
}

Array gemm(const Node& node, const std::vector<Array>& in) {
  const bool turned = node.integer("transB", 0) != 0;
  if (node.integer("transA", 0) != 0) throw Error("Gemm: transA is not here");
  const int64_t k = in[0].shape[1], n = in[1].shape[turned ? 0 : 1];
  Array out = product(in[0], n, [&](int64_t r, int64_t j) {
    return in[1].values[static_cast<size_t>(turned ? j * k + r : r * n + j)];
  });
  if (in.size() > 2) {
    for (size_t i = 0; i < out.values.size(); ++i) {
      out.values[i] += in[2].values[i % in[2].values.size()];
    }
  }
  return out;
}

Array matmul_nbits(const Node& node, const std::vector<Array>& in) {
  const int64_t n = node.integer("N", 0), k = node.integer("K", 0);
  const int64_t block = node.integer("block_size", 0), blocks = (k + block - 1) / block;
  return product(in[0], n, [&](int64_t r, int64_t j) {
    return nbits_code(node, in, j, r) * in[2].values[static_cast<size_t>(j * blocks + r / block)];
  });
}

// Images [n, c, h, w] with kernels [co, c / groups, kh, kw]; strides and equal padding.
Array conv(const Node& node, const std::vector<Array>& in) {
  const std::vector<int64_t>&x = in[0].shape, &w = in[1].shape;
  const auto stride = node.integers("strides").value_or(std::vector<int64_t>{1, 1});
  const auto pad = node.integers("pads").value_or(std::vector<int64_t>{0, 0, 0, 0});
  const int64_t groups = node.integer("group", 1), own = w[0] / groups;
  const int64_t oh = (x[2] + pad[0] + pad[2] - w[2]) / stride[0] + 1;
  const int64_t ow = (x[3] + pad[1] + pad[3] - w[3]) / stride[1] + 1;
  Array out{{x[0], w[0], oh, ow}, {}};
  auto sum = [&](int64_t image, int64_t c, int64_t i, int64_t j) {
    double total = in.size() > 2 ? in[2].values[static_cast<size_t>(c)] : 0;
    for (int64_t r = 0; r < w[1] * w[2] * w[3]; ++r) {
      const int64_t channel = c / own * w[1] + r / (w[2] * w[3]);
      const int64_t y = i * stride[0] + r / w[3] % w[2] - pad[0];
      const int64_t z = j * stride[1] + r % w[3] - pad[1];
      if (y < 0 || y >= x[2] || z < 0 || z >= x[3]) continue;
      const int64_t at = ((image * x[1] + channel) * x[2] + y) * x[3] + z;
      total += in[0].values[static_cast<size_t>(at)] *
               in[1].values[static_cast<size_t>(c * w[1] * w[2] * w[3] + r)];
    }
    return total;
  };
  for (int64_t p = 0; p < count_of(out.shape); ++p) {
    out.values.push_back(sum(p / (w[0] * oh * ow), p / (oh * ow) % w[0], p / ow % oh, p % ow));
  }
  return out;
}

Array softmax(const Array& x) {
  Array out = x;
  const auto n = static_cast<size_t>(x.shape.back());
  for (size_t row = 0; row < x.values.size(); row += n) {
    auto first = out.values.begin() + static_cast<int64_t>(row),
         last = first + static_cast<int64_t>(n);
    const double top = *std::max_element(first, last);
    double sum = 0;
    for (auto v = first; v != last; ++v) sum += * v = std::exp(*v - top);
    for (auto v = first; v != last; ++v) *v /= sum;
  }
  return out;
}

Array average_of_images(const Array& x) {
  Array out{{x.shape[0], x.shape[1], 1, 1}, {}};
  const auto n = static_cast<size_t>(x.shape[2] * x.shape[3]);
  for (size_t at = 0; at < x.values.size(); at += n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x.values[at + i];
    out.values.push_back(sum / static_cast<double>(n));
  }
  return out;
}

// The shape that `wanted` asks for: 0 keeps a size, -1 is what is left.
Array reshaped(const Array& x, const Array& wanted) {
  Array out{{}, x.values};
  int64_t open = -1, known = 1;
  for (size_t d = 0; d < wanted.values.size(); ++d) {
    auto size = static_cast<int64_t>(wanted.values[d]);
    if (size == 0) size = x.shape[d];
    if (size < 0) {
      open = static_cast<int64_t>(d);
    } else {
      known *= size;
    }
    out.shape.push_back(size);
  }
  if (open >= 0) out.shape[static_cast<size_t>(open)] = count_of(x.shape) / known;
  return out;
}

}  // namespace

Array array_of(const tilewright::onnx::Tensor& tensor) {
  if (!tensor.readable()) throw Error("the elements of '" + tensor.name + "' are not in the file");
  Array out{tensor.shape, {}};
  for (int64_t i = 0; i < tensor.count; ++i) out.values.push_back(tensor.at(i));
  return out;
}

double nbits_code(const Node& node, const std::vector<Array>& in, int64_t n, int64_t k) {
  const int64_t bits = node.integer("bits", 4), block = node.integer("block_size", 0);
  const int64_t blocks = (node.integer("K", 0) + block - 1) / block, each = 8 / bits;
  auto code_at = [&](const Array& bytes, int64_t row_bytes, int64_t i) {
    const auto byte =
        static_cast<int64_t>(bytes.values[static_cast<size_t>(n * row_bytes + i / each)]);
    return static_cast<double>(byte >> (bits * (i % each)) & ((int64_t{1} << bits) - 1));
  };
  const double zero = in.size() > 3 && !in[3].values.empty()
                          ? code_at(in[3], (blocks + each - 1) / each, k / block)
                          : static_cast<double>(int64_t{1} << (bits - 1));
  return code_at(in[1], blocks * block / each, k) - zero;
}

Array interpret(const Node& node, const std::vector<Array>& in) {
  const std::string op = node.full_op();
  if (op == "Conv") return conv(node, in);
  if (op == "Gemm") return gemm(node, in);
  if (op == "com.microsoft.MatMulNBits") return matmul_nbits(node, in);
  if (op == "Softmax") return softmax(in[0]);
  if (op == "GlobalAveragePool") return average_of_images(in[0]);
  if (op == "Reshape") return reshaped(in[0], in[1]);
  Array out = in[0];
  if (op == "MatMul" && in[1].shape.size() == 2) {
    const int64_t n = in[1].shape[1];
    return product(in[0], n, [&](int64_t r, int64_t j) {
      return in[1].values[static_cast<size_t>(r * n + j)];
    });
  }
  if (op == "Relu") {
    for (double& v : out.values) v = std::max(v, 0.0);
    return out;
  }
  if (op == "Add" && in[0].values.size() % in[1].values.size() == 0) {
    for (size_t i = 0; i < out.values.size(); ++i)
      out.values[i] += in[1].values[i % in[1].values.size()];
    return out;
  }
  throw Error("there is no " + op + " here");
}
