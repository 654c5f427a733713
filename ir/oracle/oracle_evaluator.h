// The evaluator of the oracle's compiled form, an element at a time.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ir/oracle/evaluate.h"
#include "ir/oracle/oracle_code.h"
#include "ir/oracle/oracle_narrow.h"

namespace tilewright::oracle {

// The elements of one stage. `e` is empty where every element is exact.
struct StageArray {
  std::vector<double> v, e;

  Approx at(int64_t flat) const { return {v[flat], e.empty() ? 0 : e[flat]}; }
};

// Evaluates elements on demand. Elements of stages in `computed` are read there; with all stages that
// are read computed, const calls are safe from several threads.
class Evaluator {
 public:
  // A stage's axes, then its reduce axes.
  using Slots = std::vector<int64_t>;

  Evaluator(Code code, std::vector<ElementReader> readers, NarrowSums narrow);

  Approx element(int stage, int64_t flat);
  int64_t index(const StageCode& s, int i, Slots& slots);
  Approx value(const StageCode& s, int i, Slots& slots);
  Approx binary(const ValueCode& n, Approx a, Approx b);
  bool cond(const StageCode& s, int i, Slots& slots);
  // How far index `i` moves when `slot` grows by one; false when it does not move evenly.
  bool step_of(const StageCode& s, int i, int slot, int64_t& step) const;
  // Whether NarrowSums has a part in the stage's sums.
  bool is_narrow(const StageCode& s) const { return s.is_narrow && narrow.fraction_bits > 0; }
  double read_input(int input, int64_t flat) const { return readers_[input](flat); }
  // Elements [first, first + out.size()), in a block where the input has a reader of blocks.
  void read_inputs(int input, int64_t first, std::span<double> out) const;

  Code code;
  NarrowSums narrow;
  std::vector<StageArray> computed;  // by stage; empty, or one entry a stage
  std::vector<BlockReader> blocks;   // by input; may be empty

 private:
  // One factor of the terms of a sum, read along the innermost reduce axis.
  struct Strand {
    const ElementReader* reader = nullptr;
    int64_t at = 0, step = 0;
    bool zero = false;  // masked by a condition
  };

  double read(const ValueCode& n, int64_t flat);
  Approx reduce(const StageCode& s, Slots& slots);
  bool sum_of_products(const StageCode& s, Slots& slots, double& sum, double& magnitude,
                       NarrowError* lost);
  bool find_strands(const StageCode& s, int i, Slots& slots, std::vector<Strand>& strands);

  std::vector<ElementReader> readers_;
  std::vector<std::unordered_map<int64_t, Approx>> memory_;
};

// The roundings that a sum of `terms` is granted, in units of its magnitude.
double granted_roundings(int64_t terms);

// An element of the last stage as the oracle gives it.
Oracle::Value output_value(const Code& code, Approx a);

}  // namespace tilewright::oracle
