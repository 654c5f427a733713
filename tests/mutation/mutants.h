// Mutants of kernels: the verdict of the check of candidates, and the truth about them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/mutation/ground_truth.h"

namespace tilewright::mutation {

// Small workloads of all kinds, as spec text.
const std::vector<std::string>& workload_specs();
// Kinds of faults in texts, followed by those in programs.
const std::vector<std::string>& kind_names();

enum class Outcome : uint8_t {
  Refused,
  Equal,       // stored as valid, and correct
  Escaped,     // stored as valid, but wrong
  Impossible,  // no place in the kernel fits the fault, or the mutant does not compile
};

struct Mutant {
  uint64_t seed = 0;
  std::string spec, kind;
  std::string config;  // the kernel's config; empty: the untuned default
  Outcome outcome = Outcome::Impossible;
  std::string verdict;  // the check's verdict
  std::string message;  // the check's reason; for an escaped mutant the defect
};

// The mutant and its message on one line.
std::string describe(const Mutant& mutant);

struct Choice {
  // Restrict the seed's choices; empty: no restriction.
  std::string kind, spec;
};

// Makes mutants of the kernels of all workloads and passes them to workers as the tuner does. The
// seed determines the mutant.
class Mutants {
 public:
  // `programs`: the build folder with tune-cli and mutating_cc.
  explicit Mutants(std::string programs);
  ~Mutants();
  // Tries places for the kind of fault in the workload's kernels until one compiles.
  Mutant run(uint64_t seed, const Choice& choice = {});
  // The text of the last mutant, and its original.
  const std::string& text() const;
  const std::string& original() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Counts of one kind's mutants.
struct Tally {
  int64_t tried = 0, refused = 0, equal = 0, escaped = 0, impossible = 0;
  std::map<std::string, int64_t> verdicts;
};

}  // namespace tilewright::mutation
