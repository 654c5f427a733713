#include "tests/mutation/ground_truth.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "ir/oracle/evaluate.h"
#include "kernel/kernel_abi.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/element.h"
#include "schedule/trial.h"
#include "tests/mutation/fenced_array.h"
#include "tests/mutation/inputs.h"

namespace tilewright::mutation {
namespace {

using Dims = std::map<std::string, int64_t>;
using Bytes = std::string;
using At = FencedArray::At;

constexpr int kSizes = 28;           // of dynamic dimensions
constexpr int kRepeatedCalls = 160;  // calls with operands that change
constexpr int kJudged = 60;          // differing elements that are compared with the oracle
constexpr unsigned kGroundTruthSeconds = 60;
constexpr int kGroundTruthThreads = 2;
constexpr int kRaces = 4;  // runs with threads

struct Loaded {
  tw_kernel_fn main = nullptr;
  std::vector<tw_kernel_fn> packs;
};

Loaded load(const Bytes& object, const KernelDescription& description) {
  const int fd = memfd_create("kernel", 0);
  if (write(fd, object.data(), object.size()) != static_cast<ssize_t>(object.size())) _exit(3);
  void* handle = dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) _exit(3);
  auto symbol = [&](const std::string& name) {
    return reinterpret_cast<tw_kernel_fn>(dlsym(handle, name.c_str()));
  };
  Loaded loaded;
  loaded.main = symbol(description.main.symbol);
  for (const KernelFunction& f : description.packs) loaded.packs.push_back(symbol(f.symbol));
  return loaded;
}

// Execution orders of a parallel loop that the calling convention allows.
enum class Order : uint8_t { AtOnce, Backwards, Threads };
using Body = void (*)(void*, int64_t, int64_t, int32_t);

void at_once(void*, int64_t n, Body body, void* closure) { body(closure, 0, n, 0); }
void backwards(void*, int64_t n, Body body, void* closure) {
  for (int64_t i = n; i-- > 0;)
    body(closure, i, i + 1, static_cast<int32_t>(i % kGroundTruthThreads));
}
// Both threads begin at the same moment, so that unsafe sharing shows up.
void by_threads(void*, int64_t n, Body body, void* closure) {
  const int64_t middle = n / 2;
  std::atomic<int> ready{0};
  auto meet = [&] {
    ++ready;
    while (ready < kGroundTruthThreads) std::this_thread::yield();
  };
  std::thread other([&] {
    meet();
    body(closure, middle, n, 1);
  });
  meet();
  if (middle > 0) body(closure, 0, middle, 0);
  other.join();
}

int64_t bytes_of(const KernelParam& param, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const KernelExtent& extent : param.shape) count *= extent.at(dims);
  return bytes_for(param.elem, count);
}

// The operands of both kernels at one size, and their results.
class Stage {
 public:
  Stage(const Workload& workload, const KernelDescription& description, const Dims& dims, At at)
      : workload_(workload), description_(description), dims_(dims),
        values_(dim_values(workload, dims)), infos_(operands_of(workload, dims)) {
    for (const OperandInfo& info : infos_) {
      arrays_[info.name] = std::make_unique<FencedArray>(bytes_for(info.elem, count_of(info)), at);
    }
    for (const KernelFunction& pack : description.packs) {
      const KernelParam& filled = pack.params.back();
      arrays_["packed " + filled.name] =
          std::make_unique<FencedArray>(bytes_of(filled, values_), at);
    }
    int64_t workspace = bytes_of_workspace(description.main);
    for (const KernelFunction& f : description.packs) {
      workspace = std::max(workspace, bytes_of_workspace(f));
    }
    workspace_ = std::make_unique<FencedArray>(std::max<int64_t>(64, workspace), at);
  }

  void fill_inputs(Inputs inputs, uint64_t seed) {
    for (const OperandInfo& info : infos_) {
      FencedArray& array = *arrays_.at(info.name);
      if (info.role == ParamRole::Output) continue;
      array.read_only(false);
      fill(info, infos_, inputs, seed, array.data());
      array.read_only(true);
    }
  }

  void pack(const Loaded& kernel) {
    for (size_t i = 0; i < description_.packs.size(); ++i) {
      const KernelFunction& f = description_.packs[i];
      FencedArray& filled = packed(f.params.back().name);
      filled.read_only(false);
      std::memset(filled.data(), 0xcd, static_cast<size_t>(filled.bytes()));
      std::vector<void*> args;
      for (size_t p = 0; p + 1 < f.params.size(); ++p) {
        args.push_back(arrays_.at(f.params[p].name)->data());
      }
      args.push_back(filled.data());
      call(kernel.packs[i], args, Order::Backwards);
      filled.read_only(true);
    }
  }

