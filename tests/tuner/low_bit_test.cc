// Every stored form of a weight end to end: compiled as written and tuned, compared with the
// oracle.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "ir/ops/spec.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

class LowBit : public testing::TestWithParam<const char*> {};

TEST_P(LowBit, IsRightAsWrittenAndTuned) {
  Workload w = make_workload(parse_spec(GetParam()));
  for (const char* name : {"native", "avx2", "generic"}) {
    Target target = Target::parse(name);
    if (!target.missing_features().empty()) continue;
    SCOPED_TRACE(name);
    SketchInput input{w, target, 2};
    Trial none = Trial::first();
    expect_right(w, apply_sketch(default_sketch(), input, none), target);
    Trial first = Trial::first();
    expect_right(w, apply_sketch(cpu_sketches()[0], input, first), target);
  }
}

TEST_P(LowBit, IsRightInEveryPlaceOfTheDequantization) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("native");
  SketchInput input{w, target, 2};
  std::set<std::string> ways;  // choices of where and how the weight is packed
  for (uint64_t seed = 1; seed < 60 && ways.size() < 4; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], input, trial);
      auto config = nlohmann::json::parse(trial.config());
      std::string way;
      for (const auto& [key, answer] : config.items()) {
        bool ours = key.ends_with(".B_value") || key.ends_with(".B") || key.ends_with(".W_value") ||
                    key.ends_with(".sparse");
        if (ours) way += key + "=" + answer.get<std::string>() + " ";
      }
      if (!ways.insert(way).second) continue;
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
    } catch (const ScheduleError&) {
    } catch (const LoweringError&) {
    }
  }
  EXPECT_GE(ways.size(), w.weight->weight == "B" && w.stages.size() > 1 ? 3 : 1);
}

INSTANTIATE_TEST_SUITE_P(
    EveryType, LowBit,
    testing::Values("matmul:m=5,n=48,k=64,w.dtype=i8", "matmul:m=5,n=48,k=64,w.dtype=u8,w.zero=u8",
                    "matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32",
                    "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=16,w.zero=u4",
                    "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
                    "matmul:m=5,n=48,k=64,w.dtype=u8,w.group=32,w.offset=f32",
                    "matmul:m=5,n=48,k=64,w.dtype=i1,w.group=16,w.offset=bf16",
                    "matmul:m=5,n=48,k=64,w.dtype=i2,w.group=32,w.scale=bf16",
                    "matmul:m=5,n=48,k=64,w.dtype=u2,w.group=32,w.zero=u2,w.scale=f16",
                    "matmul:m=5,n=48,k=64,w.dtype=i1,w.group=64",
                    "matmul:m=5,n=48,k=64,w.dtype=u1,w.group=32,w.zero=u1",
                    "matmul:m=5,n=48,k=64,dtype=i8,w.dtype=u1",
                    "matmul:m=5,n=48,k=64,w.dtype=nf4,w.group=64",
                    "matmul:m=5,n=48,k=64,w.dtype=nf4,w.values=f16,w.group=64",
                    "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
                    "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
                    "matmul:m=5,n=48,k=64,w.dtype=f8e4m3,w.group=-1",
                    "matmul:m=5,n=48,k=64,w.dtype=f8e5m2,w.scale=none"));

INSTANTIATE_TEST_SUITE_P(
    OddSizes, LowBit,
    testing::Values("matmul:m=3,n=33,k=29,w.dtype=u4,w.group=8,w.zero=f16",
                    "matmul:m=3,n=33,k=29,w.dtype=u4,w.group=8,w.offset=f16",
                    "matmul:m=2,n=45,k=83,w.dtype=u4,w.group=20,w.offset=f32,dtype=bf16,out=f32",
                    "matmul:m=4,n=18,k=12,batch=3,w.dtype=u2,w.group=5,w.offset=f32,trans_a=true",
                    "matmul:m=1,n=37,k=50,w.dtype=i4,w.group=16,w.scale=f16",
                    "matmul:m=3,n=21,k=23,w.dtype=u2,w.group=7,w.zero=u4",
                    "matmul:m=3,n=33,k=29,w.dtype=nf4,w.group=100",
                    "matmul:m=3,n=19,k=11,w.dtype=i1,trans_b=true",
                    "matmul:m=4,n=18,k=12,batch=3,w.dtype=i4,w.group=5,trans_a=true",
                    "matmul:m=3,n=40,k=30,w.dtype=i4,w.group=10,epilogue=[bias,relu]"));

INSTANTIATE_TEST_SUITE_P(
    OtherProducts, LowBit,
    testing::Values(
        "matmul:m=5,n=33,k=40,dtype=bf16,w.dtype=i4,w.group=8,w.scale=bf16",
        "matmul:m=5,n=33,k=40,dtype=f16,w.dtype=u4,w.group=8,w.zero=u4",
        "matmul:m=5,n=33,k=40,dtype=f64,w.dtype=i4,w.group=8",
        "matmul:m=5,n=33,k=40,dtype=f64,w.dtype=u4,w.group=8,w.offset=f32",
        "matmul:m=5,n=33,k=40,dtype=f16,w.dtype=u4,w.group=8,w.offset=f16",
        "matmul:m=5,n=33,k=40,dtype=i8,w.dtype=i4",
        "matmul:m=5,n=33,k=40,dtype=u8,w.dtype=u4,w.zero=u4,w.group=8",
        "matmul:m=5,n=33,k=40,dtype=i8,acc=f32,w.dtype=i4,w.group=8",
        "conv2d:n=1,h=6,w=6,ci=5,co=18,kernel=3,pad=1,w.dtype=i4,w.group=9",
        "conv2d:n=1,h=6,w=6,ci=4,co=6,kernel=3,layout=nchw,w.dtype=u4,w.zero=u4",
        "conv2d:n=1,h=6,w=6,ci=8,co=18,kernel=3,pad=1,w.dtype=u4,w.group=8,w.offset=f32",
        "depthwise_conv2d:n=1,h=6,w=6,c=20,kernel=3,w.dtype=i8"));

