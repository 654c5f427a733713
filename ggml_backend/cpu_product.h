// ggml's own CPU backend for one product: what a kernel is compared with, and who computes where none is used.
#pragma once

#include <vector>

#include <ggml-backend.h>
#include <ggml.h>

namespace tilewright::ggml {

// One thread at a time may use it.
class CpuProduct {
 public:
  CpuProduct();
  CpuProduct(const CpuProduct&) = delete;
  CpuProduct& operator=(const CpuProduct&) = delete;
  ~CpuProduct();

  // Writes weight * rows into `out`. Returns the seconds by the wall's clock, negative where ggml failed.
  double run(const ggml_tensor& weight, const ggml_tensor& rows, float* out, int threads);
  // Seconds that starting ggml's CPU backend takes on so many threads: each product taken from it costs one more
  // start.
  double start_seconds(int threads);

 private:
  double compute(ggml_context* context, ggml_tensor* node, int threads);

  ggml_backend_t backend_ = nullptr;
  ggml_backend_set_n_threads_t set_threads_ = nullptr;
  std::vector<char> memory_;
  int measured_threads_ = 0;
  double start_ = 0;
};

double now_seconds();

}  // namespace tilewright::ggml
