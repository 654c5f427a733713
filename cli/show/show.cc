// tune-cli show: what a kernel is, from the tensor expression to the assembly.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/gpu.h"
#include "cli/lookup.h"
#include "cli/tune/own_config.h"
#include "codegen/codegen.h"
#include "ir/text/printer.h"
#include "runtime/compile/compile.h"
#include "tuner/backend.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ShowArguments {
  CommonOptions common;
  bool expr = false, program = false, trace = false, config = false, source = false,
       assembly = false;
  bool untuned = false;
  std::string config_value;  // "true" for --config, a file for --config=FILE
};

// Which program a kernel is made of.
struct Chosen {
  const Sketch* sketch;
  std::string config = "{}";
  bool predicted = false;
};

// `lookup` becomes the one that the kernel was tuned for.
Chosen choose(const Workload& w, const ShowArguments& a, Lookup& lookup) {
  if (a.untuned) return {&Backend::of(lookup.target).untuned()};
  if (!a.config_value.empty() && a.config_value != "true") {
    for (const OwnConfig& own : read_own_configs(a.config_value)) {
      if (!own.is_for(w)) continue;
      require_fitting(own, a.config_value, {w, lookup.target, lookup.threads});
      return {own.sketch, own.config};
    }
    throw UsageError(fmt::format("{}: the config is of another workload than {}", a.config_value,
                                 spec_to_inline(parse_spec(w.canonical))));
  }
  database::Store store = open_store(a.common);
  lookup = lookup.as_tuned(store, w);
  const database::BestResult best = lookup.best_or_predicted(store, w);
  // A config is an answer for the instruction sets that it was tuned for.
  const bool other = best.record && best.record->target.features != lookup.identity.features;
  if (!best.record || other) {
    throw MissError(w, a.common, other ? best.near : best.miss,
                    "--default shows the untuned kernel");
  }
  const std::string problem = replay_problem(best.record->sketch, best.record->sketch_version);
  if (!problem.empty()) {
    throw MissError(w, a.common, problem + "; the kernel runs as it is stored",
                    "--default shows the untuned kernel");
  }
  return {find_sketch(best.record->sketch), best.record->config, best.record->offline};
}

// The sections of one workload, by section in the order of printing.
std::vector<std::pair<std::string, std::string>> sections(const Workload& w, const ShowArguments& a,
                                                          const Lookup& asked) {
  std::vector<std::pair<std::string, std::string>> out;
  if (a.expr) out.emplace_back("expr", to_string(w));
  if (!a.program && !a.trace && !a.config && !a.source && !a.assembly) return out;
  Lookup lookup = asked;
  const Chosen chosen = choose(w, a, lookup);
  SketchInput input{w, lookup.target, lookup.threads};
  Trial trial = Trial::replay(chosen.config);
  Schedule schedule = apply_sketch(*chosen.sketch, input, trial);
  if (a.config) {
    Json j = {{"sketch", chosen.sketch->name},
              {"version", chosen.sketch->version},
              {"config", Json::parse(chosen.config)}};
    if (chosen.predicted) j["predicted"] = true;
    out.emplace_back("config", j.dump() + "\n");
  }
  if (a.trace) out.emplace_back("trace", schedule.trace().str());
  if (a.program) out.emplace_back("program", to_string(schedule.module()));
  if (lookup.target.is_cuda() && (a.source || a.assembly)) {
    std::string text = generate_cuda(schedule.module(), lookup.target).text;
    if (a.source) out.emplace_back("source", text);
    if (a.assembly) out.emplace_back("asm", gpu_assembly(text, lookup.target));
  } else if (a.source || a.assembly) {
    KernelSource source = generate_c(schedule.module(), lookup.target);
    if (a.source) out.emplace_back("source", source.code);
    if (a.assembly) out.emplace_back("asm", compile_to_assembly(source));
  }
  return out;
}

int run_show(ShowArguments a) {
  a.config = a.config_value == "true";
  bool any = a.expr || a.program || a.trace || a.config || a.source || a.assembly;
  if (!any) a.expr = a.program = a.config = true;
  Lookup lookup(a.common);
  Json list = Json::array();
  for (const Workload& w : read_workloads(a.common)) {
    Json row = {{"spec", spec_to_inline(parse_spec(w.canonical))}};
    for (const auto& [name, text] : sections(w, a, lookup)) {
      row[name] = text;
      if (!a.common.json) fmt::print("{}{}", text, text.ends_with("\n") ? "" : "\n");
    }
    list.push_back(row);
  }
  if (a.common.json) print_json({{"results", list}});
  return kDone;
}

}  // namespace

void add_show(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ShowArguments>();
  CLI::App* sub = app.add_subcommand(
      "show", "Prints a kernel's expression, program, trace, config, source or assembly");
  add_common(*sub, a->common, {.runs_kernels = false, .cuda = true, .trust = true});
  sub->add_flag("--expr", a->expr, "Print the tensor expression");
  sub->add_flag("--program", a->program,
                "Print the scheduled program and its weight-packing programs");
  sub->add_flag("--trace", a->trace, "Print the schedule's trace");
  sub->add_flag("--config", a->config_value,
                "Print the sketch and its choices; --config=FILE: use the config in FILE instead "
                "of the best kernel");
  sub->add_flag("--source", a->source, "Print the generated C or CUDA C++");
  sub->add_flag("--asm", a->assembly, "Print the compiler's assembly; PTX for a GPU kernel");
  sub->add_flag("--default", a->untuned, "Show the untuned default instead of the best kernel");
  sub->footer(
      "Examples:\n  tune-cli show matmul:m=64,n=64,k=64 --default --source\n"
      "  tune-cli show matmul:m=64,n=64,k=64 --config > mine.json\n"
      "  tune-cli show matmul:m=64,n=64,k=64 --config=mine.json --program\n"
      "  tune-cli show matmul:m=64,n=64,k=64 --default --source --target cuda:sm_80");
  runners["show"] = [a] { return run_show(*a); };
}

}  // namespace tilewright::cli
