// Sketches: functions that ask a trial and schedule a program accordingly.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/tensor_expr.h"
#include "schedule/schedule.h"
#include "schedule/trial.h"

namespace tilewright {

struct SketchInput {
  const Workload& workload;
  const Target& target;
  int threads;
};

// A config means something only together with the name and the version of the sketch that asked
// for it: change the version whenever a config could come to mean another program.
struct Sketch {
  std::string name;
  int version;
  std::function<void(Schedule&, Trial&, const SketchInput&)> run;
};

// The sketches that a search explores for any workload on a CPU.
const std::vector<Sketch>& cpu_sketches();
// What not tuning gives on a CPU: the loops as written, the outermost one parallel. It asks nothing.
const Sketch& default_sketch();
// The same for a target; on a GPU the first answers to all that its rules ask.
const Sketch& default_sketch(const Target& target);
// The sketches that a search explores for any workload on a GPU.
const std::vector<Sketch>& cuda_sketches();
// By name among all of the above; null when there is none.
const Sketch* find_sketch(const std::string& name);

// Lowers the workload and runs the sketch on it. Throws ScheduleError for an illegal candidate, and
// for a replayed config that does not fit the sketch.
Schedule apply_sketch(const Sketch& sketch, const SketchInput& input, Trial& trial);

}  // namespace tilewright
