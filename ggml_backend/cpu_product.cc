#include "ggml_backend/cpu_product.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace tilewright::ggml {
namespace {

constexpr size_t kNodes = 8;

// A leaf with the elements of another tensor.
ggml_tensor* leaf_like(ggml_context* context, const ggml_tensor& tensor) {
  ggml_tensor* leaf = ggml_new_tensor(context, tensor.type, GGML_MAX_DIMS, tensor.ne);
  std::copy_n(tensor.nb, GGML_MAX_DIMS, leaf->nb);
  leaf->data = tensor.data;
  leaf->buffer = tensor.buffer;
  leaf->extra = tensor.extra;
  return leaf;
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

CpuProduct::CpuProduct()
    : memory_(ggml_tensor_overhead() * kNodes + ggml_graph_overhead_custom(kNodes, false)) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  backend_ = device == nullptr ? nullptr : ggml_backend_dev_init(device, nullptr);
  if (backend_ == nullptr) throw std::runtime_error("ggml has no CPU backend here");
  set_threads_ = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
}

CpuProduct::~CpuProduct() { ggml_backend_free(backend_); }

double CpuProduct::compute(ggml_context* context, ggml_tensor* node, int threads) {
  ggml_cgraph* graph = ggml_new_graph_custom(context, kNodes, false);
  ggml_build_forward_expand(graph, node);
  if (set_threads_ != nullptr) set_threads_(backend_, threads);
  const double begin = now_seconds();
  const bool is_done = ggml_backend_graph_compute(backend_, graph) == GGML_STATUS_SUCCESS;
  return is_done ? now_seconds() - begin : -1;
}

double CpuProduct::run(const ggml_tensor& weight, const ggml_tensor& rows, float* out,
                       int threads) {
  ggml_context* context = ggml_init({memory_.size(), memory_.data(), true});
  ggml_tensor* node = ggml_mul_mat(context, leaf_like(context, weight), leaf_like(context, rows));
  node->data = out;
  const double seconds = compute(context, node, threads);
  ggml_free(context);
  return seconds;
}

double CpuProduct::start_seconds(int threads) {
  if (measured_threads_ == threads) return start_;
  alignas(64) std::array<float, 16> values{};
  std::vector<double> times;
  for (int i = 0; i < 31; ++i) {
    ggml_context* context = ggml_init({memory_.size(), memory_.data(), true});
    ggml_tensor* leaf = ggml_new_tensor_1d(context, GGML_TYPE_F32, values.size());
    leaf->data = values.data();
    ggml_tensor* node = ggml_scale(context, leaf, 1.0F);
    node->data = values.data();
    times.push_back(compute(context, node, threads));
    ggml_free(context);
  }
  std::ranges::nth_element(times, times.begin() + 15);
  measured_threads_ = threads;
  return start_ = std::max(0.0, times[15]);
}

}  // namespace tilewright::ggml
