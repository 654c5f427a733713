// tune-cli export: kernels as C that stands alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "cli/export_check.h"
#include "cli/export_kernel.h"
#include "cli/lookup.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "codegen/codegen.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ExportArguments {
  CommonOptions common;
  std::string out;
  bool untuned = false;
};

KernelSource default_kernel(const Workload& w, const Target& target) {
  SketchInput input{w, target, 1};
  Trial none = Trial::first();
  return generate_c(apply_sketch(default_sketch(), input, none).module(), target);
}

ExportedKernel best_kernel(const Workload& w, const ExportArguments& a, const Lookup& lookup) {
  database::Store store = database::Store::open(a.common.db, database::Mode::ReadOnly);
  database::BestResult best = lookup.best(store, w);
  if (!best.record || !best.artifact) {
    throw MissError(w, a.common, best.miss, "--default exports the untuned kernel");
  }
  ExportedKernel k;
  k.kernel.code = best.artifact->source;
  k.kernel.description = KernelDescription::from_json(best.artifact->description);
  std::istringstream flags(best.artifact->flags);
  for (std::string flag; flags >> flag;) k.kernel.flags.push_back(flag);
  k.origin = fmt::format("Tuned for {} thread{} of {}, where it takes {}", best.record->threads,
                         best.record->threads == 1 ? "" : "s", best.record->target.chip,
                         readable_seconds(best.record->median_seconds));
  return k;
}

ExportedKernel kernel_of(const Workload& w, const ExportArguments& a, const Lookup& lookup) {
  ExportedKernel k;
  if (a.untuned) {
    k.kernel = default_kernel(w, lookup.target);
    k.origin = "The untuned default for " + lookup.target.name;
  } else {
    k = best_kernel(w, a, lookup);
  }
  k.workload = &w;
  k.reference = default_kernel(w, Target::parse("generic"));
  return k;
}

int run_export(const ExportArguments& a) {
  Lookup lookup(a.common);
  std::vector<Workload> workloads = read_workloads(a.common);
  // Everything is made before anything is written.
  std::vector<ExportedKernel> kernels;
  std::vector<std::pair<std::string, std::string>> files;
  for (const Workload& w : workloads) {
    const ExportedKernel& k = kernels.emplace_back(kernel_of(w, a, lookup));
    std::string name = export_name(w);
    files.emplace_back(name + ".h", export_header(k));
    files.emplace_back(name + ".c", export_source(k));
    files.emplace_back(name + "_check.c", export_check(k));
  }
  std::error_code error;
  fs::create_directories(a.out, error);
  if (error) {
    throw UsageError(fmt::format("-o: cannot make the folder '{}': {}", a.out, error.message()));
  }
  for (const auto& [file, text] : files) write_text_file(fs::path(a.out) / file, text);
  Json list = Json::array();
  for (const ExportedKernel& k : kernels) {
    std::string name = export_name(*k.workload);
    list.push_back({{"spec", spec_to_inline(parse_spec(k.workload->canonical))},
                    {"name", name},
                    {"default", a.untuned},
                    {"files", {name + ".h", name + ".c", name + "_check.c"}},
                    {"build", build_line(k)}});
    if (!a.common.json) fmt::print("{}\n", build_line(k));
  }
  if (a.common.json) print_json({{"out", a.out}, {"results", list}});
  note(a.common, fmt::format("wrote {} files to {}", files.size(), a.out));
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ExportArguments>();
  CLI::App* sub =
      app.add_subcommand("export", "Writes kernels as C that needs nothing of this project");
  add_common(*sub, a->common, {.runs_kernels = false});
  sub->add_option("-o,--out", a->out, "The folder; files of the same names are replaced")
      ->required();
  sub->add_flag("--default", a->untuned, "The untuned kernel instead of the best");
  sub->footer(
      "For each spec a header, a source file, and a program that checks them; the lines that "
      "build\n"
      "it are printed.\n\n"
      "Examples:\n  tune-cli export matmul:m=512,n=768,k=768 -o kernels --db kernels.db\n"
      "  tune-cli export softmax:m=64,n=64 -o kernels --default");
  runners["export"] = [a] { return run_export(*a); };
}

}  // namespace tilewright::cli
