#include "runtime/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/check/guarded_call.h"
#include "runtime/check/store_owners.h"
#include "runtime/machine/timer.h"

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

// Carries out parallel loops in the calling thread. Its pool's pointer is to one of these.
struct OneThread {
  BoundKernel::Order order;
  Garbage garbage;
  int32_t workers;
  std::vector<StoreOwners> watched = {};  // while iterations run one by one
  bool frames_kept = true;                // by the bodies of loops

  using Body = void (*)(void*, int64_t, int64_t, int32_t);
  void loop(int64_t n, Body body, void* closure) {
    constexpr int64_t kFreshStacks = 16;  // the others find what these have left
    if (order == BoundKernel::Order::AtOnce) {
      leave_garbage(garbage);
      if (n > 0) run(body, closure, 0, n, 0);
      return;
    }
    if (order == BoundKernel::Order::Halves) {
      leave_garbage(garbage);
      if (n > 1) run(body, closure, 0, n / 2, 0);
      if (n > 0) run(body, closure, n / 2, n, workers - 1);
      return;
    }
    for (StoreOwners& w : watched) w.begin_loop(n);
    for (int64_t i = n; i-- > 0;) {
      if (n - i <= kFreshStacks) leave_garbage(garbage);
      run(body, closure, i, i + 1, static_cast<int32_t>(i % workers));
      for (StoreOwners& w : watched) w.end_iteration();
    }
    for (StoreOwners& w : watched) w.end_loop();
  }
  void run(Body body, void* closure, int64_t first, int64_t last, int32_t worker) {
    frames_kept &= guarded_call(reinterpret_cast<void*>(body), reinterpret_cast<uint64_t>(closure),
                                static_cast<uint64_t>(first), static_cast<uint64_t>(last),
                                static_cast<uint64_t>(worker))
                       .frame_kept;
  }
  tw_context context(tw_context c) {
    c.parallel_for = [](void* self, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
                        void* closure) { static_cast<OneThread*>(self)->loop(n, body, closure); };
    c.pool = this;
    return c;
  }
};

// Calls the kernel's main or packing function in this thread alone. Returns what it does wrong besides
// its results: it stores behind its local arrays, as far as guarded_call() sees, or iterations of a
// parallel loop store to the same bytes.
std::optional<CheckResult> run_guarded(const Kernel& kernel, tw_kernel_fn function,
                                       void* const* args, const int64_t* dims, OneThread thread,
                                       const tw_context& pool) {
  const tw_context context = thread.context(pool);
  const GuardedResult main =
      guarded_call(reinterpret_cast<void*>(function), reinterpret_cast<uint64_t>(args),
                   reinterpret_cast<uint64_t>(dims), reinterpret_cast<uint64_t>(&context), 0);
  kernel.require_success(main.status);
  if (!main.frame_kept || !thread.frames_kept) {
    return fault(Verdict::OutOfBounds, "the kernel stores past the end of a local array");
  }
  for (const StoreOwners& w : thread.watched) {
    if (w.are_apart()) continue;
    return fault(
        Verdict::Wrong,
        fmt::format("iterations of a parallel loop store to the same bytes of '{}'", w.name()));
  }
  return std::nullopt;
}

std::span<unsigned char> bytes_of(HostArray& array) {
  return {static_cast<unsigned char*>(array.data()), static_cast<size_t>(array.bytes())};
}

// The orders that kernels of little work run in besides the pool's, each on other garbage.
constexpr std::pair<BoundKernel::Order, Garbage> kOrders[] = {
    {BoundKernel::Order::AtOnce, Garbage::High},
    {BoundKernel::Order::Halves, Garbage::Nan},
    {BoundKernel::Order::Backwards, Garbage::Low}};

// Kernels whose runs in one thread take about this long at most are run in other orders, too.
constexpr double kOrderSeconds = 0.005;

// Whether a kernel that took so long may run in all orders. Beside other work threads wait for each other,
// so that another run may tell more of the kernel.
bool is_cheap(const BoundKernel& kernel, double seconds) {
  constexpr double kDisturbed = 10;  // times what the kernel takes
  for (int again = 0; again < 3 && kernel.threads() > 1; ++again) {
    if (seconds * kernel.threads() < kOrderSeconds) break;
    if (seconds * kernel.threads() > kDisturbed * kOrderSeconds) break;
    seconds = std::min(seconds, seconds_of_run([&] { kernel.run(); }, kernel.threads()));
  }
  return seconds * kernel.threads() < kOrderSeconds;
}

