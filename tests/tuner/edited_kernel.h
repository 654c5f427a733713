// The verdicts of the emulator and the comparison on kernels with an error in their text.
#pragma once

#include <string>

#include "tests/tuner/gpu_check.h"

namespace tilewright {

enum class Places { First, All };

// Runs the kernels with `from` replaced by `to`; `from` must occur.
inline GpuRun run_edited(const Workload& w, const Schedule& s, const Target& target,
                         const std::string& from, const std::string& to,
                         Places places = Places::First, uint64_t seed = 1) {
  return run_on_emulator(w, s, target, {}, seed, [&](std::string& text) {
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << "there is no '" << from << "' in\n" << text;
    do {
      text.replace(at, from.size(), to);
      at = text.find(from, at + to.size());
    } while (places == Places::All && at != std::string::npos);
  });
}

// "ok", "wrong" if elements differ, or the name of the fault that ended the run.
inline std::string outcome_of(const GpuRun& run) {
  if (!run.emulated.ok()) return std::string(fault_name(run.emulated.fault->kind));
  return run.checked.verdict == Verdict::Ok ? "ok" : "wrong";
}

inline std::string outcome_of_edited(const Workload& w, const Schedule& s, const Target& target,
                                     const std::string& from, const std::string& to,
                                     Places places = Places::First, uint64_t seed = 1) {
  return outcome_of(run_edited(w, s, target, from, to, places, seed));
}

}  // namespace tilewright
