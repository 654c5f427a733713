// Attention on a CPU: one loop over blocks of keys, compiled and checked against the oracle.
#include <gmock/gmock.h>

#include <sstream>

#include "codegen/lowering.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kOnline[] = R"("S_max.softmax":"online")";

Schedule scheduled_attention(const Workload& w, const Target& target, Trial& trial) {
  return apply_sketch(cpu_sketches().front(), {w, target, 2}, trial);
}

std::vector<std::string> machines() {
  if (Target::parse("native").has("avx512f")) return {"native", "avx2"};
  return {"native"};
}

class Attention : public testing::TestWithParam<const char*> {};

TEST_P(Attention, IsRightInOneLoop) {
  const Workload w = make_workload(parse_spec(GetParam()));
  for (const std::string& machine : machines()) {
    SCOPED_TRACE(machine);
    const Target target = Target::parse(machine);
    Trial first = Trial::first();
    Schedule s = scheduled_attention(w, target, first);
    ASSERT_THAT(first.config(), HasSubstr(kOnline));
    expect_right(w, s, target);
    int built = 0;
    for (uint64_t seed = 1; seed < 40 && built < 2; ++seed) {
      Trial random = Trial::random(seed);
      try {
        Schedule other = scheduled_attention(w, target, random);
        if (random.config().find(kOnline) == std::string::npos) continue;
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + random.config());
        expect_right(w, other, target);
        ++built;
      } catch (const ScheduleError&) {
      } catch (const LoweringError&) {
      }
    }
    EXPECT_EQ(built, 2) << "nearly every random candidate is illegal";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, Attention,
    testing::Values(
        "attention:heads=2,m=33,n=50,d=20",
        "attention:batch=2,heads=4,kv_heads=2,m=20,n=64,d=8,dv=24",
        "attention:heads=2,m=70,n=70,d=16,causal=true",
        "attention:heads=2,m=32,n=96,d=16,causal=true",
        "attention:m=40,n=40,d=16,dtype=bf16,out=f32",
        "attention:heads=2,m=40,n=64,d=16,causal=true,dtype=f16",
        "attention:m=24,n=40,d=8,dtype=f64",
        "attention:batch=4,heads=2,m=40,n=70,d=16,lengths=keys",
        "attention:batch=4,heads=2,m=40,n=64,d=16,causal=true,"
        "lengths=keys",
        "attention:batch=4,m=40,n=40,d=16,causal=true,lengths=both",
        "attention:batch=2,heads=4,kv_heads=2,m=16,n=70,d=16,causal=true,"
        "lengths=keys,page=8,pages=11",
        "attention:batch=3,heads=32,kv_heads=2,m=1,n=100,d=16,lengths=keys,page=16,pages=20",
        "attention:heads=8,kv_heads=2,m=4,n=60,d=16,causal=true",
        "attention:heads=6,kv_heads=2,m=1,n=100,d=16,lengths=keys",  // 3 rows: lanes idle
        "attention:heads=2,m=2,n=50,d=16,causal=true",
        // Vectors along keys: one query, few rows, terms and keys that are no whole vectors.
        "attention:batch=2,heads=3,m=1,n=131,d=20,lengths=keys",
        "attention:heads=10,kv_heads=2,m=1,n=150,d=40,dv=24,causal=true,window=70",
        "attention:heads=4,kv_heads=2,m=3,n=37,d=72,causal=true,softcap=0.7,bias=heads+m+n",
        "attention:heads=4,m=1,n=70,d=300,dtype=bf16,sinks=true",
        "attention:heads=4,kv_heads=2,m=1,n=70,d=32,dtype=f16,out=f32,kv.dtype=i8,kv.group=16",
        "attention:heads=2,m=1,n=70,d=32,kv.dtype=u4,kv.group=16,kv.zero=u4,page=16,pages=6,"
        "lengths=keys",
        "attention:heads=2,m=1,n=33,d=12,dtype=f64",
        "attention:batch=2,heads=2,m=1,n=5,d=16,alibi=true",
        "attention:batch=2,m=16,n=64,d=16,page=16,pages=5,dtype=bf16,out=f32"));

