// One product in ggml's scheduler, with the backends that this process loads: who computes it, and how far its
// results are from those of the CPU backend and from exact sums over the weight's values.
//
// usage: products TYPE N K ROWS THREADS CALLS [repacked|rewritten]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace {

std::vector<float> random_floats(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

double difference(const std::vector<float>& a, const std::vector<double>& b) {
  double square = 0, whole = 0;
  for (size_t i = 0; i < a.size(); ++i)
    square += (a[i] - b[i]) * (a[i] - b[i]), whole += b[i] * b[i];
  return std::sqrt(square / whole);
}

struct Case {
  ggml_type type;
  int64_t n, k, m;
  int threads;
};

std::vector<char> stored_weight(const Case& c, unsigned seed) {
  const std::vector<float> values = random_floats(c.n * c.k, seed);
  std::vector<char> bytes(ggml_row_size(c.type, c.k) * static_cast<size_t>(c.n));
  if (c.type == GGML_TYPE_F32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    ggml_quantize_chunk(c.type, values.data(), bytes.data(), 0, c.n, c.k, nullptr);
  }
  return bytes;
}

std::vector<double> exact(const Case& c, const std::vector<char>& bytes,
                          const std::vector<float>& rows) {
  std::vector<float> weight(static_cast<size_t>(c.n * c.k));
  if (c.type == GGML_TYPE_F32) {
    std::memcpy(weight.data(), bytes.data(), bytes.size());
  } else {
    ggml_get_type_traits(c.type)->to_float(bytes.data(), weight.data(), c.n * c.k);
  }
  std::vector<double> out(static_cast<size_t>(c.m * c.n));
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < c.k; ++l) {
        sum += static_cast<double>(rows[static_cast<size_t>(i * c.k + l)]) *
               weight[static_cast<size_t>(j * c.k + l)];
      }
      out[static_cast<size_t>(i * c.n + j)] = sum;
    }
  }
  return out;
}

ggml_backend_t started(ggml_backend_dev_t device, int threads) {
  ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
  auto set = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  if (set != nullptr) set(backend, threads);
  return backend;
}

// As llama.cpp asks a device before it loads weights of this kind into the device's buffers.
bool wants_weight(ggml_backend_dev_t device, const Case& c) {
  ggml_context* context = ggml_init({ggml_tensor_overhead() * 4, nullptr, true});
  ggml_tensor* weight = ggml_new_tensor_2d(context, c.type, c.k, c.n);
  ggml_tensor* node =
      ggml_mul_mat(context, weight, ggml_new_tensor_2d(context, GGML_TYPE_F32, c.k, 512));
  weight->buffer = ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 0);
  const bool wants = ggml_backend_dev_supports_op(device, node);
  ggml_backend_buffer_free(weight->buffer);
  ggml_free(context);
  return wants;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  ggml_backend_load_all();
  Case c{GGML_TYPE_COUNT, std::atol(argv[2]), std::atol(argv[3]), std::atol(argv[4]),
         std::atoi(argv[5])};
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    const char* name = ggml_type_name(static_cast<ggml_type>(type));
    if (name != nullptr && argv[1] == std::string(name)) c.type = static_cast<ggml_type>(type);
  }
  if (c.type == GGML_TYPE_COUNT) return 2;
  const std::string mode = argc > 7 ? argv[7] : "";

  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  ggml_backend_dev_t own = ggml_backend_dev_by_name("Tilewright");
  std::vector<ggml_backend_t> backends;
  if (own != nullptr) backends.push_back(started(own, c.threads));
  backends.push_back(started(cpu, c.threads));

  ggml_context* weights = ggml_init({ggml_tensor_overhead() * 2, nullptr, true});
  ggml_tensor* weight = ggml_new_tensor_2d(weights, c.type, c.k, c.n);
  const bool is_wanted = mode == "repacked" && own != nullptr && wants_weight(own, c);
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(
      weights, is_wanted ? ggml_backend_dev_buffer_type(own) : ggml_backend_cpu_buffer_type());
  ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

  ggml_context* nodes =
      ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true});
  ggml_tensor* rows = ggml_new_tensor_2d(nodes, GGML_TYPE_F32, c.k, c.m);
  ggml_set_input(rows);
  ggml_tensor* product = ggml_mul_mat(nodes, weight, rows);
  ggml_set_output(product);
  ggml_cgraph* graph = ggml_new_graph(nodes);
  ggml_build_forward_expand(graph, product);

  ggml_backend_sched_t sched = ggml_backend_sched_new(
      backends.data(), nullptr, static_cast<int>(backends.size()), 64, false, true);
  const std::vector<float> given = random_floats(c.m * c.k, 7);
  std::vector<float> out(static_cast<size_t>(c.m * c.n));
  double worst = 0;
  std::string who;
  const int calls = std::atoi(argv[6]);
  std::vector<char> bytes;
  for (int call = 0; call < calls; ++call) {
    if (call == 0 || mode == "rewritten") {
      bytes = stored_weight(c, static_cast<unsigned>(call + 1));
      ggml_backend_tensor_set(weight, bytes.data(), 0, bytes.size());
    }
    ggml_backend_sched_reset(sched);
    if (!ggml_backend_sched_alloc_graph(sched, graph)) return 1;
    ggml_backend_tensor_set(rows, given.data(), 0, given.size() * sizeof(float));
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) return 1;
    ggml_backend_tensor_get(product, out.data(), 0, out.size() * sizeof(float));
    who = ggml_backend_name(ggml_backend_sched_get_tensor_backend(sched, product));
    worst = std::max(worst, difference(out, exact(c, bytes, given)));
  }
  std::printf("{\"backend\": \"%s\", \"own_buffer\": %s, \"exact\": %.3g}\n", who.c_str(),
              is_wanted ? "true" : "false", worst);
  ggml_backend_sched_free(sched);
  for (ggml_backend_t backend : backends) ggml_backend_free(backend);
  ggml_backend_buffer_free(buffer);
  ggml_free(nodes);
  ggml_free(weights);
  return 0;
}
