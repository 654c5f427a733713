#include "ggml_backend/trial.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tilewright::ggml {
namespace {

constexpr size_t kSamples = 7;
constexpr int64_t kManyRows = 16;  // reading the weight is a small part of the time
// In a trial by random weights these lie in the caches, so it has to be won clearly.
constexpr double kClearly = 0.9;

// The second least: other work on the machine makes times longer, and never shorter.
double undisturbed(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + 1);
  return times[1];
}

std::string describe(const Product& product, int64_t m) {
  return describe(product) + ", " + std::to_string(m) + (m == 1 ? " row" : " rows");
}

int size_of(int64_t m) {
  return std::min(7, static_cast<int>(std::bit_width(static_cast<uint64_t>(m))));
}

std::string key_of(const Product& product, int64_t m) {
  return describe(product, int64_t{1} << (size_of(m) - 1)) + ", threads " +
         std::to_string(product.threads);
}

int percent(double share) { return static_cast<int>(std::lround(share * 100)); }

}  // namespace

Trials::Trial& Trials::trial(const Product& product, int64_t m) {
  const auto [place, is_new] = trials_.try_emplace({product, size_of(m)});
  if (is_new && kept_ != nullptr) {
    const std::optional<bool> known = kept_->find(key_of(product, m));
    if (known) place->second.state = *known ? State::Won : State::Lost;
  }
  return place->second;
}

void Trials::end(const Product& product, int64_t m, bool is_won) {
  trial(product, m).state = is_won ? State::Won : State::Lost;
  if (kept_ != nullptr) kept_->add(key_of(product, m), is_won);
}

Turn Trials::next(const Product& product, int64_t m) {
  const std::lock_guard lock(mutex_);
  Trial& at = trial(product, m);
  if (at.state == State::Won || !settings_.trial)
    return at.state == State::Lost ? Turn::Cpu : Turn::Kernel;
  if (at.state == State::Lost) return Turn::Cpu;
  if (at.state == State::New) return Turn::Compare;
  return at.turns++ % 2 == 0 ? Turn::Kernel : Turn::Cpu;
}

bool Trials::is_lost(const Product& product, int64_t m) {
  const std::lock_guard lock(mutex_);
  return trial(product, m).state == State::Lost;
}

void Trials::compared(const Product& product, int64_t m, double difference) {
  const std::lock_guard lock(mutex_);
  Trial& at = trial(product, m);
  if (at.state != State::New) return;
  if (difference <= settings_.tolerance) {
    at.state = State::Timing;
    return;
  }
  end(product, m, false);
  say(GGML_LOG_LEVEL_WARN,
      describe(product, m) + " has a kernel whose results differ from ggml's by " +
          std::to_string(difference) + " of their root mean square; it is not used");
}

void Trials::timed(const Product& product, int64_t m, Turn turn, const void* weight, double seconds,
                   double start) {
  const std::lock_guard lock(mutex_);
  Trial& at = trial(product, m);
  if (at.state != State::Timing) return;
  if (m < kManyRows && at.seen.emplace(weight, turn).second) return;
  // Alone, the CPU backend's product has a start that it shares with its neighbours in ggml's graph.
  if (turn == Turn::Kernel) at.kernel.push_back(seconds + start);
  if (turn == Turn::Cpu) at.cpu.push_back(std::max(0.0, seconds - start));
  if (at.kernel.size() < kSamples || at.cpu.size() < kSamples) return;
  const double share = undisturbed(at.kernel) / std::max(undisturbed(at.cpu), 1e-9);
  end(product, m, share <= most_);
  say(GGML_LOG_LEVEL_INFO, describe(product, m) + ": the kernel takes " +
                               std::to_string(percent(share)) + "% of the CPU backend's time" +
                               (share <= most_ ? "" : "; it is not used"));
}

void Trials::failed(const Product& product, int64_t m, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    trial(product, m).state = State::Lost;
  }
  say(GGML_LOG_LEVEL_WARN, describe(product, m) + " goes to ggml's CPU backend: " + reason);
}