INSTANTIATE_TEST_SUITE_P(
    Sparse, LowBit,
    testing::Values(
        "matmul:m=5,n=48,k=64,w.sparse=2:4", "matmul:m=7,n=64,k=64,w.sparse=1:4,w.vector=16",
        "matmul:m=2,n=50,k=70,w.sparse=8:32,w.vector=16",
        "matmul:m=5,n=33,k=30,w.sparse=1:4,w.vector=8",
        "matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32,w.sparse=2:4,w.vector=16",
        "matmul:m=5,n=48,k=64,w.dtype=nf4,w.values=f16,w.group=32,w.sparse=2:4,w.vector=16",
        "matmul:m=5,n=33,k=45,w.dtype=u4,w.group=8,w.zero=u4,w.sparse=4:8"));

// Vectors of codes look up rounded values in a table: the kernel rounds nothing.
TEST(RoundedValues, StandInTheTable) {
  for (const char* name : {"avx2", "avx512"}) {
    const Target target = Target::parse(name);
    for (const char* values : {"f16", "bf16"}) {
      SCOPED_TRACE(std::string(name) + " " + values);
      auto text = [&](const std::string& more) {
        const Workload w =
            make_workload(parse_spec("matmul:m=5,n=48,k=64,w.dtype=nf4,w.group=64" + more));
        Trial first = Trial::first();
        return generate_c(apply_sketch(cpu_sketches()[0], {w, target, 2}, first).module(), target)
            .code;
      };
      const std::string rounded = text(std::string(",w.values=") + values), exact = text("");
      const double nearest = round_to(*parse_elem_type(values), nf4_value(1));
      EXPECT_NE(rounded.find(fmt::format("{:.9g}f", static_cast<float>(nearest))),
                std::string::npos)
          << rounded;
      EXPECT_EQ(rounded.find("vcvtps2ph"), std::string::npos) << rounded;
      EXPECT_EQ(exact.find(fmt::format("{:.9g}f", static_cast<float>(nearest))), std::string::npos);
    }
  }
}

// Element-wise patterns are compressed if the weight's bytes count, and rows are looked up by
// shuffles. Otherwise the product is a dense one.
TEST(ElementWiseSparsity, IsLookedUpByShuffles) {
  Target target = Target::parse("native");
  for (const char* form : {"w.sparse=2:4", "w.sparse=1:2", "w.dtype=i4,w.group=32,w.sparse=2:4",
                           "w.dtype=u4,w.group=32,w.zero=u4,w.sparse=2:4", "w.sparse=4:16"}) {
    SCOPED_TRACE(form);
    for (const char* m : {"1", "64"}) {
      Workload w = make_workload(parse_spec(std::string("matmul:m=") + m + ",n=48,k=64," + form));
      Trial first = Trial::first();
      Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
      std::string code = generate_c(s.module(), target).code;
      bool wide = target.f32_lanes() >= w.weight->of;
      bool shuffled = code.find("__builtin_shufflevector") != std::string::npos;
      EXPECT_EQ(shuffled, wide && *m == '1') << code;
      expect_right(w, s, target);
    }
  }
}

// If columns share rows, a tile's looked-up elements are adjacent, and so are its row numbers.
TEST(SharedSparsity, LooksUpInACopyOfATilesRows) {
  Target target = Target::parse("native");
  for (const char* form : {"m=24,w.sparse=1:4", "m=37,w.sparse=2:4", "m=5,batch=3,w.sparse=4:8",
                           "m=7,w.sparse=2:4,w.dtype=i4,w.group=16"}) {
    SCOPED_TRACE(form);
    Workload w = make_workload(parse_spec("matmul:n=64,k=64,w.vector=16," + std::string(form)));
    const Trial first = cpu_trial(w, target);
    EXPECT_EQ(choice_of(first, "C.A"), "copy");
    EXPECT_EQ(choice_of(first, "C.B_rows"), "columns");
    expect_right(w, cpu_schedule(w, target), target);
    // The other choice reads where the elements lie.
    expect_right(w, cpu_schedule(w, target, {{"C.A", "none"}, {"C.B_rows", "none"}}), target);
  }
}

// A single row has no neighbours to gather.
TEST(SharedSparsity, OfOneRowIsLookedUpWhereItLies) {
  Workload w = make_workload(parse_spec("matmul:m=1,n=64,k=64,w.sparse=2:4,w.vector=16"));
  Target target = Target::parse("native");
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
  EXPECT_EQ(first.config().find("\"C.A\""), std::string::npos) << first.config();
  expect_right(w, s, target);
}

}  // namespace
}  // namespace tilewright
