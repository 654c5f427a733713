// Workloads whose database holds a dispatch table: each size gets the kernel of its range.
#include "database/dispatch.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSpec = "matmul:m=1..64,n=8,k=16";

// Two kernels: tag 1, the best one at the largest size, and tag 2, which the table prefers up to 8.
class Ranges {
 public:
  explicit Ranges(bool sound = true) : database(std::initializer_list<HandMade>{}) {
    HandMade large{.spec = kSpec, .dynamic = true, .tag = 1, .scratch = 8, .seconds = 1e-6};
    HandMade small{.spec = kSpec, .dynamic = true, .tag = 2, .scratch = 64, .seconds = 2e-6};
    small.sound = sound;
    database::Store store = database::Store::open(database.path(), database::Mode::ReadWrite);
    const std::string at_64 = add_kernel(store, large), at_8 = add_kernel(store, small);
    database::DispatchTable table;
    table.workload_hash = parse_workload(kSpec).hash();
    table.target_hash = native_identity().hash;
    table.dim = "m";
    table.ranges = {{1, 8, at_8}, {9, 64, at_64}};
    table.points = {{1, false, {{at_8, 1e-7}, {at_64, 2e-7}}},
                    {64, false, {{at_8, 2e-6}, {at_64, 1e-6}}}};
    table.created = 1;
    store.put_dispatch(table);
  }
  Database database;
};

std::string launched(const tw_kernel* kernel, int64_t m, const Floats& b, const Packed& packed,
                     int tag) {
  Floats a({m, 16}, 1), c({m, 8});
  alignas(64) char workspace[64];
  tw_status status = launch(kernel, a, nullptr, c, packed.weights, workspace, sizeof workspace);
  return status == TW_OK ? product_fault(a, b, c, tag) : tw_last_error();
}

TEST(ServingRanges, EachSizeGetsTheKernelOfItsRange) {
  Ranges ranges;
  Opened opened(ranges.database.path());
  PreparedSpec p(opened.library, kSpec);
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  ASSERT_EQ(tw_report_count(p.prepared), 2u);
  EXPECT_EQ(p.report(0).outcome, TW_HIT);
  EXPECT_STREQ(p.report(0).sizes, "m=1..8");
  EXPECT_EQ(p.report(1).outcome, TW_HIT);
  EXPECT_STREQ(p.report(1).sizes, "m=9..64");
  size_t bytes = 0;
  ASSERT_EQ(tw_workspace_bytes(p.kernel, 1, &bytes), TW_OK);
  EXPECT_EQ(bytes, 64u) << "the most that a kernel of any range needs";

  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  EXPECT_EQ(tw_weights_bytes(packed.weights), 2u * 16 * 8 * 4) << "a layout for each kernel";
  EXPECT_EQ(std::string(tw_weights_identity(packed.weights)).size(), 32u + 1 + 32);
  EXPECT_EQ(launched(p.kernel, 1, b, packed, 2), "");
  EXPECT_EQ(launched(p.kernel, 8, b, packed, 2), "");
  EXPECT_EQ(launched(p.kernel, 9, b, packed, 1), "");
  EXPECT_EQ(launched(p.kernel, 64, b, packed, 1), "");
}

TEST(ServingRanges, AFileThatWasWrittenForServingServesTheSame) {
  Ranges ranges;
  test::TempDir folder;
  const std::string slim = folder.path("slim.db");
  database::Store::open(ranges.database.path(), database::Mode::ReadOnly).export_serving(slim);
  Opened opened(slim);
  PreparedSpec p(opened.library, kSpec);
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(tw_report_count(p.prepared), 2u);
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  EXPECT_EQ(launched(p.kernel, 8, b, packed, 2), "");
  EXPECT_EQ(launched(p.kernel, 9, b, packed, 1), "");
}

TEST(ServingRanges, NamedSizesLoadTheKernelsOfTheirRangesAlone) {
  Ranges ranges;
  Opened opened(ranges.database.path());
  PreparedSpec p(opened.library, kSpec, 1, {16, 32});
  ASSERT_EQ(tw_report_count(p.prepared), 1u);
  EXPECT_STREQ(p.report().sizes, "m=9..64");
}

TEST(ServingRanges, ASizeOfItsOwnGetsTheKernelOfTheRangeThatHoldsIt) {
  Ranges ranges;
  Opened opened(ranges.database.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_NEAR);
  EXPECT_STREQ(p.report().reason, "made for matmul:m=1..64,n=8,k=16");
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  EXPECT_EQ(launched(p.kernel, 4, b, packed, 2), "");
}

TEST(ServingRanges, WhereAKernelDoesNotLoadTheBestOneFillsTheGap) {
  Ranges ranges(/*sound=*/false);
  Opened opened(ranges.database.path());
  PreparedSpec p(opened.library, kSpec);
  ASSERT_EQ(tw_report_count(p.prepared), 2u);
  EXPECT_STREQ(p.report(0).sizes, "m=9..64");
  EXPECT_EQ(p.report(0).outcome, TW_HIT);
  EXPECT_STREQ(p.report(1).sizes, "m=1..8");
  EXPECT_EQ(p.report(1).outcome, TW_NEAR);
  EXPECT_THAT(p.report(1).reason, HasSubstr("the artifact is no ELF object"));
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  EXPECT_EQ(launched(p.kernel, 4, b, packed, 1), "");
  EXPECT_EQ(launched(p.kernel, 40, b, packed, 1), "");
}

}  // namespace
}  // namespace tilewright::serving::testing
