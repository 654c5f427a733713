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
#include "cli/models/model_program.h"
#include "cli/models/narrowing.h"
#include "cli/models/timed_layouts.h"
#include "cli/models/tuning.h"
#include "cli/output/output_file.h"
#include "cli/output/progress.h"
#include "graph/loops/loops.h"
#include "graph/plan.h"
#include "graph/sizes.h"
#include "runtime/error.h"
#include "runtime/machine/timer.h"
#include "serving/models/stored_model.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompileArguments : ProgramArguments {
  std::string out, time;
  int trials = -1;  // not given: 16, or as many as the time allows
  int parent = 0;   // the process without which there is nobody to compile for
  bool text = false, offline = false, hits = false;
};

constexpr double kPlacedShare = 0.1;   // of --time, for choosing kernels inside the model
constexpr double kPlacedSeconds = 30;  // at most, without --time

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

TuningArguments tuning_arguments(const CompileArguments& a) {
  // Races inside the model take the rest; they measure.
  const double share = a.offline ? 1 : 1 - kPlacedShare;
  const int trials = a.trials >= 0 ? a.trials : a.time.empty() ? 16 : TuneOptions::kNoLimit;
  return {a.common, a.model, trials, a.time.empty() ? 0 : share * parse_time_limit(a.time),
          a.offline};
}

// "\n  NAME: SPEC" of each node that has one of these workloads.
std::string nodes_of(const graph::Graph& graph, const Uses& uses,
                     const std::vector<size_t>& workloads) {
  std::set<std::string> specs;
  for (size_t i : workloads) specs.insert(uses.workloads[i].canonical);
  std::string nodes;
  graph::for_each_node(graph, [&](const graph::Graph& around, const graph::Node& node, double) {
    if (!node.is_workload()) return;
    const std::string spec = graph::ranged(around, node).spec;
    if (specs.contains(parse_workload(spec).canonical)) {
      nodes += fmt::format("\n  {}: {}", node.label, spec);
    }
  });
  return nodes;
}

// "\n  NAME: view:" of each node that is no workload.
std::string views_of(const graph::Graph& graph) {
  std::string nodes;
  graph::for_each_node(graph, [&](const graph::Graph&, const graph::Node& node, double) {
    if (!node.is_workload())
      nodes += fmt::format("\n  {}: view: other sizes of the same elements", node.label);
  });
  return nodes;
}

// The nodes of these workloads, and the command that tells of the first one.
int report_lacking(const CompileArguments& a, const graph::Graph& graph, const Uses& uses,
                   const std::vector<size_t>& lacking) {
  fmt::print(stderr,
             "tune-cli: {} of {} workloads have no kernel that is right, and no file was written; "
             "this tells of the first one: {}{}; nodes:{}\n",
             lacking.size(), uses.workloads.size(),
             tune_command(uses.workloads[lacking[0]], a.common), a.offline ? " --offline" : "",
             nodes_of(graph, uses, lacking));
  return kNoValidCandidate;
}

// The workloads of a program, as its database has them.
struct Wanted {
  Wanted(TuningArguments a, const graph::Graph& graph, database::Store& store)
      : uses(uses_of(graph)), arguments(std::move(a)), tuning(arguments, uses, store) {}
  Uses uses;
  TuningArguments arguments;
  Tuning tuning;
};

