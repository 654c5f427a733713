// Opening and preparing: which kernel serves a spec, what is said of it, and how often.
#include <filesystem>

#include "runtime/machine/cpus.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

database::TargetIdentity another_chip_prepare() {
  return database::make_target("Another Chip", "", 64, "target=generic");
}

database::TargetIdentity lacking_chip() {
  return database::make_target("Another Chip", "no_such_feature", 64, "target=generic");
}

TEST(ServingPrepare, ServesTheKernelThatWasTunedForTheSpec) {
  Database db{{.tag = 3}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:k=16,m=4,n=8");  // another spelling of the same workload
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_HIT);
  EXPECT_STREQ(p.report().reason, "");
  EXPECT_STREQ(p.report().command, "");
  EXPECT_STREQ(p.report().kernel, "matmul:k=16,m=4,n=8");  // as it was asked for
  EXPECT_EQ(p.report().seconds, 1e-6);
  EXPECT_EQ(p.report().threads, 1);
  EXPECT_THAT(opened.lines, IsEmpty());

  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 3), "");
}

TEST(ServingPrepare, NeedsNeitherTheFileNorTheLibraryAfterwards) {
  Database db{{.tag = 1}};
  auto opened = std::make_unique<Opened>(db.path());
  std::filesystem::remove(db.path());
  PreparedSpec p(opened->library, "matmul:m=4,n=8,k=16");
  opened.reset();
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 1), "");
}

TEST(ServingPrepare, TakesTheFastestOfASpecAndPrefersItToARange) {
  Database db{{.tag = 1, .seconds = 2e-6},
              {.tag = 2, .seconds = 1e-6},
              {.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 3, .seconds = 1e-9}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 2), "");
}

TEST(ServingPrepare, TakesAKernelOfARangeThatHoldsTheSize) {
  Database db{{.spec = "matmul:m=1..4096,n=8,k=16", .dynamic = true, .tag = 1},
              {.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 2},
              {.spec = "matmul:m=32..64,n=8,k=16", .dynamic = true, .tag = 3}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_NEAR);
  EXPECT_STREQ(p.report().reason, "made for matmul:m=1..64,n=8,k=16");
  EXPECT_EQ(p.report().command,
            "tune-cli tune matmul:m=4,n=8,k=16 --db " + db.path() + " --threads 1");
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8}), d({5, 16}), e({5, 8});
  Packed packed(p.kernel, b);
  ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 2), "");
  // The kernel would take other sizes; the spec does not.
  EXPECT_EQ(launch(p.kernel, d, nullptr, e, packed.weights), TW_ERROR_TENSOR);
  EXPECT_STREQ(tw_last_error(), "operand 'A': dimension 0 is 5; expected 4 of [4, 16]");
}

TEST(ServingPrepare, SaysOnceWhatIsLessThanAHit) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true}};
  Opened opened(db.path());
  for (int i = 0; i < 3; ++i) PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  EXPECT_THAT(opened.lines,
              ElementsAre("matmul:m=4,n=8,k=16: served by a near kernel: made for "
                          "matmul:m=1..64,n=8,k=16; this would tune it: tune-cli tune "
                          "matmul:m=4,n=8,k=16 --db " +
                          db.path() + " --threads 1"));
}

TEST(ServingPrepare, TakesTheNearestNumberOfThreads) {
  Database db{{.tag = 3, .threads = 3}, {.tag = 8, .threads = 8}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16", 1);
  EXPECT_EQ(p.report().outcome, TW_NEAR);
  EXPECT_THAT(p.report().reason, StartsWith("tuned for 3 threads, not for 1"));
  EXPECT_EQ(p.report().threads, 3);
}

TEST(ServingPrepare, TakesAnyNumberOfThreadsWhereNoneIsAskedFor) {
  const int all = available_threads();
  Database db{{.threads = all + 1, .seconds = 1e-6}, {.threads = all, .seconds = 2e-6}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16", 0);
  EXPECT_EQ(p.report().outcome, TW_HIT);
  EXPECT_EQ(p.report().threads, all);
}

TEST(ServingPrepare, FallsBackToAGeneratedDefaultOfAnotherChip) {
  Database db{{.tag = 2, .is_default = true, .seconds = 1e-3, .target = another_chip_prepare()}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_DEFAULT);
  EXPECT_THAT(p.report().reason,
              StartsWith("the untuned default; tuned for another chip: 'Another Chip', this is '"));
  EXPECT_THAT(opened.lines, ElementsAre(HasSubstr("served by a default kernel")));
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 2), "");
}

