// Kernels for GPUs that are not here: compiled, predicted by what the compiler made of them, proved in
// the emulator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/cuda_description.h"
#include "database/record.h"
#include "tuner/candidate.h"
#include "tuner/emulated_instances.h"
#include "tuner/gpu_model.h"

namespace tilewright {

class OfflineKernel {
 public:
  using Sizes = std::map<std::string, int64_t>;

  // The target must outlive it. Throws LoweringError or CompileError for a candidate that does not
  // compile, CompileError also for one that spills registers, and ToolchainError without NVRTC or a C
  // compiler.
  OfflineKernel(Candidate candidate, const Target& target);

  const Candidate& candidate() const { return candidate_; }
  const CudaDescription& description() const { return description_; }  // with the source's text
  const std::string& cubin() const { return cubin_; }

  // Seconds at each of these sizes of its dynamic dimensions, by the registers that it really takes;
  // those that a size does not name are the largest. 0: it does not run on the target, and refusal()
  // says why.
  std::vector<double> seconds(const std::vector<Sizes>& sizes);
  const std::string& refusal() const { return refusal_; }

  // Whether it is right in the emulator on one of its workload's instances, which is tried once; problem()
  // says why not.
  bool is_right(EmulatedInstances& instances);
  const std::string& problem() const { return problem_; }
  // Whether an instance of the workload was found that the emulator could run.
  bool ran() const { return !description_.emulated.instance.empty(); }
  // Of one that is right: EmulatedCheck::rows.
  const std::string& rows() const { return rows_; }

  // Under which it is stored; without an id where it is not. The tuner's to set.
  database::Record record;

 private:
  enum class Proof { Open, Right, Refuted };

  Candidate candidate_;
  const Target* target_;
  CudaDescription description_;
  std::string cubin_;
  std::vector<CompiledFacts> registers_;
  std::map<Sizes, double> known_;  // seconds
  std::string refusal_;
  Proof proof_ = Proof::Open;
  std::string problem_, rows_;
};

// What the compiler made of each launch's kernel.
std::vector<CudaKernelFacts> facts_of_cubin(const CudaSource& source, const std::string& cubin);
// Why kernels whose registers change hands (codegen/cuda_roles.h) would never end as they were compiled,
// the facts of each in order: warps wait for budgets that all of the block's registers do not fill.
// Empty where there is nothing against them.
std::string budget_problem(const CudaSource& source, const std::vector<CudaKernelFacts>& facts,
                           const GpuFacts& gpu);

// "sm_80" for "cuda:sm_80".
std::string architecture_of(const Target& target);

}  // namespace tilewright
