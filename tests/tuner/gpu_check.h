// Runs the CUDA code of a scheduled workload in the emulator and compares it with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/simplify.h"
#include "runtime/emulator/emulator.h"
#include "runtime/operands.h"
#include "runtime/reference.h"
#include "runtime/weight_packing.h"
#include "schedule/schedule.h"
#include "tuner/sketch.h"

namespace tilewright {

struct GpuRun {
  CudaSource source;
  EmulatorResult emulated;
  CheckResult checked;
};

// An expression of the dimensions at these values.
inline int64_t value_at(const Expr& e, const CudaSource& source, const std::vector<int64_t>& dims) {
  Analyzer known;
  for (size_t d = 0; d < dims.size(); ++d) {
    known.bind(source.dims[d].var, Interval::point(dims[d]));
  }
  return as_int(known.simplify(e)).value();
}

// `edit` changes the kernels' text: how a broken kernel is made.
inline GpuRun run_on_emulator(const Workload& w, const Schedule& s, const Target& target,
                              const std::map<std::string, int64_t>& dims = {}, uint64_t seed = 1,
                              const std::function<void(std::string&)>& edit = {}) {
  GpuRun run{generate_cuda(s.module(), target), {}, {}};
  if (edit) edit(run.source.text);
  std::vector<int64_t> values = dim_values(w, dims);
  OperandSet operands(operands_of(w, dims), 1);
  std::vector<EmulatedBuffer> buffers;
  std::map<std::string, Workspace> packed = pack_weights(run.source.packing, operands);
  for (const KernelParam& p : run.source.params) {
    if (auto it = packed.find(p.name); it != packed.end()) {
      buffers.push_back({p.name, it->second.data(), it->second.bytes(), true});
      continue;
    }
    HostArray& array = operands.at(p.name);
    buffers.push_back({p.name, array.data(), array.bytes(), p.role != ParamRole::Output});
  }
  std::vector<std::vector<char>> scratch;
  for (const CudaScratch& x : run.source.scratch) {
    scratch.emplace_back(
        static_cast<size_t>(bytes_for(x.elem, value_at(x.elements, run.source, values))));
    buffers.push_back(
        {x.name, scratch.back().data(), static_cast<int64_t>(scratch.back().size()), false});
  }
  std::vector<EmulatedLaunch> launches;
  for (const CudaLaunch& l : run.source.launches) {
    EmulatedLaunch launch;
    launch.entry = l.entry;
    for (size_t x = 0; x < 3; ++x) {
      launch.grid[x] = static_cast<int>(value_at(l.grid[x], run.source, values));
    }
    launch.block = l.block;
    launch.shared_bytes = l.shared_bytes;
    for (int b : l.buffers) launch.arguments.push_back(EmulatedLaunch::Buffer{b});
    for (int64_t value : values) launch.arguments.push_back(value);
    launches.push_back(launch);
  }
  EmulatorOptions options;
  options.seed = seed;
  run.emulated = emulate(run.source.text, launches, buffers, options);
  Oracle oracle(w, seeded_readers(operands.infos(), 1), dims);
  Reference reference =
      make_reference(operands.output().shape(), 400, 1, [&](int64_t i) { return oracle.at(i); });
  run.checked = compare(operands.output(), reference);
  return run;
}

// The answers that a GPU sketch gives first, or those of a config or a seed.
inline Schedule gpu_schedule(const Workload& w, const Target& target, Trial trial) {
  return apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
}

inline void expect_right_on_gpu(const Workload& w, const Schedule& s, const Target& target,
                                const std::map<std::string, int64_t>& dims = {}) {
  GpuRun run = run_on_emulator(w, s, target, dims);
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
}

}  // namespace tilewright