  // Runs the kernel and returns the output.
  Bytes run(const Loaded& kernel, Order order, unsigned char poison) {
    std::vector<void*> args;
    for (const KernelParam& p : description_.main.params) args.push_back(argument(p)->data());
    std::memset(output().data(), poison, static_cast<size_t>(output().bytes()));
    call(kernel.main, args, order);
    for (const auto& [name, array] : arrays_) {
      if (!array->whole()) touched_ = name;
    }
    if (!workspace_->whole()) touched_ = "the workspace";
    return {reinterpret_cast<const char*>(output().data()), static_cast<size_t>(output().bytes())};
  }

  // The inputs of the main function, for restoring them later.
  std::map<std::string, Bytes> inputs() const {
    std::map<std::string, Bytes> saved;
    for (const auto& [name, array] : arrays_) {
      if (name == infos_.back().name) continue;
      saved[name] = {reinterpret_cast<const char*>(array->data()),
                     static_cast<size_t>(array->bytes())};
    }
    return saved;
  }
  void put(const std::map<std::string, Bytes>& saved) {
    for (const auto& [name, bytes] : saved) {
      FencedArray& array = *arrays_.at(name);
      array.read_only(false);
      std::memcpy(array.data(), bytes.data(), bytes.size());
      array.read_only(true);
    }
  }

  // The operand beside which a write occurred, or an empty string.
  const std::string& touched() const { return touched_; }
  const OperandInfo& output_info() const { return infos_.back(); }
  const Dims& dims() const { return dims_; }

  Oracle oracle() const {
    std::map<std::string, ElementReader> readers;
    for (const OperandInfo& info : infos_) {
      if (info.role == ParamRole::Output) continue;
      readers[info.name] = [elem = info.elem, data = arrays_.at(info.name)->data()](int64_t i) {
        return load_element(elem, data, i);
      };
    }
    return Oracle(workload_, readers, dims_);
  }

 private:
  static int64_t bytes_of_workspace(const KernelFunction& f) {
    return f.workspace_bytes + kGroundTruthThreads * f.workspace_bytes_per_thread;
  }
  FencedArray& output() { return *arrays_.at(infos_.back().name); }
  FencedArray& packed(const std::string& name) { return *arrays_.at("packed " + name); }
  FencedArray* argument(const KernelParam& p) {
    auto found = arrays_.find("packed " + p.name);
    return found != arrays_.end() ? found->second.get() : arrays_.at(p.name).get();
  }

  void call(tw_kernel_fn function, const std::vector<void*>& args, Order order) {
    std::memset(workspace_->data(), 0x5a + static_cast<int>(calls_++ % 64),
                static_cast<size_t>(workspace_->bytes()));
    tw_context context{};
    context.threads = order == Order::AtOnce ? 1 : kGroundTruthThreads;
    context.parallel_for = order == Order::AtOnce      ? at_once
                           : order == Order::Backwards ? backwards
                                                       : by_threads;
    context.workspace = workspace_->data();
    function(args.data(), values_.data(), &context);
  }

  const Workload& workload_;
  const KernelDescription& description_;
  Dims dims_;
  std::vector<int64_t> values_;
  std::vector<OperandInfo> infos_;
  std::map<std::string, std::unique_ptr<FencedArray>> arrays_;
  std::unique_ptr<FencedArray> workspace_;
  std::string touched_;
  unsigned calls_ = 0;
};

// Compares the outputs of a kernel and its mutant on the stage's inputs; `where` names the inputs.
void judge(const Stage& stage, const Bytes& kernel, const Bytes& mutant, const std::string& where,
           Truth& truth) {
  if (!truth.equal || kernel == mutant) return;
  const OperandInfo& info = stage.output_info();
  std::vector<std::pair<double, int64_t>> differing;
  for (int64_t i = 0; i < count_of(info); ++i) {
    const double want = load_element(info.elem, kernel.data(), i);
    const double got = load_element(info.elem, mutant.data(), i);
    if (want == got || (std::isnan(want) && std::isnan(got))) continue;
    const double apart = std::abs(want - got) / (std::abs(want) + 1e-30);
    differing.emplace_back(std::isnan(apart) ? INFINITY : apart, i);
  }
  if (differing.empty()) return;  // only signs of zeros or NaN bits differ
  std::sort(differing.rbegin(), differing.rend());
  Oracle oracle = stage.oracle();
  const size_t step = 1 + differing.size() / kJudged;
  for (size_t n = 0; n < differing.size(); n += n < kJudged / 2 ? 1 : step) {
    const int64_t i = differing[n].second;
    const double is = load_element(info.elem, kernel.data(), i);
    const double got = load_element(info.elem, mutant.data(), i);
    const Oracle::Value want = oracle.at(i);
    // Values that the kernel itself misses are not required of the mutant.
    if (!allowed(info.elem, is, want) || allowed(info.elem, got, want)) continue;
    truth.equal = false;
    truth.difference = fmt::format("[{}] is {}, not {} ({} of {} differ): {}", i, got, is,
                                   differing.size(), count_of(info), where);
    return;
  }
  truth.within_rounding = true;
}

