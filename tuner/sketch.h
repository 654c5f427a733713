// Sketches: functions that ask a trial for choices and schedule a program accordingly.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "kernel/target.h"
#include "schedule/schedule.h"
#include "schedule/trial.h"

namespace tilewright {

struct SketchInput {
  const Workload& workload;
  const Target& target;
  int threads;
};

// A config is valid only with the name and version of its sketch. Change the version whenever an
// existing config could give another program, or none. Kernels of older versions stay in use:
// records carry their artifacts.
struct Sketch {
  std::string name;
  int version;
  std::function<void(Schedule&, Trial&, const SketchInput&)> run;
};

// The sketches that a search explores for any workload on a CPU.
const std::vector<Sketch>& cpu_sketches();
// The untuned CPU schedule: the loops as written, the outermost one parallel. A reduction whose elements
// stand in strides runs outside the loop along its result's rows. It has no knobs.
const Sketch& default_sketch();
// The untuned GPU schedule: the first choice of every knob of cuda_sketches().
const Sketch& cuda_default_sketch();
// The sketches that a search explores for any workload on a GPU.
const std::vector<Sketch>& cuda_sketches();
// Finds any of the above by name; null if there is none.
const Sketch* find_sketch(const std::string& name);
// The reason why a config of that version of a sketch gives no program here: "found by version 2 of
// sketch 'cpu_tiles', this is 3". Empty if it gives one.
std::string replay_problem(const std::string& sketch, int version);

// Lowers the workload and applies the sketch. Throws ScheduleError for an illegal candidate, and
// for a replayed config that does not fit the sketch.
Schedule apply_sketch(const Sketch& sketch, const SketchInput& input, Trial& trial);

}  // namespace tilewright
