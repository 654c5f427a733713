// tune-cli run: the best kernel on the caller's own data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/gpu_kernel.h"
#include "cli/kernel_worker.h"
#include "cli/lookup.h"
#include "cli/output/dispatch.h"
#include "cli/run/model_file.h"
#include "cli/run/run_check.h"
#include "cli/run/run_inputs.h"
#include "cli/run/run_job.h"
#include "cli/sizes.h"
#include "codegen/codegen.h"
#include "runtime/compile/compile.h"
#include "runtime/tensor/npy.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRunDefault = "--default runs the untuned kernel";
constexpr double kManyFlops = 4e9;   // more take the emulator many minutes
constexpr double kCheckSeconds = 1;  // for comparing elements with their exact values

struct RunArguments {
  Sizes sizes;
  CommonOptions common;
  InputArguments inputs;
  std::vector<std::string> out;  // NAME=FILE.npy
  bool untuned = false, prune = false, emulate = false, no_check = false;
};

// Refuses a sparse weight that breaks its pattern, or prunes it where the caller asks for that.
void check_pattern(const RunArguments& a, OperandSet& operands) {
  for (const OperandInfo& info : operands.infos()) {
    if (!info.pattern) continue;
    HostArray& weight = operands.at(info.name);
    const HostArray* zero = operands.find(info.pattern->format().zero);
    if (a.prune) info.pattern->prune(&weight, zero);
    if (auto fault = info.pattern->fault(weight, zero)) {
      throw UsageError(
          fmt::format("--in {}: the weight breaks its pattern in {}; --prune keeps the largest",
                      info.name, *fault));
    }
    return;
  }
  if (a.prune) throw UsageError("--prune: the spec has no sparse weight; give w.sparse");
}

// The best kernel for the CPU at these sizes, or the untuned default. Sets the range of the dispatch
// table that has chosen it, and says where it is less than what was asked for.
RunJob cpu_job(const Workload& w, const RunArguments& a, const Lookup& lookup,
               const std::map<std::string, int64_t>& dims,
               std::optional<database::DispatchRange>& range, Json& said) {
  RunJob job{.dims = dims, .threads = lookup.threads};
  if (!a.untuned) {
    database::Store store = open_store(a.common);
    database::BestResult best = lookup.nearest_at(store, w, dims);
    if (!best.record || !best.artifact) {
      throw MissError(w, a.common, best.miss, kRunDefault);
    }
    range = best.range;
    job.threads = lookup.threads_of(best);
    if (!best.passed_over.empty()) note(a.common, "default: " + best.passed_over);
    if (!best.near.empty()) {
      said["near"] = best.near;
      note(a.common, "near: " + best.near);
    }
    job.description = stored_description(w, *best.artifact);
    job.object.assign(reinterpret_cast<const char*>(best.artifact->bytes.data()),
                      best.artifact->bytes.size());
    return job;
  }
  SketchInput input{w, lookup.target, lookup.threads};
  Trial none = Trial::first();
  KernelSource source =
      generate_c(apply_sketch(default_sketch(), input, none).module(), lookup.target);
  job.object = compile(source).object;
  job.description = source.description;
  return job;
}

// A kernel for the GPU, or for the emulator. Adds what there is to say of it.
RunJob cuda_job(const Workload& w, const RunArguments& a, const Lookup& lookup,
                const std::map<std::string, int64_t>& dims,
                std::optional<database::DispatchRange>& range, Json& said) {
  GpuKernel kernel = gpu_kernel_for(w, a.common, lookup, a.untuned, kRunDefault, dims);
  range = kernel.range;
  const double flops = at_sizes(w, dims).flops;
  if (a.emulate && flops > kManyFlops) {
    note(a.common,
         fmt::format(
             "{:.3g} operations in the emulator, which is for small sizes: this may take hours",
             flops));
  }
  if (!a.emulate) compile_kernel(kernel, lookup.target);
  said["predicted"] = kernel.predicted;
  said["emulated"] = a.emulate;
  return {.on = a.emulate ? RunJob::On::Emulator : RunJob::On::Gpu,
          .object = a.emulate ? std::string() : kernel.cubin,
          .cuda = std::move(kernel.description),
          .target = lookup.target.name,
          .dims = dims};
}

std::string told(const OutputCheck& check, int64_t elements) {
  if (check.compared == 0) {
    return fmt::format(
        "not checked: none of {} elements has a finite value and a finite error "
        "bound on these inputs",
        elements);
  }
  return fmt::format("compared {} of {} elements{} with the f64 oracle; --no-check skips this",
                     check.compared, elements, check.by_sums ? ", and sums of all," : "");
}