// The output, which is right, comes out the same however loops are shared out (a serving process has
// threads of its own: each element is computed by one iteration, in one order) and whatever memory
// held before; and the kernel stores nothing behind its local arrays. Else the reason.
std::optional<CheckResult> fault_in_other_orders(const BoundKernel& kernel, HostArray& output) {
  const uint64_t right = output.hash();
  for (const auto& [order, garbage] : kOrders) {
    std::memset(output.data(), static_cast<int>(garbage), static_cast<size_t>(output.bytes()));
    kernel.forget(garbage);
    if (auto problem = kernel.run(order, garbage)) return problem;
    if (output.hash() != right) {
      return fault(Verdict::Wrong,
                   fmt::format("'{}' depends on how parallel loops are shared out among threads, "
                               "or on what memory held before",
                               output.name()));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<CheckResult> BoundKernel::run(Order order, Garbage garbage) const {
  OneThread thread{order, garbage, context_.threads};
  HostArray& output = operands_.output();
  thread.watched.emplace_back(output.name(), bytes_of(output));
  // Behind what all threads share each has a part of its own, which its iterations use in turn.
  const int64_t shared = kernel_.description().main.workspace_bytes;
  if (workspace_ && shared > 0) {
    thread.watched.emplace_back("workspace",
                                bytes_of(*workspace_).first(static_cast<size_t>(shared)));
  }
  return run_guarded(kernel_, kernel_.main_function(), args_.data(), dims_.data(),
                     std::move(thread), context_);
}

void BoundKernel::forget(Garbage garbage) const {
  if (workspace_) {
    std::memset(workspace_->data(), static_cast<int>(garbage),
                static_cast<size_t>(workspace_->bytes()));
  }
  leave_garbage(garbage);
}

BoundKernel::BoundKernel(const Kernel& kernel, OperandSet& operands, std::vector<int64_t> dims,
                         ThreadPool& pool)
    : kernel_(kernel), operands_(operands), dims_(std::move(dims)) {
  make_workspace(pool);
  bind_all();
  run_packs(pool);
}

BoundKernel::BoundKernel(const BoundKernel& packed, OperandSet& operands, std::vector<int64_t> dims,
                         ThreadPool& pool)
    : kernel_(packed.kernel_), operands_(operands), dims_(std::move(dims)), packed_(packed.packed_),
      pack_fault_(packed.pack_fault_) {
  make_workspace(pool);
  bind_all();
}

void BoundKernel::make_workspace(ThreadPool& pool) {
  const KernelDescription& description = kernel_.description();
  int64_t workspace = workspace_bytes(description.main, pool.threads());
  for (const KernelFunction& f : description.packs) {
    workspace = std::max(workspace, workspace_bytes(f, pool.threads()));
  }
  if (workspace > 0) {
    workspace_ =
        std::make_unique<HostArray>("workspace", ElemType::u8, std::vector<int64_t>{workspace},
                                    HostArray::Place::BeforeFence, HostArray::Contents::Poison);
  }
  context_ = pool.context(workspace_ ? workspace_->data() : nullptr);
}

void BoundKernel::bind_all() {
  for (const KernelParam& p : kernel_.description().main.params) {
    HostArray* array = bind(p);
    arrays_.push_back(array);
    args_.push_back(array->data());
  }
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
                                                concrete_shape(param, dims_), operands_.place(),
                                                HostArray::Contents::Poison));
  return packed_.back().get();
}

HostArray& BoundKernel::packed_by(const KernelFunction& pack) {
  for (const auto& array : packed_) {
    if (array->name() == pack.params.back().name) return *array;
  }
  throw KernelError(fmt::format("packing function '{}' fills '{}', which the kernel never takes",
                                pack.symbol, pack.params.back().name));
}

std::vector<void*> BoundKernel::pack_args(const KernelFunction& pack) {
  std::vector<void*> args;
  for (size_t p = 0; p + 1 < pack.params.size(); ++p) {
    args.push_back(operands_.at(pack.params[p].name).data());
  }
  args.push_back(packed_by(pack).data());
  return args;
}

// The reason why a packed weight is not to be trusted: its bytes differ where the loops of its packing
// are shared out otherwise, or the packing function stores behind its local arrays.
std::optional<std::string> BoundKernel::fault_of_pack(size_t index) {
  const KernelFunction& pack = kernel_.description().packs[index];
  HostArray& packed = packed_by(pack);
  const std::vector<void*> args = pack_args(pack);
  const uint64_t right = packed.hash();
  for (const auto& [order, garbage] : kOrders) {
    packed.poison();
    forget(garbage);
    OneThread thread{order, garbage, context_.threads};
    thread.watched.emplace_back(packed.name(), bytes_of(packed));
    if (auto problem = run_guarded(kernel_, kernel_.pack_function(index), args.data(), nullptr,
                                   std::move(thread), context_)) {
      return problem->message + ", in the packing of its weights";
    }
    if (packed.hash() != right) {
      return fmt::format(
          "packed weight '{}' depends on how the loops of its packing are shared "
          "out among threads, or on what memory held before",
          packed.name());
    }
  }
  return std::nullopt;
}

void BoundKernel::run_packs(ThreadPool& pool) {
  const std::vector<KernelFunction>& packs = kernel_.description().packs;
  for (size_t i = 0; i < packs.size(); ++i) {
    forget(Garbage::Nan);  // one finds nothing of what another has left
    pack_seconds_ +=
        seconds_of_run([&] { kernel_.pack(i, pack_args(packs[i]).data(), context_); }, threads());
  }
  const bool cheap = pack_seconds_ * pool.threads() < kOrderSeconds;
  for (size_t i = 0; i < packs.size() && cheap && !pack_fault_; ++i) {
    pack_fault_ = fault_of_pack(i);
  }
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
  if (reference.values.empty() && output.count() > 0) {
    throw KernelError(fmt::format("no right values of '{}' to compare with", output.name()));
  }
  if (kernel.pack_fault()) return fault(Verdict::Wrong, *kernel.pack_fault());
  output.poison(Poison::First);
  kernel.forget(Garbage::Nan);
  const double seconds = seconds_of_run([&] { kernel.run(); }, kernel.threads());
  CheckResult result = inspect(kernel, reference);
  if (result.verdict == Verdict::Ok && is_cheap(kernel, seconds)) {
    if (auto problem = fault_in_other_orders(kernel, output)) result = std::move(*problem);
  }
  result.run_seconds = seconds;
  if (result.verdict != Verdict::Ok) kernel.operands().restore();
  return result;
}

}  // namespace tilewright
