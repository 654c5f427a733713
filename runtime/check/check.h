// Runs a kernel on operands and checks it against a reference.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/check/garbage.h"
#include "runtime/check/reference.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/operands.h"
#include "runtime/thread_pool.h"

namespace tilewright {

// A kernel with its arguments: operands by name, packed weights, workspace, threads. All of them
// must outlive it. The packed weights are made once, at construction, and read-only from then on.
class BoundKernel {
 public:
  // Throws KernelError for a parameter that is neither an operand of the same type and shape nor
  // filled by a packing function.
  BoundKernel(const Kernel& kernel, OperandSet& operands, std::vector<int64_t> dims,
              ThreadPool& pool);
  // The same kernel on operands of other sizes of its dynamic dimensions, with the weights that
  // `packed` has packed.
  BoundKernel(const BoundKernel& packed, OperandSet& operands, std::vector<int64_t> dims,
              ThreadPool& pool);

  void run() const { run(args_.data()); }
  // With other arguments in the places of args().
  void run(void* const* args) const { kernel_.launch(args, dims_.data(), context_); }
  const std::vector<void*>& args() const { return args_; }
  int64_t bytes_of_arg(size_t place) const { return arrays_[place]->bytes(); }
  // How parallel loops are carried out: all iterations at once by one worker, a half by the first and a
  // half by the last worker, or each by itself, the last one first, by workers in turn.
  enum class Order : uint8_t { AtOnce, Halves, Backwards };
  // In this thread alone; bodies find the garbage on their stack. Returns a fault that the results need
  // not show: a store behind a local array, as far as guarded_call() sees, or, backwards, iterations of
  // a parallel loop that store to the same bytes.
  std::optional<CheckResult> run(Order order, Garbage garbage) const;
  // Leaves garbage in the workspace and on this thread's stack, in the place of an earlier run's values.
  void forget(Garbage garbage) const;
  int threads() const { return context_.threads; }
  const Kernel& kernel() const { return kernel_; }
  OperandSet& operands() { return operands_; }
  // Of the operands, the packed weights, and the workspace.
  std::optional<HostArray::GuardFault> guard_fault() const;
  // The reason why a packed weight is not to be trusted, if there is one.
  const std::optional<std::string>& pack_fault() const { return pack_fault_; }
  // Seconds that packing took.
  double pack_seconds() const { return pack_seconds_; }

 private:
  void make_workspace(ThreadPool& pool);
  void bind_all();
  HostArray* bind(const KernelParam& param);
  HostArray* make_packed(const KernelParam& param);
  void run_packs(ThreadPool& pool);
  HostArray& packed_by(const KernelFunction& pack);
  std::vector<void*> pack_args(const KernelFunction& pack);
  std::optional<std::string> fault_of_pack(size_t index);

  const Kernel& kernel_;
  OperandSet& operands_;
  std::vector<int64_t> dims_;
  std::vector<std::shared_ptr<HostArray>> packed_;
  std::unique_ptr<HostArray> workspace_;
  std::vector<const HostArray*> arrays_;  // by place among the arguments
  std::vector<void*> args_;
  tw_context context_{};
  double pack_seconds_ = 0;
  std::optional<std::string> pack_fault_;
};

// Runs the kernel on a poisoned output and compares. Right means: every element of the reference is
// within its bound, no element kept its poison, no guard changed, no input changed. Types in which poison
// is a legal value are run a second time with another poison where the first run left some. Kernels
// of little work have to compute the same bits however their parallel loops are shared out, and whatever
// the output, the workspace and the stack held before, store nothing past their stack frames, and
// iterations of a parallel loop store to bytes of their own.
// Everything is in order afterwards: a kernel that broke something has it restored.
CheckResult check_kernel(BoundKernel& kernel, const Reference& reference);

}  // namespace tilewright
