// Kernels for GPUs that are not present: compiled, predicted from the compiler's facts, checked in
// the emulator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "database/record.h"
#include "kernel/cuda_description.h"
#include "tuner/candidate.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/measure/emulated_instances.h"
#include "tuner/measure/measurer.h"

namespace tilewright {

class OfflineKernel {
 public:
  using Sizes = std::map<std::string, int64_t>;

  // A candidate as LocalMeasurer::build() has compiled it. The target must outlive it.
  OfflineKernel(Candidate candidate, Measurement built, const Target& target);

  const Candidate& candidate() const { return candidate_; }
  const CudaDescription& description() const { return description_; }  // includes the source text
  const std::string& cubin() const { return built_.object; }
  const std::string& compiler() const { return built_.compiler; }
  // Whether it needs more registers than there are.
  bool spills() const;

  // Seconds at each of these sizes of the dynamic dimensions, by the actual number of registers. A
  // dimension that a size does not name takes its maximum. 0: it does not run on the target, and
  // refusal() says why.
  std::vector<double> seconds(const std::vector<Sizes>& sizes);
  const std::string& refusal() const { return refusal_; }

  // Whether it is correct in the emulator on one of its workload's instances. Checked once;
  // problem() gives the error.
  bool is_right(EmulatedInstances& instances);
  const std::string& problem() const { return problem_; }
  // Whether an instance of the workload was found that the emulator could run.
  bool ran() const { return !description_.emulated.instance.empty(); }
  // EmulatedCheck::rows of a correct kernel.
  const std::string& rows() const { return rows_; }

  // The stored record; without an id if it is not stored. Set by the tuner.
  database::Record record;

 private:
  enum class Checked { NotYet, Right, Wrong };

  Candidate candidate_;
  const Target* target_;
  Measurement built_;
  CudaDescription description_;
  std::vector<CompiledFacts> registers_;
  std::map<Sizes, double> known_;  // seconds
  std::string refusal_;
  Checked checked_ = Checked::NotYet;
  std::string problem_, rows_;
};

// The compiler's facts of each launch's kernel.
std::vector<CudaKernelFacts> facts_of_cubin(const CudaSource& source, const std::string& cubin);
// Why kernels that reallocate registers between producer and consumer warps (setmaxnreg,
// codegen/cuda/cuda_roles.h) would hang as compiled. Warps wait for budgets that exceed the block's
// registers. `facts` has each kernel's facts in order. Empty if there is no problem.
std::string budget_problem(const CudaSource& source, const std::vector<CudaKernelFacts>& facts,
                           const GpuFacts& gpu);

// "sm_80" for "cuda:sm_80".
std::string architecture_of(const Target& target);

}  // namespace tilewright
