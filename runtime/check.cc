#include "runtime/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/timer.h"

namespace tilewright {
namespace {

using Poison = HostArray::Poison;

std::string describe(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

CheckResult fault(Verdict verdict, std::string message, int64_t index = -1) {
  CheckResult result;
  result.verdict = verdict;
  result.message = std::move(message);
  result.index = index;
  return result;
}

// The first element that kept its poison in a run of either kind. The kernel computes the same both
// times, so what it writes can equal one of the two patterns, not each in its turn.
std::optional<int64_t> unwritten_element(BoundKernel& kernel) {
  HostArray& output = kernel.operands().output();
  std::vector<int64_t> first = output.poisoned(Poison::First);
  if (first.empty() || output.poison_is_proof()) {
    return first.empty() ? std::nullopt : std::optional(first.front());
  }
  std::vector<bool> suspects = output.poison_map(Poison::First);
  output.poison(Poison::Second);
  kernel.run();
  std::vector<bool> again = output.poison_map(Poison::Second);
  for (size_t i = 0; i < suspects.size(); ++i) {
    if (suspects[i] && again[i]) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

CheckResult inspect(BoundKernel& kernel, const Reference& reference) {
  OperandSet& operands = kernel.operands();
  HostArray& output = operands.output();
  if (auto guard = kernel.guard_fault()) return fault(Verdict::OutOfBounds, guard->message);
  CheckResult result = compare(output, reference);
  // Said first: an element that was not written is a clearer story than a wrong value there.
  if (auto index = unwritten_element(kernel)) {
    return fault(
        Verdict::Wrong,
        fmt::format("{}{} was not written", output.name(), subscripts(output.shape(), *index)),
        *index);
  }
  if (auto name = operands.changed_input()) {
    return fault(Verdict::Wrong, fmt::format("the kernel changed its input '{}'", *name));
  }
  return result;
}

void at_once(void*, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t), void* closure) {
  if (n > 0) body(closure, 0, n, 0);
}

void backwards(void* workers, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
               void* closure) {
  const int64_t count = *static_cast<const int32_t*>(workers);
  for (int64_t i = n; i-- > 0;) body(closure, i, i + 1, static_cast<int32_t>(i % count));
}

// Kernels whose runs in one thread take about this long at most are run in other orders, too.
constexpr double kOrderSeconds = 0.005;

// Whether the output, which is right, comes out the same however loops are shared out: a serving
// process has threads of its own. Each element is computed by one iteration, in one order.
bool depends_on_order(const BoundKernel& kernel, HostArray& output) {
  if (bits_of(output.elem()) < 8) return false;  // bits behind the last element keep their poison
  const uint64_t right = output.hash();
  for (BoundKernel::Order order : {BoundKernel::Order::AtOnce, BoundKernel::Order::Backwards}) {
    output.poison(Poison::Second);
    kernel.run(order);
    if (output.hash() != right) return true;
  }
  return false;
}

}  // namespace

void BoundKernel::run(Order order) const {
  tw_context context = context_;
  context.parallel_for = order == Order::AtOnce ? at_once : backwards;
  context.pool = &context.threads;
  kernel_.launch(args_.data(), dims_.data(), context);
}

BoundKernel::BoundKernel(const Kernel& kernel, OperandSet& operands, std::vector<int64_t> dims,
                         ThreadPool& pool)
    : kernel_(kernel), operands_(operands), dims_(std::move(dims)) {
  make_workspace(pool);
  for (const KernelParam& p : kernel.description().main.params) args_.push_back(bind(p)->data());
  run_packs(pool);
}

BoundKernel::BoundKernel(const BoundKernel& packed, OperandSet& operands, std::vector<int64_t> dims,
                         ThreadPool& pool)
    : kernel_(packed.kernel_), operands_(operands), dims_(std::move(dims)),
      packed_(packed.packed_) {
  make_workspace(pool);
  for (const KernelParam& p : kernel_.description().main.params) args_.push_back(bind(p)->data());
}

void BoundKernel::make_workspace(ThreadPool& pool) {
  const KernelDescription& description = kernel_.description();
  int64_t workspace = workspace_bytes(description.main, pool.threads());
  for (const KernelFunction& f : description.packs) {
    workspace = std::max(workspace, workspace_bytes(f, pool.threads()));
  }
  if (workspace > 0) {
    workspace_ = std::make_unique<HostArray>(
        "workspace", ElemType::u8, std::vector<int64_t>{workspace}, HostArray::Place::BeforeFence);
    workspace_->poison();
  }
  context_ = pool.context(workspace_ ? workspace_->data() : nullptr);
}

HostArray* BoundKernel::bind(const KernelParam& param) {
  for (const KernelFunction& pack : kernel_.description().packs) {
    if (pack.params.back().name != param.name) continue;
    for (const auto& array : packed_) {
      if (array->name() == param.name) return array.get();
    }
    return make_packed(pack.params.back());
  }
  HostArray* array = operands_.find(param.name);
  if (array == nullptr) {
    throw KernelError(fmt::format(
        "kernel parameter '{}' is no operand of the workload, and no packing function fills it",
        param.name));
  }
  std::vector<int64_t> shape = concrete_shape(param, dims_);
  if (array->elem() != param.elem || array->shape() != shape) {
    throw KernelError(fmt::format("kernel parameter '{}' is {}{}, the workload's operand is {}{}",
                                  param.name, to_string(param.elem), describe(shape),
                                  to_string(array->elem()), describe(array->shape())));
  }
  return array;
}

HostArray* BoundKernel::make_packed(const KernelParam& param) {
  packed_.push_back(std::make_shared<HostArray>(param.name, param.elem,
                                                concrete_shape(param, dims_), operands_.place()));
  packed_.back()->poison();
  return packed_.back().get();
}

void BoundKernel::run_packs(ThreadPool& pool) {
  auto begin = std::chrono::steady_clock::now();
  const std::vector<KernelFunction>& packs = kernel_.description().packs;
  for (size_t i = 0; i < packs.size(); ++i) {
    auto packed = std::find_if(packed_.begin(), packed_.end(), [&](const auto& array) {
      return array->name() == packs[i].params.back().name;
    });
    if (packed == packed_.end()) {
      throw KernelError(
          fmt::format("packing function '{}' fills '{}', which the kernel never takes",
                      packs[i].symbol, packs[i].params.back().name));
    }
    std::vector<void*> args;
    for (size_t p = 0; p + 1 < packs[i].params.size(); ++p) {
      args.push_back(operands_.at(packs[i].params[p].name).data());
    }
    args.push_back((*packed)->data());
    kernel_.pack(i, args.data(), context_);
  }
  pack_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const auto& array : packed_) array->protect(true);
}

std::optional<HostArray::GuardFault> BoundKernel::guard_fault() const {
  if (auto fault = operands_.guard_fault()) return fault;
  for (const auto& array : packed_) {
    if (auto fault = array->guard_fault()) return fault;
  }
  return workspace_ ? workspace_->guard_fault() : std::nullopt;
}

CheckResult check_kernel(BoundKernel& kernel, const Reference& reference) {
  HostArray& output = kernel.operands().output();
  output.poison(Poison::First);
  const double seconds = seconds_of_run([&] { kernel.run(); }, kernel.threads());
  CheckResult result = inspect(kernel, reference);
  const bool cheap = seconds * kernel.threads() < kOrderSeconds;
  if (result.verdict == Verdict::Ok && cheap && depends_on_order(kernel, output)) {
    result = fault(Verdict::Wrong,
                   fmt::format("'{}' depends on how parallel loops are shared out among threads",
                               output.name()));
  }
  result.run_seconds = seconds;
  if (result.verdict != Verdict::Ok) kernel.operands().restore();
  return result;
}

}  // namespace tilewright