// Blocks of keys beyond a sequence's length are skipped.
TEST(Attention, EndsWithTheLengthOfTheSequence) {
  const Target target = Target::parse("native");
  for (const char* causal : {"false", "true"}) {
    const Workload w = make_workload(
        parse_spec(std::string("attention:batch=2,m=32,n=256,d=16,lengths=keys,causal=") + causal));
    Trial first = Trial::first();
    const std::string program = to_string(scheduled_attention(w, target, first).program());
    size_t bounded = 0;
    std::istringstream lines(program);
    for (std::string line; std::getline(lines, line);) {
      bounded += line.find("for ") != std::string::npos && line.find("N[") != std::string::npos;
    }
    EXPECT_EQ(bounded, 1u) << program;
  }
}

// The rule recognizes the chain itself, not the operator's name.
TEST(Attention, IsKnownByItsExpression) {
  const Workload w = make_workload(parse_spec(
      R"s(expr:expr="S[i,j] += Q[i,d] * K[j,d]; T[i] max= S[i,j]; P[i,j] = exp(S[i,j] - T[i]); )s"
      R"s(L[i] += P[i,j]; O[i,e] += P[i,j] * V[j,e]; Y[i,e] = O[i,e] / L[i]",)s"
      R"s(dims.i=32,dims.j=48,dims.d=16,dims.e=16)s"));
  const Target target = Target::parse("native");
  Trial first = Trial::first();
  Schedule s = scheduled_attention(w, target, first);
  EXPECT_THAT(first.config(), HasSubstr(R"("T.softmax":"online")"));
  expect_right(w, s, target);
}

// Heads behind rows, as products make them: read and stored where they stand, in arrays of their own or in
// the columns of one, with a mask of keys.
TEST(Attention, TakesHeadsBehindRows) {
  const std::string stages =
      "Z[b,h,i,j] = S[b,h,i,j] * 0.25 + M[j]; T[b,h,i] max= Z[b,h,i,j]; P[b,h,i,j] = "
      "exp(Z[b,h,i,j] - "
      "T[b,h,i]); L[b,h,i] += P[b,h,i,j]; ";
  const std::string dims = "dims.b=1,dims.h=3,dims.i=33,dims.j=48,dims.d=20,dims.e=20";
  const std::string result = "R[b,h,i,e] = O[b,h,i,e] / L[b,h,i]; Y[b,i,h,e] = R[b,h,i,e]";
  const std::string columns = ",shapes.Q=[1,33,180],shapes.K=[1,48,180],shapes.V=[1,48,180]";
  for (const std::string& spec :
       {"expr:expr=\"S[b,h,i,j] += Q[b,i,h,d] * K[b,j,h,d]; " + stages +
            "O[b,h,i,e] += P[b,h,i,j] * V[b,j,h,e]; " + result + "\"," + dims,
        "expr:expr=\"S[b,h,i,j] += Q[0,i,20 * h + d] * K[0,j,20 * h + d + 60]; " + stages +
            "O[b,h,i,e] += P[b,h,i,j] * V[0,j,20 * h + e + 120]; " + result + "\"," + dims +
            columns}) {
    SCOPED_TRACE(spec);
    const Workload w = make_workload(parse_spec(spec));
    const Target target = Target::parse("native");
    Trial first = Trial::first();
    Schedule s = scheduled_attention(w, target, first);
    EXPECT_THAT(first.config(), HasSubstr(R"("T.softmax":"online")"));
    EXPECT_THAT(to_string(s.program()), HasSubstr("S: f32[1, 3, 48, 33]")) << "rows last";
    expect_right(w, s, target);
    Trial split = Trial::with(R"({"T.keys": 16, "T.parts": 3})");
    expect_right(w, apply_sketch(cpu_sketches().front(), {w, target, 64}, split), target);
  }
}

// Split-KV with few row tiles: threads take parts of the keys. Sequences may end before a part, and
// rows and columns may not be whole vectors.
TEST(Attention, KeysAreTakenInParts) {
  const Target target = Target::parse("native");
  for (const char* spec :
       {"attention:batch=1,heads=32,kv_heads=2,m=1,n=192,d=16,lengths=keys,page=8,pages=31",
        "attention:heads=16,m=1,kv_heads=1,n=192,d=24,dv=20",
        "attention:batch=2,m=17,n=192,d=16,causal=true,lengths=both"}) {
    SCOPED_TRACE(spec);
    const Workload w = make_workload(parse_spec(spec));
    Trial parts = Trial::with(R"({"S_max.keys": 32, "S_max.parts": 3})");
    Schedule s = apply_sketch(cpu_sketches().front(), {w, target, 8}, parts);
    EXPECT_THAT(to_string(s.program()), HasSubstr("S_max_part: f32[3, "));
    expect_right(w, s, target);
  }
}

