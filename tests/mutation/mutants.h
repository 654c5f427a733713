// Mutants of kernels, what the check of candidates says of them, and what they are.
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
// Kinds of faults in texts, then of those in programs.
const std::vector<std::string>& kind_names();

enum class Outcome : uint8_t {
  Refused,
  Equal,       // stored as valid, and right
  Escaped,     // stored as valid, and wrong
  Impossible,  // the kernel has no place for the fault, or does not compile with it
};

struct Mutant {
  uint64_t seed = 0;
  std::string spec, kind;
  std::string config;  // of the kernel; empty: the untuned default
  Outcome outcome = Outcome::Impossible;
  std::string verdict;  // of the check
  std::string message;  // its reason; of one that escaped what is wrong with it
};

// What `message` says, on one line.
std::string describe(const Mutant& mutant);

struct Choice {
  // Of those that the seed would choose among; empty: all.
  std::string kind, spec;
};

// Makes mutants of the kernels of all workloads and gives them to workers as the tuner does. Every
// mutant follows from its seed.
class Mutants {
 public:
  // Programs of the build: where tune-cli and mutating_cc lie.
  explicit Mutants(std::string programs);
  ~Mutants();
  // Tries places of the kind in kernels of the workload until one compiles.
  Mutant run(uint64_t seed, const Choice& choice = {});
  // The mutated text of the last one, and the text that it was made of.
  const std::string& text() const;
  const std::string& original() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// How many there were of a kind.
struct Tally {
  int64_t tried = 0, refused = 0, equal = 0, escaped = 0, impossible = 0;
  std::map<std::string, int64_t> verdicts;
};

}  // namespace tilewright::mutation
