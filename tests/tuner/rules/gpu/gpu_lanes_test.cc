// Reductions over the lanes of a warp, or of a team of some lanes, in the emulator.
#include <gmock/gmock.h>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Workload row_sums() {
  return make_workload(parse_spec(R"(expr:expr="Y[i] += X[i, j]",dims.i=64,dims.j=48)"));
}

// Rows of 48 elements by teams of lanes: each lane sums its own first.
Schedule sums_by_teams(const Workload& w, int64_t team) {
  Schedule s(lower(w));
  const Block sum = s.block("Y");
  std::vector<Loop> loops = s.loops(sum);
  std::vector<Loop> rows = s.split(loops[0], {-1, 32});
  std::vector<Loop> terms = s.split(loops[1], {-1, team, 2});
  s.reorder({rows[0], rows[1], terms[1], terms[0], terms[2]});
  s.annotate(terms[1], kInstructionKey, std::string(kShuffle));
  const Block init = s.decompose_reduction(sum, rows[1]);
  s.bind(s.loops(init)[1], ForKind::ThreadX);
  s.annotate(rows[1], kTeamKey, team);
  s.bind(rows[1], ForKind::Warp);
  s.bind(rows[0], ForKind::BlockX);
  return s;
}

TEST(GpuLanes, ReduceWhatTheyHoldAndThenEachOthers) {
  const Workload w = row_sums();
  for (int64_t team : {2, 4, 8}) {
    SCOPED_TRACE(testing::Message() << team << " lanes");
    expect_right_on_gpu(w, sums_by_teams(w, team), ampere());
  }
}

// A lane that exchanges with another row's lane, or with none, shows.
TEST(GpuLanes, AllOfATeamCount) {
  const Workload w = row_sums();
  const Schedule s = sums_by_teams(w, 4);
  for (const char* distance : {"distance = 1;", "distance = 4;"}) {
    EXPECT_EQ(outcome_of_edited(w, s, ampere(), "distance = 2;", distance), "wrong") << distance;
  }
}

TEST(GpuLanes, Refusals) {
  const Workload w = row_sums();
  auto refusal = [&](int64_t team, int64_t lanes) {
    Schedule s(lower(w));
    std::vector<Loop> loops = s.loops(s.block("Y"));
    std::vector<Loop> terms = s.split(loops[1], {lanes, -1});
    s.annotate(terms[0], kInstructionKey, std::string(kShuffle));
    s.annotate(loops[0], kTeamKey, team);
    s.bind(loops[0], ForKind::Warp);
    return lowering_refusal(s, ampere());
  };
  EXPECT_THAT(refusal(4, 8), HasSubstr("it must have 4 iterations of one reduction"));
  EXPECT_THAT(refusal(5, 4), HasSubstr("'team' of loop 'i' must be a divisor of 32"));
}

}  // namespace
}  // namespace tilewright
