// tune-cli compile: a model as one file of kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/line/duration.h"
#include "cli/line/interrupt.h"
#include "cli/models/gpu_program.h"
#include "cli/models/kernels_in_place.h"
#include "cli/models/model_error.h"
#include "cli/models/narrowing.h"
#include "cli/models/onnx_file.h"
#include "cli/models/program_file.h"
#include "cli/models/tuning.h"
#include "cli/output/output_file.h"
#include "cli/output/progress.h"
#include "graph/decoder/import_decoder.h"
#include "graph/import_onnx.h"
#include "graph/interpret.h"
#include "graph/loops/loops.h"
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
#include "serving/models/stored_model.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompileArguments {
  CommonOptions common;
  NarrowingArguments narrowing;
  std::string model, out, time;
  std::vector<std::string> dims, constants;
  int trials = -1;  // not given: 16, or as many as the time allows
  int parent = 0;   // the process without which there is nobody to compile for
  bool text = false, no_fusion = false, offline = false;
};

constexpr double kPlacedShare = 0.1;   // of --time, for choosing kernels inside the model
constexpr double kPlacedSeconds = 30;  // at most, without --time

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
  graph::Graph graph = graph::import_onnx(model, read_dims(a.dims), stand_ins,
                                          Target::parse(a.common.target).is_cuda());
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
  const bool is_gpu = Target::parse(a.common.target).is_cuda();
  if (!a.no_fusion) {
    graph::optimize(&graph, is_gpu ? graph::Processor::Gpu : graph::Processor::Cpu);
  }
  graph::verify(graph);
  return graph;
}

database::ServingContent content_of(const CompileArguments& a, const graph::Graph& graph,
                                    const Uses& uses) {
  const Target target = Target::parse(a.common.target);
  database::ServingContent content =
      serving::model_content(graph, target.is_cuda() ? target.name : "");
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
  for (const Json& node : said["plain_nodes"]) {
    fmt::print("{}: {} says a size by values; it runs on one thread, without a kernel\n",
               node["node"].get<std::string>(), node["operator"].get<std::string>());
  }
  if (a.offline) {
    fmt::print(
        "{}: {} a run, predicted by its data sheet; the kernels were checked in the emulator, and "
        "nothing was measured\n",
        a.common.target, readable_seconds(said["predicted_seconds"].get<double>()));
  }
  if (error) fmt::print("{}", narrowing.text(*error));
  return kDone;
}

// Whether the file runs, to be compared with the model. In the emulator that takes long.
bool is_compared(const CompileArguments& a, const Narrowing& narrowing) {
  const bool is_gpu = Target::parse(a.common.target).is_cuda();
  return narrowing.compares() && (!is_gpu || a.narrowing.tolerance > 0);
}

// Throws UsageError where the options do not fit the target, and GraphError where the program does not.
void require_target(const CompileArguments& a, const graph::Graph& graph) {
  const Target target = Target::parse(a.common.target);
  if (target.is_cuda()) return require_gpu_nodes(graph, target);
  if (!a.offline) return;
  throw UsageError(fmt::format(
      "--offline: expected a CUDA target such as cuda:sm_90a, got '{}': kernels of this "
      "machine's processor are measured",
      a.common.target));
}

// Kernels that this run would add to a database that others can write would not be taken either.
void require_trusted(const database::Store& store, const Tuning& tuning,
                     const CompileArguments& a) {
  const size_t lacking = store.distrust().empty() ? 0 : tuning.lacking().size();
  if (lacking == 0) return;
  throw database::DatabaseError(
      database::DatabaseError::Kind::Untrusted,
      fmt::format(
          "{}: kernels that are stored here will not be run: {}; {} workloads of the model have "
          "no other; expected --db in a folder that only you can write",
          a.common.db, store.distrust(), lacking));
}

// The nodes of these workloads, and the command that tells of the first one.
int report_lacking(const CompileArguments& a, const graph::Graph& graph, const Uses& uses,
                   const std::vector<size_t>& lacking) {
  std::set<std::string> specs;
  for (size_t i : lacking) specs.insert(uses.workloads[i].canonical);
  std::string nodes;
  graph::for_each_node(graph, [&](const graph::Graph& around, const graph::Node& node, double) {
    if (!node.is_workload()) return;
    const std::string spec = graph::ranged(around, node).spec;
    if (specs.contains(parse_workload(spec).canonical)) {
      nodes += fmt::format("\n  {}: {}", node.label, spec);
    }
  });
  fmt::print(stderr,
             "tune-cli: {} of {} workloads have no kernel that is right, and no file was written; "
             "this tells of the first one: {}{}; nodes:{}\n",
             lacking.size(), uses.workloads.size(),
             tune_command(uses.workloads[lacking[0]], a.common), a.offline ? " --offline" : "",
             nodes);
  return kNoValidCandidate;
}

