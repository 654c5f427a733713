#include "bench/peers/naive.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "bench/peers/problem.h"

namespace tilewright::peers {
namespace {

using Sizes = std::vector<int64_t>;

int64_t product(const Sizes& sizes) {
  int64_t all = 1;
  for (int64_t size : sizes) all *= size;
  return all;
}

// A convolution of up to three axes, seen as one of three; missing axes have one element.
struct Conv {
  int64_t n = 1, ci = 1, co = 1, groups = 1;
  Sizes in, kernel, stride, pad, dilation, out;
  bool channels_last = true, transposed = false;

  int64_t x_index(int64_t image, const int64_t* at, int64_t channel) const {
    int64_t pixel = (at[0] * in[1] + at[1]) * in[2] + at[2];
    return channels_last ? (image * product(in) + pixel) * ci + channel
                         : (image * ci + channel) * product(in) + pixel;
  }
  int64_t y_index(int64_t image, const int64_t* at, int64_t channel) const {
    int64_t pixel = (at[0] * out[1] + at[1]) * out[2] + at[2];
    return channels_last ? (image * product(out) + pixel) * co + channel
                         : (image * co + channel) * product(out) + pixel;
  }
  // `c` counts inside a group.
  int64_t w_index(const int64_t* tap, int64_t c, int64_t k) const {
    int64_t position = (tap[0] * kernel[1] + tap[1]) * kernel[2] + tap[2];
    if (channels_last) return (position * (ci / groups) + c) * co + k;
    if (transposed) return (c * co + k) * product(kernel) + position;
    return (k * (ci / groups) + c) * product(kernel) + position;
  }
};

Conv conv_of(const PeerSpec& spec) {
  Conv conv;
  const int axes = spec.op() == "conv1d" ? 1 : spec.op() == "conv3d" ? 3 : 2;
  conv.n = spec.size("n");
  conv.transposed = spec.op() == "conv2d_transpose";
  conv.channels_last = spec.text("layout", "nhwc") == "nhwc";
  const bool depthwise = spec.op() == "depthwise_conv2d";
  conv.ci = depthwise ? spec.size("c") : spec.size("ci");
  conv.co = depthwise ? spec.size("c") : spec.size("co");
  conv.groups = depthwise ? conv.ci : spec.size("groups", 1);
  for (const char* key : {"d", "h", "w", "l"}) {
    if (spec.has(key)) conv.in.push_back(spec.size(key));
  }
  auto widen = [&](Sizes sizes, int64_t filler) {
    sizes.insert(sizes.begin(), 3 - axes, filler);
    return sizes;
  };
  conv.in = widen(conv.in, 1);
  conv.kernel = widen(spec.per_axis("kernel", axes, 1), 1);
  conv.stride = widen(spec.per_axis("stride", axes, 1), 1);
  conv.pad = widen(spec.per_axis("pad", axes, 0), 0);
  conv.dilation = widen(spec.per_axis("dilation", axes, 1), 1);
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = conv.dilation[i] * (conv.kernel[i] - 1) + 1;
    conv.out.push_back(conv.transposed
                           ? (conv.in[i] - 1) * conv.stride[i] - 2 * conv.pad[i] + reach
                           : (conv.in[i] + 2 * conv.pad[i] - reach) / conv.stride[i] + 1);
  }
  return conv;
}

// Calls `visit(position)` for each position of a box, in row-major order.
template <class Visit>
void each(const Sizes& box, Visit visit) {
  int64_t at[3];
  for (at[0] = 0; at[0] < box[0]; ++at[0]) {
    for (at[1] = 0; at[1] < box[1]; ++at[1]) {
      for (at[2] = 0; at[2] < box[2]; ++at[2]) visit(at);
    }
  }
}

std::vector<double> convolve(const Conv& conv, const NaiveOperand& x, const NaiveOperand& w) {
  std::vector<double> y(conv.n * product(conv.out) * conv.co, 0.0);
  const int64_t ci_group = conv.ci / conv.groups, co_group = conv.co / conv.groups;
  auto accumulate = [&](int64_t image, const int64_t* in, const int64_t* tap, const int64_t* out) {
    for (int64_t k = 0; k < conv.co; ++k) {
      for (int64_t c = 0; c < ci_group; ++c) {
        y[conv.y_index(image, out, k)] +=
            x.at(conv.x_index(image, in, k / co_group * ci_group + c)) *
            w.at(conv.w_index(tap, c, k));
      }
    }
  };
  // A transposed convolution is the other one with input and output changed.
  const Sizes& near = conv.transposed ? conv.in : conv.out;
  const Sizes& far = conv.transposed ? conv.out : conv.in;
  for (int64_t image = 0; image < conv.n; ++image) {
    each(near, [&](const int64_t* from) {
      each(conv.kernel, [&](const int64_t* tap) {
        int64_t to[3];
        for (int i = 0; i < 3; ++i) {
          to[i] = from[i] * conv.stride[i] - conv.pad[i] + tap[i] * conv.dilation[i];
          if (to[i] < 0 || to[i] >= far[i]) return;
        }
        if (conv.transposed) {
          accumulate(image, from, tap, to);
        } else {
          accumulate(image, to, tap, from);
        }
      });
    });
  }
  return y;
}

std::vector<double> multiply(const PeerSpec& spec, const NaiveOperand& a, const NaiveOperand& b) {
  const int64_t batch = spec.size("batch", 1);
  const int64_t m = spec.size("m"), n = spec.size("n"), k = spec.size("k");
  std::vector<double> c(batch * m * n, 0.0);
  for (int64_t g = 0; g < batch; ++g) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += a.at(g * m * k + (spec.flag("trans_a") ? l * m + i : i * k + l)) *
                 b.at(g * k * n + (spec.flag("trans_b") ? j * k + l : l * n + j));
        }
        c[(g * m + i) * n + j] = sum;
      }
    }
  }
  return c;
}

