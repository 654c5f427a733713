// The buffers that weights lie in, and the products of a graph that are ours.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "ggml_backend/kernels.h"
#include "ggml_backend/trial.h"

namespace tilewright::ggml {

// All that the process has of us, made once. Everything here may be called by many threads.
class State {
 public:
  explicit State(Settings settings)
      : kernels_(std::move(settings)), verdicts_(kernels_.settings()),
        trials_(kernels_.settings(), &verdicts_), threads_(kernels_.settings().threads) {}

  Kernels& kernels() { return kernels_; }
  Trials& trials() { return trials_; }

  // For how many threads kernels are looked for until a backend is told another number.
  int threads() const { return threads_; }
  void set_threads(int threads) { threads_ = threads; }

  // Whether a graph's node is a product that a kernel takes.
  bool takes(const ggml_tensor& node, ggml_backend_buffer_type_t own);

 private:
  bool takes_in_own_buffer(const Product& product);
  bool was_won(const Product& product, ggml_backend_buffer_type_t repacked);

  Kernels kernels_;
  Verdicts verdicts_;
  Trials trials_;
  std::atomic<int> threads_;
  std::mutex mutex_;
  std::map<Product, bool>
      placed_;  // whether weights of that kind go into our own buffers; of 0 threads
};

}  // namespace tilewright::ggml
