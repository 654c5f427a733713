// tune-cli ops and targets: what there is to tune, and for what.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/knobs.h"
#include "cli/command.h"
#include "cli/gpu.h"
#include "cli/lookup.h"
#include "cli/output/table.h"
#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/aliases.h"
#include "ir/ops/operator.h"
#include "ir/ops/source.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/identity.h"
#include "runtime/machine/topology.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kOperandsIndent = 10, kKeyIndent = 24;  // columns before the words of both

Json operator_json(const Operator& op) {
  Json keys = Json::array();
  for (const KeyDef& k : op.keys) {
    Json key = {{"name", k.name}, {"required", k.required}, {"doc", k.doc}};
    if (k.fallback) key["default"] = to_string(*k.fallback);
    keys.push_back(key);
  }
  return {{"op", op.name},
          {"summary", op.summary},
          {"operands", op.operands},
          {"example", op.example},
          {"keys", keys}};
}

void print(const Operator& op) {
  fmt::print("{}\n", op.name);
  print_wrapped(fmt::format("  {}", op.summary), 0);
  print_wrapped(fmt::format("  operands: {}", op.operands), kOperandsIndent);
  fmt::print("  example:  {}\n", op.example);  // whole, to be copied
  for (const KeyDef& k : op.keys) {
    std::string value = k.required ? "required" : k.fallback ? to_string(*k.fallback) : "";
    print_wrapped(fmt::format("    {:<12} {:<10} {}", k.name, value, k.doc), kKeyIndent);
  }
}

Json topology_json() {
  Json cores = Json::array();
  for (const Core& core : topology().cores) {
    cores.push_back({{"cpus", core.cpus},
                     {"efficient", core.efficient},
                     {"node", core.node},
                     {"cache", core.cache}});
  }
  const CacheSizes& caches = topology().caches;
  return {{"text", topology().text()},
          {"cores", cores},
          {"caches",
           {{"l1", caches.l1},
            {"l2", caches.l2},
            {"l2_cores", caches.l2_cores},
            {"l3", caches.l3},
            {"l3_cores", caches.l3_cores}}}};
}

struct OpsArguments {
  CommonOptions common;
  std::vector<std::string> names;
};

// The operators that were named, by their own names or by other programs'; all without a name.
std::vector<const Operator*> wanted_operators(const std::vector<std::string>& names) {
  std::vector<const Operator*> wanted;
  std::vector<std::string> known;
  for (const Operator& op : operators()) {
    known.push_back(op.name);
    if (names.empty()) wanted.push_back(&op);
  }
  for (const std::string& name : names) {
    const Operator* op = ops::find_operator_by_alias(name.substr(0, name.find(':')));
    if (op == nullptr) {
      throw UsageError(fmt::format("ops: unknown operator '{}'{}\noperators: {}", name,
                                   ops::suggestion(name, known), fmt::join(known, ", ")));
    }
    wanted.push_back(op);
  }
  return wanted;
}

int run_ops(const OpsArguments& a) {
  Json list = Json::array();
  for (const Operator* op : wanted_operators(a.names)) {
    list.push_back(operator_json(*op));
    if (!a.common.json) print(*op);
  }
  if (a.common.json) print_json({{"ops", list}});
  return kDone;
}

Json gpu_json(const GpuFacts& g) {
  return {{"model", g.model},
          {"sms", g.sms},
          {"shared_per_sm", g.shared_per_sm},
          {"shared_per_block", g.shared_per_block},
          {"registers_per_sm", g.registers_per_sm},
          {"threads_per_sm", g.threads_per_sm},
          {"l2_bytes", g.l2_bytes},
          {"bandwidth", g.bandwidth},
          {"clock", g.clock},
          {"f32", g.f32},
          {"tensor_f16", g.tensor_f16},
          {"tensor_tf32", g.tensor_tf32},
          {"tensor_i8", g.tensor_i8},
          {"tensor_f8", g.tensor_f8}};
}

// Further chips of the target, which have names of their own.
std::vector<CudaChip> chips_of(const Target& t) {
  std::vector<CudaChip> chips;
  for (const CudaChip& chip : cuda_chips()) {
    if (chip.target.name == t.name) chips.push_back(chip);
  }
  return chips;
}