double difference_of(const float* a, const float* b, int64_t count) {
  double square = 0, whole = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    square += d * d;
    whole += static_cast<double>(b[i]) * b[i];
  }
  if (!(square >= 0) || !(whole >= 0)) return std::numeric_limits<double>::infinity();
  return square == 0 ? 0 : std::sqrt(square / whole);
}

namespace {

// Random weights in a buffer of the CPU backend's own layout.
class Repacked {
 public:
  Repacked(const Product& product, ggml_backend_buffer_type_t type, const void* bytes)
      : context_(ggml_init({ggml_tensor_overhead() * 2, nullptr, true})) {
    tensor_ = ggml_new_tensor_2d(context_, product.type, product.k, product.n);
    buffer_ = ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alloc_size(type, tensor_));
    if (buffer_ == nullptr) throw std::bad_alloc();
    ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_alloc(buffer_, tensor_, ggml_backend_buffer_get_base(buffer_));
    ggml_backend_tensor_set(tensor_, bytes, 0, ggml_nbytes(tensor_));
  }
  Repacked(const Repacked&) = delete;
  Repacked& operator=(const Repacked&) = delete;
  ~Repacked() {
    ggml_backend_buffer_free(buffer_);
    ggml_free(context_);
  }
  const ggml_tensor& tensor() const { return *tensor_; }

 private:
  ggml_context* context_;
  ggml_tensor* tensor_ = nullptr;
  ggml_backend_buffer_t buffer_ = nullptr;
};

std::vector<float> random_floats(int64_t count) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(engine);
  return values;
}

// A few rows of random values in the weight's type, over and over.
std::vector<char> random_weight(const Product& product) {
  const int64_t some = std::min<int64_t>(product.n, 32);
  const std::vector<float> values = random_floats(some * product.k);
  const size_t row = ggml_row_size(product.type, product.k);
  std::vector<char> bytes(row * static_cast<size_t>(product.n));
  ggml_quantize_chunk(product.type, values.data(), bytes.data(), 0, some, product.k, nullptr);
  for (int64_t j = some; j < product.n; ++j) {
    std::memcpy(&bytes[static_cast<size_t>(j) * row], &bytes[static_cast<size_t>(j % some) * row],
                row);
  }
  return bytes;
}

}  // namespace

bool beats_repacked(Kernels& kernels, const Product& product, ggml_backend_buffer_type_t repacked) {
  const std::vector<char> bytes = random_weight(product);
  const Repacked weight(product, repacked, bytes.data());
  CpuProduct cpu;
  LaunchMemory memory;
  for (const int64_t m : {int64_t{1}, kernels.settings().rows}) {
    const FoundKernel& kernel = *kernels.find(product, rows_of(m));
    const PackedWeight packed = Kernels::pack(kernel, product, bytes.data());
    ggml_context* context = ggml_init({ggml_tensor_overhead() * 2, nullptr, true});
    ggml_tensor* rows = ggml_new_tensor_2d(context, GGML_TYPE_F32, product.k, m);
    std::vector<float> given = random_floats(m * product.k),
                       mine(static_cast<size_t>(m * product.n));
    std::vector<float> theirs(mine.size());
    rows->data = given.data();
    Trials trials(kernels.settings(), nullptr, kClearly);
    for (size_t round = 0; round <= kSamples + 1; ++round) {
      const double begin = now_seconds();
      launch_product(kernel, packed, product, given.data(), mine.data(), m, kernels.settings().rows,
                     memory);
      const double own = now_seconds() - begin;
      const double other = cpu.run(weight.tensor(), *rows, theirs.data(), product.threads);
      if (round == 0) {
        trials.compared(product, m, difference_of(mine.data(), theirs.data(), m * product.n));
        continue;
      }
      const double start = cpu.start_seconds(product.threads);
      trials.timed(product, m, Turn::Kernel, bytes.data(), own, start);
      trials.timed(product, m, Turn::Cpu, bytes.data(), other, start);
    }
    ggml_free(context);
    if (trials.is_lost(product, m)) return false;
  }
  return true;
}

}  // namespace tilewright::ggml