// Vectors along keys and parts of the keys combine.
TEST(Attention, KeysOfOneQueryAreTakenInParts) {
  const Target target = Target::parse("native");
  for (const char* spec : {"attention:heads=2,m=1,n=192,d=16,lengths=keys",
                           "attention:heads=4,kv_heads=2,m=1,n=192,d=24,dv=20,page=8,pages=31"}) {
    SCOPED_TRACE(spec);
    const Workload w = make_workload(parse_spec(spec));
    Trial parts = Trial::with(R"({"S_max.keys": 64, "S_max.parts": 3})");
    Schedule s = apply_sketch(cpu_sketches().front(), {w, target, 8}, parts);
    EXPECT_THAT(to_string(s.program()), HasSubstr("S_max_part: f32[3, "));
    EXPECT_THAT(to_string(s.program()), HasSubstr("reduce_lanes"));
    expect_right(w, s, target);
  }
}

// With many tiles there is no knob.
TEST(Attention, PartsAreAskedWhereTilesAreFew) {
  const Target target = Target::parse("native");
  Trial many = Trial::first(), few = Trial::first();
  scheduled_attention(make_workload(parse_spec("attention:batch=4,heads=4,m=64,n=512,d=16")),
                      target, many);
  EXPECT_THAT(many.config(), Not(HasSubstr("S_max.parts")));
  const Workload w = make_workload(parse_spec("attention:heads=16,kv_heads=1,m=1,n=512,d=16"));
  scheduled_attention(w, target, few);
  EXPECT_THAT(few.config(), HasSubstr(R"("S_max.parts":2)")) << "one per thread";
}

// Dynamic batch, queries and keys: one kernel takes all of their sizes.
TEST(Attention, TakesSizesThatALaunchTells) {
  const Target target = Target::parse("native");
  const Workload w = make_workload(
      parse_spec("attention:batch=1..3,heads=2,m=1..20,n=20..50,d=16,causal=true,lengths=both"));
  Trial first = Trial::first();
  scheduled_attention(w, target, first);
  ASSERT_THAT(first.config(), HasSubstr(kOnline));
  // Small tiles: every size has its own code for partial tiles, which compiles slowly.
  Schedule s = cpu_schedule(w, target,
                            {{"S_max.softmax", "online"},
                             {"S_max.rows", 16},
                             {"S_max.keys", 16},
                             {"S_max.scores.vectors", 1},
                             {"S_max.scores.rows", 2},
                             {"S_max.product.vectors", 1},
                             {"S_max.product.rows", 2},
                             {"S_max.vectors", 1}});
  const KernelSource source = generate_c(s.module(), target);
  Kernel kernel(test_object(source), source.description);
  ThreadPool pool(2);
  for (const std::map<std::string, int64_t>& dims :
       {std::map<std::string, int64_t>{{"batch", 1}, {"m", 1}, {"n", 20}},
        {{"batch", 3}, {"m", 7}, {"n", 33}},
        {{"batch", 2}, {"m", 20}, {"n", 50}}}) {
    OperandSet operands(operands_of(w, dims), 1);
    BoundKernel bound(kernel, operands, dim_values(w, dims), pool);
    Oracle oracle(w, seeded_readers(operands.infos(), 1), dims);
    const Reference reference = make_reference(operands.output().elem(), operands.output().shape(),
                                               200, 1, [&](int64_t i) { return oracle.at(i); });
    const CheckResult result = check_kernel(bound, reference);
    EXPECT_EQ(result.verdict, Verdict::Ok) << result.message << " of " << dims.at("m");
  }
}

