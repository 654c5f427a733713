// tune-cli extract: the workloads of a model.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/models/extract.h"
#include "cli/models/model_program.h"
#include "cli/models/onnx_file.h"
#include "cli/output/output_file.h"
#include "cli/output/table.h"
#include "models/onnx/external.h"
#include "models/onnx/layers.h"
#include "models/weights/mapped_file.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExtractArguments : ProgramArguments {
  std::string out, layout = "nchw";
  bool nodes = false;
};

double flops_of(const ModelWorkload& w) { return w.workload.flops * static_cast<double>(w.count); }

double total_flops(const ModelWorkloads& all) {
  double sum = 0;
  for (const ModelWorkload& w : all.workloads) sum += flops_of(w);
  return sum;
}

Json summary(const ModelWorkloads& all, const ExtractArguments& a) {
  Json results = Json::array(), left_out = Json::array();
  for (const ModelWorkload& w : all.workloads) {
    results.push_back({{"spec", spec_to_inline(parse_spec(w.workload.canonical))},
                       {"name", w.workload.label},
                       {"workload", w.workload.hash()},
                       {"count", w.count},
                       {"flops", w.workload.flops},
                       {"nodes", w.nodes},
                       {"notes", w.notes}});
  }
  for (const ModelLeftOut& l : all.left_out) {
    left_out.push_back({{"node", l.node}, {"op", l.op}, {"reason", l.reason}});
  }
  return {{"model", a.model},
          {"opsets", all.opsets},
          {"nodes", all.nodes},
          {"flops", total_flops(all)},
          {"out", a.out.empty() ? Json(nullptr) : Json(a.out)},
          {"results", results},
          {"left_out", left_out}};
}

// An expression is as long as its statements, which stand in the file.
std::string shown(const Workload& workload) {
  const Spec spec = parse_spec(workload.canonical);
  return spec.op == "expr" ? "expr for " + workload.label : spec_to_inline(spec);
}

// A line a workload, those with the most work first, then what is left out.
std::string table(const ModelWorkloads& all) {
  const double total = total_flops(all);
  std::vector<const ModelWorkload*> order;
  for (const ModelWorkload& w : all.workloads) order.push_back(&w);
  std::stable_sort(order.begin(), order.end(), [](const ModelWorkload* a, const ModelWorkload* b) {
    return flops_of(*a) > flops_of(*b);
  });
  std::string text = fmt::format("{:>6} {:>12} {:>6}  workload\n", "count", "MFLOP each", "share");
  const size_t width = terminal_width(STDOUT_FILENO), indent = 28;
  for (const ModelWorkload* w : order) {
    const std::string row =
        fmt::format("{:>6} {:>12.3f} {:>5.1f}%  {}", w->count, w->workload.flops * 1e-6,
                    total > 0 ? 100 * flops_of(*w) / total : 0, shown(w->workload));
    text += wrapped(row, width, indent) + "\n";
    for (const std::string& note : w->notes) {
      text += wrapped(std::string(indent, ' ') + note, width, indent) + "\n";
    }
  }
  text += fmt::format("{} workloads, {:.3f} GFLOP\n", all.workloads.size(), total * 1e-9);
  if (!all.left_out.empty()) text += fmt::format("{} nodes left out\n", all.left_out.size());
  for (const ModelLeftOut& l : all.left_out) {
    text += wrapped(fmt::format("  {} ({}): {}", l.node, l.op, l.reason), width, 4) + "\n";
  }
  return text;
}

// Data that was not there to be read, where that may have left nodes out.
std::string missing_text(const std::map<std::string, int>& missing) {
  std::string text;
  for (const auto& [file, count] : missing) {
    text += fmt::format("{} is not there: the values of {} {} are not known, their shapes are\n",
                        file, count, count == 1 ? "constant" : "constants");
  }
  return text;
}

// The workloads of single nodes, and the constants whose files are absent.
ModelWorkloads workloads_of_nodes(const ExtractArguments& a, std::map<std::string, int>* missing) {
  const weights::MappedFile file(a.model);
  onnx::Model model = read_onnx(file.bytes(), a.model);
  const onnx::ExternalData constants(model);
  *missing = constants.missing();
  return model_workloads(model, read_dims(a.dims), {a.layout == "nhwc"});
}

ModelWorkloads workloads_of_program(const ExtractArguments& a) {
  try {
    return program_workloads(read_model_program(a).graph, a.model);
  } catch (const graph::GraphError& e) {
    if (!a.model.ends_with(".onnx")) throw;
    throw graph::GraphError(
        fmt::format("{}\n'tune-cli extract {} --nodes' writes the specs of the other nodes",
                    e.what(), a.model));
  }
}

int run_extract(const ExtractArguments& a) {
  std::map<std::string, int> missing;
  const ModelWorkloads all = a.nodes ? workloads_of_nodes(a, &missing) : workloads_of_program(a);
  if (!a.out.empty()) write_text_file(a.out, spec_file(all));
  if (a.common.json) {
    Json said = summary(all, a);
    said["missing_files"] = missing;
    print_json(said);
  } else if (a.out.empty()) {
    std::cout << spec_file(all);
    note(a.common, table(all) + missing_text(missing));
  } else {
    fmt::print("{}{}", table(all), missing_text(missing));
  }
  return kDone;
}

}  // namespace

void add_extract(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ExtractArguments>();
  CLI::App* sub = app.add_subcommand("extract", "Writes the workloads of a model as specs");
  add_common(*sub, a->common,
             {.specs = false, .db = false, .threads = false, .runs_kernels = false, .cuda = true});
  add_program(*sub, *a);
  sub->add_option("-o,--out", a->out, "File for the specs; default: standard output")
      ->type_name("FILE");
  CLI::Option* nodes = sub->add_flag(
      "--nodes", a->nodes,
      "The specs of single nodes of an ONNX model, in the place of those that compile asks for");
  sub->add_option("--layout", a->layout,
                  "With --nodes, the layout of convolutions: channels first (nchw) or last (nhwc)")
      ->check(CLI::IsMember({"nchw", "nhwc"}))
      ->capture_default_str()
      ->needs(nodes);
  for (const char* name :
       {"--const", "--precision", "--tolerance", "--in", "--no-fusion", "--target"}) {
    nodes->excludes(sub->get_option(name));
  }
  sub->footer(
      "Examples:\n  tune-cli extract model.onnx --dim batch=1 --dim seq=1..512 -o specs.json\n"
      "  tune-cli tune specs.json --time 30m --db kernels.db\n"
      "  tune-cli compile model.onnx --dim batch=1 --dim seq=1..512 --db kernels.db -o model.tw "
      "--trials 0\n"
      "  tune-cli extract model.onnx --nodes --json");
  runners["extract"] = [a] { return run_extract(*a); };
}

}  // namespace tilewright::cli
