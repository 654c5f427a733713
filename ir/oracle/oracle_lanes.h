// The oracle's arithmetic on a vector of neighbouring output elements.
#pragma once

#include <array>
#include <cstdint>

#include "ir/oracle/oracle_evaluator.h"

namespace tilewright::oracle {

constexpr int kLanes = 128;

// Values of up to kLanes elements: the fields of Approx.
struct LaneValues {
  std::array<double, kLanes> v, e, apart;

  Approx at(int l) const { return {v[l], e[l], apart[l]}; }
  void set(int l, Approx a) { v[l] = a.v, e[l] = a.e, apart[l] = a.apart; }
};

// Evaluates a stage for `count` elements whose subscripts differ in slot `lane` alone, where it takes
// the values slots[lane], slots[lane] + 1, and so on. All stages that are read must be computed.
class LaneEvaluator {
 public:
  LaneEvaluator(Evaluator& evaluator, const StageCode& stage, int lane)
      : evaluator_(evaluator), s_(stage), lane_(lane) {}

  // The elements, over all of the stage's reduce axes. `slots` has room for these, too.
  void elements(Evaluator::Slots& slots, int count, LaneValues& out);
  // Value `i` of the stage's code.
  void values(int i, Evaluator::Slots& slots, int count, LaneValues& out);

 private:
  using Indices = std::array<int64_t, kLanes>;
  using Conditions = std::array<bool, kLanes>;

  bool moves(uint64_t uses) const { return (uses >> lane_ & 1) != 0; }
  void apply_binary(const ValueCode& n, const LaneValues& b, int count, LaneValues& a) const;
  void apply_with_apart(const ValueCode& n, const LaneValues& b, int count, LaneValues& a) const;
  void indices(int i, Evaluator::Slots& slots, int count, Indices& out);
  void conditions(int i, Evaluator::Slots& slots, int count, Conditions& out);
  void one_by_one(int i, Evaluator::Slots& slots, int count, LaneValues& out);
  void read(const ValueCode& n, Evaluator::Slots& slots, int count, LaneValues& out);

  Evaluator& evaluator_;
  const StageCode& s_;
  int lane_;
};

}  // namespace tilewright::oracle