// Each database lacks what served the one before it: exact, near, of another chip, a default, none.
TEST(ServingPrepare, KeepsToItsOrder) {
  const std::string range = "matmul:m=1..64,n=8,k=16";
  const HandMade exact{.tag = 1, .seconds = 1e-3};
  const HandMade other_threads{.tag = 2, .threads = 3, .seconds = 1e-4};
  const HandMade near{.spec = range, .dynamic = true, .tag = 3, .seconds = 1e-5};
  const HandMade own_default{
      .tag = 4, .is_default = true, .seconds = 1e-6, .target = another_chip_prepare()};
  const HandMade near_default{.spec = range,
                              .dynamic = true,
                              .tag = 5,
                              .is_default = true,
                              .seconds = 1e-7,
                              .target = another_chip_prepare()};
  const HandMade foreign{.tag = 6, .seconds = 1e-9, .target = another_chip_prepare()};
  const HandMade near_foreign{
      .spec = range, .dynamic = true, .tag = 7, .seconds = 1e-9, .target = another_chip_prepare()};
  const HandMade unusable{.tag = 8, .seconds = 1e-9, .target = lacking_chip()};
  const std::vector<HandMade> best_first = {exact,        other_threads, near,        foreign,
                                            near_foreign, own_default,   near_default};
  const std::vector<tw_outcome> outcomes = {TW_HIT,  TW_NEAR,    TW_NEAR,   TW_NEAR,
                                            TW_NEAR, TW_DEFAULT, TW_DEFAULT};
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  for (size_t first = 0; first <= best_first.size(); ++first) {
    Database db{unusable};
    {
      database::Store store = database::Store::open(db.path(), database::Mode::ReadWrite);
      for (size_t i = first; i < best_first.size(); ++i) add_kernel(store, best_first[i]);
    }
    Opened opened(db.path());
    PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
    if (first == best_first.size()) {
      EXPECT_EQ(p.report().outcome, TW_MISS) << "what this chip cannot run is no default";
      EXPECT_EQ(p.found, TW_ERROR_MISS);
      break;
    }
    EXPECT_EQ(p.report().outcome, outcomes[first]) << first;
    Packed packed(p.kernel, b);
    ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
    EXPECT_EQ(product_fault(a, b, c, best_first[first].tag), "");
  }
}

TEST(ServingPrepare, AMissSaysWhyAndWhatWouldTuneIt) {
  Database db{{.target = lacking_chip()}};
  Opened opened(db.path());
  PreparedSpec foreign(opened.library, "matmul:m=4,n=8,k=16");
  EXPECT_EQ(foreign.report().outcome, TW_MISS);
  EXPECT_THAT(foreign.report().reason, StartsWith("tuned for another chip: 'Another Chip'"));
  EXPECT_EQ(foreign.found, TW_ERROR_MISS);
  EXPECT_EQ(foreign.kernel, nullptr);
  EXPECT_THAT(tw_last_error(), EndsWith("; this would tune it: tune-cli tune matmul:m=4,n=8,k=16 "
                                        "--db " +
                                        db.path() + " --threads 1"));

  PreparedSpec unknown(opened.library, "matmul:m=5,n=8,k=16,epilogue=[relu]");
  EXPECT_STREQ(unknown.report().reason, "never tuned: the database has no record of it");
  EXPECT_THAT(unknown.report().command, HasSubstr("'matmul:m=5,n=8,k=16,epilogue=[relu]' --db"));
  EXPECT_EQ(tw_find(unknown.prepared, "matmul:m=6,n=8,k=16", &unknown.kernel), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "'matmul:m=6,n=8,k=16' was not among the specs that were prepared");
}

TEST(ServingPrepare, AnObjectThatDoesNotLoadIsPassedOver) {
  Database db{{.tag = 1, .sound = false, .seconds = 1e-7},
              {.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 2}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_NEAR);
  EXPECT_THAT(p.report().reason, HasSubstr("the artifact is no ELF object"));
}

