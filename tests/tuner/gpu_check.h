// Runs the CUDA code of a scheduled workload in the emulator, and compares it with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "emulator/emulate_program.h"
#include "ir/ops/spec.h"
#include "kernel/instructions/tensor_sums.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/operands.h"
#include "schedule/schedule.h"
#include "tests/tuner/choices.h"
#include "tuner/sketch.h"

namespace tilewright {

struct GpuRun {
  CudaSource source;
  EmulatorResult emulated;
  CheckResult checked;
};

// `edit` changes the kernels' text, to break a kernel.
inline GpuRun run_on_emulator(const Workload& w, const Schedule& s, const Target& target,
                              const std::map<std::string, int64_t>& dims = {}, uint64_t seed = 1,
                              const std::function<void(std::string&)>& edit = {}) {
  GpuRun run{generate_cuda(s.module(), target), {}, {}};
  if (edit) edit(run.source.text);
  OperandSet operands(operands_of(w, dims), 1);
  EmulatorOptions options;
  options.seed = seed;
  run.emulated = emulate_program({run.source, {}}, operands, dim_values(w, dims), options);
  Oracle oracle(w, seeded_readers(operands.infos(), 1), dims,
                narrow_sums(target.gpu.compute_capability));
  Reference reference = make_reference(operands.output().elem(), operands.output().shape(), 400, 1,
                                       [&](int64_t i) { return oracle.at(i); });
  run.checked = compare(operands.output(), reference);
  return run;
}

// Applies the GPU sketch with the first choices, or with those of a config or a seed.
inline Schedule gpu_schedule(const Workload& w, const Target& target, Trial trial) {
  return apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
}

// The same with a few choices, and the first options otherwise.
inline Schedule gpu_schedule(const Workload& w, const Target& target, const Choices& choices) {
  return gpu_schedule(w, target, trial_with(choices));
}

// The trial of the GPU sketch after it has run.
inline Trial gpu_trial(const Workload& w, const Target& target, const Choices& choices = {}) {
  return applied_trial(cuda_sketches().front(), {w, target, 1}, choices);
}

inline void expect_right_on_gpu(const Workload& w, const Schedule& s, const Target& target,
                                const std::map<std::string, int64_t>& dims = {}) {
  GpuRun run = run_on_emulator(w, s, target, dims);
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
}

// The printer's refusal of the program on this target.
inline std::string lowering_refusal(const Schedule& s, const Target& target) {
  try {
    generate_cuda(s.module(), target);
  } catch (const LoweringError& e) {
    return e.what();
  }
  return "was not refused";
}

inline const Target& ampere() {
  static const Target target = Target::parse("cuda:sm_80");
  return target;
}

inline std::string text_of(const Workload& w, const Schedule& s, const Target& target) {
  return generate_cuda(s.module(), target).text;
}

// The text of the kernel by every knob's first option.
inline std::string first_text(const std::string& spec, const Target& target) {
  Workload w = make_workload(parse_spec(spec));
  return generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target).text;
}

inline size_t count_of(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Names a case of a parametrized test after its spec.
inline std::string name_of_case(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace tilewright
