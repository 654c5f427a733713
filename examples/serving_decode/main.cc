// Continuous batching: sequences come and go while a toy model is decoded, so that each step runs the
// same layer, with weights of 4 bits, for another number of rows. One kernel serves them all; nothing
// is prepared, packed or allocated between steps. Each sequence's result is held against plain loops.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <tilewright/tilewright.hpp>
#include <vector>

constexpr int kWidth = 128, kGroup = 32, kMostRows = 16, kThreads = 2;
const char* const kSpec = "matmul:m=1..16,n=128,k=128,w.dtype=i4,w.group=32";

// Operands are aligned to 64 bytes.
template <class T>
class Aligned {
 public:
  explicit Aligned(size_t count)
      : data_(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) / 64 + 1) * 64))) {}
  T* get() const { return data_.get(); }
  T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
};

// A matrix in somebody's memory, as DLPack describes it.
struct Matrix {
  Matrix(void* data, int64_t rows, int64_t columns, DLDataType type) : shape{rows, columns} {
    tensor = {data, {kDLCPU, 0}, 2, type, shape, nullptr, 0};
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  int64_t shape[2];
  DLTensor tensor{};
};

constexpr DLDataType kF32 = {kDLFloat, 32, 1};
constexpr DLDataType kBytes = {kDLUInt, 8,
                               1};  // two codes of 4 bits each, the first in the low half

// The layer's weight: codes of 4 bits and a scale for each group of 32 rows.
struct Weight {
  Aligned<uint8_t> codes{kWidth * kWidth / 2};
  Aligned<float> scales{kWidth / kGroup * kWidth};

  Weight() {
    for (size_t i = 0; i < kWidth * kWidth / 2; ++i)
      codes[i] = static_cast<uint8_t>(i * 37 + i / 64);
    for (size_t i = 0; i < kWidth / kGroup * kWidth; ++i) scales[i] = 0.01f * (1 + i % 4);
  }
  double at(size_t k, size_t n) const {
    const size_t i = k * kWidth + n;
    const int code = codes[i / 2] >> (i % 2 * 4) & 15;
    return (code < 8 ? code : code - 16) * static_cast<double>(scales[k / kGroup * kWidth + n]);
  }
};

// The toy model's activation between two layers.
double activation(double x) { return std::tanh(x); }

// The layer, packed and ready, with room for the largest batch.
class Layer {
 public:
  Layer(const std::string& database, Weight& weight)
      : prepared_(tw::Library(database).prepare({.specs = {kSpec}, .threads = kThreads})),
        kernel_(prepared_.find(kSpec)), pool_(kThreads),
        b_(weight.codes.get(), kWidth, kWidth / 2, kBytes),
        scale_(weight.scales.get(), kWidth / kGroup, kWidth, kF32), weights_(pack()),
        workspace_(kernel_.workspace_bytes(kThreads)) {}

  // The first `rows` rows of `in` through the layer.
  void run(int rows) {
    in_.shape[0] = out_.shape[0] = rows;
    kernel_.launch({.tensors = {&in_.tensor, &b_.tensor, &scale_.tensor, &out_.tensor},
                    .weights = &weights_,
                    .workspace = workspace_.get(),
                    .workspace_bytes = kernel_.workspace_bytes(kThreads),
                    .executor = pool_.executor()});
  }

  Aligned<float> in{kMostRows * kWidth}, out{kMostRows * kWidth};

 private:
  // Packs the operands that the kernel wants laid out; it says so for each.
  tw::Weights pack() {
    std::vector<tw_named_tensor> tensors;
    for (const tw_operand& operand : kernel_.operands()) {
      if (operand.packed == 0) continue;
      tensors.push_back(
          {operand.name, operand.name == std::string("B") ? &b_.tensor : &scale_.tensor});
    }
    return kernel_.pack(tensors, pool_.executor());
  }

  tw::Prepared prepared_;
  tw::Kernel kernel_;
  tw::Pool pool_;
  Matrix b_, scale_;
  tw::Weights weights_;
  Aligned<char> workspace_;
  Matrix in_{in.get(), 1, kWidth, kF32}, out_{out.get(), 1, kWidth, kF32};
};

struct Sequence {
  int id = 0, left = 0;  // steps that are left
  std::vector<double> expected;
};

// A step of one sequence, in plain loops.
void expect_step(const Weight& weight, std::vector<double>& state) {
  std::vector<double> next(kWidth);
  for (size_t n = 0; n < kWidth; ++n) {
    double sum = 0;
    for (size_t k = 0; k < kWidth; ++k) sum += state[k] * weight.at(k, n);
    next[n] = activation(sum);
  }
  state = next;
}

// Lets a new sequence take the next row.
void join(Layer& layer, std::vector<Sequence>& batch, int id) {
  Sequence s{id, 3 + id * 5 % 7, std::vector<double>(kWidth)};
  for (size_t k = 0; k < kWidth; ++k) {
    const float x = static_cast<float>((k * 3 + static_cast<size_t>(id)) % 11) / 11 - 0.5f;
    layer.in[batch.size() * kWidth + k] = x;
    s.expected[k] = static_cast<double>(x);
  }
  batch.push_back(s);
}

int decode(const std::string& database) {
  Weight weight;
  Layer layer(database, weight);
  std::vector<Sequence> batch;
  double worst = 0;
  int started = 0, steps = 0;
  size_t least = kMostRows, most = 0;
  while (started < 24 || !batch.empty()) {
    // Two come at a time, while there is room and any are left.
    for (int i = 0; i < 2 && started < 24 && batch.size() < kMostRows; ++i) {
      join(layer, batch, started++);
    }
    layer.run(static_cast<int>(batch.size()));
    ++steps;
    least = std::min(least, batch.size());
    most = std::max(most, batch.size());
    // Rows of sequences that go on move up.
    size_t kept = 0;
    for (size_t row = 0; row < batch.size(); ++row) {
      Sequence& s = batch[row];
      expect_step(weight, s.expected);
      for (size_t n = 0; n < kWidth; ++n) {
        const double y = activation(static_cast<double>(layer.out[row * kWidth + n]));
        worst = std::max(worst, std::abs(y - s.expected[n]));
        layer.in[kept * kWidth + n] = static_cast<float>(y);
      }
      if (--s.left > 0) std::swap(batch[kept++], s);
    }
    batch.resize(kept);
  }
  std::cout << "tilewright " << tw_version() << ": " << started << " sequences in " << steps
            << " steps of " << least << " to " << most << " rows, largest error " << worst << "\n";
  return worst < 1e-3 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return decode(argc > 1 ? argv[1] : "kernels.db");
  } catch (const tw::Error& error) {
    std::cerr << "decode: " << tw_status_name(error.status()) << ": " << error.what() << "\n";
    return 1;
  }
}
