// Configs out of files: what `show --config` printed, maybe edited by hand.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "kernel/target.h"
#include "tuner/sketch.h"

namespace tilewright::cli {

struct OwnConfig {
  const Sketch* sketch;
  std::string config;     // the answers, JSON
  std::string canonical;  // of the workload that it was made for; empty: of any

  // Whether it is meant for the workload.
  bool is_for(const Workload& w) const { return canonical.empty() || canonical == w.canonical; }
};

// Reads {"sketch": …, "config": {…}}, a list of such objects, or {"results": list}, as `show --config`
// and `best --json` print them; "version" and "spec" are optional. Throws UsageError that names the
// file and what would be taken.
std::vector<OwnConfig> read_own_configs(const std::string& file);

// Throws UsageError that names the file and the question whose answer does not fit the workload.
void require_fitting(const OwnConfig& own, const std::string& file, const SketchInput& input);

}  // namespace tilewright::cli
