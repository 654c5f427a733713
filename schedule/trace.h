// The record of a schedule: the primitives that were applied, in order, with their arguments.
#pragma once

#include <string>
#include <vector>

namespace tilewright {

// One applied primitive. `arguments` is a JSON object in the order of the primitive's fields;
// `results` names the loops or blocks that it made.
struct Step {
  std::string primitive;
  std::string arguments;  // JSON text
  std::vector<std::string> results;
};

struct Trace {
  std::vector<Step> steps;

  // One line per step: `i_0, i_1 = split(loop="i", factors=[4, 16])`.
  std::string str() const;
  std::string to_json() const;
  // Throws Error that names the step and the problem.
  static Trace from_json(const std::string& text);
};

}  // namespace tilewright