Json chips_json(const Target& t) {
  Json list = Json::array();
  for (const CudaChip& chip : chips_of(t)) {
    list.push_back({{"target", chip.name}, {"gpu", gpu_json(chip.target.gpu)}});
  }
  return list;
}

// A GPU by its data sheet, on one line.
void print_cuda(const std::string& name, const Target& t) {
  const GpuFacts& g = t.gpu;
  std::string here =
      gpu_here().runs(t) ? "runs here on " + gpu_here().facts->name : std::string("no device here");
  fmt::print(
      "{:<12} {}; by the data sheet of {}: {} SMs, {} KiB shared memory per block, {:.1f} TB/s, "
      "{:.0f} f32 and {:.0f} f16 TFLOP/s\n",
      name, here, g.model, g.sms, g.shared_per_block >> 10, g.bandwidth / 1e12, g.f32 / 1e12,
      g.tensor_f16 / 1e12);
}

int run_targets(const CommonOptions& options) {
  Json list = Json::array();
  for (const std::string& name : Target::names()) {
    Target t = Target::parse(name);
    database::TargetIdentity id = target_identity(t);
    const bool is_gpu = t.is_cuda(), on_gpu = runs_on_gpu_here(t);
    std::vector<std::string> missing = on_gpu ? std::vector<std::string>() : t.missing_features();
    std::vector<std::string> rows;
    for (const Intrinsic* row : intrinsics_of(t)) rows.emplace_back(row->name);
    list.push_back({{"target", name},
                    {"vector_bits", t.vector_bits},
                    {"features", t.features},
                    {"runs_here", missing.empty()},
                    {"missing", missing},
                    {"intrinsics", rows},
                    {"identity", id.hash}});
    if (is_gpu) {
      list.back()["gpu"] = gpu_json(t.gpu);
      list.back()["device"] = on_gpu ? Json(gpu_here().facts->name) : Json(nullptr);
      if (on_gpu) list.back()["device_facts"] = cli::json_of(*gpu_here().facts);
      list.back()["chips"] = chips_json(t);
    }
    if (!options.json && is_gpu) {
      print_cuda(name, t);
      for (const CudaChip& chip : chips_of(t)) print_cuda(chip.name, chip.target);
    } else if (!options.json) {
      std::string here = missing.empty()
                             ? "runs here"
                             : fmt::format("does not run here without {}", fmt::join(missing, " "));
      fmt::print("{:<8} {:>4}-bit vectors, {}; {}\n", name, t.vector_bits, here,
                 id.features.empty() ? "plain C" : id.features);
      if (!rows.empty()) fmt::print("{:<8} intrinsics: {}\n", "", fmt::join(rows, " "));
    }
  }
  Json knob_list = Json::array();
  if (!options.json)
    fmt::print("\nThis machine: {}\n{}\n\nEnvironment:\n", chip_name(), topology().text());
  for (const KnobInfo& k : knobs()) {
    knob_list.push_back({{"name", k.name}, {"default", k.default_text}, {"doc", k.description}});
    if (!options.json) {
      fmt::print("  {:<28} {:<8} {}\n", k.name, k.default_text, k.description);
    }
  }
  if (options.json) {
    print_json({{"chip", chip_name()},
                {"cores", available_cores()},
                {"topology", topology_json()},
                {"targets", list},
                {"environment", knob_list}});
  }
  return kDone;
}

}  // namespace

void add_ops(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<OpsArguments>();
  CLI::App* sub = app.add_subcommand("ops", "Lists the operators with their keys");
  add_common(*sub, a->common, {.specs = false, .db = false, .target = false, .threads = false});
  sub->add_option("name", a->names, "Operators to describe; without one, all of them");
  sub->footer("Examples:\n  tune-cli ops matmul\n  tune-cli ops --json");
  runners["ops"] = [a] { return run_ops(*a); };
}

void add_targets(CLI::App& app, Runners& runners) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* sub = app.add_subcommand(
      "targets", "Lists the targets, this machine and the environment variables");
  add_common(*sub, *options, {.specs = false, .db = false, .target = false, .threads = false});
  sub->footer("Example:\n  tune-cli targets");
  runners["targets"] = [options] { return run_targets(*options); };
}

}  // namespace tilewright::cli
