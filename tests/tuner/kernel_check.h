// Builds a scheduled workload, runs it on two threads and compares it with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "codegen/codegen.h"
#include "codegen/intrinsics/intrinsics.h"
#include "runtime/check/check.h"
#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/thread_pool.h"
#include "schedule/schedule.h"
#include "tests/tuner/choices.h"
#include "tuner/sketch.h"

namespace tilewright {

// Whether the table of intrinsics has a row with this name that the target may use.
inline bool has_row(const Target& target, std::string_view name) {
  const std::vector<const Intrinsic*> rows = intrinsics_of(target);
  return std::any_of(rows.begin(), rows.end(), [&](const auto* row) { return row->name == name; });
}

// The CPU sketch for two threads, with a few choices and the first options otherwise.
inline Schedule cpu_schedule(const Workload& w, const Target& target, const Choices& choices = {}) {
  return apply_sketch(cpu_sketches().front(), {w, target, 2}, choices);
}

// The trial of the CPU sketch after it has run.
inline Trial cpu_trial(const Workload& w, const Target& target, const Choices& choices = {}) {
  return applied_trial(cpu_sketches().front(), {w, target, 2}, choices);
}

// The object of a kernel that runs once, on small operands. Most of such a test's time is the
// compiler's, so three kernels of four, by their text, are compiled in half of it: with the passes that
// depend on what the text promises (vectors, aliases), without those that only make more copies.
// The fourth is compiled as users' kernels are.
inline std::string test_object(KernelSource source) {
  constexpr size_t kAsUsers = 4;
  if (std::hash<std::string>{}(source.code) % kAsUsers != 0) {
    source.flags.insert(source.flags.end(), {"-O1", "-fstrict-aliasing", "-ftree-vectorize",
                                             "-fvect-cost-model=dynamic"});
  }
  return compile(source).object;
}

// Compares `samples` elements of the output.
inline CheckResult check_source(const Workload& w, const KernelSource& source, int64_t samples) {
  Kernel kernel(test_object(source), source.description);
  OperandSet operands(operands_of(w, {}), 1);
  ThreadPool pool(2);
  BoundKernel bound(kernel, operands, {}, pool);
  Oracle oracle(w, seeded_readers(operands.infos(), 1));
  Reference reference = make_reference(operands.output().elem(), operands.output().shape(), samples,
                                       1, [&](int64_t i) { return oracle.at(i); });
  return check_kernel(bound, reference);
}

inline CheckResult check_schedule(const Workload& w, const Schedule& s, const Target& target) {
  return check_source(w, generate_c(s.module(), target), 200);
}

inline void expect_right(const Workload& w, const Schedule& s, const Target& target) {
  CheckResult result = check_schedule(w, s, target);
  EXPECT_EQ(result.verdict, Verdict::Ok) << result.message << "\n" << s.trace().str();
}

}  // namespace tilewright
