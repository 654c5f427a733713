// tune-cli run: the best kernel on the caller's own data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/lookup.h"
#include "codegen/codegen.h"
#include "runtime/check.h"
#include "runtime/compile.h"
#include "runtime/npy.h"
#include "runtime/thread_pool.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

struct RunArguments {
  CommonOptions common;
  std::vector<std::string> in, out;  // NAME=FILE
  bool untuned = false, prune = false;
};

// "A=a.npy" as ("A", "a.npy").
std::pair<std::string, std::string> named_file(const std::string& text, const char* option) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("{}: expected NAME=FILE.npy, got '{}'", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string operand_names(const OperandSet& operands, bool outputs) {
  std::string names;
  for (const OperandInfo& info : operands.infos()) {
    if ((info.role == ParamRole::Output) != outputs) continue;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  return names;
}

const OperandInfo& operand(const OperandSet& operands, const std::string& name, bool output,
                           const char* option) {
  for (const OperandInfo& info : operands.infos()) {
    if (info.name == name && (info.role == ParamRole::Output) == output) return info;
  }
  throw UsageError(fmt::format("{}: there is no operand '{}'; expected {}", option, name,
                               operand_names(operands, output)));
}

// Fills every input from its file. Names, shapes and types are checked before anything runs.
void read_inputs(const RunArguments& a, OperandSet& operands) {
  std::map<std::string, std::string> files;
  for (const std::string& text : a.in) {
    auto [name, file] = named_file(text, "--in");
    operand(operands, name, false, "--in");
    if (!files.emplace(name, file).second) {
      throw UsageError(fmt::format("--in: operand '{}' is given twice", name));
    }
  }
  for (const OperandInfo& info : operands.infos()) {
    if (info.role == ParamRole::Output) continue;
    auto it = files.find(info.name);
    if (it == files.end()) {
      throw UsageError(fmt::format("--in: operand '{}' is missing; expected a file for each of {}",
                                   info.name, operand_names(operands, false)));
    }
    assign(&operands.at(info.name), read_npy(it->second), it->second);
  }
}

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

// The best kernel, or the untuned default.
Kernel kernel_for(const Workload& w, const RunArguments& a, const Lookup& lookup) {
  if (!a.untuned) {
    database::Store store = database::Store::open(a.common.db, database::Mode::ReadOnly);
    database::BestResult best = lookup.best(store, w);
    if (!best.record || !best.artifact) {
      throw MissError(w, a.common, best.miss, "--default runs the untuned kernel");
    }
    return stored_kernel(w, *best.artifact);
  }
  SketchInput input{w, lookup.target, lookup.threads};
  Trial none = Trial::first();
  KernelSource source =
      generate_c(apply_sketch(default_sketch(), input, none).module(), lookup.target);
  return Kernel(compile(source).object, source.description);
}

int run_kernel(const RunArguments& a) {
  std::vector<Workload> workloads = read_workloads(a.common);
  if (workloads.size() != 1) {
    throw UsageError(fmt::format("run takes one spec, got {}", workloads.size()));
  }
  const Workload& w = workloads[0];
  std::map<std::string, int64_t> dims;
  for (const DimVar& d : w.dims) dims[d.var.name()] = d.max;
  OperandSet operands(operands_of(w, dims), 0);
  if (a.out.size() != 1) {
    throw UsageError(
        fmt::format("--out: expected one NAME=FILE.npy for {}", operand_names(operands, true)));
  }
  auto [out_name, out_file] = named_file(a.out[0], "--out");
  operand(operands, out_name, true, "--out");
  read_inputs(a, operands);
  check_pattern(a, operands);
  Lookup lookup(a.common);
  Kernel kernel = kernel_for(w, a, lookup);
  ThreadPool pool(lookup.threads);
  BoundKernel bound(kernel, operands, dim_values(w, dims), pool);
  bound.run();
  write_npy(out_file, operands.output());
  if (a.common.json) {
    print_json({{"spec", spec_to_inline(parse_spec(w.canonical))}, {"out", out_file}});
  } else {
    note(a.common, fmt::format("wrote {}", out_file));
  }
  return kDone;
}

}  // namespace

void add_run(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<RunArguments>();
  CLI::App* sub = app.add_subcommand("run", "Runs the best kernel on your own NumPy files");
  add_common(*sub, a->common, {});
  sub->add_option("--in", a->in, "NAME=FILE.npy, one for each input")->take_all();
  sub->add_option("--out", a->out, "NAME=FILE.npy of the output")->take_all();
  sub->add_flag("--default", a->untuned, "Run the untuned kernel");
  sub->add_flag("--prune", a->prune,
                "Of an N:M sparse weight keep the N largest of each M, instead of refusing it");
  sub->footer(
      "Example:\n  tune-cli run matmul:m=64,n=64,k=64 --in A=a.npy --in B=b.npy "
      "--out C=c.npy");
  runners["run"] = [a] { return run_kernel(*a); };
}

}  // namespace tilewright::cli
