// Operands for a spec and what the operator gives on them by plain loops: the measure of a peer's
// correctness, and its input where it is timed alone. f32 and i8 only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/peers/peer.h"

namespace tilewright::peers {

// A named tensor of `elements` elements of f32, i8 or i32.
struct NaiveOperand {
  std::string name;
  int64_t elements = 0;
  int element_bytes = 4;
  std::vector<unsigned char> data;

  float* floats() { return reinterpret_cast<float*>(data.data()); }
  const float* floats() const { return reinterpret_cast<const float*>(data.data()); }
  double at(int64_t index) const;  // as a number, whatever the type
  bool integer = false;
};

struct NaiveCase {
  std::vector<NaiveOperand> operands;  // the output is the last one

  NaiveOperand& output() { return operands.back(); }
  std::vector<TilewrightPeerOperand> for_peer();
};

// Operands with small seeded values; the output is filled with NaN (integers: -1).
NaiveCase naive_case(const nlohmann::json& spec);
// The expected output.
std::vector<double> naive_result(const nlohmann::json& spec, const NaiveCase& inputs);

}  // namespace tilewright::peers
