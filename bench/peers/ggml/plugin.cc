// The ggml peer: products with weights in ggml's blocks, by its CPU backend. It rounds activations
// to 8 bits inside, with a scale for each block of 32 or 256, so its results differ from a float
// kernel's by what that costs.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "bench/peers/ggml/blocks.h"

namespace tilewright::peers {
namespace {

bool workers_gone = true;  // the next run starts threads

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Context = std::unique_ptr<ggml_context, Free<ggml_free>>;
using Backend = std::unique_ptr<ggml_backend, Free<ggml_backend_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Free<ggml_backend_buffer_free>>;

// For `tensors` tensors and a graph; their elements lie in buffers of the backend.
Context make_context(int tensors) {
  const size_t bytes = tensors * ggml_tensor_overhead() + ggml_graph_overhead();
  Context context(ggml_init({bytes, nullptr, /*no_alloc=*/true}));
  if (!context) throw std::runtime_error("ggml has no memory for a graph");
  return context;
}

// Kinds of memory in which the CPU backend lays weights out anew, best first.
std::vector<ggml_backend_buffer_type_t> repacking_memory(ggml_backend_dev_t device) {
  std::vector<ggml_backend_buffer_type_t> kinds;
  void* found = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                  "ggml_backend_dev_get_extra_bufts");
  if (found == nullptr) return kinds;
  auto* list = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(found)(device);
  for (; list != nullptr && *list != nullptr; ++list) kinds.push_back(*list);
  return kinds;
}

class BlockMatmul : public Problem {
 public:
  BlockMatmul(const PeerSpec& spec, int threads, const Operands& operands)
      : in_(spec.text("dtype", "f32")), out_(spec.text("out", in_)),
        a_count_(spec.size("m") * spec.size("k")), c_count_(spec.size("m") * spec.size("n")),
        a_(operands.get("A", a_count_ * bytes_of(in_))),
        c_(operands.get("C", c_count_ * bytes_of(out_))), backend_(ggml_backend_cpu_init()),
        weights_(make_context(1)), graph_memory_(make_context(4)) {
    if (!backend_) throw std::runtime_error("ggml has no CPU backend");
    ggml_backend_cpu_set_n_threads(backend_.get(), threads);
    const BlockWeight stored = block_weight(spec, operands);
    const int64_t m = spec.size("m"), n = spec.size("n"), k = spec.size("k");
    weight_ = ggml_new_tensor_2d(weights_.get(), stored.type, k, n);
    x_ = ggml_new_tensor_2d(graph_memory_.get(), GGML_TYPE_F32, k, m);
    product_ = ggml_mul_mat(graph_memory_.get(), weight_, x_);
    place_weight();
    ggml_backend_tensor_set(weight_, stored.rows.data(), 0, stored.rows.size());
    graph_ = ggml_new_graph_custom(graph_memory_.get(), GGML_DEFAULT_GRAPH_SIZE, false);
    ggml_build_forward_expand(graph_, product_);
    activations_.reset(ggml_backend_alloc_ctx_tensors(graph_memory_.get(), backend_.get()));
    if (!activations_) throw std::runtime_error("ggml has no memory for activations");
    describe(stored);
  }

  void run() override {
    if (!workers_gone) return multiply();
    UnpinnedThread unpinned;
    multiply();
    workers_gone = false;
  }

 private:
  static int64_t bytes_of(const std::string& type) {
    if (type == "f32") return 4;
    if (type == "bf16") return 2;
    if (type == "i8") return 1;
    throw Unsupported("no matmul in " + type);
  }