// The search is not offered tiles and heads that some sizes do not fill.
TEST(Attention, OffersWhatIsLegalAtSizesThatALaunchTells) {
  const Target target = Target::parse("native");
  for (const char* spec :
       {"attention:heads=8,kv_heads=2,m=1..40,n=64,d=32",
        "attention:heads=32,kv_heads=2,m=1..4,n=64,d=32", "attention:heads=2,m=1..20,n=3..9,d=16",
        "attention:heads=2,m=1..20,n=20..200,d=16,causal=true"}) {
    const Workload w = make_workload(parse_spec(spec));
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
      EXPECT_NO_THROW(generate_c(scheduled_attention(w, target, trial).module(), target))
          << spec << " " << trial.config();
    }
  }
}

// Vectors run along keys where queries are few: scores are dot products of vectors as they lie.
TEST(Attention, OfFewQueriesHasVectorsAlongKeys) {
  const Target target = Target::parse("avx512");
  for (const auto& [spec, lanes] :
       {std::pair{"attention:heads=4,m=1,n=100,d=32", ""},  // there is no other choice
        {"attention:heads=32,kv_heads=8,m=1,n=100,d=32", "keys"},
        {"attention:heads=16,kv_heads=1,m=1,n=100,d=32", "queries"},
        {"attention:heads=4,m=17,n=100,d=32", ""}}) {
    SCOPED_TRACE(spec);
    const Workload w = make_workload(parse_spec(spec));
    Trial first = Trial::first();
    const std::string program = to_string(scheduled_attention(w, target, first).program());
    if (*lanes != 0)
      EXPECT_EQ(choice_of(first, "S_max.lanes"), lanes);
    else
      EXPECT_THAT(first.config(), Not(HasSubstr("S_max.lanes")));
    const bool along_keys =
        std::string(spec).find("m=17") == std::string::npos && std::string(lanes) != "queries";
    EXPECT_EQ(program.find("reduce_lanes") != std::string::npos, along_keys) << program;
  }
}

// Heads that share keys are packed into rows of one tile: needed for one query, optional for more.
TEST(Attention, HeadsThatShareKeysArePacked) {
  const Target target = Target::parse("native");
  const Workload one = make_workload(parse_spec("attention:heads=32,kv_heads=2,m=1,n=64,d=16"));
  Trial first = Trial::with(R"({"S_max.lanes": "queries"})");
  EXPECT_THAT(to_string(scheduled_attention(one, target, first).program()),
              HasSubstr("S: f32[1, 2, 64, 16]"));  // batch, heads of keys, keys, rows
  EXPECT_THAT(first.config(), Not(HasSubstr("S_max.heads")));
  Trial keys = Trial::with(R"({"S_max.lanes": "keys"})");
  EXPECT_THAT(to_string(scheduled_attention(one, target, keys).program()),
              HasSubstr("S: f32[1, 2, 16, 64]"));

  const Workload more =
      make_workload(parse_spec("attention:heads=4,kv_heads=2,m=20,n=50,d=16,causal=true"));
  Trial apart = Trial::first();
  EXPECT_THAT(to_string(scheduled_attention(more, target, apart).program()),
              HasSubstr("S: f32[1, 4, 50, 20]"));
  EXPECT_EQ(choice_of(apart, "S_max.heads"), "apart");
  Schedule s = cpu_schedule(more, target, {{"S_max.heads", "packed"}});
  EXPECT_THAT(to_string(s.program()), HasSubstr("S: f32[1, 2, 50, 40]"));
  expect_right(more, s, target);
}

// A decoding step: each sequence's new query reads the keys in its pages.
TEST(Attention, DecodesFromAPagedCache) {
  const Target target = Target::parse("native");
  const Workload w = make_workload(parse_spec(
      "attention:batch=3,heads=4,kv_heads=2,m=1,n=100,d=32,lengths=keys,page=16,pages=20"));
  int built = 0;
  for (uint64_t seed = 0; seed < 20 && built < 4; ++seed) {
    Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
    try {
      Schedule s = scheduled_attention(w, target, trial);
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
      ++built;
    } catch (const ScheduleError&) {
      EXPECT_NE(seed, 0u);
    }
  }
  EXPECT_EQ(built, 4);
}

TEST(Attention, OneKernelPerStageIsRight) {
  const Target target = Target::parse("native");
  const Workload w = make_workload(parse_spec("attention:m=16,n=16,d=8"));
  expect_right(w, cpu_schedule(w, target, {{"S_max.softmax", "apart"}}), target);
}

}  // namespace
}  // namespace tilewright
