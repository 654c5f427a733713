// tune-cli bench: the best kernels beside the peers, in turns in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/bench/bench_gpu.h"
#include "cli/bench/bench_job.h"
#include "cli/bench/bench_model.h"
#include "cli/bench/bench_report.h"
#include "cli/command.h"
#include "cli/kernel_worker.h"
#include "cli/lookup.h"
#include "cli/run/model_file.h"
#include "cli/sizes.h"

namespace tilewright::cli {
namespace {

constexpr double kBenchSeconds = 3600;  // for one workload: all sides take several turns

struct BenchArguments {
  CommonOptions common;
  Sizes sizes;
  int rounds = 7;
  uint64_t seed = 0;
  bool kinds = false;
  ModelBench model;
};

class Bench {
 public:
  Bench(const BenchArguments& a, const database::Store& store)
      : a_(a), store_(store), lookup_(a.common), contest_(Confined::No, {}) {}

  BenchPeers peers() { return bench_peers_from_json(contest_.run("peers", "null", 60).result); }
  BenchRow measure(const Workload& w);

 private:
  void add_default(const Workload& w, const BenchRow& row, int threads, BenchJob& job) const;
  std::string check(const Workload& w, const BenchRow& row,
                    const database::Artifact& artifact) const;

  const BenchArguments& a_;
  const database::Store& store_;
  Lookup lookup_;
  KernelWorker contest_;
};

BenchKernel bench_kernel(const Workload& w, const database::Artifact& artifact) {
  return {{reinterpret_cast<const char*>(artifact.bytes.data()), artifact.bytes.size()},
          stored_description(w, artifact)};
}

// The untuned default's kernel as the database keeps it: the newest one that was right.
void Bench::add_default(const Workload& w, const BenchRow& row, int threads, BenchJob& job) const {
  for (const database::Record& r : lookup_.defaults(store_, w)) {
    if (r.threads != threads) continue;
    if (auto artifact = store_.artifact(r)) {
      job.untuned = bench_kernel(w, *artifact.value);
      job.untuned_seconds = r.median_seconds * row.sized.flops / w.flops;
    }
  }
}

// The kernel's fault, in the words of replay.
std::string Bench::check(const Workload& w, const BenchRow& row,
                         const database::Artifact& artifact) const {
  MeasureJob job = measure_job(w, artifact, lookup_);
  job.dims = row.sizes;
  job.seed = a_.seed;
  job.time = false;
  KernelWorker checker(lookup_.target);  // gone when the contest wants its processors
  MeasureResult result = checker.measure(job);
  return result.verdict == Verdict::Ok ? "" : result.message;
}

BenchRow Bench::measure(const Workload& w) {
  BenchRow row{.workload = &w, .sizes = a_.sizes.of(w), .sized = at_sizes(w, a_.sizes.of(w))};
  database::BestResult best = lookup_.nearest_at(store_, w, row.sizes);
  if (!best.record || !best.artifact) {
    row.miss = best.miss;
    return row;
  }
  row.range = best.range;
  row.near = best.near;
  row.passed_over = best.passed_over;
  row.fault = check(w, row, *best.artifact);
  if (!row.fault.empty()) return row;
  BenchJob job{.kernel = bench_kernel(w, *best.artifact),
               .workload = w.canonical,
               .sized = row.sized.canonical,
               .dims = row.sizes,
               .seed = a_.seed,
               .threads = lookup_.threads,
               .rounds = a_.rounds};
  add_default(w, row, best.record->threads, job);
  JobResult done = contest_.run("bench", to_json(job), kBenchSeconds);
  if (done.status != JobStatus::Done) {
    row.fault = "beside the peers: " + failed_measurement(done).message;
    return row;
  }
  BenchTimes times = bench_times_from_json(done.result);
  row.seconds = times.seconds;
  row.default_seconds = times.default_seconds;
  row.disturbed = std::move(times.disturbed);
  row.peers = std::move(times.peers);
  row.absent = std::move(times.absent);
  return row;
}

BenchReport run_cpu(const BenchArguments& a, const std::vector<Workload>& workloads,
                    const database::Store& store) {
  Bench bench(a, store);
  BenchPeers peers = bench.peers();
  for (const std::string& p : peers.problems) note(a.common, p);
  BenchReport report{{}, std::move(peers.versions)};
  for (const Workload& w : workloads) report.rows.push_back(bench.measure(w));
  return report;
}

int run_bench(const BenchArguments& a) {
  std::vector<Workload> workloads = read_workloads(a.common);
  a.sizes.require_known(workloads);
  database::Store store = open_store(a.common);
  Lookup lookup(a.common);
  if (a.kinds && !lookup.target.is_cuda()) {
    throw UsageError(
        "--kinds is of a GPU's kernels; name its target, such as --target cuda:sm_90a");
  }
  note_confinement(a.common, lookup.target);
  BenchReport report = lookup.target.is_cuda()
                           ? bench_gpu(workloads, a.sizes, lookup, store, a.rounds, a.seed, a.kinds)
                           : run_cpu(a, workloads, store);
  if (a.common.json) {
    print_json(json_of(report, lookup.target, lookup.threads));
  } else {
    print_table(report, lookup.target, lookup.threads);
    for (const BenchRow& row : report.rows) {
      if (!row.miss.empty()) note_tuning(a.common, *row.workload);
    }
  }
  return report.any_wrong() ? kNoValidCandidate : kDone;
}

}  // namespace

void add_bench(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* sub = app.add_subcommand(
      "bench", "Times the best kernels beside baseline libraries, in interleaved rounds");
  add_common(*sub, a->common, {.cuda = true, .trust = true});
  a->sizes.add_to(*sub);
  sub->add_option("--rounds", a->rounds, "Rounds per kernel and baseline")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_option("--seed", a->seed, "Seed of the operands' values")->capture_default_str();
  sub->add_flag(
      "--kinds", a->kinds,
      "On a GPU, also time the best stored kernel of each kind: clusters, wgmma, mma, threads");
  sub->add_option("--onnx", a->model.onnx,
                  "ONNX file that a model file was made of: ONNX Runtime, OpenVINO, IREE, TVM and "
                  "ncnn run it "
                  "in turns with the model file, where scripts/peer_models has installed them")
      ->type_name("FILE");
  sub->add_option("--const", a->model.constants,
                  "Number of an input that the model file has as a constant")
      ->type_name("INPUT=NUMBER")
      ->take_all();
  sub->add_option("--peer-precision", a->model.peer_precision,
                  "Precision of OpenVINO beside a model file; its default is bf16 where the "
                  "processor has it")
      ->check(CLI::IsMember({"f32", "default"}))
      ->capture_default_str();
  sub->add_option("--time", a->model.time, "Time for a model file's rounds")
      ->type_name("TIME")
      ->capture_default_str();
  sub->footer(
      "Examples:\n  tune-cli bench operators.json --db kernels.db --threads 1\n"
      "  tune-cli bench matmul:m=4096,n=4096,k=4096,dtype=f16 --target cuda:sm_90a\n"
      "  tune-cli bench model.tw --onnx model.onnx --threads 1\n"
      "  tune-cli bench vad.tw --onnx vad.onnx --const sr=16000");
  runners["bench"] = [a, sub] {
    refuse_onnx(a->common);
    if (names_model(a->common)) {
      refuse_of_model(*sub, {"--rounds", "--kinds", "--dim", "--target", "--trust", "--pin"});
      a->model.seed = a->seed;
      return bench_model(a->common, a->model);
    }
    for (const char* option : {"--onnx", "--const", "--peer-precision", "--time"}) {
      if (sub->count(option) == 0) continue;
      throw UsageError(
          fmt::format("{}: of a model file; expected 'bench MODEL.tw' beside it", option));
    }
    return run_bench(*a);
  };
}

}  // namespace tilewright::cli
