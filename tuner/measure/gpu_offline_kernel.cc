#include "tuner/measure/gpu_offline_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codegen/cuda/cuda_roles.h"
#include "runtime/cuda/cubin.h"
#include "tuner/measure/emulated_check.h"

namespace tilewright {

OfflineKernel::OfflineKernel(Candidate candidate, Measurement built, const Target& target)
    : candidate_(std::move(candidate)), target_(&target), built_(std::move(built)),
      description_(CudaDescription::from_json(built_.cuda)) {
  description_.source.text = built_.source.code;  // which the description as JSON leaves out
  for (const CudaKernelFacts& facts : description_.facts) registers_.push_back({facts.registers});
}

bool OfflineKernel::spills() const {
  return std::any_of(description_.facts.begin(), description_.facts.end(),
                     [](const CudaKernelFacts& facts) { return facts.spills(); });
}

std::vector<double> OfflineKernel::seconds(const std::vector<Sizes>& sizes) {
  std::vector<Sizes> fresh;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(fresh),
               [&](const Sizes& at) { return !known_.contains(at); });
  const auto estimates = estimate_gpu_at(candidate_.module.main, *target_, fresh, registers_);
  for (size_t i = 0; i < fresh.size(); ++i) {
    known_[fresh[i]] = estimates[i].seconds;
    if (!estimates[i].fits()) refusal_ = estimates[i].refusal;
  }
  std::vector<double> seconds;
  for (const Sizes& at : sizes) seconds.push_back(known_.at(at));
  return seconds;
}

bool OfflineKernel::is_right(EmulatedInstances& instances) {
  if (checked_ != Checked::NotYet) return checked_ == Checked::Right;
  const EmulatedCheck check =
      check_emulated(instances, *target_, *candidate_.sketch, candidate_.config);
  description_.emulated = {check.instance, check.run.counters.by_name()};
  description_.emulated.counters.merge(check.exercise.by_name());
  description_.emulated.counters["thread_orders"] = check.orders;
  checked_ = check.passed() ? Checked::Right : Checked::Wrong;
  rows_ = check.rows;
  if (check.passed()) return true;
  problem_ = ran() ? check.instance + " in the emulator: " + check.run.problem
                   : "no instance of the workload that the emulator can run takes this config";
  return false;
}

std::vector<CudaKernelFacts> facts_of_cubin(const CudaSource& source, const std::string& cubin) {
  std::vector<CudaKernelFacts> list;
  for (const CudaLaunch& l : source.launches) {
    cuda::CubinFacts facts = cuda::cubin_facts(cubin, l.entry);
    list.push_back({facts.registers, facts.stack_bytes, facts.instructions});
  }
  return list;
}

std::string budget_problem(const CudaSource& source, const std::vector<CudaKernelFacts>& facts,
                           const GpuFacts& gpu) {
  for (size_t i = 0; i < facts.size(); ++i) {
    const bool shares = facts[i].instructions.count("USETMAXREG") > 0;
    const int threads = source.launches[i].block[0];
    if (shares && !has_registers_for(budget_of_all(threads, gpu), facts[i].registers)) {
      return fmt::format(
          "was compiled to {} registers for each of {} threads, fewer than its warps redistribute: "
          "they would wait for ever",
          facts[i].registers, threads);
    }
  }
  return "";
}

std::string architecture_of(const Target& target) {
  return target.name.substr(target.name.find(':') + 1);
}

}  // namespace tilewright
