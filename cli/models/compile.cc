// tune-cli compile: a model as one file of kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/kernel_worker.h"
#include "cli/line/duration.h"
#include "cli/line/interrupt.h"
#include "cli/lookup.h"
#include "cli/models/kernels_in_place.h"
#include "cli/models/model_error.h"
#include "cli/models/narrowing.h"
#include "cli/models/onnx_file.h"
#include "cli/models/program_file.h"
#include "cli/output/output_file.h"
#include "cli/output/progress.h"
#include "graph/decoder/import_decoder.h"
#include "graph/import_onnx.h"
#include "graph/interpret.h"
#include "graph/optimize.h"
#include "graph/plan.h"
#include "graph/program.h"
#include "graph/sizes.h"
#include "models/onnx/external.h"
#include "models/weights/gguf.h"
#include "models/weights/mapped_file.h"
#include "models/weights/tensor_file.h"
#include "runtime/check/reference.h"
#include "runtime/error.h"
#include "runtime/thread_pool.h"
#include "serving/stored_model.h"
#include "tilewright/version.h"
#include "tuner/backend.h"
#include "tuner/search/tuner.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompileArguments {
  CommonOptions common;
  NarrowingArguments narrowing;
  std::string model, out, time;
  std::vector<std::string> dims, constants;
  int trials = 16;
  int parent = 0;  // the process without which there is nobody to compile for
  bool text = false, no_fusion = false;
};

constexpr double kPlacedShare = 0.1;   // of --time, for choosing kernels inside the model
constexpr double kPlacedSeconds = 30;  // at most, without --time

// Each workload once, with its number of uses.
struct Uses {
  std::vector<Workload> workloads;
  std::vector<double> counts;
  std::map<std::string, SpreadOperands> constants;  // by the workload's hash
};

Uses uses_of(const graph::Graph& graph) {
  Uses uses;
  std::map<std::string, size_t> places;
  std::set<size_t> weights;  // values
  for (const graph::Node& node : graph.nodes) {
    if (!node.is_workload()) continue;
    const std::string spec = graph::ranged(graph, node).spec;
    auto [place, fresh] = places.emplace(spec, uses.workloads.size());
    if (fresh) {
      uses.workloads.push_back(parse_workload(spec));
      uses.counts.push_back(0);
    }
    ++uses.counts[place->second];
    SpreadOperands& own = uses.constants[uses.workloads[place->second].hash()];
    for (const auto& [name, value] : node.operands) {
      if (!graph.values[value].constant) continue;
      weights.insert(value);
      if (std::ranges::count(own.names, name) == 0) own.names.push_back(name);
    }
  }
  int64_t bytes = 0;
  for (size_t value : weights) bytes += graph.values[value].bytes();
  for (auto& [workload, own] : uses.constants) own.bytes = bytes;
  return uses;
}

// The sizes of a decoder, a number each.
std::map<std::string, DimSize> fixed_dims(const CompileArguments& a) {
  std::map<std::string, DimSize> dims = read_dims(a.dims);
  for (const auto& [name, size] : dims) {
    if (!size.is_dynamic()) continue;
    throw UsageError(
        fmt::format("--dim {}={}..{}: a decoder is compiled for one size; expected a "
                    "number, such as --dim {}={}",
                    name, size.min, size.max, name, size.max));
  }
  return dims;
}

graph::Graph read_decoder(const CompileArguments& a) {
  graph::DecoderSizes sizes;
  const std::map<std::string, int64_t*> known = {{"context", &sizes.context},
                                                 {"tokens", &sizes.tokens}};
  for (const auto& [name, size] : fixed_dims(a)) {
    auto place = known.find(name);
    if (place == known.end()) {
      throw UsageError(
          fmt::format("--dim {}={}: a decoder has the sizes tokens and context", name, size.max));
    }
    *place->second = size.max;
  }
  if (a.narrowing.precision != "f32") {
    throw UsageError(fmt::format("--precision {}: the weights of a GGUF file keep their types",
                                 a.narrowing.precision));
  }
  graph::Graph graph = graph::import_decoder(weights::TensorFile::open(a.model), sizes);
  graph::verify(graph);
  return graph;
}

