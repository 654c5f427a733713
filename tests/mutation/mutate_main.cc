// Runs mutants of kernels:
//   mutate [COUNT [FIRST_SEED]] [--gpu] [--kind KIND] [--spec SPEC] [--all] [--text]
//   mutate --stored tests/tuner/golden_gpu_kernels.json [--every N] [--kind KIND] [--spec NAME] [--all]
//
// With --stored they are every fault of the pipelines of stored CUDA kernels (or every N-th), on the
// instances on which these kernels are checked; NAME is the beginning of a kernel's name. Kernels without a
// pipeline have no place for such faults. A table has the processor seconds that the check of each kernel
// takes, with compilers where TILEWRIGHT_CACHE is empty.
// With --gpu they are mutants of CUDA kernels, run in the emulator (SPEC as "cuda:sm_80 matmul:…").
// Prints escaped mutants (with --all every mutant), then a table of kinds. The exit code is 1 when
// one escaped. "mutate 1 SEED" repeats that mutant; --text prints its text and the kernel's.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/mutation/gpu_mutants.h"
#include "tests/mutation/mutants.h"

using namespace tilewright::mutation;

namespace {

struct Arguments {
  uint64_t count = 2000, first = 1;
  Choice choice;
  bool all = false, text = false, gpu = false;
  std::string stored;  // a file of stored kernels whose pipelines are broken
  size_t every = 1;
};

Arguments arguments_of(int argc, char** argv) {
  Arguments result;
  std::vector<std::string> plain;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--all") {
      result.all = true;
    } else if (word == "--gpu") {
      result.gpu = true;
    } else if (word == "--stored" && i + 1 < argc) {
      result.stored = argv[++i];
    } else if (word == "--every" && i + 1 < argc) {
      result.every = std::max<size_t>(1, std::strtoull(argv[++i], nullptr, 10));
    } else if (word == "--text") {
      result.text = true;
    } else if (word == "--kind" && i + 1 < argc) {
      result.choice.kind = argv[++i];
    } else if (word == "--spec" && i + 1 < argc) {
      result.choice.spec = argv[++i];
    } else {
      plain.push_back(word);
    }
  }
  if (!plain.empty()) result.count = std::strtoull(plain[0].c_str(), nullptr, 10);
  if (plain.size() > 1) result.first = std::strtoull(plain[1].c_str(), nullptr, 10);
  return result;
}

void count(const Mutant& mutant, Tally& tally) {
  ++tally.tried;
  switch (mutant.outcome) {
    case Outcome::Refused:
      ++tally.refused;
      ++tally.verdicts[mutant.verdict];
      break;
    case Outcome::Equal: ++tally.equal; break;
    case Outcome::Escaped: ++tally.escaped; break;
    case Outcome::Impossible: ++tally.impossible; break;
  }
}

void print_row(const std::string& name, const Tally& t) {
  std::string verdicts;
  for (const auto& [verdict, n] : t.verdicts) verdicts += fmt::format(" {} {}", n, verdict);
  fmt::print("| {} | {} | {} | {} | {} | {} |{} |\n", name, t.tried - t.impossible, t.refused,
             t.equal, t.escaped, t.impossible, verdicts);
}

void add(const Tally& one, Tally& sum) {
  sum.tried += one.tried;
  sum.refused += one.refused;
  sum.equal += one.equal;
  sum.escaped += one.escaped;
  sum.impossible += one.impossible;
  for (const auto& [verdict, n] : one.verdicts) sum.verdicts[verdict] += n;
}

// Prints the table; 1 where a mutant escaped.
int print_tallies(const std::map<std::string, Tally>& tallies, const char* head = "fault") {
  fmt::print("\n| {} | mutants | refused | equal | escaped | no place | verdicts |\n", head);
  fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
  Tally sum;
  for (const auto& [kind, tally] : tallies) {
    print_row(kind, tally);
    add(tally, sum);
  }
  print_row("all", sum);
  return sum.escaped == 0 ? 0 : 1;
}

// The stored kernels of a family.
struct Family {
  std::vector<double> seconds;  // of the check of each that passes it
  int wrong = 0;                // that do not pass it
  int plain = 0;                // that have no pipeline
};

void print_families(std::map<std::string, Family> families) {
  Family all;
  for (const auto& [name, f] : families) {
    all.seconds.insert(all.seconds.end(), f.seconds.begin(), f.seconds.end());
    all.wrong += f.wrong;
    all.plain += f.plain;
  }
  families["all"] = all;
  fmt::print(
      "\n| family | kernels | not right | without a pipeline | check, median s | worst s |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- |\n");
  for (auto& [name, f] : families) {
    std::sort(f.seconds.begin(), f.seconds.end());
    const double median = f.seconds.empty() ? 0 : f.seconds[f.seconds.size() / 2];
    const double worst = f.seconds.empty() ? 0 : f.seconds.back();
    fmt::print("| {} | {} | {} | {} | {:.1f} | {:.1f} |\n", name, f.seconds.size(), f.wrong,
               f.plain, median, worst);
  }
}

// Breaks the pipelines of stored kernels in every way, those of a name if the choice has one.
int break_stored(const Arguments& arguments) {
  std::map<std::string, Tally> tallies, faults;
  std::map<std::string, Family> families;
  for (const StoredKernel& kernel : stored_kernels(arguments.stored)) {
    if (!arguments.choice.spec.empty() && kernel.name.find(arguments.choice.spec) != 0) continue;
    Family& family = families[kernel.family];
    const Validation validation = validate(kernel);
    if (validation.problem.empty()) {
      family.seconds.push_back(validation.seconds);
    } else {
      ++family.wrong;
      fmt::print("{}: the kernel itself is not right: {}\n", kernel.name, validation.problem);
    }
    const auto mutants = pipeline_mutants(kernel, arguments.every, arguments.choice.kind);
    if (mutants.empty()) ++family.plain;
    for (const Mutant& mutant : mutants) {
      count(mutant, tallies[kernel.family]);
      count(mutant, faults[mutant.kind]);
      if (arguments.all || mutant.outcome != Outcome::Refused) {
        fmt::print("{}\n", describe(mutant));
        std::fflush(stdout);
      }
    }
  }
  print_families(families);
  print_tallies(tallies, "family");
  return print_tallies(faults);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = arguments_of(argc, argv);
  spdlog::set_level(spdlog::level::warn);
  if (!arguments.stored.empty()) return break_stored(arguments);
  std::optional<Mutants> mutants;
  if (!arguments.gpu) {
    mutants.emplace(std::filesystem::canonical("/proc/self/exe").parent_path().string());
  }
  std::map<std::string, Tally> tallies;
  for (uint64_t seed = arguments.first; seed < arguments.first + arguments.count; ++seed) {
    const Mutant mutant =
        mutants ? mutants->run(seed, arguments.choice) : run_gpu_mutant(seed, arguments.choice);
    count(mutant, tallies[mutant.kind]);
    if (arguments.all || mutant.outcome == Outcome::Escaped) {
      fmt::print("{}\n", describe(mutant));
      std::fflush(stdout);
    }
    if (arguments.text && mutants) {
      fmt::print("==== kernel\n{}\n==== mutant\n{}\n", mutants->original(), mutants->text());
    }
  }
  return print_tallies(tallies);
}
