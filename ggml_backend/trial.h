// Which products kernels take: those whose results agree with ggml's CPU backend and that are not slower.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "ggml_backend/cpu_product.h"
#include "ggml_backend/kernels.h"
#include "ggml_backend/launch.h"
#include "ggml_backend/verdicts.h"

namespace tilewright::ggml {

enum class Turn : uint8_t { Compare, Kernel, Cpu };

// The trial of products in place. A product is compared once. Then kernel and CPU backend compute it in turns,
// product by product of the same shape, so that a trial costs no run of its own, and weights come from where they
// come from later: the memory. So the first turn of each weight does not count where rows are few: a kernel's
// weight was packed just before, and the CPU backend's may be a file that nobody has read. Everything here may be
// called by many threads.
class Trials {
 public:
  // `kept` has the verdicts of earlier processes; null: there are none. A kernel wins that takes
  // at most `most` of the CPU backend's time.
  Trials(const Settings& settings, Verdicts* kept, double most = 1)
      : settings_(settings), kept_(kept), most_(most) {}

  // Whose turn it is for m rows.
  Turn next(const Product& product, int64_t m);
  // Whether a trial has ended against the kernel.
  bool is_lost(const Product& product, int64_t m);
  // The result of a comparison: the root mean square of the difference as a share of the CPU backend's.
  void compared(const Product& product, int64_t m, double difference);
  // Seconds of a turn with the weight at this address; `start` is what one more start of the CPU backend costs.
  void timed(const Product& product, int64_t m, Turn turn, const void* weight, double seconds,
             double start);
  // A kernel that failed is not asked again.
  void failed(const Product& product, int64_t m, const std::string& reason);

 private:
  enum class State : uint8_t { New, Timing, Won, Lost };
  struct Trial {
    State state = State::New;
    int64_t turns = 0;
    std::vector<double> kernel, cpu;
    std::set<std::pair<const void*, Turn>> seen;
  };
  // Products of similar numbers of rows share a trial: 1, 2 to 3, 4 to 7, …, 64 and more.
  Trial& trial(const Product& product, int64_t m);
  void end(const Product& product, int64_t m, bool is_won);

  const Settings& settings_;
  Verdicts* kept_;
  double most_;
  std::mutex mutex_;
  std::map<std::pair<Product, int>, Trial> trials_;
};

// The root mean square of a - b as a share of that of b; infinite where a has a NaN.
double difference_of(const float* a, const float* b, int64_t count);

// Whether kernels beat the buffer type `repacked` of ggml's CPU backend, whose weights no other backend can read, for
// one row and for several. By random weights, since it is asked before weights are there.
bool beats_repacked(Kernels& kernels, const Product& product, ggml_backend_buffer_type_t repacked);

}  // namespace tilewright::ggml