graph::Graph imported(std::string_view bytes, const CompileArguments& a,
                      const onnx::StandIns& stand_ins) {
  onnx::Model model = read_onnx(bytes, a.model);
  for (const auto& [name, value] : read_constants(a.constants))
    onnx::fix_input(&model, name, value);
  const onnx::ExternalData constants(model);
  graph::Graph graph = graph::import_onnx(model, read_dims(a.dims), stand_ins);
  graph::verify(graph);
  return graph;
}

// The model as it says, with what depends on constants alone computed.
graph::Graph read_graph(const CompileArguments& a, const onnx::StandIns& stand_ins) {
  const weights::MappedFile file(a.model);
  if (file.bytes().starts_with(weights::kGgufMagic)) return read_decoder(a);
  const bool is_program = graph::is_program(file.bytes(), a.model);
  if (is_program && !a.constants.empty()) {
    throw UsageError("--const: a program says its constants itself; expected const in its text");
  }
  graph::Graph graph = is_program ? read_program_file(a.model, a.dims, stand_ins)
                                  : imported(file.bytes(), a, stand_ins);
  ThreadPool pool(thread_count(a.common));
  graph::fold_constants(&graph, parallel_on(pool));
  return graph;
}

graph::Graph optimized(graph::Graph graph, const CompileArguments& a, const Narrowing& narrowing) {
  narrowing.apply(&graph);
  if (!a.no_fusion) graph::optimize(&graph);
  graph::verify(graph);
  return graph;
}

// Kernels for the workloads that the database lacks: the best first answer of each, so that the model
// runs, or its untuned default where that fails; then as many candidates as the options say where they
// save the model the most.
class Tuning {
 public:
  Tuning(const CompileArguments& a, const Uses& uses, database::Store& store)
      : a_(a), uses_(uses), store_(store), lookup_(a.common), interrupted_(catch_interrupts()) {}

  // The workloads without any kernel: no candidate was right, and neither was the default.
  std::vector<size_t> lacking() const {
    return without([&](const Workload& w) { return lookup_.best(store_, w).record.has_value(); });
  }

  // Returns whether it was interrupted.
  bool run() {
    const double started = steady_seconds();
    TuneOptions first;
    first.trials = 1;
    first.search.population = 0;
    first.measures_default = false;
    first.finalists = 0;
    tune_at(lacking(), first);
    TuneOptions fallback;
    fallback.trials = 1;
    tune_at(lacking(), fallback);
    TuneOptions search;
    search.resume = true;
    search.trials = a_.time.empty() ? a_.trials : TuneOptions::kNoLimit;
    if (!a_.time.empty()) {
      search.seconds =
          (1 - kPlacedShare) * parse_time_limit(a_.time) - (steady_seconds() - started);
      if (search.seconds <= 0) return interrupted_;
    }
    if (search.trials > 0) tune_at(without([&](const Workload& w) { return is_tuned(w); }), search);
    return interrupted_;
  }

 private:
  // Whether a search went beyond a first answer, here or elsewhere.
  bool is_tuned(const Workload& w) const {
    const database::BestResult best = lookup_.best(store_, w);
    const auto tried =
        store_.records({.workload_hash = w.hash(), .target_hash = lookup_.identity.hash});
    const auto found = std::ranges::count_if(tried.records, [&](const database::Record& r) {
      return !r.is_default && !r.offline && !r.confirmed && r.threads == lookup_.threads;
    });
    return found > 1 || (found == 0 && best.record && !best.record->is_default);
  }