std::vector<double> by_rows(const PeerSpec& spec, const NaiveOperand& x) {
  const bool norm = spec.op() == "norm";
  const int64_t rows = norm ? spec.size("b") : spec.size("m");
  const int64_t columns = norm ? spec.size("m") * spec.size("n") : spec.size("n");
  std::vector<double> y;
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0, squares = 0, exponentials = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const double value = x.at(i * columns + j);
      sum += value;
      squares += value * value;
      exponentials += std::exp(value);
    }
    if (norm) {
      y.push_back(std::sqrt(squares));
      continue;
    }
    const double mean = sum / columns, variance = squares / columns - mean * mean;
    for (int64_t j = 0; j < columns; ++j) {
      const double value = x.at(i * columns + j);
      y.push_back(spec.op() == "softmax" ? std::exp(value) / exponentials
                                         : (value - mean) / std::sqrt(variance + 1e-5));
    }
  }
  return y;
}

void apply_epilogue(const PeerSpec& spec, int64_t channels, const NaiveCase& inputs,
                    std::vector<double>& y) {
  auto operand = [&](const std::string& name) -> const NaiveOperand& {
    for (const NaiveOperand& each : inputs.operands) {
      if (each.name == name) return each;
    }
    throw std::logic_error("no operand " + name);
  };
  for (const std::string& step : spec.names("epilogue")) {
    for (size_t i = 0; i < y.size(); ++i) {
      if (step == "bias") y[i] += operand("bias").at(i % channels);
      if (step == "add") y[i] += operand("D").at(i);
      if (step == "relu") y[i] = std::max(y[i], 0.0);
      if (step == "silu") y[i] /= 1 + std::exp(-y[i]);
      if (step == "gelu") y[i] *= 0.5 * (1 + std::erf(y[i] * std::sqrt(0.5)));
    }
  }
}

NaiveOperand make(const std::string& name, int64_t elements, const std::string& type) {
  NaiveOperand operand;
  operand.name = name;
  operand.elements = elements;
  operand.integer = type != "f32";
  operand.element_bytes = type == "i8" ? 1 : 4;
  operand.data.resize(elements * operand.element_bytes);
  return operand;
}

void fill(NaiveOperand& operand, std::mt19937& random) {
  for (int64_t i = 0; i < operand.elements; ++i) {
    const int value = static_cast<int>(random() % 17) - 8;
    if (operand.integer) {
      operand.data[i] = static_cast<unsigned char>(static_cast<int8_t>(value));
    } else {
      operand.floats()[i] = static_cast<float>(value) / 8;
    }
  }
}

bool is_convolution(const std::string& op) { return op.find("conv") != std::string::npos; }

