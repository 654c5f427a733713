#include "tests/mutation/mutants.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "schedule/error.h"
#include "tests/mutation/ir_mutator.h"
#include "tests/mutation/text_mutator.h"
#include "tuner/measure/measurer.h"

namespace tilewright::mutation {
namespace {

namespace fs = std::filesystem;

constexpr int kMutantsThreads = 2;
constexpr int kConfigs = 4;        // per workload: the default and sketched ones
constexpr int kMutantsTries = 12;  // draws of another place or kernel until there is a mutant

std::string c_size(const KernelParam& p, const std::vector<std::string>& dims, bool row) {
  std::string count = "1L";
  for (size_t i = row && !p.shape.empty() ? p.shape.size() - 1 : 0; i < p.shape.size(); ++i) {
    count += " * (" + p.shape[i].to_c(dims) + ")";
  }
  return fmt::format("((({}) * {} + 7) / 8)", count, bits_of(p.elem));
}

KernelFacts facts_of(const KernelDescription& description) {
  KernelFacts facts;
  std::vector<std::string> dims;
  for (size_t d = 0; d < description.dims.size(); ++d) dims.push_back(fmt::format("dims[{}]", d));
  const std::vector<KernelParam>& params = description.main.params;
  facts.arguments = static_cast<int>(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const KernelParam& p = params[i];
    if (p.role == ParamRole::Output) {
      facts.output = static_cast<int>(i);
      facts.output_bytes = c_size(p, dims, false);
      facts.output_row_bytes = c_size(p, dims, true);
      facts.output_element_bytes = std::max(1, bits_of(p.elem) / 8);
    } else if (facts.input < 0) {
      facts.input = static_cast<int>(i);
      facts.input_bytes = c_size(p, dims, false);
    }
  }
  return facts;
}

// A correct kernel, from which mutants are made.
struct Kernel {
  Workload workload;
  std::optional<Candidate> candidate;
  KernelSource source;
  std::string object;
  std::string problem;  // the reason why it makes no mutants
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

struct Mutants::Impl {
  std::string folder;
  Target target = Target::parse("native");
  std::unique_ptr<LocalMeasurer> measurer;
  std::map<std::pair<std::string, int>, Kernel> kernels;
  std::string text, original;
  std::atomic<bool> cancelled{false};

  explicit Impl(const std::string& programs) {
    std::string pattern = (fs::temp_directory_path() / "mutants.XXXXXX").string();
    folder = mkdtemp(pattern.data());
    const std::string compiler = programs + "/mutating_cc swap:" + folder + "/text cc";
    setenv("TILEWRIGHT_CC", compiler.c_str(), 1);
    setenv("TILEWRIGHT_CACHE", "off", 1);
    MeasureOptions options;
    options.threads = kMutantsThreads;
    options.builders = 1;
    measurer = std::make_unique<LocalMeasurer>(
        std::vector<std::string>{programs + "/tune-cli", "job-worker"}, target, options);
  }
  ~Impl() {
    measurer.reset();
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  Measurement measure(const Kernel& kernel) {
    return measurer->measure(kernel.workload, {*kernel.candidate}, MeasureLimits{cancelled}, 0)[0];
  }

  // The first legal candidate from the seed on, or the default.
  static std::optional<Candidate> candidate_of(CandidateMaker& maker, int config) {
    if (config == 0) return maker.make_default();
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Sketch& sketch = maker.sketches().front();
      Trial trial = Trial::random(seed * kConfigs + static_cast<uint64_t>(config));
      if (auto candidate = maker.make(sketch, std::move(trial))) return candidate;
    }
    return std::nullopt;
  }

  Kernel& kernel_of(const std::string& spec, int config) {
    auto [place, added] = kernels.try_emplace({spec, config});
    Kernel& k = place->second;
    if (!added) return k;
    k.workload = make_workload(parse_spec(spec));
    CandidateMaker maker(k.workload, target, kMutantsThreads);
    k.candidate = candidate_of(maker, config);
    if (!k.candidate) {
      k.problem = "no legal config";
      return k;
    }
    fs::remove(folder + "/text.from");
    Measurement m = measure(k);
    k.source = m.source;
    k.object = m.object;
    if (m.verdict != TrialVerdict::Valid) {
      k.problem = "refused unchanged: " + m.reason;
      return k;
    }
    Truth truth = compare_kernels(k.workload, k.source.description, k.object, k.object, 1);
    if (!truth.equal) k.problem = "differs from itself: " + truth.difference;
    return k;
  }

