// What is lost where products are summed with few bits.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/oracle/evaluate.h"

namespace tilewright::oracle {

// The error of a sum whose terms come one by one.
class NarrowError {
 public:
  explicit NarrowError(NarrowSums how) : how_(how) {}

  void add(double term);
  // So far: what is cut off each term, and off the sum in every step, four times as much as it is likely
  // to be (Higham and Mary, 2019, as for the roundings of sums).
  double error();

 private:
  void close();

  NarrowSums how_;
  std::vector<double> terms_;  // those that are summed together
  double squares_ = 0;         // of what is lost
};

}  // namespace tilewright::oracle