  template <class Test>
  std::vector<size_t> without(Test&& test) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < uses_.workloads.size(); ++i) {
      if (!test(uses_.workloads[i])) found.push_back(i);
    }
    return found;
  }

  void tune_at(const std::vector<size_t>& which, TuneOptions o) {
    if (which.empty() || interrupted_) return;
    std::vector<Workload> workloads;
    for (size_t i : which) {
      workloads.push_back(uses_.workloads[i]);
      o.uses.push_back(uses_.counts[i]);
    }
    o.threads = lookup_.threads;
    o.measure = Backend::of(lookup_.target).measure_options();
    o.measure.threads = o.threads;
    o.measure.spread = uses_.constants;
    o.tool_version = TILEWRIGHT_VERSION;
    o.run_args = Json({{"model", a_.model}, {"trials", o.trials}}).dump();
    note_confinement(a_.common, lookup_.target);
    Measurer measurer(worker_command(), lookup_.target, o.measure);
    ProgressLine line(a_.common.quiet, {});
    tune(workloads, lookup_.target, lookup_.identity, store_, measurer, o, interrupted_,
         [&](const TuneProgress& p) { line.show(p); });
    line.finish();
  }

  const CompileArguments& a_;
  const Uses& uses_;
  database::Store& store_;
  Lookup lookup_;
  const std::atomic<bool>& interrupted_;
};

database::ServingContent content_of(const graph::Graph& graph, const Uses& uses) {
  database::ServingContent content = serving::model_content(graph);
  content.workloads.emplace();
  for (const Workload& w : uses.workloads) content.workloads->insert(w.hash());
  return content;
}

// Says what was made. Removes a file whose outputs are off by more than the tolerance.
int report_made(const CompileArguments& a, const Narrowing& narrowing, Json said,
                const std::optional<ModelError>& error) {
  const bool wrong = error && !(error->worst <= narrowing.tolerance());
  if (wrong) std::filesystem::remove(a.out);
  narrowing.describe(&said);
  said["error"] = error ? Json(error->worst) : Json();
  if (wrong) said["out"] = nullptr;
  if (a.common.json) print_json(said);
  if (wrong) {
    fmt::print(stderr, "tune-cli: {}\n", narrowing.refusal(*error));
    return kNoValidCandidate;
  }
  if (a.common.json) return kDone;
  fmt::print("{}: {} nodes, {} workloads, {} kernels, {:.1f} MB; a run takes {:.1f} MB\n", a.out,
             said["nodes"].get<size_t>(), said["workloads"].get<size_t>(),
             said["kernels"].get<size_t>(), said["bytes"].get<double>() * 1e-6,
             said["memory"].get<double>() * 1e-6);
  if (error) fmt::print("{}", narrowing.text(*error));
  return kDone;
}

int note_interruption(const CompileArguments& a) {
  note(a.common, "interrupted; all finished trials are kept, and the same command goes on");
  return kInterrupted;
}

