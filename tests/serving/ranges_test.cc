// Workloads whose database holds a dispatch table: each size gets the kernel of its range.
#include "database/dispatch.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRangesSpec = "matmul:m=1..64,n=8,k=16";

// Two kernels: tag 1, the best one at the largest size, and tag 2, which the table prefers up to 8.
class Ranges {
 public:
  explicit Ranges(bool sound = true, bool one_order = false)
      : database(std::initializer_list<HandMade>{}) {
    HandMade large{.spec = kRangesSpec, .dynamic = true, .tag = 1, .scratch = 8, .seconds = 1e-6};
    HandMade small{.spec = kRangesSpec, .dynamic = true, .tag = 2, .scratch = 64, .seconds = 2e-6};
    small.sound = sound;
    database::Store store = database::Store::open(database.path(), database::Mode::ReadWrite);
    const std::string at_64 = add_kernel(store, large), at_8 = add_kernel(store, small);
    database::DispatchTable table;
    table.workload_hash = parse_workload(kRangesSpec).hash();
    table.target_hash = native_identity().hash;
    table.dims = {"m"};
    table.ranges = {{{{"m", 1}}, {{"m", 8}}, at_8}, {{{"m", 9}}, {{"m", 64}}, at_64}};
    table.points = {{{{"m", 1}}, false, {{at_8, 1e-7}, {at_64, 2e-7}}},
                    {{{"m", 64}}, false, {{at_8, 2e-6}, {at_64, 1e-6}}}};
    table.one_order = one_order;
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
  PreparedSpec p(opened.library, kRangesSpec);
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
  PreparedSpec p(opened.library, kRangesSpec);
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
  PreparedSpec p(opened.library, kRangesSpec, 1, {16, 32});
  ASSERT_EQ(tw_report_count(p.prepared), 1u);
  EXPECT_STREQ(p.report().sizes, "m=9..64");
}

// A kernel that was tuned for m = 4 alone, in this many seconds; its tag is 3.
HandMade for_four_rows(double seconds) {
  return {.spec = "matmul:m=4,n=8,k=16", .tag = 3, .seconds = seconds};
}

void add_fixed(const Ranges& ranges, const HandMade& made) {
  database::Store store = database::Store::open(ranges.database.path(), database::Mode::ReadWrite);
  add_kernel(store, made);
}

// For one row the table's kernel takes 1e-7 s: no less for four.
TEST(ServingRanges, ANamedSizeGetsTheKernelOfThatSizeAloneWhereItIsSurelyFaster) {
  Ranges ranges;
  add_fixed(ranges, for_four_rows(0.9e-7));
  Opened opened(ranges.database.path());
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 8}, {8, 4}}) {
    PreparedSpec p(opened.library, kRangesSpec, 1, sizes);
    ASSERT_EQ(p.found, TW_OK) << tw_last_error();
    ASSERT_EQ(tw_report_count(p.prepared), 2u);
    EXPECT_EQ(p.report(0).outcome, TW_HIT);
    EXPECT_STREQ(p.report(0).sizes, "m=4");
    EXPECT_STREQ(p.report(0).kernel, "matmul:m=4,n=8,k=16");
    EXPECT_EQ(p.report(0).seconds, 0.9e-7);
    EXPECT_STREQ(p.report(1).sizes, "m=5..8");
    EXPECT_STREQ(p.report(1).kernel, kRangesSpec);
    Floats b({16, 8}, 2);
    Packed packed(p.kernel, b);
    EXPECT_EQ(launched(p.kernel, 4, b, packed, 3), "");
    EXPECT_EQ(launched(p.kernel, 8, b, packed, 2), "");
    auto operand = TW_INIT(tw_operand);
    ASSERT_EQ(tw_operand_at(p.kernel, 0, &operand), TW_OK);
    EXPECT_EQ(operand.shape[0], -1) << "known at launch";
  }
  PreparedSpec alone(opened.library, kRangesSpec, 1, {4});
  Floats b({16, 8}, 2);
  Packed packed(alone.kernel, b);
  EXPECT_EQ(launched(alone.kernel, 4, b, packed, 3), "");
  EXPECT_THAT(launched(alone.kernel, 5, b, packed, 3), HasSubstr("there are kernels for m=4"));
  PreparedSpec whole(opened.library, kRangesSpec);
  EXPECT_STREQ(whole.report(0).sizes, "m=1..8") << "no size is named";
}

TEST(ServingRanges, ElseANamedSizeGetsTheKernelOfItsRange) {
  const auto kernel_at_four = [](const HandMade& made, bool one_order) {
    Ranges ranges(/*sound=*/true, one_order);
    add_fixed(ranges, made);
    Opened opened(ranges.database.path());
    PreparedSpec p(opened.library, kRangesSpec, 1, {4});
    return std::string(p.report(0).kernel);
  };
  EXPECT_EQ(kernel_at_four(for_four_rows(0.97e-7), false), kRangesSpec)
      << "within what two runs differ by";
  EXPECT_EQ(kernel_at_four(for_four_rows(0.5e-7), true), kRangesSpec) << "one order at all sizes";
  HandMade other = for_four_rows(0.5e-7);
  other.threads = 2;
  EXPECT_EQ(kernel_at_four(other, false), kRangesSpec) << "for other threads";
  other = for_four_rows(0.5e-7);
  other.target = database::make_target("another chip", other.target.features, 4, "");
  EXPECT_EQ(kernel_at_four(other, false), kRangesSpec) << "of another chip";
  EXPECT_EQ(kernel_at_four(for_four_rows(0.5e-7), false), "matmul:m=4,n=8,k=16");
}