int note_interruption(const CompileArguments& a) {
  note(a.common, "interrupted; all finished trials are kept, and the same command goes on");
  return kInterrupted;
}

// Kernels that race inside the model; none for a GPU, where a model is timed as one graph.
PlacedKernels placed_kernels(const CompileArguments& a, const database::Store& store,
                             const Uses& uses, const database::ServingContent& content) {
  if (Target::parse(a.common.target).is_cuda()) return {};
  const double seconds = a.time.empty() ? kPlacedSeconds : kPlacedShare * parse_time_limit(a.time);
  return choose_in_place(store, uses.workloads, content, a.out, a.common, seconds,
                         catch_interrupts());
}

TuningArguments tuning_arguments(const CompileArguments& a) {
  // Races inside the model take the rest; they measure.
  const double share = a.offline ? 1 : 1 - kPlacedShare;
  const int trials = a.trials >= 0 ? a.trials : a.time.empty() ? 16 : TuneOptions::kNoLimit;
  return {a.common, a.model, trials, a.time.empty() ? 0 : share * parse_time_limit(a.time),
          a.offline};
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
  require_target(a, graph);
  if (a.out.empty()) throw UsageError("-o: expected the name of the model file to write");
  require_writable_folder(a.out, "-o");  // tuning takes long
  const Uses uses = uses_of(graph);
  const graph::Plan plan = graph::plan_memory(graph);
  database::Store store = database::Store::open(a.common.db, database::Mode::Create);
  const TuningArguments wanted = tuning_arguments(a);
  Tuning tuning(wanted, uses, store);
  require_trusted(store, tuning, a);
  if (tuning.run()) return note_interruption(a);
  if (const std::vector<size_t> lacking = tuning.lacking(); !lacking.empty()) {
    return report_lacking(a, graph, uses, lacking);
  }
  database::ServingContent content = content_of(a, graph, uses);
  const PlacedKernels placed = placed_kernels(a, store, uses, content);
  if (catch_interrupts()) return note_interruption(a);
  content.chosen = placed.records;
  const database::ServingReport written = store.export_serving(a.out, content);
  size_t nodes = 0;
  Json plain = Json::array();  // nodes that no kernel serves
  graph::for_each_node(graph, [&](const auto&, const graph::Node& node, double) {
    ++nodes;
    if (node.is_plain()) plain.push_back({{"node", node.label}, {"operator", node.plain}});
  });
  std::optional<ModelError> error;
  if (is_compared(a, narrowing)) {
    error = error_of_model(a.out, model, narrowing.samples(), a.common);
  }
  return report_made(a, narrowing,
                     {{"model", a.model},
                      {"out", a.out},
                      {"nodes", nodes},
                      {"plain_nodes", plain},
                      {"workloads", uses.workloads.size()},
                      {"kernels", written.artifacts},
                      {"compared_in_place", placed.compared},
                      {"changed_in_place", placed.changed},
                      {"memory", plan.bytes},
                      {"least_memory", plan.least_bytes},
                      {"bytes", written.bytes},
                      {"predicted_seconds", a.offline ? Json(tuning.seconds()) : Json()}},
                     error);
}

}  // namespace

void add_compile(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<CompileArguments>();
  CLI::App* sub =
      app.add_subcommand("compile", "Makes one file of a model: program, kernels, constants");
  add_common(*sub, a->common, {.specs = false, .cuda = true});
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
  sub->add_option(
         "--trials", a->trials,
         "Candidates per workload that the database has no tuned kernel for (16; with --time "
         "as many as it allows); 0: take what is there, and first answers")
      ->check(CLI::Range(0, 1000000));
  sub->add_option("--time", a->time, "Time limit for tuning: 90s, 10m, 1h30m")->type_name("TIME");
  sub->add_flag("--offline", a->offline,
                "For a CUDA target without a GPU: rank candidates by the data sheet's model, check "
                "them in the emulator and measure nothing; the times are predicted");
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
      "  tune-cli compile model.onnx -o model.tw --target cuda:sm_90a --offline --trials 0\n"
      "  tune-cli compile model.onnx -o model.tw --precision i8 --in x=x.npy\n"
      "  tune-cli compile model.onnx -o model.tw --precision u4:128\n"
      "  tune-cli compile model.onnx --text\n"
      "  tune-cli compile program.tg -o model.tw\n"
      "  tune-cli compile model.gguf --dim context=2048 -o model.tw");
  runners["compile"] = [a] { return run_compile(*a); };
}

}  // namespace tilewright::cli
