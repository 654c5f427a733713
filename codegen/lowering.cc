#include "codegen/lowering.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "codegen/passes/run_passes.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

void check_size(const Program& p, int limit) {
  int count = 0;
  for_each_stmt(p.body, [&](const Stmt&) { ++count; });
  if (count > limit) {
    throw LoweringError(
        fmt::format("program '{}' grew to {} statements; at most {} are allowed: "
                    "unroll less or use smaller inner tiles",
                    p.name, count, limit));
  }
}

}  // namespace

Program simplify_program(const Program& p) {
  Program result = p;
  result.body = simplify(p.body, /*drop_unit_loops=*/true);
  if (!result.body.defined()) throw LoweringError(fmt::format("program '{}' does nothing", p.name));
  return result;
}

const std::vector<Pass>& cpu_passes() {
  using Options = LoweringOptions;
  auto simple = [](Program (*fn)(const Program&)) {
    return [fn](const Program& p, const Target&, const Options&) { return fn(p); };
  };
  static const std::vector<Pass> passes = {
      {"lower_blocks", true, simple(lower_blocks)},
      {"compact_buffers", false, simple(compact_buffers)},
      {"simplify_loops", false, simple(simplify_program)},
      {"name_fused_indices", false, simple(name_fused_indices)},
      {"peel_dynamic_tails", false, simple(peel_dynamic_tails)},
      {"partition_loops", false, simple(partition_loops)},
      {"flatten_buffers", true, simple(flatten_buffers)},
      {"lower_intrinsics", true,
       [](const Program& p, const Target& t, const Options&) { return lower_intrinsics(p, t); }},
      {"vectorize_loops", true,
       [](const Program& p, const Target& t, const Options&) { return vectorize_loops(p, t); }},
      {"unroll_loops", true,
       [](const Program& p, const Target&, const Options& o) {
         return unroll_loops(p, o.max_statements);
       }},
      {"simplify", false, simple(simplify_program)},
      {"promote_accumulators", false, simple(promote_accumulators)},
      {"start_accumulators", false, simple(start_accumulators)},
      {"skip_zero_terms", false, simple(skip_zero_terms)},
  };
  return passes;
}

Program lower_for_cpu(const Program& program, const Target& target,
                      const LoweringOptions& options) {
  return run_passes(cpu_passes(), program, target, options);
}

LoweringOptions with_size_facts(LoweringOptions options, SizeFacts* facts) {
  auto latest = std::make_shared<Program>();
  options.observe = [facts, latest, next = std::move(options.observe)](
                        const std::string& pass, const Program& program, double seconds) {
    if (pass == "flatten_buffers" && !program.dims.empty()) *facts = size_facts(*latest);
    *latest = program;
    if (next) next(pass, program, seconds);
  };
  return options;
}

Program run_passes(const std::vector<Pass>& passes, const Program& program, const Target& target,
                   const LoweringOptions& options) {
  Program current = program;
  for (const Pass& pass : passes) {
    bool off = std::count(options.without.begin(), options.without.end(), pass.name) != 0;
    if (off && !pass.required) continue;
    auto start = std::chrono::steady_clock::now();
    current = pass.run(current, target, options);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    check_size(current, options.max_statements);
    if (options.observe) options.observe(pass.name, current, took.count());
    if (pass.name == options.last) break;
  }
  return current;
}

}  // namespace tilewright
