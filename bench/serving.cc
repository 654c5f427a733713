// The cost of serving a kernel besides the kernel itself (Google Benchmark):
//   build/release/serving-bench
// Look-up is to stay under 1 µs at p99, a launch within 2 µs of a bare call of the kernel's function.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "database/store.h"
#include "ir/ops/spec.h"
#include "kernel/kernel_abi.h"
#include "kernel/target.h"
#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/identity.h"
#include "tilewright/tilewright.hpp"

namespace tilewright {
namespace {

constexpr int64_t kN = 8, kK = 16;

// A kernel that does next to nothing, so that only the way to it is timed.
KernelSource tiny_kernel() {
  KernelSource source;
  source.code = R"(
    typedef int int32_t; typedef long int64_t;
    int32_t kernel(void* const* args, const int64_t* dims, const void* context) {
      ((float*)args[2])[0] = ((float*)args[0])[0] + (float)dims[0];
      return 0;
    })";
  const KernelExtent m = KernelExtent::dimension(0);
  source.description.main.symbol = "kernel";
  source.description.main.params = {{"A", ElemType::f32, {m, kK}, ParamRole::Input},
                                    {"B", ElemType::f32, {kK, kN}, ParamRole::Weight},
                                    {"C", ElemType::f32, {m, kN}, ParamRole::Output}};
  source.description.dims = {"m"};
  return source;
}

std::string spec_of(int layer) { return "matmul:m=1.." + std::to_string(64 + layer) + ",n=8,k=16"; }

// A database with the tiny kernel under `layers` workloads.
class TinyDatabase {
 public:
  explicit TinyDatabase(int layers) {
    std::string pattern = std::filesystem::temp_directory_path() / "tilewright-serving.XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    database::Store store = database::Store::open(path(), database::Mode::Create);
    const KernelSource source = tiny_kernel();
    object = compile(source).object;
    database::Artifact artifact;
    auto* first = reinterpret_cast<const std::byte*>(object.data());
    artifact.bytes = {first, first + object.size()};
    artifact.description = source.description.to_json();
    const std::string hash = store.put_artifact(artifact);
    const TargetFacts facts = target_facts(Target::parse("native"));
    database::Transaction all = store.begin();
    for (int layer = 0; layer < layers; ++layer) {
      const Workload workload = parse_workload(spec_of(layer));
      database::Record record;
      record.workload_hash = workload.hash();
      record.workload_canonical = workload.canonical;
      record.op = workload.op;
      record.target = database::make_target(facts.chip, facts.features, facts.cores, facts.extra);
      record.sketch = "by_hand";
      record.sketch_version = 1;
      record.config = "{}";
      record.samples = {1e-6};
      record.artifact_hash = hash;
      store.insert(record);
    }
    all.commit();
  }
  ~TinyDatabase() { std::filesystem::remove_all(folder_); }
  TinyDatabase(const TinyDatabase&) = delete;
  TinyDatabase& operator=(const TinyDatabase&) = delete;

  std::string path() const { return folder_ / "kernels.db"; }
  std::string object;

 private:
  std::filesystem::path folder_;
};

// Operands of a batch of 4.
struct Batch {
  alignas(64) float a[4 * kK] = {}, b[kK * kN] = {}, c[4 * kN] = {};
  int64_t a_shape[2] = {4, kK}, b_shape[2] = {kK, kN}, c_shape[2] = {4, kN};
  DLTensor ta = tensor(a, a_shape), tb = tensor(b, b_shape), tc = tensor(c, c_shape);

  static DLTensor tensor(float* data, int64_t* shape) {
    return {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  }
};

tw::Prepared prepare(const TinyDatabase& db, int layers) {
  tw::PrepareOptions options;
  for (int layer = 0; layer < layers; ++layer) options.specs.push_back(spec_of(layer));
  return tw::Library(db.path()).prepare(options);
}

// Each look-up by itself, among as many layers as a large model has.
void Lookup(benchmark::State& state) {
  constexpr int kLayers = 300;
  pin_current_thread(available_cpus().front());
  TinyDatabase db(kLayers);
  tw::Prepared prepared = prepare(db, kLayers);
  std::vector<std::string> specs;
  for (int layer = 0; layer < kLayers; ++layer) specs.push_back(spec_of(layer));
  std::vector<double> nanoseconds;
  size_t next = 0;
  for (auto _ : state) {
    const std::string& spec = specs[next = (next + 7) % specs.size()];
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(prepared.find(spec));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count());
    nanoseconds.push_back(took.count() * 1e9);
  }
  std::sort(nanoseconds.begin(), nanoseconds.end());
  state.counters["p50_ns"] = nanoseconds[nanoseconds.size() / 2];
  state.counters["p99_ns"] = nanoseconds[nanoseconds.size() * 99 / 100];
}
BENCHMARK(Lookup)->UseManualTime()->Iterations(200000);

void BareCall(benchmark::State& state) {
  pin_current_thread(available_cpus().front());
  TinyDatabase db(1);
  Kernel kernel(db.object, tiny_kernel().description);
  Batch batch;
  void* args[] = {batch.a, batch.b, batch.c};
  const int64_t dims[] = {4};
  tw_context context = serial_context();
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernel.main_function()(args, dims, &context));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BareCall);

void Launch(benchmark::State& state) {
  pin_current_thread(available_cpus().front());
  TinyDatabase db(1);
  tw::Prepared prepared = prepare(db, 1);
  tw::Kernel kernel = prepared.find(spec_of(0));
  Batch batch;
  for (auto _ : state) {
    kernel.launch({.tensors = {&batch.ta, &batch.tb, &batch.tc}});
    benchmark::ClobberMemory();
  }
}
BENCHMARK(Launch);

}  // namespace
}  // namespace tilewright

BENCHMARK_MAIN();