// Runs the kernel on the operands and adds what there is to say of that: a `fault` where it is wrong.
void run_and_check(const Workload& w, const RunArguments& a, const RunJob& job,
                   OperandSet& operands, Json& said) {
  RunResult result = run_in_worker(w, job, operands);
  if (a.emulate) said["counters"] = result.counters;
  said["checked"] = !a.no_check && result.fault.empty();
  if (said["checked"]) {
    OutputCheck check = check_output(w, operands, job.dims, kCheckSeconds);
    said["compared"] = check.compared;
    said["compared_by_sums"] = check.by_sums;
    said["checked"] = check.compared > 0;
    if (!a.common.json) note(a.common, told(check, operands.output().count()));
    result.fault = check.fault;
  }
  if (!result.fault.empty()) said["fault"] = result.fault;
}

int run_kernel(const RunArguments& a) {
  std::vector<Workload> workloads = read_workloads(a.common);
  if (workloads.size() != 1) {
    throw UsageError(fmt::format("run takes one spec, got {}", workloads.size()));
  }
  const Workload& w = workloads[0];
  if (a.emulate && !Target::parse(a.common.target).is_cuda()) {
    throw UsageError(fmt::format("--emulate: expected a CUDA target such as cuda:sm_80, got '{}'",
                                 a.common.target));
  }
  a.sizes.require_known(workloads);
  std::map<std::string, int64_t> dims = a.sizes.of(w);
  OperandSet operands(operands_of(w, dims), 0);
  if (a.out.size() != 1) {
    throw UsageError(
        fmt::format("--out: expected one NAME=FILE.npy for {}", operand_names(operands, true)));
  }
  auto [out_name, out_file] = named_file(a.out[0], "--out", "NAME=FILE.npy");
  operand(operands, out_name, true, "--out");
  read_inputs(w, a.inputs, operands);
  check_pattern(a, operands);
  Json said = {{"spec", spec_to_inline(parse_spec(w.canonical))}, {"out", out_file}};
  std::optional<database::DispatchRange> range;
  Lookup lookup(a.common);
  note_confinement(a.common, lookup.target);
  run_and_check(w, a,
                lookup.target.is_cuda() ? cuda_job(w, a, lookup, dims, range, said)
                                        : cpu_job(w, a, lookup, dims, range, said),
                operands, said);
  add_range(said, range);
  const bool wrong = said.contains("fault");
  if (wrong) said["out"] = nullptr;
  if (!wrong) write_npy(out_file, operands.output());
  if (a.common.json) print_json(said);
  if (wrong) {
    std::cerr << said["fault"].get<std::string>() << "\n";
    return kNoValidCandidate;
  }
  if (!a.common.json && range) {
    note(a.common,
         fmt::format("ran kernel {} of range {}", range->record.substr(0, 8), range_text(range)));
  }
  if (!a.common.json) note(a.common, fmt::format("wrote {}", out_file));
  return kDone;
}

}  // namespace

void add_run(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<RunArguments>();
  CLI::App* sub =
      app.add_subcommand("run", "Runs the best kernel, or a model file, on your own arrays");
  add_common(*sub, a->common, {.cuda = true, .trust = true});
  add_inputs(*sub, a->inputs);
  a->sizes.add_to(*sub);
  sub->add_option("--out", a->out, "NAME=FILE.npy of the output")
      ->take_all()
      ->allow_extra_args(false);  // what follows is the spec
  sub->add_flag("--default", a->untuned, "Run the untuned default");
  sub->add_flag("--emulate", a->emulate,
                "Run the kernel of a CUDA target in the emulator, which needs no GPU and checks "
                "every access; for small sizes");
  sub->add_flag(
      "--no-check", a->no_check,
      "Do not compare elements of the output with the f64 oracle, which takes up to a second");
  sub->add_flag(
      "--prune", a->prune,
      "Keep the N largest of each M elements of an N:M sparse weight, instead of refusing it");
  sub->footer(
      "Examples:\n  tune-cli run matmul:m=64,n=64,k=64 --in A=a.npy --in B=b.npy "
      "--out C=c.npy\n"
      "  tune-cli run matmul:m=1,n=4096,k=4096,trans_b=true --in A=a.npy "
      "--in B=model.safetensors:layers.0.q_proj.weight --out C=c.npy\n"
      "  tune-cli run matmul:m=64,n=64,k=64,dtype=f16 --target cuda:sm_80 --emulate --in A=a.npy "
      "--in B=b.npy --out C=c.npy\n"
      "  tune-cli run model.tw --in x=x.npy --out y=y.npy\n"
      "  tune-cli run gpu-model.tw --emulate --in x=x.npy --out y=y.npy");
  runners["run"] = [a, sub] {
    if (!names_model(a->common)) return run_kernel(*a);
    refuse_of_model(*sub, {"--default", "--no-check", "--prune", "--dim", "--target"});
    return run_model(a->common, a->inputs.in, a->out, a->emulate);
  };
}

}  // namespace tilewright::cli