// The program whose workloads all have kernels in the database: that behind all passes, with layouts by times or by
// estimates, or the nodes as the model has them, which are the specs that a user tunes one by one. Throws MissError
// that names the nodes without any.
ModelProgram program_of_hits(const CompileArguments& a, ModelProgram program,
                             database::Store& store) {
  const TuningArguments arguments = tuning_arguments(a);
  const Wanted fused(arguments, program.graph, store);
  if (fused.uses.workloads.empty()) {
    throw MissError(fmt::format("{}: no file was written, since no kernel runs; nodes:{}", a.model,
                                views_of(program.graph)));
  }
  graph::Graph timed = with_timed_layouts(a, program, store, Lacking::Avoided);
  if (Wanted(arguments, timed, store).tuning.lacking().empty()) {
    program.graph = std::move(timed);
    return program;
  }
  if (fused.tuning.lacking().empty()) return program;
  ProgramArguments plain = a;
  plain.no_fusion = true;
  program = read_model_program(plain);
  const Wanted wanted(arguments, program.graph, store);
  const std::vector<size_t> misses = wanted.tuning.lacking();
  if (misses.empty()) return program;
  require_trusted(store, wanted.tuning, a);  // else its kernels would count as none
  throw MissError(
      fmt::format("{}: {} of {} workloads of {} have no kernel here with --threads {}, and no file "
                  "was written; "
                  "'tune-cli extract {} --no-fusion', with the same options, writes their specs "
                  "for tune; nodes:{}",
                  a.common.db, misses.size(), wanted.uses.workloads.size(), a.model,
                  thread_count(a.common), a.model, nodes_of(program.graph, wanted.uses, misses)));
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

int run_compile(const CompileArguments& a) {
  ModelProgram program = read_model_program(a);
  if (a.text) {
    fmt::print("{}", to_string(program.graph));
    return kDone;
  }
  if (a.parent > 0) end_with_parent(a.parent);
  require_target(a, program.graph);
  if (a.out.empty()) throw UsageError("-o: expected the name of the model file to write");
  require_writable_folder(a.out, "-o");  // tuning takes long
  database::Store store = database::Store::open(
      a.common.db, a.hits ? database::Mode::ReadOnly : database::Mode::Create);
  TuningArguments arguments = tuning_arguments(a);
  if (a.hits) {
    program = program_of_hits(a, std::move(program), store);
  } else {
    const double started = steady_seconds();
    if (time_layouts(a, program, arguments, store)) return note_interruption(a);
    program.graph = with_timed_layouts(a, program, store, Lacking::Estimated);
    // A limit that is all used up is still one.
    if (arguments.seconds > 0) {
      arguments.seconds = std::max(1e-3, arguments.seconds - (steady_seconds() - started));
    }
  }
  const auto& [model, narrowing, graph] = program;
  const graph::Plan plan = graph::plan_memory(graph);
  Wanted wanted(arguments, graph, store);
  const Uses& uses = wanted.uses;
  Tuning& tuning = wanted.tuning;
  require_trusted(store, tuning, a);
  if (!a.hits && tuning.run()) return note_interruption(a);
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
  add_program(*sub, *a);
  sub->add_option("-o,--out", a->out, "Model file to write")->type_name("FILE");
  sub->add_option(
         "--trials", a->trials,
         "Candidates per workload that the database has no tuned kernel for (16; with --time "
         "as many as it allows); 0: take what is there, and first answers")
      ->check(CLI::Range(0, 1000000));
  sub->add_option("--time", a->time, "Time limit for tuning: 90s, 10m, 1h30m")->type_name("TIME");
  CLI::Option* hits = sub->add_flag(
      "--hits", a->hits,
      "Take kernels that the database has and tune nothing; a model with other workloads is "
      "refused, and its nodes without a kernel are named");
  CLI::Option* offline = sub->add_flag(
      "--offline", a->offline,
      "For a CUDA target without a GPU: rank candidates by the data sheet's model, check "
      "them in the emulator and measure nothing; the times are predicted");
  hits->excludes(offline)
      ->excludes(sub->get_option("--trials"))
      ->excludes(sub->get_option("--time"));
  sub->add_option("--parent", a->parent,
                  "Stop as on Ctrl-C when the process with this id has ended")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  sub->add_flag("--text", a->text, "Print the program and do nothing else");
  sub->footer(
      "Examples:\n  tune-cli compile model.onnx --dim batch=1 -o model.tw --db kernels.db\n"
      "  tune-cli compile model.onnx --dim batch=1..8 --dim seq=1..512 -o model.tw\n"
      "  tune-cli compile vad.onnx --const sr=16000 --dim batch=1 --dim sequence=576 -o vad.tw\n"
      "  tune-cli compile model.onnx -o model.tw --trials 0\n"
      "  tune-cli compile model.onnx -o model.tw --db kernels.db --hits\n"
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
