#include "cli/gpu.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/knobs.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "kernel/cuda_description.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "tuner/measure/gpu_offline_kernel.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

GpuHere look_for_gpu() {
  GpuHere here;
  try {
    here.facts = cuda::device_facts(0, knob_text(Knob::CudaDriver));
  } catch (const DeviceError& e) {
    here.problem = e.what();
  }
  return here;
}

Json kernel_estimate_json(const GpuKernelEstimate& k) {
  Json seconds = Json::object();
  for (GpuLimit limit : kGpuLimits) seconds[std::string(name_of(limit))] = k.of(limit);
  return {{"seconds", k.seconds},
          {"bound_by", std::string(name_of(k.bound_by))},
          {"alone", seconds},
          {"blocks", k.blocks},
          {"threads", k.threads},
          {"registers", k.registers},
          {"shared_bytes", k.shared_bytes},
          {"blocks_per_sm", k.blocks_per_sm},
          {"occupancy", k.occupancy},
          {"waves", k.waves},
          {"dram_bytes", k.dram_bytes},
          {"l2_bytes", k.l2_bytes},
          {"shared_passes", k.shared_passes}};
}

}  // namespace

bool GpuHere::runs(const Target& target) const {
  if (!facts) return false;
  const int here = facts->compute_capability, wanted = target.gpu.compute_capability;
  bool exactly = target.name.back() == 'a';  // code for one architecture alone
  return exactly ? here == wanted : here / 10 == wanted / 10 && here >= wanted;
}

const GpuHere& gpu_here() {
  static const GpuHere here = look_for_gpu();
  return here;
}

bool runs_on_gpu_here(const Target& target) { return target.is_cuda() && gpu_here().runs(target); }

Target as_measured(Target target) {
  if (runs_on_gpu_here(target)) target.gpu = data_sheet(target, gpu_here().facts->name);
  return target;
}

void require_gpu(const Target& target) {
  const GpuHere& here = gpu_here();
  if (here.runs(target)) return;
  std::string reason = here.facts ? fmt::format("the GPU of this machine, {}, is sm_{}",
                                                here.facts->name, here.facts->compute_capability)
                                  : here.problem;
  throw TargetError(
      fmt::format(
          "kernels of target '{}' do not run here: {}; tune --offline and compile --offline choose "
          "them without a GPU, "
          "run --emulate runs them in the emulator, and best, show and explain describe them",
          target.name, reason),
      true);
}

GpuEstimate stored_estimate(const Workload& w, const Lookup& lookup, const database::Record& record,
                            const std::optional<database::Artifact>& artifact) {
  GpuEstimate unknown;
  unknown.refusal = replay_problem(record.sketch, record.sketch_version);
  if (!unknown.fits()) return unknown;
  Trial trial = Trial::replay(record.config);
  Schedule schedule = apply_sketch(*find_sketch(record.sketch), {w, lookup.target, 1}, trial);
  std::vector<CompiledFacts> facts;
  if (artifact) {
    for (const CudaKernelFacts& f : CudaDescription::from_json(artifact->description).facts) {
      facts.push_back({f.registers});
    }
  }
  return estimate_gpu(schedule.module().main, lookup.target, facts);
}

Json json_of(const GpuEstimate& e) {
  Json kernels = Json::array();
  for (const GpuKernelEstimate& k : e.kernels) kernels.push_back(kernel_estimate_json(k));
  Json j = {{"seconds", e.seconds}, {"kernels", kernels}};
  if (!e.fits()) j["refusal"] = e.refusal;
  return j;
}

Json json_of(const cuda::DeviceFacts& f) {
  return {{"name", f.name},
          {"compute_capability", f.compute_capability},
          {"sms", f.sms},
          {"memory_bytes", f.memory_bytes},
          {"l2_bytes", f.l2_bytes},
          {"driver", f.driver()},
          {"clock_mhz", f.clock_mhz},
          {"memory_clock_mhz", f.memory_clock_mhz}};
}

void print_estimate(const Json& e) {
  if (e.contains("refusal")) {
    print_wrapped("  the model: " + e["refusal"].get<std::string>());
    return;
  }
  for (const Json& k : e["kernels"]) {
    fmt::print("  the model: {}, bound by {}\n", readable_seconds(k["seconds"]),
               k["bound_by"].get<std::string>());
    print_wrapped(fmt::format(
        "    {} blocks of {} threads, {} registers each, {} bytes of shared memory per block",
        k["blocks"].get<int64_t>(), k["threads"].get<int>(), k["registers"].get<int>(),
        k["shared_bytes"].get<int64_t>()));
    fmt::print("    {} blocks per SM (occupancy {:.0f}%), {:.2f} waves\n",
               k["blocks_per_sm"].get<int>(), 100 * k["occupancy"].get<double>(),
               k["waves"].get<double>());
    print_wrapped(
        fmt::format("    moves {:.2f} MB of DRAM, {:.2f} MB of L2, {:.3g} passes of shared memory",
                    k["dram_bytes"].get<double>() * 1e-6, k["l2_bytes"].get<double>() * 1e-6,
                    k["shared_passes"].get<double>()));
    for (const auto& [limit, seconds] : k["alone"].items()) {
      if (seconds.get<double>() <= 0) continue;
      fmt::print("    {:<18} {:>12} by itself\n", limit, readable_seconds(seconds));
    }
  }
}

std::string gpu_assembly(const std::string& cuda_text, const Target& target) {
  if (!cuda::nvrtc_problem().empty()) {
    throw ToolchainError(fmt::format("--asm of target '{}': {}; --source prints the CUDA code",
                                     target.name, cuda::nvrtc_problem()));
  }
  return cuda::compile_to_ptx(cuda_text, "kernel", architecture_of(target));
}

}  // namespace tilewright::cli
