// The cost of each part of a tuning run and of a launch (Google Benchmark):
//   build/release/microbenchmarks --benchmark_filter=Launch
#include <benchmark/benchmark.h>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "runtime/machine/cpus.h"
#include "runtime/thread_pool.h"
#include "tuner/candidate.h"
#include "tuner/features/cost_model.h"
#include "tuner/features/features.h"

namespace tilewright {
namespace {

const char* const kSpecs[] = {
    "matmul:m=512,n=512,k=512,epilogue=[bias,relu]",
    "conv2d:n=1,h=14,w=14,ci=256,co=256,kernel=3,pad=1",
    "softmax:m=512,n=512",
};

Workload workload_of(const benchmark::State& state) {
  return parse_workload(kSpecs[state.range(0)]);
}

// A parallel loop with nothing to do: what a kernel pays for its threads.
void Launch(benchmark::State& state) {
  pin_current_thread(available_cpus().front());
  ThreadPool pool(static_cast<int>(state.range(0)));
  auto nothing = [](void*, int64_t, int64_t, int32_t) {};
  for (auto _ : state) pool.parallel_for(state.range(0), nothing, nullptr);
}
BENCHMARK(Launch)->Arg(1)->Arg(2)->UseRealTime();

void MakeCandidate(benchmark::State& state) {
  Workload w = workload_of(state);
  Target target = Target::parse("native");
  CandidateMaker maker(w, target, 2);
  uint64_t seed = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(maker.make(cpu_sketches().front(), Trial::random(++seed)));
  }
  state.SetLabel(w.op);
}
BENCHMARK(MakeCandidate)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

// The first answers of the sketch, lowered and printed.
void GenerateC(benchmark::State& state) {
  Workload w = workload_of(state);
  Target target = Target::parse("native");
  CandidateMaker maker(w, target, 2);
  auto candidate = maker.make(cpu_sketches().front(), Trial::first());
  if (!candidate) return state.SkipWithError("the first answers are illegal");
  for (auto _ : state) benchmark::DoNotOptimize(generate_c(candidate->module, target));
  state.SetLabel(w.op);
}
BENCHMARK(GenerateC)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

void Predict(benchmark::State& state) {
  size_t width = feature_names().size();
  std::vector<Sample> samples;
  for (int i = 0; i < 256; ++i) {
    samples.push_back({std::vector<float>(width, static_cast<float>(i % 17)), i / 256.0f});
  }
  CostModel model;
  model.train(samples);
  std::vector<std::vector<float>> rows(static_cast<size_t>(state.range(0)), samples[3].features);
  for (auto _ : state) benchmark::DoNotOptimize(model.predict(rows));
}
BENCHMARK(Predict)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tilewright

BENCHMARK_MAIN();
