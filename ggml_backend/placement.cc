#include "ggml_backend/placement.h"

namespace tilewright::ggml {
namespace {

// A layout of ggml's CPU backend for weights of this kind that no other backend reads; null: there is none.
ggml_backend_buffer_type_t repacked_type(const Product& product) {
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (cpu == nullptr) return nullptr;
  const auto list =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
  if (list == nullptr) return nullptr;
  ggml_context* context = ggml_init({ggml_tensor_overhead() * 4, nullptr, true});
  ggml_tensor* weight = ggml_new_tensor_2d(context, product.type, product.k, product.n);
  ggml_tensor* node =
      ggml_mul_mat(context, weight, ggml_new_tensor_2d(context, GGML_TYPE_F32, product.k, 64));
  ggml_backend_buffer_type_t found = nullptr;
  for (ggml_backend_buffer_type_t* type = list(cpu);
       type != nullptr && *type != nullptr && found == nullptr; ++type) {
    weight->buffer = ggml_backend_buft_alloc_buffer(*type, 0);
    if (weight->buffer != nullptr && ggml_backend_dev_supports_op(cpu, node)) found = *type;
    ggml_backend_buffer_free(weight->buffer);
  }
  ggml_free(context);
  return found;
}

// A plain matrix of f32 rows times a plain weight.
bool is_plain(const ggml_tensor& node) {
  if (node.op != GGML_OP_MUL_MAT || node.type != GGML_TYPE_F32) return false;
  const ggml_tensor &weight = *node.src[0], &rows = *node.src[1];
  return rows.type == GGML_TYPE_F32 && ggml_is_contiguous(&rows) && ggml_is_contiguous(&node) &&
         ggml_is_contiguous(&weight) && weight.ne[2] == 1 && weight.ne[3] == 1 &&
         ggml_nrows(&rows) > 0;
}

}  // namespace

bool State::takes(const ggml_tensor& node, ggml_backend_buffer_type_t own) {
  if (!is_plain(node)) return false;
  const ggml_tensor& weight = *node.src[0];
  const Product product{weight.type, weight.ne[1], weight.ne[0], threads()};
  // A view's buffer is that of what it views; only whole weights are packed.
  if (weight.buffer == nullptr || weight.view_src != nullptr) return false;
  if (ggml_backend_buffer_get_type(weight.buffer) == own) return takes_in_own_buffer(product);
  if (ggml_backend_buffer_get_usage(weight.buffer) != GGML_BACKEND_BUFFER_USAGE_WEIGHTS ||
      !ggml_backend_buffer_is_host(weight.buffer)) {
    return false;
  }
  const int64_t m = ggml_nrows(node.src[1]);
  return !trials_.is_lost(product, m) && kernels_.find(product, rows_of(m)) != nullptr;
}

// Only weights that ggml would lay out in a form of its own need our buffers: all others stay where any backend
// reads them.
bool State::takes_in_own_buffer(const Product& product) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = placed_.try_emplace({product.type, product.n, product.k, 0}, false);
  if (!is_new) return place->second;
  ggml_backend_buffer_type_t repacked = repacked_type(product);
  if (repacked == nullptr) return false;
  const FoundKernel* one = kernels_.find(product, Rows::One);  // both, so that both misses are told
  const FoundKernel* several = kernels_.find(product, Rows::Several);
  if (one == nullptr || several == nullptr) return false;
  place->second = !kernels_.settings().trial || was_won(product, repacked);
  return place->second;
}

bool State::was_won(const Product& product, ggml_backend_buffer_type_t repacked) {
  const std::string key = describe(product) + " beside " + ggml_backend_buft_name(repacked) +
                          ", threads " + std::to_string(product.threads);
  const std::optional<bool> known = verdicts_.find(key);
  if (known) return *known;
  const bool is_won = beats_repacked(kernels_, product, repacked);
  verdicts_.add(key, is_won);
  return is_won;
}

}  // namespace tilewright::ggml