TEST(ServingPrepare, LooksForNamedSizesOneByOne) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 1}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=1..4096,n=8,k=16", 1, {8, 1000});
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  ASSERT_EQ(tw_report_count(p.prepared), 2u);
  EXPECT_EQ(p.report(0).outcome, TW_NEAR);
  EXPECT_STREQ(p.report(0).sizes, "m=1..64");
  EXPECT_EQ(p.report(1).outcome, TW_MISS);
  EXPECT_STREQ(p.report(1).sizes, "m=1000");
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  for (int64_t m : {1, 8, 64}) {
    Floats a({m, 16}, 1), c({m, 8});
    ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
    EXPECT_EQ(product_fault(a, b, c, 1), "");
  }
  Floats a({1000, 16}), c({1000, 8});
  EXPECT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_ERROR_MISS);
  EXPECT_STREQ(tw_last_error(),
               "matmul:m=1..4096,n=8,k=16: no kernel was prepared for m=1000; there are kernels "
               "for m=1..64");
}

TEST(ServingPrepare, ARangeThatIsNotCoveredIsAMissOfAllOfIt) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=1..4096,n=8,k=16");
  EXPECT_EQ(p.report().outcome, TW_MISS);
  EXPECT_STREQ(p.report().sizes, "m=1..4096");
}

// What the interface refuses, with the words that it finds.
TEST(ServingPrepare, RefusesWhatItCannotRead) {
  Database db{HandMade{}};
  tw_library* library = nullptr;
  EXPECT_EQ(tw_open("nowhere/kernels.db", nullptr, &library), TW_ERROR_DATABASE);
  EXPECT_THAT(tw_last_error(), HasSubstr("nowhere/kernels.db"));
  EXPECT_EQ(tw_open(nullptr, nullptr, &library), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "'path' is null");
  EXPECT_EQ(library, nullptr);

  Opened opened(db.path());
  tw_prepared* prepared = nullptr;
  tw_prepare_options options = {};
  const auto refusal = [&] {
    return std::string(tw_status_name(tw_prepare(opened.library, &options, &prepared))) + ": " +
           tw_last_error();
  };
  EXPECT_EQ(refusal(), "argument: tw_prepare_options.struct_size is 0; expected " +
                           std::to_string(sizeof options) +
                           ", as TW_INIT(tw_prepare_options) sets it");
  options = TW_INIT(tw_prepare_options);
  EXPECT_EQ(refusal(), "argument: spec_count is 0; give a spec");
  const char* specs[] = {"matmul:m=4,n=8,k=16"};
  options.specs = specs;
  options.spec_count = 1;
  options.threads = -1;
  EXPECT_EQ(refusal(), "argument: threads is -1 and device 0; neither may be negative");
  options.threads = 1;
  options.target = "avx1024";
  EXPECT_THAT(refusal(), HasSubstr("avx1024"));
  options.target = nullptr;
  const int64_t values[] = {3};
  const tw_sizes sizes = {"m", values, 1};
  options.sizes = &sizes;
  options.size_count = 1;
  EXPECT_EQ(refusal(), "argument: sizes: 'm' is no dynamic dimension of any spec");
  options.size_count = 0;
  specs[0] = "matmul:m=4,n=8,q=16";
  EXPECT_THAT(refusal(), StartsWith("spec: "));
  EXPECT_EQ(prepared, nullptr);
}

TEST(ServingPrepare, StructsOfOtherVersionsAreReadAsFarAsTheyGo) {
  Database db{HandMade{}};
  Opened opened(db.path());
  struct Newer {
    tw_prepare_options known = TW_INIT(tw_prepare_options);
    int64_t unknown = 0;
  } newer;
  const char* specs[] = {"matmul:m=4,n=8,k=16"};
  newer.known.struct_size = sizeof newer;
  newer.known.specs = specs;
  newer.known.spec_count = 1;
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(tw_prepare(opened.library, &newer.known, &prepared), TW_OK) << tw_last_error();
  tw_release(prepared);
  newer.unknown = 7;
  EXPECT_EQ(tw_prepare(opened.library, &newer.known, &prepared), TW_ERROR_ARGUMENT);
  EXPECT_THAT(tw_last_error(), HasSubstr("says things that this version"));
  // An older one ends before `target`: its default stands in.
  newer.known.struct_size = offsetof(tw_prepare_options, target);
  newer.known.target = "no such target";
  ASSERT_EQ(tw_prepare(opened.library, &newer.known, &prepared), TW_OK) << tw_last_error();
  auto line = TW_INIT(tw_report);
  line.struct_size = offsetof(tw_report, kernel);
  line.kernel = "untouched";
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK) << tw_last_error();
  EXPECT_STREQ(line.spec, specs[0]);
  EXPECT_STREQ(line.kernel, "untouched");
  EXPECT_EQ(tw_report_at(prepared, 1, &line), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "index is 1; there are 1 lines in the report");
  tw_release(prepared);
}

}  // namespace
}  // namespace tilewright::serving::testing