  // The kernel's text with a fault; nothing where no place fits the fault.
  std::optional<std::string> mutated(const Kernel& k, const std::string& kind, uint64_t seed) {
    if (const TextKind* text_kind = find_text_kind(kind)) {
      return mutate_text(k.source.code, *text_kind, facts_of(k.source.description), seed);
    }
    std::optional<Module> wrong = mutate_module(k.candidate->module, kind, seed);
    if (!wrong) return std::nullopt;
    try {
      std::string code = generate_c(*wrong, target).code;
      if (code != k.source.code) return code;
    } catch (const std::exception&) {
      // A program that cannot be lowered makes no kernel.
    }
    return std::nullopt;
  }

  void judge(Mutant& mutant, Kernel& k) {
    write(folder + "/text.to", text);
    write(folder + "/text.from", k.source.code);
    Measurement m = measure(k);
    fs::remove(folder + "/text.from");
    mutant.config = k.candidate->is_default ? "" : k.candidate->config;
    mutant.verdict = std::string(database::verdict_name(m.verdict));
    mutant.message = m.reason;
    if (m.verdict == TrialVerdict::CompileError) return;
    mutant.outcome = Outcome::Refused;
    if (m.verdict != TrialVerdict::Valid) return;
    Truth truth =
        compare_kernels(k.workload, k.source.description, k.object, m.object, mutant.seed);
    mutant.outcome = truth.equal ? Outcome::Equal : Outcome::Escaped;
    mutant.message = truth.within_rounding ? "within rounding" : truth.difference;
  }
};

Mutants::Mutants(std::string programs) : impl_(std::make_unique<Impl>(programs)) {}
Mutants::~Mutants() = default;

const std::string& Mutants::text() const { return impl_->text; }
const std::string& Mutants::original() const { return impl_->original; }

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const TextKind& kind : text_kinds()) {
      const bool of_gpus = kind.name == "copy changed" || kind.name == "barrier dropped";
      if (!of_gpus) list.push_back(kind.name);
    }
    for (const std::string& kind : ir_kinds()) list.push_back(kind);
    return list;
  }();
  return names;
}

Mutant Mutants::run(uint64_t seed, const Choice& choice) {
  const std::vector<std::string>& kinds = kind_names();
  const std::vector<std::string>& specs = workload_specs();
  Mutant mutant;
  mutant.seed = seed;
  // Kinds take turns, so that a few mutants cover all of them.
  mutant.kind = choice.kind.empty() ? kinds[seed % kinds.size()] : choice.kind;
  Rng rng(seed);
  for (int tries = 0; tries < kMutantsTries && mutant.outcome == Outcome::Impossible; ++tries) {
    const std::string& drawn = specs[rng.below(specs.size())];
    mutant.spec = choice.spec.empty() ? drawn : choice.spec;
    Kernel& k = impl_->kernel_of(mutant.spec, static_cast<int>(rng.below(kConfigs)));
    const uint64_t place = rng.next();
    if (!k.problem.empty()) {
      mutant.message = k.problem;
      continue;
    }
    auto text = impl_->mutated(k, mutant.kind, place);
    if (!text) continue;
    impl_->text = *text;
    impl_->original = k.source.code;
    impl_->judge(mutant, k);
  }
  return mutant;
}

std::string describe(const Mutant& mutant) {
  constexpr const char* kNames[] = {"refused", "equal", "ESCAPED", "impossible"};
  std::string message = mutant.message.substr(0, mutant.message.find('\n'));
  return fmt::format("{} {}: {} of {} {} [{}] {}", mutant.seed,
                     kNames[static_cast<size_t>(mutant.outcome)], mutant.kind, mutant.spec,
                     mutant.config.empty() ? "default" : mutant.config, mutant.verdict, message);
}

}  // namespace tilewright::mutation
