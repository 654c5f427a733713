// Traces of schedules, as databases hold them, with the primitives' arguments.
#include "ir/ops/spec.h"
#include "ir/verify.h"
#include "schedule/schedule.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {
namespace {

const Program& program() {
  static const Program kProgram = lower(parse_workload("matmul:m=1..16,n=6,k=8"));
  return kProgram;
}

std::string trace_of(const std::vector<Step>& steps) {
  Schedule schedule(program());
  for (const Step& step : steps) schedule.apply(step);
  return schedule.trace().to_json();
}

}  // namespace

std::vector<std::string> seed_inputs() {
  return {
      trace_of({{"split", R"({"loop":"k","factors":[-1,4]})", {}},
                {"reorder", R"({"loops":["k_0","j","k_1"]})", {}},
                {"unroll", R"({"loop":"k_1"})", {}}}),
      trace_of(
          {{"transform_block_layout",
            R"J({"block":"C","map":"(a0, a1, a2) -> (a0, floordiv(a1, 4), a2, floormod(a1, 4))"})J",
            {}},
           {"cache_write", R"({"block":"C","buffer":"C","scope":"register"})", {}}}),
      trace_of({{"pad_einsum", R"({"block":"C","multiples":[4,1,3]})", {}},
                {"rfactor", R"({"block":"C","loop":"k","factor_axis":0})", {}}})};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Trace trace = Trace::from_json(std::string(fuzz::text_of(data, size)));
    Schedule schedule(fuzz::program());
    for (const Step& step : trace.steps) {
      schedule.apply(step);
      fuzz::require(verify(schedule.program()).empty(), "a trace made an illegal program");
    }
  } catch (const Error&) {  // also ScheduleError
  }
  return 0;
}