// Sizes of the dynamic dimensions: the largest first, then the corners, then random ones.
std::vector<Dims> sizes_of(const Workload& workload, uint64_t seed) {
  std::vector<Dims> sizes = {largest_sizes(workload)};
  if (workload.dims.empty()) return sizes;
  int64_t all = 1;
  for (const DimVar& d : workload.dims) all *= d.max - d.min + 1;
  std::set<Dims> seen(sizes.begin(), sizes.end());
  Rng rng(seed);
  for (int tries = 0;
       tries < 8 * kSizes && static_cast<int64_t>(sizes.size()) < std::min<int64_t>(all, kSizes);
       ++tries) {
    Dims dims;
    for (const DimVar& d : workload.dims) {
      const auto span = static_cast<uint64_t>(d.max - d.min + 1);
      const bool end = rng.below(6) == 0;
      dims[d.var.name()] =
          end ? (rng.below(2) == 0 ? d.min : d.max) : d.min + static_cast<int64_t>(rng.below(span));
    }
    if (seen.insert(dims).second) sizes.push_back(dims);
  }
  return sizes;
}

std::string describe(Inputs inputs, const Dims& dims) {
  std::string text = fmt::format("{} inputs", name_of(inputs));
  for (const auto& [name, size] : dims) text += fmt::format(", {} = {}", name, size);
  return text;
}

class Comparison {
 public:
  Comparison(const Workload& workload, const KernelDescription& description, Loaded kernel,
             Loaded mutant, uint64_t seed)
      : workload_(workload), description_(description), kernel_(std::move(kernel)),
        mutant_(std::move(mutant)), seed_(seed) {}

  Truth run() {
    bool first = true;
    for (const Dims& dims : sizes_of(workload_, seed_)) {
      for (At at : {At::End, At::Begin}) {
        Stage stage(workload_, description_, dims, at);
        for (Inputs inputs : kAllInputs) {
          const bool few = !first && inputs != Inputs::Uniform && inputs != Inputs::Integers;
          if (few || !truth_.equal || !are_defined(inputs, workload_)) continue;
          compare(stage, inputs, at == At::End);
        }
        if (first && truth_.equal && at == At::End) call_often(stage);
      }
      first = false;
    }
    return truth_;
  }

 private:
  void compare(Stage& stage, Inputs inputs, bool with_orders) {
    stage.fill_inputs(inputs, ++seed_);
    stage.pack(kernel_);
    const Bytes want = stage.run(kernel_, Order::AtOnce, 0xcd);
    stage.pack(mutant_);
    for (Order order : {Order::AtOnce, Order::Backwards, Order::Threads}) {
      if (order != Order::Backwards && !with_orders) continue;
      for (int run = 0; run < (order == Order::Threads ? kRaces : 1); ++run) {
        judge(stage, want, stage.run(mutant_, order, 0x32), describe(inputs, stage.dims()), truth_);
      }
    }
    if (truth_.equal && !stage.touched().empty()) {
      truth_ = {false, false, "writes beyond '" + stage.touched() + "'"};
    }
  }

  // Calls the mutant on the same arrays with changing contents.
  void call_often(Stage& stage) {
    struct Kept {
      std::map<std::string, Bytes> inputs;
      Bytes output;
    };
    std::vector<Kept> kept;
    for (int i = 0; i < 3; ++i) {
      stage.fill_inputs(Inputs::Uniform, ++seed_);
      stage.pack(kernel_);
      const Bytes output = stage.run(kernel_, Order::AtOnce, 0xcd);
      stage.pack(mutant_);
      kept.push_back({stage.inputs(), output});
    }
    for (int call = 0; call < kRepeatedCalls && truth_.equal; ++call) {
      const Kept& now = kept[static_cast<size_t>(call) % kept.size()];
      stage.put(now.inputs);
      const Bytes got = stage.run(mutant_, Order::AtOnce, call % 2 == 0 ? 0xcd : 0x32);
      judge(stage, now.output, got, fmt::format("call {} of many", call), truth_);
    }
  }

  const Workload& workload_;
  const KernelDescription& description_;
  Loaded kernel_, mutant_;
  uint64_t seed_;
  Truth truth_;
};

}  // namespace

Truth compare_kernels(const Workload& workload, const KernelDescription& description,
                      const std::string& kernel, const std::string& mutant, uint64_t seed) {
  int ends[2];
  if (pipe(ends) != 0) throw std::bad_alloc();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(kGroundTruthSeconds);
    std::string said;
    try {
      Truth truth = Comparison(workload, description, load(kernel, description),
                               load(mutant, description), seed)
                        .run();
      said = truth.equal ? truth.within_rounding ? "rounding" : "equal" : truth.difference;
    } catch (const std::exception& e) {
      said = std::string("exception: ") + e.what();
    }
    if (write(ends[1], said.data(), said.size()) < 0) _exit(3);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {false, false, strsignal(WTERMSIG(status))};
  if (WEXITSTATUS(status) != 0) return {false, false, "does not load"};
  if (said == "equal" || said == "rounding") return {true, said == "rounding", ""};
  return {false, false, said};
}

}  // namespace tilewright::mutation
