#include "tests/mutation/gpu_mutants.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "codegen/codegen.h"
#include "emulator/emulate_program.h"
#include "ir/ops/spec.h"
#include "kernel/instructions/tensor_sums.h"
#include "runtime/check/check_points.h"
#include "runtime/check/reference.h"
#include "runtime/error.h"
#include "schedule/error.h"
#include "tests/mutation/inputs.h"
#include "tests/mutation/text_mutator.h"
#include "tuner/measure/emulated_check.h"
#include "tuner/sketch.h"

namespace tilewright::mutation {
namespace {

using Dims = std::map<std::string, int64_t>;

constexpr int kGpuTries = 12;
constexpr int kGpuSeconds = 120;  // of a processor

struct Case {
  Workload workload;
  Target target;
  CudaSource source;
};

// A kernel of the sketch: with the first choices, or with those that `draw` gives.
std::optional<Case> case_of(const std::string& line, uint64_t draw) {
  const size_t space = line.find(' ');
  Case c{
      make_workload(parse_spec(line.substr(space + 1))), Target::parse(line.substr(0, space)), {}};
  Trial trial = draw % 3 == 0 ? Trial::first() : Trial::random(draw);
  try {
    Schedule s = apply_sketch(cuda_sketches().front(), {c.workload, c.target, 1}, trial);
    c.source = generate_cuda(s.module(), c.target);
  } catch (const ScheduleError&) {
    return std::nullopt;
  } catch (const LoweringError&) {
    return std::nullopt;
  }
  return c;
}

// Runs the program on `operands`; `order` seeds the order of threads. Returns the fault, or an empty
// string.
std::string emulate(const Case& c, const CudaSource& source, const Dims& dims, uint64_t order,
                    OperandSet& operands) {
  EmulatorOptions options;
  options.seed = order;
  EmulatorResult result =
      emulate_program({source, {}}, operands, dim_values(c.workload, dims), options);
  return result.ok() ? "" : result.fault->to_string();
}

// The operands behind a run of the kernel; null where it has a fault itself.
std::unique_ptr<OperandSet> run_kernel(const Case& c, const Dims& dims, uint64_t seed) {
  auto operands = std::make_unique<OperandSet>(operands_of(c.workload, dims), seed);
  return emulate(c, c.source, dims, seed, *operands).empty() ? std::move(operands) : nullptr;
}

// The place where the mutant's output differs from that of such a run, or an empty string.
std::string difference(const Case& c, OperandSet& kernel, const CudaSource& wrong, const Dims& dims,
                       uint64_t seed) {
  OperandSet mutant(operands_of(c.workload, dims), seed);
  if (std::string fault = emulate(c, wrong, dims, seed + 1, mutant); !fault.empty()) return fault;
  const ElemType elem = kernel.output().elem();
  Oracle oracle(c.workload, seeded_readers(kernel.infos(), seed), dims,
                narrow_sums(c.target.gpu.compute_capability));
  for (int64_t i = 0, judged = 0; i < kernel.output().count() && judged < 200; ++i) {
    const double want = kernel.output().get(i), got = mutant.output().get(i);
    if (want == got || (std::isnan(want) && std::isnan(got))) continue;
    ++judged;
    const Oracle::Value value = oracle.at(i);
    if (!allowed(elem, want, value) || allowed(elem, got, value)) continue;
    return fmt::format("[{}] is {}, not {}", i, got, want);
  }
  return "";
}

// The result of the check. Where the check finds nothing, the result is "ok" followed by the truth.
std::string examine(const Case& c, const CudaSource& wrong, uint64_t seed) {
  std::vector<Dims> sizes = {largest_sizes(c.workload)};
  for (const Dims& dims : check_points(c.workload)) sizes.push_back(dims);
  for (const Dims& dims : sizes) {
    try {
      for (ValueKind kind : {ValueKind::Ordinary, ValueKind::Hard}) {
        OperandSet operands(operands_of(c.workload, dims), 1, kind);
        const EmulatedRun run = run_emulated(c.workload, wrong, dims, 1, operands);
        if (!run.problem.empty()) return "refused " + run.problem;
      }
    } catch (const CompileError& e) {
      return "impossible " + std::string(e.what());
    }
  }
  for (const DimVar& d : c.workload.dims) {
    for (int64_t size : {d.min + 1, (d.min + d.max) / 2, d.max - 2}) {
      Dims dims = largest_sizes(c.workload);
      dims[d.var.name()] = std::clamp(size, d.min, d.max);
      sizes.push_back(dims);
    }
  }
  for (const Dims& dims : sizes) {
    for (uint64_t data : {seed % 1000 + 2, seed % 1000 + 4}) {
      const auto kernel = run_kernel(c, dims, data);
      const std::string text = kernel ? difference(c, *kernel, wrong, dims, data) : "";
      if (!text.empty()) return "escaped " + text;
    }
  }
  return "equal ";
}

// Output of a child process, which may crash or never end.
std::string said_apart(const std::function<std::string()>& examine) {
  int ends[2];
  if (pipe(ends) != 0) throw std::bad_alloc();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const itimerval limit = {{0, 0}, {kGpuSeconds, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    std::string said;
    try {
      said = examine();
    } catch (const std::exception& e) {
      said = std::string("refused exception: ") + e.what();
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
  return WIFSIGNALED(status) ? fmt::format("refused {}", strsignal(WTERMSIG(status))) : said;
}

void note(const std::string& said, Mutant& mutant) {
  const size_t space = said.find(' ');
  mutant.verdict = said.substr(0, space);
  mutant.message = space == std::string::npos ? "" : said.substr(space + 1);
  mutant.outcome = mutant.verdict == "refused"   ? Outcome::Refused
                   : mutant.verdict == "escaped" ? Outcome::Escaped
                   : mutant.verdict == "equal"   ? Outcome::Equal
                                                 : Outcome::Impossible;
}

// The verdict of the check of candidates; "equal" where it finds nothing.
std::string check_stored(const SmallInstance& small, const CudaSource& wrong) {
  SmallInstance broken = small;
  broken.source = wrong;
  try {
    const EmulatedCheck check = check_instance(broken);
    return check.passed() ? "equal " : "refused " + check.run.problem;
  } catch (const CompileError& e) {
    return "impossible " + std::string(e.what());
  }
}

// Tells what escapes the check from what equals the kernel. Mutants share the kernel's own runs.
class StoredTruth {
 public:
  explicit StoredTruth(const Case& c) : c_(c), dims_(largest_sizes(c.workload)) {}

  std::string verdict(const CudaSource& wrong) {
    for (size_t i = 0; i < kData.size(); ++i) {
      if (runs_.size() == i) runs_.push_back(run_kernel(c_, dims_, kData[i]));
      if (!runs_[i]) continue;
      std::string text = said_apart(
          [&] { return "escaped " + difference(c_, *runs_[i], wrong, dims_, kData[i]); });
      // One that crashes or never ends here was not refused by the check.
      if (text.starts_with("refused ")) return "escaped " + text.substr(8);
      if (text != "escaped ") return text;
    }
    return "equal ";
  }

 private:
  static constexpr std::array<uint64_t, 2> kData = {3, 5};
  const Case& c_;
  Dims dims_;
  std::vector<std::unique_ptr<OperandSet>> runs_;  // of the kernel, by data
};

// Processor time of this process and its children so far.
double processor_seconds() {
  double seconds = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use;
    getrusage(who, &use);
    for (const timeval& t : {use.ru_utime, use.ru_stime}) {
      seconds += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    }
  }
  return seconds;
}

std::optional<SmallInstance> instance_of(const StoredKernel& kernel) {
  EmulatedInstances instances(parse_workload(kernel.spec));
  return small_instance_for(instances, Target::parse(kernel.target), cuda_sketches().front(),
                            kernel.config);
}

}  // namespace

std::vector<StoredKernel> stored_kernels(const std::string& file) {
  std::ifstream in(file);
  const nlohmann::json families = nlohmann::json::parse(in);
  std::vector<StoredKernel> kernels;
  for (const auto& [family, list] : families.items()) {
    for (const nlohmann::json& j : list) {
      kernels.push_back(
          {family, j.at("name"), j.at("spec"), j.at("target"), j.at("config").dump()});
    }
  }
  return kernels;
}

Validation validate(const StoredKernel& kernel) {
  const double begin = processor_seconds();
  const auto small = instance_of(kernel);
  if (!small) return {0, "no small instance takes its config"};
  const std::string problem = check_instance(*small).run.problem;
  return {processor_seconds() - begin, problem};
}

namespace {

// "line 7: …": the first line of a text that another one has not.
std::string changed_line(const std::string& text, const std::string& changed) {
  const auto differs =
      std::mismatch(text.begin(), text.end(), changed.begin(), changed.end()).first;
  const size_t begin = text.rfind('\n', static_cast<size_t>(differs - text.begin())) + 1;
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  const auto number =
      std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(begin), '\n') + 1;
  return fmt::format("line {}: {}", number,
                     line.substr(std::min(line.size(), line.find_first_not_of(' '))));
}

}  // namespace

std::vector<Mutant> pipeline_mutants(const StoredKernel& kernel, size_t step,
                                     const std::string& kind) {
  const auto small = instance_of(kernel);
  if (!small) return {};
  const Case c{small->workload, Target::parse(kernel.target), small->source};
  StoredTruth truth(c);
  std::vector<Mutant> mutants;
  size_t place = 0;
  for (const TextKind& k : pipeline_kinds()) {
    if (!kind.empty() && k.name != kind) continue;
    for (const std::string& text : all_mutants(c.source.text, k)) {
      if (place++ % step != 0) continue;
      Mutant mutant;
      mutant.seed = place;
      mutant.kind = k.name;
      mutant.spec = kernel.name;
      CudaSource wrong = c.source;
      wrong.text = text;
      std::string said = said_apart([&] { return check_stored(*small, wrong); });
      if (said == "equal ") said = truth.verdict(wrong);
      note(said, mutant);
      if (mutant.outcome == Outcome::Equal) mutant.message = changed_line(c.source.text, text);
      mutants.push_back(std::move(mutant));
    }
  }
  return mutants;
}

const std::vector<std::string>& gpu_workloads() {
  static const std::vector<std::string> list = {
      "cuda:sm_80 matmul:m=40,n=72,k=40",
      "cuda:sm_80 matmul:m=64,n=64,k=48,dtype=f16",
      "cuda:sm_80 matmul:m=1..40,n=64,k=32,dtype=f16",
      "cuda:sm_90a matmul:m=64,n=64,k=64,dtype=f16",
      "cuda:sm_80 matmul:m=3,n=64,k=128,dtype=f16,w.dtype=u4,w.group=32,w.zero=u4",
      "cuda:sm_80 matmul:m=32,n=64,k=64,dtype=f16,w.sparse=2:4",
      "cuda:sm_80 matmul:m=16,n=32,k=64,dtype=i8",
      "cuda:sm_80 conv2d:n=1,h=6,w=6,ci=16,co=16,kernel=3,pad=1,dtype=f16",
      "cuda:sm_80 depthwise_conv2d:n=1,h=6,w=6,c=16,kernel=3,pad=1",
      "cuda:sm_80 softmax:m=5,n=70",
      "cuda:sm_80 layer_norm:m=3,n=40",
      "cuda:sm_80 reduce:shape=12x33,axes=1,kind=max",
      "cuda:sm_80 elementwise:shape=33x21,fn=gelu",
      "cuda:sm_80 gather:rows=20,cols=32,index=7",
      "cuda:sm_80 attention:heads=2,m=20,n=33,d=16,dtype=f16",
  };
  return list;
}

Mutant run_gpu_mutant(uint64_t seed, const Choice& choice) {
  const std::vector<std::string> kinds = cuda_text_kinds();
  Mutant mutant;
  mutant.seed = seed;
  mutant.kind = choice.kind.empty() ? kinds[seed % kinds.size()] : choice.kind;
  Rng rng(seed);
  for (int tries = 0; tries < kGpuTries && mutant.outcome == Outcome::Impossible; ++tries) {
    const std::string& drawn = gpu_workloads()[rng.below(gpu_workloads().size())];
    mutant.spec = choice.spec.empty() ? drawn : choice.spec;
    const std::optional<Case> c = case_of(mutant.spec, rng.next() % 64);
    const uint64_t place = rng.next();
    if (!c) continue;
    const auto text = mutate_text(c->source.text, *find_text_kind(mutant.kind), {}, place);
    if (!text) continue;
    CudaSource wrong = c->source;
    wrong.text = *text;
    note(said_apart([&] { return examine(*c, wrong, seed); }), mutant);
  }
  return mutant;
}

}  // namespace tilewright::mutation