// The functions relu and mul, and the sum over all axes but the first.
std::vector<double> by_elements(const PeerSpec& spec, const NaiveCase& inputs) {
  const NaiveOperand& x = inputs.operands[0];
  if (spec.op() == "reduce") {
    std::vector<double> sums(spec.sizes("shape")[0], 0.0);
    const int64_t row = x.elements / static_cast<int64_t>(sums.size());
    for (int64_t i = 0; i < x.elements; ++i) sums[i / row] += x.at(i);
    return sums;
  }
  std::vector<double> y(x.elements);
  for (int64_t i = 0; i < x.elements; ++i) {
    y[i] =
        spec.text("fn", "") == "relu" ? std::max(x.at(i), 0.0) : x.at(i) * inputs.operands[1].at(i);
  }
  return y;
}

// The operands' names and sizes, the output last.
std::vector<NaiveOperand> shapes(const PeerSpec& spec) {
  const std::string in = spec.text("dtype", "f32"), out = in == "f32" ? "f32" : "i32";
  std::vector<NaiveOperand> all;
  int64_t outputs = 0, channels = 0;
  std::string output = "Y";
  if (spec.op() == "matmul") {
    const int64_t batch = spec.size("batch", 1), k = spec.size("k");
    channels = spec.size("n");
    outputs = batch * spec.size("m") * channels;
    all.push_back(make("A", batch * spec.size("m") * k, in));
    all.push_back(make("B", batch * k * channels, in));
    output = "C";
  } else if (is_convolution(spec.op())) {
    const Conv conv = conv_of(spec);
    channels = conv.co;
    outputs = conv.n * product(conv.out) * conv.co;
    all.push_back(make("X", conv.n * product(conv.in) * conv.ci, in));
    all.push_back(make("W", product(conv.kernel) * conv.ci / conv.groups * conv.co, in));
  } else if (spec.has("shape")) {
    const Sizes shape = spec.sizes("shape");
    outputs = spec.op() == "reduce" ? shape[0] : product(shape);
    all.push_back(make("X", product(shape), in));
    if (spec.text("fn", "relu") != "relu") all.push_back(make("Z", product(shape), in));
  } else {
    const int64_t matrix = spec.size("m") * spec.size("n");
    const bool norm = spec.op() == "norm";
    outputs = norm ? spec.size("b") : matrix;
    all.push_back(make("X", norm ? outputs * matrix : matrix, in));
  }
  for (const std::string& step : spec.names("epilogue")) {
    if (step == "bias") all.push_back(make("bias", channels, out));
    if (step == "add") all.push_back(make("D", outputs, out));
  }
  all.push_back(make(output, outputs, out));
  return all;
}

}  // namespace

double NaiveOperand::at(int64_t index) const {
  if (!integer) return floats()[index];
  if (element_bytes == 1) return static_cast<int8_t>(data[index]);
  int32_t value;
  std::memcpy(&value, data.data() + index * 4, 4);
  return value;
}

std::vector<TilewrightPeerOperand> NaiveCase::for_peer() {
  std::vector<TilewrightPeerOperand> list;
  for (NaiveOperand& operand : operands) {
    list.push_back({operand.name.c_str(), operand.data.data(), operand.data.size()});
  }
  return list;
}

NaiveCase naive_case(const nlohmann::json& spec) {
  NaiveCase made{shapes(PeerSpec(spec.dump()))};
  std::mt19937 random(7);
  for (NaiveOperand& operand : made.operands) fill(operand, random);
  NaiveOperand& output = made.output();
  if (output.integer) {
    std::fill(output.data.begin(), output.data.end(), static_cast<unsigned char>(0xff));
  } else {
    std::fill_n(output.floats(), output.elements, std::numeric_limits<float>::quiet_NaN());
  }
  return made;
}

std::vector<double> naive_result(const nlohmann::json& json, const NaiveCase& inputs) {
  const PeerSpec spec(json.dump());
  const auto& operands = inputs.operands;
  if (spec.has("shape")) return by_elements(spec, inputs);
  if (spec.op() != "matmul" && !is_convolution(spec.op())) return by_rows(spec, operands[0]);
  const bool product = spec.op() == "matmul";
  std::vector<double> y = product ? multiply(spec, operands[0], operands[1])
                                  : convolve(conv_of(spec), operands[0], operands[1]);
  apply_epilogue(spec, product ? spec.size("n") : conv_of(spec).co, inputs, y);
  return y;
}

}  // namespace tilewright::peers
