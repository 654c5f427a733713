#include "schedule/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedule/support.h"

namespace tilewright {
namespace {

using test::matmul;
using ::testing::HasSubstr;

// The error message for reading `text` as a trace.
std::string fault_of(const std::string& text) {
  try {
    Trace::from_json(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

TEST(Trace, ReadsAsCallsAndReadsBack) {
  Schedule s(matmul());
  std::vector<Loop> i = s.split({"i"}, {-1, 8});
  s.reorder({{"k"}, i[1]});
  EXPECT_EQ(s.trace().str(),
            "i_0, i_1 = split(loop=\"i\", factors=[-1, 8])\n"
            "reorder(loops=[\"k\", \"i_1\"])\n");
  Trace back = Trace::from_json(s.trace().to_json());
  EXPECT_EQ(back.str(), s.trace().str());
  EXPECT_EQ(back.to_json(), s.trace().to_json());
}

TEST(Trace, TextsThatAreNoTraceAreRefused) {
  for (const char* text : {"", "{}", "[{", "7"}) {
    EXPECT_EQ(fault_of(text), "trace: expected a JSON list of steps") << text;
  }
  EXPECT_EQ(fault_of("[]"), "none");
}

TEST(Trace, MalformedStepsAreNamed) {
  const std::string good = R"({"primitive": "fuse", "arguments": {"loops": ["i", "j"]}})";
  auto second = [&](const std::string& step) { return fault_of("[" + good + ", " + step + "]"); };
  EXPECT_EQ(second(good), "none");
  EXPECT_EQ(second("3"), "trace: step 1: expected an object, got 3");
  EXPECT_EQ(second(R"({"primitive": "melt", "arguments": {}})"),
            "trace: step 1: there is no primitive 'melt'");
  EXPECT_EQ(second(R"({"arguments": {}})"), "trace: step 1: there is no primitive ''");
  EXPECT_EQ(second(R"({"primitive": "fuse"})"), "trace: step 1: 'arguments' is missing");
  EXPECT_THAT(second(R"({"primitive": "fuse", "arguments": []})"),
              HasSubstr("'arguments' must be one of primitive (a string), arguments (an object)"));
  EXPECT_THAT(second(R"({"primitive": "fuse", "arguments": {}, "results": "i"})"),
              HasSubstr("results (a list of strings), got \"i\""));
  EXPECT_THAT(second(R"({"primitive": "fuse", "arguments": {}, "results": [1]})"),
              HasSubstr("'results' must be a list of strings, got [1]"));
  EXPECT_THAT(second(R"({"primitive": "fuse", "arguments": {}, "when": 1})"),
              HasSubstr("trace: step 1: 'when' must be one of primitive"));
}

TEST(Trace, ArgumentsThatDoNotFitThePrimitiveAreRefused) {
  Schedule s(matmul());
  auto apply = [&](const char* primitive, const char* arguments) {
    s.apply({primitive, arguments, {}});
  };
  EXPECT_REFUSED(apply("melt", "{}"), NotFound, "there is no such primitive");
  EXPECT_REFUSED(apply("split", "7"), BadArgument, "the arguments must be a JSON object, got 7");
  EXPECT_REFUSED(apply("split", R"({"factors": [-1, 8]})"), BadArgument,
                 "argument 'loop' of split: expected a string, got nothing");
  EXPECT_REFUSED(apply("split", R"({"loop": 3, "factors": [-1, 8]})"), BadArgument,
                 "argument 'loop' of split: expected a string, got 3");
  EXPECT_REFUSED(apply("split", R"({"loop": "i", "factors": 8})"), BadArgument,
                 "argument 'factors' of split: expected a list of integers, got 8");
  EXPECT_REFUSED(apply("split", R"({"loop": "i", "factors": [4, "8"]})"), BadArgument,
                 "argument 'factors' of split: expected a list of integers, got [4,\"8\"]");
  EXPECT_REFUSED(apply("split", R"({"loop": "i", "factors": [-1, 8], "tail": "peel"})"),
                 BadArgument, "argument 'tail' of split: expected no such argument, got \"peel\"");
  EXPECT_REFUSED(apply("fuse", R"({"loops": ["i", 2]})"), BadArgument,
                 "argument 'loops' of fuse: expected a list of strings");
  EXPECT_REFUSED(apply("bind", R"({"loop": "i", "axis": "thread_w"})"), BadArgument,
                 "argument 'axis' of bind: expected a kind of loop, got \"thread_w\"");
  EXPECT_REFUSED(apply("cache_read", R"({"block": "C", "buffer": "A", "scope": "attic"})"),
                 BadArgument, "argument 'scope' of cache_read: expected a memory scope");
  EXPECT_REFUSED(apply("rfactor", R"({"block": "C", "loop": "k", "factor_axis": 4294967296})"),
                 BadArgument, "expected an integer of 32 bits, got 4294967296");
  EXPECT_REFUSED(apply("transform_layout", R"({"buffer": "A", "map": "(i) -> "})"), BadArgument,
                 "argument 'map' of transform_layout: expected an index map");
  EXPECT_REFUSED(apply("annotate_loop", R"({"loop": "i", "key": "x", "value": [1]})"), BadArgument,
                 "argument 'value' of annotate_loop: expected an integer or a string, got [1]");
  EXPECT_TRUE(s.trace().steps.empty());
}

TEST(Trace, NamesThatTheProgramLacksAreListed) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.apply({"unroll", R"({"loop": "z"})", {}}), NotFound, "i, j, k");
  EXPECT_REFUSED(s.apply({"compute_inline", R"({"block": "Z"})", {}}), NotFound, "C");
  EXPECT_REFUSED(s.apply({"set_scope", R"({"buffer": "Z", "scope": "local"})", {}}), NotFound,
                 "A, B");
}

// The names that later steps use belong to the record.
TEST(Trace, AStepThatMakesOtherNamesIsRefused) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.apply({"split", R"({"loop": "i", "factors": [-1, 8]})", {"i_0", "i_in"}}),
                 BadStructure, "the replayed step makes other names than the recorded one");
  EXPECT_EQ(s.apply({"split", R"({"loop": "i", "factors": [-1, 8]})", {"i_0", "i_1"}}),
            (std::vector<std::string>{"i_0", "i_1"}));
}

}  // namespace
}  // namespace tilewright