  // In memory that repacks the weight, where there is such for it.
  void place_weight() {
    ggml_backend_dev_t device = ggml_backend_get_device(backend_.get());
    for (ggml_backend_buffer_type_t kind : repacking_memory(device)) {
      weight_memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_.get(), kind));
      if (weight_memory_ && ggml_backend_dev_supports_op(device, product_)) return;
      weight_memory_.reset();
      weight_->buffer = nullptr;
      weight_->data = weight_->extra = nullptr;
    }
    weight_memory_.reset(ggml_backend_alloc_ctx_tensors(weights_.get(), backend_.get()));
    if (!weight_memory_) throw std::runtime_error("ggml has no memory for the weight");
  }

  void describe(const BlockWeight& stored) {
    const ggml_type activations = ggml_get_type_traits_cpu(stored.type)->vec_dot_type;
    std::string text = std::string(ggml_type_name(stored.type)) + " in " +
                       ggml_backend_buffer_name(weight_memory_.get()) +
                       ", activations rounded to " + ggml_type_name(activations);
    if (*stored.remark != 0) text += std::string(", ") + stored.remark;
    set_implementation(text, false);
  }

  // ggml takes and gives f32.
  void multiply() {
    auto* x = static_cast<float*>(x_->data);
    if (in_ == "f32") std::copy_n(static_cast<const float*>(a_), a_count_, x);
    if (in_ == "i8") std::copy_n(static_cast<const int8_t*>(a_), a_count_, x);
    if (in_ == "bf16") {
      const auto* a = static_cast<const uint16_t*>(a_);
      for (int64_t i = 0; i < a_count_; ++i) x[i] = std::bit_cast<float>(uint32_t{a[i]} << 16);
    }
    if (ggml_backend_graph_compute(backend_.get(), graph_) != GGML_STATUS_SUCCESS) {
      throw std::runtime_error("ggml failed");
    }
    const auto* product = static_cast<const float*>(product_->data);
    if (out_ == "f32") {
      std::copy_n(product, c_count_, static_cast<float*>(c_));
    } else {
      ggml_fp32_to_bf16_row(product, static_cast<ggml_bf16_t*>(c_), c_count_);
    }
  }

  std::string in_, out_;
  int64_t a_count_, c_count_;
  const void* a_;
  void* c_;
  Backend backend_;
  Context weights_, graph_memory_;
  Buffer weight_memory_, activations_;
  ggml_tensor *weight_ = nullptr, *x_ = nullptr, *product_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
};

std::unique_ptr<Problem> prepare_problem(const PeerSpec& spec, int threads,
                                         const Operands& operands) {
  if (spec.op() != "matmul") throw Unsupported("no operator " + spec.op());
  spec.size("m");  // refuses a range before anything else
  if (spec.size("batch", 1) != 1 || spec.flag("trans_a") || spec.flag("trans_b")) {
    throw Unsupported("no stored weight in a batch or transposed");
  }
  if (!spec.names("epilogue").empty()) throw Unsupported("no epilogue");
  const std::string in = spec.text("dtype", "f32"), out = spec.text("out", in);
  if (in != "f32" && in != "bf16" && in != "i8") throw Unsupported("no activations in " + in);
  if (out != "f32" && out != "bf16") throw Unsupported("no result in " + out);
  require_block_weight(spec);
  return std::make_unique<BlockMatmul>(spec, threads, operands);
}

void* prepare(const char* spec_json, int threads, const TilewrightPeerOperand* operands, int count,
              char* reason, size_t reason_size) {
  return prepare_guarded(prepare_problem, spec_json, threads, operands, count, reason, reason_size);
}

// Releases OpenMP's threads; the next run starts them again.
void quiesce() {
  omp_pause_resource_all(omp_pause_soft);
  workers_gone = true;
}

}  // namespace
}  // namespace tilewright::peers

extern "C" __attribute__((visibility("default"))) const TilewrightPeer* tilewright_peer() {
  using namespace tilewright::peers;
  static const std::string version = [] {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    return std::string(ggml_version()) + " (OpenMP" + (ggml_cpu_has_avx512_vnni() ? ", VNNI" : "") +
           ")";
  }();
  static const TilewrightPeer peer = {TILEWRIGHT_PEER_ABI, "ggml",      version.c_str(), prepare,
                                      implementation_of,   run_guarded, destroy_guarded, quiesce};
  return &peer;
}