TEST(ServingRanges, AKernelOfOneSizeThatDoesNotLoadLeavesItsPlaceToTheRange) {
  Ranges ranges;
  HandMade broken = for_four_rows(0.5e-7);
  broken.sound = false;
  add_fixed(ranges, broken);
  Opened opened(ranges.database.path());
  PreparedSpec p(opened.library, kRangesSpec, 1, {4});
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_STREQ(p.report(0).kernel, kRangesSpec);
  EXPECT_EQ(p.report(0).outcome, TW_NEAR);
  EXPECT_THAT(p.report(0).reason, HasSubstr("the artifact is no ELF object"));
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  EXPECT_EQ(launched(p.kernel, 4, b, packed, 2), "");
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
  PreparedSpec p(opened.library, kRangesSpec);
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

// Two dynamic dimensions.
constexpr const char* kTwoDims = "matmul:m=1..64,n=1..32,k=16";

// C[m, n] = A[m, 16] B[16, n] + tag.
KernelSource two_dims_source(int tag) {
  KernelSource source;
  source.code = test::kPrelude + R"(
    int32_t kernel(void* const* args, const int64_t* dims, const tw_context* context) {
      const float *a = args[0], *b = args[1];
      float* c = args[2];
      for (int64_t i = 0; i < dims[0]; ++i)
        for (int64_t j = 0; j < dims[1]; ++j) {
          float sum = )" +
                std::to_string(tag) + R"(;
          for (int x = 0; x < 16; ++x) sum += a[i * 16 + x] * b[x * dims[1] + j];
          c[i * dims[1] + j] = sum;
        }
      return 0;
    })";
  const KernelExtent m = KernelExtent::dimension(0), n = KernelExtent::dimension(1);
  source.description.main = {
      "kernel",
      {test::param("A", {m, 16}), test::param("B", {16, n}, ParamRole::Weight),
       test::param("C", {m, n}, ParamRole::Output)},
      0,
      0};
  source.description.dims = {"m", "n"};
  return source;
}

// Up to m = 8 tag 1 for n up to 16 and tag 2 beyond; tag 3 for more rows.
class Boxes {
 public:
  Boxes() : database(std::initializer_list<HandMade>{}) {
    database::Store store = database::Store::open(database.path(), database::Mode::ReadWrite);
    std::vector<std::string> ids;
    for (int tag : {1, 2, 3}) {
      HandMade made{.spec = kTwoDims, .tag = tag, .seconds = 1e-6 * tag};
      ids.push_back(add_kernel(store, made, two_dims_source(tag)));
    }
    database::DispatchTable table;
    table.workload_hash = parse_workload(kTwoDims).hash();
    table.target_hash = native_identity().hash;
    table.dims = {"m", "n"};
    const auto at = [](int64_t m, int64_t n) { return database::Sizes{{"m", m}, {"n", n}}; };
    table.ranges = {{at(1, 1), at(8, 16), ids[0]},
                    {at(1, 17), at(8, 32), ids[1]},
                    {at(9, 1), at(64, 32), ids[2]}};
    table.created = 1;
    store.put_dispatch(table);
  }
  Database database;
};

// The tag of the kernel that ran at these sizes, or what went wrong.
std::string tag_at(const tw_kernel* kernel, int64_t m, int64_t n) {
  Floats a({m, 16}, 1), b({16, n}, 2), c({m, n});
  if (launch(kernel, a, &b, c) != TW_OK) return tw_last_error();
  float product = 0;
  for (int64_t x = 0; x < 16; ++x) product += a[(m - 1) * 16 + x] * b[x * n + n - 1];
  return std::to_string(static_cast<int>(c[m * n - 1] - product));
}

TEST(ServingRanges, OfSeveralDimensionsAreBoxes) {
  Boxes boxes;
  Opened opened(boxes.database.path());
  PreparedSpec p(opened.library, kTwoDims);
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  ASSERT_EQ(tw_report_count(p.prepared), 3u);
  EXPECT_STREQ(p.report(0).sizes, "m=1..8, n=1..16");
  EXPECT_STREQ(p.report(1).sizes, "m=1..8, n=17..32");
  EXPECT_STREQ(p.report(2).sizes, "m=9..64, n=1..32");
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(p.report(i).outcome, TW_HIT);
  EXPECT_EQ(tag_at(p.kernel, 1, 1), "1");
  EXPECT_EQ(tag_at(p.kernel, 8, 16), "1");
  EXPECT_EQ(tag_at(p.kernel, 8, 17), "2");
  EXPECT_EQ(tag_at(p.kernel, 9, 1), "3");
  EXPECT_EQ(tag_at(p.kernel, 64, 32), "3");
}

TEST(ServingRanges, NamedSizesAndNarrowerRangesMeetTheirBoxesAlone) {
  Boxes boxes;
  Opened opened(boxes.database.path());
  PreparedSpec named(opened.library, kTwoDims, 1, {4});
  ASSERT_EQ(tw_report_count(named.prepared), 2u) << "n is not named";
  EXPECT_STREQ(named.report(0).sizes, "m=1..8, n=1..16");
  EXPECT_STREQ(named.report(1).sizes, "m=1..8, n=17..32");
  PreparedSpec narrow(opened.library, "matmul:m=4,n=8..20,k=16");
  ASSERT_EQ(narrow.found, TW_OK) << tw_last_error();
  ASSERT_EQ(tw_report_count(narrow.prepared), 2u);
  EXPECT_STREQ(narrow.report(0).sizes, "n=8..16");
  EXPECT_STREQ(narrow.report(1).sizes, "n=17..20");
  EXPECT_EQ(tag_at(narrow.kernel, 4, 16), "1");
  EXPECT_EQ(tag_at(narrow.kernel, 4, 17), "2");
}

}  // namespace
}  // namespace tilewright::serving::testing
