// The tables that ggml calls a backend by, and the functions that it looks for in a library.
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include <ggml-backend-impl.h>
#include "ggml_backend/placement.h"

namespace tilewright::ggml {
namespace {

constexpr const char* kName = "Tilewright";

State* g_state = nullptr;  // from ggml_backend_init on; it lives as long as the process

ggml_backend_device* device();
ggml_backend_buffer_type* buffer_type();

// --- Buffers: memory of ggml's CPU backend, aligned as kernels want it, under a type of our own -------------------

ggml_backend_buffer_t own_buffer(ggml_backend_buffer_t buffer) {
  if (buffer != nullptr) buffer->buft = buffer_type();
  return buffer;
}

ggml_backend_buffer_type* buffer_type() {
  static ggml_backend_buffer_type type = [] {
    ggml_backend_buffer_type made{};
    made.iface.get_name = [](ggml_backend_buffer_type_t) { return kName; };
    made.iface.alloc_buffer = [](ggml_backend_buffer_type_t, size_t size) {
      return own_buffer(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size));
    };
    made.iface.get_alignment = [](ggml_backend_buffer_type_t) -> size_t { return 64; };
    made.iface.is_host = [](ggml_backend_buffer_type_t) { return true; };
    made.device = device();
    return made;
  }();
  return &type;
}

// --- A backend: what one context of llama.cpp has ----------------------------------------------------------------

struct Context {
  Context() { g_state->kernels().enter(); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { g_state->kernels().leave(); }

  int threads = g_state->threads();
  CpuProduct cpu;
  LaunchMemory memory;
  Scratch compared;
};

Context& context_of(ggml_backend_t backend) { return *static_cast<Context*>(backend->context); }

double by_kernel(Context& context, const FoundKernel& kernel, const Product& product,
                 const ggml_tensor& node, float* out) {
  const auto weight = g_state->kernels().packed(kernel, *node.src[0]);
  const double begin = now_seconds();
  launch_product(kernel, *weight, product, static_cast<const float*>(node.src[1]->data), out,
                 ggml_nrows(node.src[1]), g_state->kernels().settings().rows, context.memory);
  return now_seconds() - begin;
}

bool by_cpu(Context& context, const ggml_tensor& node, double* seconds) {
  *seconds =
      context.cpu.run(*node.src[0], *node.src[1], static_cast<float*>(node.data), context.threads);
  return *seconds >= 0;
}

// The CPU backend's result stays.
bool compare(Context& context, const FoundKernel& kernel, const Product& product,
             const ggml_tensor& node) {
  const int64_t count = ggml_nelements(&node);
  float* own = context.compared.at_least(static_cast<size_t>(count) * sizeof(float));
  by_kernel(context, kernel, product, node, own);
  double seconds = 0;
  if (!by_cpu(context, node, &seconds)) return false;
  g_state->trials().compared(product, ggml_nrows(node.src[1]),
                             difference_of(own, static_cast<const float*>(node.data), count));
  return true;
}

bool compute(Context& context, const ggml_tensor& node) {
  const ggml_tensor& weight = *node.src[0];
  const int64_t m = ggml_nrows(node.src[1]);
  const Product product{weight.type, weight.ne[1], weight.ne[0], context.threads};
  const FoundKernel* kernel = g_state->kernels().find(product, rows_of(m));
  Trials& trials = g_state->trials();
  // Weights in our own buffers had their trial before they came here.
  const bool is_own = ggml_backend_buffer_get_type(weight.buffer) == buffer_type();
  const Turn turn = kernel == nullptr ? Turn::Cpu : is_own ? Turn::Kernel : trials.next(product, m);
  double seconds = 0;
  try {
    if (turn == Turn::Compare) return compare(context, *kernel, product, node);
    if (turn == Turn::Kernel) {
      seconds = by_kernel(context, *kernel, product, node, static_cast<float*>(node.data));
      trials.timed(product, m, turn, weight.data, seconds,
                   context.cpu.start_seconds(context.threads));
      return true;
    }
  } catch (const std::exception& error) {
    trials.failed(product, m, error.what());
  }
  if (!by_cpu(context, node, &seconds)) return false;
  if (kernel != nullptr)
    trials.timed(product, m, Turn::Cpu, weight.data, seconds,
                 context.cpu.start_seconds(context.threads));
  return true;
}

ggml_status compute_graph(ggml_backend_t backend, ggml_cgraph* graph) {
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor& node = *ggml_graph_node(graph, i);
    if (node.op != GGML_OP_MUL_MAT || (node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
    if (!compute(context_of(backend), node)) return GGML_STATUS_FAILED;
  }
  return GGML_STATUS_SUCCESS;
}

ggml_guid* guid() {
  static ggml_guid id = {0x54, 0x69, 0x6c, 0x65, 0x77, 0x72, 0x69, 0x67,
                         0x68, 0x74, 0x2d, 0x67, 0x67, 0x6d, 0x6c, 0x31};
  return &id;
}

ggml_backend_t make_backend(ggml_backend_dev_t made_on, const char*) {
  try {
    auto context = std::make_unique<Context>();
    auto backend = std::make_unique<ggml_backend>();
    *backend = {};
    backend->guid = guid();
    backend->iface.get_name = [](ggml_backend_t) { return kName; };
    backend->iface.free = [](ggml_backend_t old) {
      delete static_cast<Context*>(old->context);
      delete old;
    };
    backend->iface.graph_compute = compute_graph;
    backend->device = made_on;
    backend->context = context.release();
    return backend.release();
  } catch (const std::exception& error) {
    say(GGML_LOG_LEVEL_ERROR, error.what());
    return nullptr;
  }
}

void set_threads(ggml_backend_t backend, int threads) {
  context_of(backend).threads = threads;
  g_state->set_threads(threads);
}

// --- The device and the registry ---------------------------------------------------------------------------------

bool supports(ggml_backend_dev_t, const ggml_tensor* node) {
  switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return true;  // nothing is computed
    default: break;
  }
  try {
    return g_state->takes(*node, buffer_type());
  } catch (const std::exception& error) {
    say(GGML_LOG_LEVEL_WARN, error.what());
    return false;
  }
}

void describe_device(ggml_backend_dev_t, ggml_backend_dev_props* props) {
  *props = {};
  props->name = kName;
  props->description = "kernels of a Tilewright database";
  props->type = GGML_BACKEND_DEVICE_TYPE_ACCEL;
  props->caps.buffer_from_host_ptr = true;
  props->caps.mmap_support = true;
}

ggml_backend_reg* registry();

ggml_backend_device* device() {
  static ggml_backend_device made = [] {
    ggml_backend_device one{};
    one.iface.get_name = [](ggml_backend_dev_t) { return kName; };
    one.iface.get_description = [](ggml_backend_dev_t) {
      return "kernels of a Tilewright database";
    };
    one.iface.get_memory = [](ggml_backend_dev_t, size_t* free, size_t* total) {
      *free = *total = 0;
    };
    one.iface.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
    one.iface.get_props = describe_device;
    one.iface.init_backend = make_backend;
    one.iface.get_buffer_type = [](ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
      return buffer_type();
    };
    one.iface.buffer_from_host_ptr = [](ggml_backend_dev_t, void* memory, size_t size, size_t) {
      return own_buffer(ggml_backend_cpu_buffer_from_ptr(memory, size));
    };
    one.iface.supports_op = supports;
    one.iface.supports_buft = [](ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
      return ggml_backend_buft_is_host(type);
    };
    one.reg = registry();
    return one;
  }();
  return &made;
}

ggml_backend_reg* registry() {
  static ggml_backend_reg made = [] {
    ggml_backend_reg one{};
    one.api_version = GGML_BACKEND_API_VERSION;
    one.iface.get_name = [](ggml_backend_reg_t) { return kName; };
    one.iface.get_device_count = [](ggml_backend_reg_t) -> size_t { return 1; };
    one.iface.get_device = [](ggml_backend_reg_t, size_t) -> ggml_backend_dev_t {
      return device();
    };
    one.iface.get_proc_address = [](ggml_backend_reg_t, const char* name) -> void* {
      return std::string(name) == "ggml_backend_set_n_threads"
                 ? reinterpret_cast<void*>(set_threads)
                 : nullptr;
    };
    return one;
  }();
  return &made;
}

// Null, after a line that says why, where nothing can be served: the process then goes on without us.
ggml_backend_reg_t open_backend() {
  static const bool is_open = [] {
    try {
      // Structs of ggml change from version to version, under one number of the interface.
      if (std::string(ggml_version()) != TILEWRIGHT_GGML_VERSION) {
        throw SettingsError(
            "this backend was built for ggml " TILEWRIGHT_GGML_VERSION ", and this is " +
            std::string(ggml_version()) + "; scripts/llama/build makes another one");
      }
      g_state =
          new State(read_settings(std::getenv("TILEWRIGHT_DB"), std::getenv("TILEWRIGHT_GGML")));
    } catch (const std::exception& error) {
      say(GGML_LOG_LEVEL_ERROR,
          "everything stays with ggml's CPU backend: " + std::string(error.what()));
    }
    return g_state != nullptr;
  }();
  return is_open ? registry() : nullptr;
}

}  // namespace
}  // namespace tilewright::ggml

extern "C" {
__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  return tilewright::ggml::open_backend();
}
__attribute__((visibility("default"))) int ggml_backend_score() { return 1; }
}