int run_compile(const CompileArguments& a) {
  const graph::Graph model = read_graph(a, onnx::kStandIns);
  const Narrowing narrowing(model, a.narrowing, a.common);
  const graph::Graph graph = optimized(model, a, narrowing);
  if (!graph.dims.empty()) {
    graph::require_same(graph, optimized(read_graph(a, onnx::kOtherStandIns), a, narrowing));
  }
  if (a.text) {
    fmt::print("{}", to_string(graph));
    return kDone;
  }
  if (a.parent > 0) end_with_parent(a.parent);
  if (a.out.empty()) throw UsageError("-o: expected the name of the model file to write");
  require_writable_folder(a.out, "-o");  // tuning takes long
  const Uses uses = uses_of(graph);
  const graph::Plan plan = graph::plan_memory(graph);
  database::Store store = database::Store::open(a.common.db, database::Mode::Create);
  Tuning tuning(a, uses, store);
  if (tuning.run()) return note_interruption(a);
  if (const std::vector<size_t> lacking = tuning.lacking(); !lacking.empty()) {
    const Workload& w = uses.workloads[lacking[0]];
    fmt::print(stderr,
               "tune-cli: {} of {} workloads have no kernel that is right, and no file was "
               "written; this tells of the first one: {}\n",
               lacking.size(), uses.workloads.size(), tune_command(w, a.common));
    return kNoValidCandidate;
  }
  database::ServingContent content = content_of(graph, uses);
  const double seconds = a.time.empty() ? kPlacedSeconds : kPlacedShare * parse_time_limit(a.time);
  const PlacedKernels placed =
      choose_in_place(store, uses.workloads, content, a.out, a.common, seconds, catch_interrupts());
  if (catch_interrupts()) return note_interruption(a);
  content.chosen = placed.records;
  const database::ServingReport written = store.export_serving(a.out, content);
  std::optional<ModelError> error;
  if (narrowing.compares()) error = error_of_model(a.out, model, narrowing.samples(), a.common);
  return report_made(a, narrowing,
                     {{"model", a.model},
                      {"out", a.out},
                      {"nodes", graph.nodes.size()},
                      {"workloads", uses.workloads.size()},
                      {"kernels", written.artifacts},
                      {"compared_in_place", placed.compared},
                      {"changed_in_place", placed.changed},
                      {"memory", plan.bytes},
                      {"least_memory", plan.least_bytes},
                      {"bytes", written.bytes}},
                     error);
}

}  // namespace

void add_compile(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<CompileArguments>();
  CLI::App* sub =
      app.add_subcommand("compile", "Makes one file of a model: program, kernels, constants");
  add_common(*sub, a->common, {.specs = false});
  sub->add_option("model", a->model, "ONNX file, GGUF file of a decoder, or text of a program")
      ->required();
  sub->add_option("-o,--out", a->out, "Model file to write")->type_name("FILE");
  sub->add_option(
         "--dim", a->dims,
         "Size of a dimension that the model names, or the range of a size that each run gives; "
         "of a decoder tokens and context")
      ->type_name("NAME=SIZE|NAME=MIN..MAX")
      ->take_all();
  sub->add_option("--const", a->constants,
                  "Number that an input always is, so that it is none of the file's")
      ->type_name("INPUT=NUMBER")
      ->take_all();
  sub->add_option("--trials", a->trials,
                  "Candidates per workload that the database has no tuned kernel for; 0: take what "
                  "is there, and first answers")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  sub->add_option("--time", a->time, "Time limit for tuning, in place of --trials")
      ->type_name("TIME");
  add_narrowing(*sub, a->narrowing);
  sub->add_option("--parent", a->parent,
                  "Stop as on Ctrl-C when the process with this id has ended")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  sub->add_flag("--no-fusion", a->no_fusion, "Keep functions of elements as nodes of their own");
  sub->add_flag("--text", a->text, "Print the program and do nothing else");
  sub->footer(
      "Examples:\n  tune-cli compile model.onnx --dim batch=1 -o model.tw --db kernels.db\n"
      "  tune-cli compile model.onnx --dim batch=1..8 --dim seq=1..512 -o model.tw\n"
      "  tune-cli compile vad.onnx --const sr=16000 --dim batch=1 --dim sequence=576 -o vad.tw\n"
      "  tune-cli compile model.onnx -o model.tw --trials 0\n"
      "  tune-cli compile model.onnx -o model.tw --precision bf16 --tolerance 0.01\n"
      "  tune-cli compile model.onnx -o model.tw --precision i8 --in x=x.npy\n"
      "  tune-cli compile model.onnx -o model.tw --precision u4:128\n"
      "  tune-cli compile model.onnx --text\n"
      "  tune-cli compile program.tg -o model.tw\n"
      "  tune-cli compile model.gguf --dim context=2048 -o model.tw");
  runners["compile"] = [a] { return run_compile(*a); };
}

}  // namespace tilewright::cli
