// tune-cli export: kernels as C that stands alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "cli/export/export_check.h"
#include "cli/export/export_gpu.h"
#include "cli/export/export_kernel.h"
#include "cli/export/export_model.h"
#include "cli/export/export_shared.h"
#include "cli/export/export_triton.h"
#include "cli/lookup.h"
#include "cli/output/output_file.h"
#include "cli/output/progress.h"
#include "cli/run/model_file.h"
#include "codegen/codegen.h"
#include "serving/models/stored_model.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kExportDefault = "--default exports the untuned kernel";

struct ExportArguments {
  CommonOptions common;
  std::string out;
  bool untuned = false;
  bool shared = false;
  bool triton = false;
  Conventions with;

  bool wants_object() const { return shared || with.tvm_ffi || with.jax_ffi; }
};

KernelSource default_kernel(const Workload& w, const Target& target) {
  SketchInput input{w, target, 1};
  Trial none = Trial::first();
  return generate_c(apply_sketch(default_sketch(), input, none).module(), target);
}

ExportedKernel best_kernel(const Workload& w, const ExportArguments& a, const Lookup& lookup) {
  database::Store store = open_store(a.common);
  database::BestResult best = lookup.nearest_at(store, w);
  if (!best.record || !best.artifact) {
    throw MissError(w, a.common, best.miss, kExportDefault);
  }
  if (!best.near.empty()) {
    note(a.common, fmt::format("{}: near: {}", spec_to_inline(parse_spec(w.canonical)), best.near));
  }
  ExportedKernel k;
  k.kernel.code = best.artifact->source;
  k.kernel.description = KernelDescription::from_json(best.artifact->description);
  std::istringstream flags(best.artifact->flags);
  for (std::string flag; flags >> flag;) k.kernel.flags.push_back(flag);
  k.threads = best.record->threads;
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

using Files = std::vector<std::pair<std::string, std::string>>;  // names and contents

// Writes the files, and gives their names.
Json written(const Files& files, const std::string& folder) {
  Json names = Json::array();
  for (const auto& [file, text] : files) {
    write_text_file(fs::path(folder) / file, text);
    names.push_back(file);
  }
  return names;
}

// The files of one workload, and the line that builds them.
struct Exported {
  const Workload* workload;
  Files files;
  std::string build;
  std::string shared_build = {};  // of the shared object, where one is asked for
};

Exported export_cpu(const Workload& w, const ExportArguments& a, const Lookup& lookup) {
  ExportedKernel k = kernel_of(w, a, lookup);
  std::string name = export_name(w);
  Exported e{&w,
             {{name + ".h", export_header(k)},
              {name + ".c", export_source(k)},
              {name + "_check.c", export_check(k)}},
             build_line(k)};
  if (a.wants_object()) {
    e.shared_build = shared_build_line(k);
    e.files.emplace_back(name + "_shared.c", shared_source(k, a.with));
    e.files.emplace_back(name + ".so", shared_object(k, a.with));
  }
  return e;
}

Exported export_cuda(const Workload& w, const ExportArguments& a, const Lookup& lookup) {
  ExportedGpuKernel k;
  k.workload = &w;
  k.gpu = gpu_kernel_for(w, a.common, lookup, a.untuned, kExportDefault);
  compile_kernel(k.gpu, lookup.target);
  k.reference = default_kernel(w, Target::parse("generic"));
  Exported e{&w, export_gpu_files(k), gpu_build_line(k)};
  if (a.triton) {
    e.files.emplace_back(export_name(w) + "_triton.py",
                         triton_source(w, k.gpu.config, lookup.target, k.gpu.origin));
  }
  return e;
}

// The line that builds what was written stands in its folder.
std::string enter(const std::string& folder) {
  if (fs::path(folder).lexically_normal() == ".") return "";
  return fmt::format("cd {} && ", database::quoted(folder));
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  throw UsageError(fmt::format("-o: cannot make the folder '{}': {}", path, error.message()));
}

// A model file, with the kernels that it holds.
int run_export_model(ExportArguments a) {
  a.common.db = a.common.specs[0];
  require_model_file(a.common.db);
  const Lookup lookup(a.common);
  serving::StoredModel stored(a.common.db, trust_of(a.common));
  if (Target::parse(stored.target()).is_cuda()) {
    throw UsageError(fmt::format(
        "'{}' was compiled for {}; whole models are exported for CPUs, as compile without "
        "--target makes them",
        a.common.db, stored.target()));
  }
  ExportedModel model;
  model.name = c_name(fs::path(a.common.db).stem().string());
  model.graph = stored.graph();
  graph::verify(model.graph);
  model.data = [&](const graph::Value& constant) { return stored.data(constant); };
  model.kernel = [&](const Workload& w) { return kernel_of(w, a, lookup); };
  const auto files = export_model(model);
  make_folder(a.out);
  const Json names = written(files, a.out);
  if (a.common.json) {
    print_json({{"out", a.out}, {"name", model.name}, {"files", names}, {"build", "make"}});
  } else {
    fmt::print("make -C {}\n", a.out);
  }
  note(a.common, fmt::format("wrote {} files to {}", files.size(), a.out));
  return kDone;
}

int run_export(const ExportArguments& a) {
  Lookup lookup(a.common);
  if (a.wants_object() && lookup.target.is_cuda()) {
    throw UsageError(fmt::format("{}: shared objects are made for CPU targets; the target is {}",
                                 a.with.tvm_ffi   ? "--tvm-ffi"
                                 : a.with.jax_ffi ? "--jax-ffi"
                                                  : "--shared",
                                 lookup.target.name));
  }
  if (a.triton && !lookup.target.is_cuda()) {
    throw UsageError(fmt::format(
        "--triton: tiles are printed of kernels for GPUs; the target is {}; 'tune-cli targets' "
        "lists those that begin with cuda:",
        lookup.target.name));
  }
  if (a.triton && a.untuned) {
    throw UsageError(fmt::format(
        "--triton: the untuned default has no tiles; 'tune-cli tune SPEC --offline --target {}' "
        "chooses some without a GPU, then export without --default",
        lookup.target.name));
  }
  std::vector<Workload> workloads = read_workloads(a.common);
  // Everything is made before anything is written.
  std::vector<Exported> all;
  for (const Workload& w : workloads) {
    all.push_back(lookup.target.is_cuda() ? export_cuda(w, a, lookup) : export_cpu(w, a, lookup));
  }
  make_folder(a.out);
  Json list = Json::array();
  size_t count = 0;
  for (const Exported& e : all) {
    const Json names = written(e.files, a.out);
    count += e.files.size();
    list.push_back({{"spec", spec_to_inline(parse_spec(e.workload->canonical))},
                    {"name", export_name(*e.workload)},
                    {"default", a.untuned},
                    {"files", names},
                    {"build", e.build}});
    if (!e.shared_build.empty()) list.back()["shared_build"] = e.shared_build;
    if (!a.common.json) fmt::print("{}{}\n", enter(a.out), e.build);
  }
  if (a.common.json) print_json({{"out", a.out}, {"results", list}});
  note(a.common, fmt::format("wrote {} files to {}", count, a.out));
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<ExportArguments>();
  CLI::App* sub = app.add_subcommand("export", "Writes kernels, or a whole model, as standalone C");
  add_common(*sub, a->common, {.runs_kernels = false, .cuda = true, .trust = true});
  sub->add_option("-o,--out", a->out, "Output folder; files of the same names are replaced")
      ->required();
  sub->add_flag("--default", a->untuned, "Export the untuned default instead of the best kernel");
  sub->add_flag(
      "--shared", a->shared,
      "Also build a shared object, whose function NAME_call takes its operands by number");
  sub->add_flag("--tvm-ffi", a->with.tvm_ffi,
                "Also build a shared object with tvm-ffi's calling convention");
  sub->add_flag("--jax-ffi", a->with.jax_ffi,
                "Also build a shared object with handlers of XLA, which jax.ffi calls");
  sub->add_flag("--triton", a->triton,
                "Also write a GPU product's tiles as a module of Triton, NAME_triton.py");
  sub->footer(
      "For each spec a header, a source file, and a program that checks them; the lines that "
      "build\n"
      "it are printed. For a CUDA target the source holds the machine code and calls the CUDA "
      "driver, and\n"
      "the code and its text lie beside it.\n\n"
      "A model file, as 'compile' writes it, becomes a library in C with its kernels and "
      "constants, which\n"
      "`make` builds.\n\n"
      "Examples:\n  tune-cli export matmul:m=512,n=768,k=768 -o kernels --db kernels.db\n"
      "  tune-cli export model.tw -o model\n"
      "  tune-cli export softmax:m=64,n=64 -o kernels --default\n"
      "  tune-cli export matmul:m=512,n=768,k=768 -o kernels --tvm-ffi\n"
      "  tune-cli export matmul:m=512,n=768,k=768,dtype=f16 --target cuda:sm_80 -o kernels\n"
      "  tune-cli export matmul:m=512,n=768,k=768,dtype=f16 --target cuda:sm_80 -o kernels "
      "--triton");
  runners["export"] = [a, sub] {
    if (!names_model(a->common)) return run_export(*a);
    refuse_of_model(*sub,
                    {"--target", "--default", "--shared", "--tvm-ffi", "--jax-ffi", "--triton"});
    return run_export_model(*a);
  };
}

}  // namespace tilewright::cli
