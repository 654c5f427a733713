// All combinations of attention's variants: scheduled by random choices, and compared with the oracle. The
// interpreter runs every one of them, a compiler and the emulator a part of them.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "codegen/lowering.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "kernel/cpu_features.h"
#include "schedule/error.h"
#include "tests/tuner/gpu_check.h"
#include "tests/tuner/kernel_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

// A variant is left out, or one of its forms is taken.
const std::vector<std::vector<std::string>>& variants() {
  static const std::vector<std::vector<std::string>> all = {
      {"window=2", "window=7", "window=40"},
      {"softcap=0.4"},
      {"sinks=true"},
      {"alibi=true"},
      {"bias=heads+m+n", "bias=m+n", "bias=batch+n", "bias=batch+heads+m+n,bias_shared=2"},
      {"causal=true"},
      {"lengths=keys", "lengths=both"},
      {"page=6,pages=9"},
      {"kv.dtype=i8,kv.group=8", "kv.dtype=u4,kv.group=4,kv.zero=u4,kv.scale=f16", "kv.dtype=i4",
       "kv.dtype=f8e4m3,kv.scale=none"}};
  return all;
}

constexpr unsigned kCombinations = 1U << 9;

// The combination of the variants whose bits are set; their forms and the sizes are chosen by the seed.
std::string spec_of(unsigned bits, uint64_t seed, const std::vector<std::string>& sizes,
                    const std::vector<std::string>& types) {
  std::mt19937_64 random(seed * kCombinations + bits);
  auto one_of = [&](const std::vector<std::string>& list) { return list[random() % list.size()]; };
  const std::string size = one_of(sizes);
  const bool is_whole = size.starts_with("attention:");
  std::string spec = (is_whole ? "" : "attention:batch=2,") + size + ",dtype=" + one_of(types);
  for (size_t v = 0; v < variants().size(); ++v) {
    if ((bits >> v & 1) != 0) spec += "," + one_of(variants()[v]);
  }
  return spec;
}

// A schedule in one loop over keys by random choices, where there is one; else by the first choices. Nearly all
// choices have to be legal.
template <class Scheduled>
std::optional<Schedule> random_schedule(uint64_t seed, const Scheduled& scheduled,
                                        std::string* config) {
  constexpr uint64_t kTries = 40;
  std::string refusals;
  for (uint64_t more = 0; more <= kTries; ++more) {
    Trial trial = more < kTries ? Trial::random(seed + 1000 * more) : Trial::first();
    try {
      Schedule s = scheduled(trial);
      *config = trial.config();
      const bool is_apart = config->find(R"(softmax":"apart")") != std::string::npos;
      if (!is_apart || more == kTries) return s;
    } catch (const ScheduleError& e) {
      refusals += trial.config() + ": " + e.what() + "\n";
    } catch (const LoweringError& e) {
      refusals += trial.config() + ": " + e.what() + "\n";
    }
  }
  ADD_FAILURE() << "no choices are legal:\n" << refusals.substr(0, 4000);
  return std::nullopt;
}

// The number of cases of a test that compiles them, and the first seed.
uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}
uint64_t first_seed() { return from_environment("TILEWRIGHT_FUZZ_SEED", 1); }

// `dims`: sizes that a launch tells. Lowered programs have arrays of one dimension.
void expect_interpreted(const Workload& w, const Program& program, bool is_lowered = false,
                        const std::map<std::string, int64_t>& dims = {}) {
  NdArrays arrays;
  OperandSet operands(operands_of(w, dims), 1);
  for (const OperandInfo& info : operands.infos()) {
    const auto& operand = operands.at(info.name);
    NdArray array = NdArray::zeros(operand.elem(), operand.shape());
    for (size_t i = 0; i < array.data.size(); ++i) {
      array.data[i] = operand.get(static_cast<int64_t>(i));
    }
    if (is_lowered) array.shape = {static_cast<int64_t>(array.data.size())};
    arrays[info.name] = std::move(array);
  }
  Oracle oracle(w, seeded_readers(operands.infos(), 1), dims);
  interpret(program, arrays, dims);
  const NdArray& got = arrays.at(w.output()->name);
  for (size_t i = 0; i < got.data.size(); ++i) {
    const Oracle::Value want = oracle.at(static_cast<int64_t>(i));
    ASSERT_NEAR(got.data[i], want.value, want.error) << "element " << i;
  }
}

// Keys outside of all windows of a tile are not read: they may even be NaN.
TEST(AttentionWindow, BeginsAndEndsTheLoopOverKeys) {
  const Target target = Target::parse("avx2");
  struct Seen {
    const char* spec;
    int64_t begin, end;  // whole blocks of keys that some row sees
  };
  for (const Seen& seen :
       {Seen{"attention:m=16,n=256,d=4,causal=true,window=16", 224, 256},
        {"attention:m=16,n=16,d=4,window=20", 0, 16},
        {"attention:heads=16,kv_heads=1,m=1,n=256,d=4,causal=true,window=30", 224, 256},
        {"attention:batch=2,m=16,n=256,d=4,window=9,lengths=keys", 64, 96}}) {
    SCOPED_TRACE(seen.spec);
    const Workload w = make_workload(parse_spec(seen.spec));
    const Schedule s = cpu_schedule(w, target, {{"S_max.rows", 16}, {"S_max.keys", 16}});
    NdArrays arrays;
    for (const Param& p : w.inputs) {
      std::vector<int64_t> shape;
      for (const Expr& e : p.buffer->shape) shape.push_back(*as_int(e));
      NdArray array = NdArray::random(p.buffer->elem, shape, 1);
      const bool is_length = p.buffer->name == "N";
      const int64_t d = shape.back(), n = is_length ? 1 : shape[shape.size() - 2];
      for (size_t i = 0; i < array.data.size(); ++i) {
        const int64_t key = static_cast<int64_t>(i) / d % n;
        const bool unseen = key < seen.begin || key >= seen.end;
        if (is_length) array.data[i] = 96;  // queries stand at the keys from 80 on
        if (p.buffer->name != "Q" && !is_length && unseen) array.data[i] = std::nan("");
      }
      arrays[p.buffer->name] = std::move(array);
    }
    interpret(s.program(), arrays, {});
    for (double y : arrays.at(w.output()->name).data) ASSERT_TRUE(std::isfinite(y));
  }
}

// Combinations in a fixed order that mixes all variants.
unsigned mixed(uint64_t i) {
  constexpr uint64_t kStride = 205;  // odd: every combination comes once
  return static_cast<unsigned>((i * kStride + 511) % kCombinations);
}

class AttentionVariants : public testing::TestWithParam<unsigned> {};

// A part of the combinations, so that parts run side by side.
TEST_P(AttentionVariants, AreRightInAllCombinations) {
  const Target target = Target::parse("avx2");
  for (unsigned bits = GetParam(); bits < kCombinations; bits += 8) {
    const std::string spec =
        spec_of(bits, first_seed(),
                {"heads=2,m=9,n=20,d=8", "heads=8,kv_heads=2,m=3,n=21,d=4,dv=6",
                 "heads=4,kv_heads=1,m=1,n=19,d=4", "heads=3,m=1,n=37,d=12"},
                {"f32", "bf16"});
    const Workload w = make_workload(parse_spec(spec));
    SCOPED_TRACE(spec);
    std::string config;
    const std::optional<Schedule> s = random_schedule(
        first_seed(),
        [&](Trial& trial) {
          return apply_sketch(cpu_sketches().front(), {w, target, 2}, trial);
        },
        &config);
    if (!s) return;
    SCOPED_TRACE(config);
    EXPECT_THAT(config, HasSubstr(R"("S_max.softmax":"online")"));
    expect_interpreted(w, s->program());
    if (HasFatalFailure()) return;
    expect_interpreted(w, lower_for_cpu(s->program(), target), /*is_lowered=*/true);
    if (HasFatalFailure()) return;
  }
}
// Sizes that a launch tells: each combination at its least and largest sizes, and at one between.
TEST_P(AttentionVariants, AreRightAtSizesThatALaunchTells) {
  const Target target = Target::parse("avx2");
  struct Sizes {
    std::string spec;
    std::vector<std::map<std::string, int64_t>> dims;
  };
  const std::vector<Sizes> all = {
      {"attention:batch=2..4,heads=2,m=1..9,n=9..40,d=4",
       {{{"batch", 2}, {"m", 1}, {"n", 9}},
        {{"batch", 4}, {"m", 9}, {"n", 40}},
        {{"batch", 2}, {"m", 5}, {"n", 22}}}},
      {"attention:batch=2,heads=4,kv_heads=2,m=1,n=1..50,d=4,dv=6",
       {{{"n", 1}}, {{"n", 50}}, {{"n", 33}}}},
      {"attention:batch=2,heads=3,m=1,n=1..70,d=12", {{{"n", 1}}, {{"n", 70}}, {{"n", 65}}}},
      {"attention:batch=2,heads=4,kv_heads=2,m=1..3,n=20,d=4",
       {{{"m", 1}}, {{"m", 3}}, {{"m", 2}}}}};
  for (unsigned i = GetParam(); i < kCombinations; i += 64) {
    const unsigned bits = mixed(i);
    std::mt19937_64 random(first_seed() * kCombinations + bits);
    const Sizes& sizes = all[random() % all.size()];
    const std::string spec = spec_of(bits, first_seed(), {sizes.spec}, {"f32", "bf16"});
    SCOPED_TRACE(spec);
    std::optional<Workload> w;
    try {
      w = make_workload(parse_spec(spec));
    } catch (const SpecError& e) {
      ADD_FAILURE() << e.what();
      return;
    }
    std::string config;
    const std::optional<Schedule> s = random_schedule(
        first_seed(),
        [&](Trial& trial) {
          return apply_sketch(cpu_sketches().front(), {*w, target, 2}, trial);
        },
        &config);
    if (!s) return;
    SCOPED_TRACE(config);
    const Program lowered = lower_for_cpu(s->program(), target);
    for (const auto& dims : sizes.dims) {
      SCOPED_TRACE(dims.rbegin()->second);
      expect_interpreted(*w, s->program(), /*is_lowered=*/false, dims);
      if (HasFatalFailure()) return;
      expect_interpreted(*w, lowered, /*is_lowered=*/true, dims);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, AttentionVariants, testing::Range(0U, 8U));

TEST(AttentionVariantKernels, AreRightOnACpu) {
  const bool has_avx2 = cpu_features().contains("avx2");
  const uint64_t cases = from_environment("TILEWRIGHT_FUZZ_CASES", 12);
  for (uint64_t i = 0; i < cases; ++i) {
    const Target target = Target::parse(i % 3 == 2 && has_avx2 ? "avx2" : "native");
    const std::string spec =
        spec_of(mixed(i), first_seed() + i,
                {"heads=2,m=33,n=50,d=16", "heads=8,kv_heads=2,m=4,n=45,d=16,dv=24",
                 "heads=32,kv_heads=2,m=1,n=48,d=32", "heads=2,m=40,n=64,d=16",
                 "heads=8,kv_heads=2,m=1,n=45,d=20", "heads=3,m=1,n=50,d=32"},
                {"f32", "bf16", "f16,out=f32"});
    const Workload w = make_workload(parse_spec(spec));
    SCOPED_TRACE(spec);
    // One register tile has all rows of m=4, so that values are made where they are used.
    const int64_t rows = spec.find("heads=3,m=1") != spec.npos ? 1
                         : spec.find(",m=4,") != spec.npos     ? 4
                                                               : 2;
    // Small tiles: large ones have much code for each way in which they are partial, which compiles
    // slowly. The interpreter has run all choices.
    const Choices choices = {{"S_max.softmax", "online"},
                             {"S_max.rows?", 16},
                             {"S_max.keys", i % 3 == 0 ? 32 : 16},
                             {"S_max.scores.vectors?", 1},
                             {"S_max.scores.rows?", i % 2 == 0 ? 2 : 4},
                             {"S_max.product.vectors", 1},
                             {"S_max.product.rows", rows},
                             {"S_max.vectors", 1},
                             {"S_max.scores.unroll?", 1},
                             {"S_max.product.unroll", 2},
                             {"S_max.heads?", i % 4 < 2 ? "packed" : "apart"},
                             {"S_max.parts?", 1},
                             {"S_scaled.inline?", i % 4 == 1 ? "yes" : "no"}};
    SCOPED_TRACE(choices.dump());
    expect_right(w, cpu_schedule(w, target, choices), target);
  }
}

TEST(AttentionVariantKernels, AreRightOnAGpu) {
  const uint64_t cases = from_environment("TILEWRIGHT_FUZZ_CASES", 12);
  for (uint64_t i = 0; i < cases; ++i) {
    const Target target = Target::parse(i % 2 == 0 ? "cuda:sm_80" : "cuda:sm_90a");
    const std::string spec = spec_of(mixed(i), first_seed() + i,
                                     {"heads=2,m=40,n=70,d=16", "heads=8,kv_heads=1,m=2,n=64,d=32",
                                      "m=70,n=72,d=64", "heads=8,kv_heads=1,m=1,n=96,d=16"},
                                     {"f16", "bf16", "f32", "f16"});
    const Workload w = make_workload(parse_spec(spec));
    SCOPED_TRACE(spec);
    std::string config;
    const std::optional<Schedule> s = random_schedule(
        first_seed() + i,
        [&](Trial& trial) {
          Schedule made = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
          generate_cuda(made.module(), target);
          return made;
        },
        &config);
    if (!s) return;
    SCOPED_TRACE(config + " on " + target.name);
    expect_right_on_gpu(w, *s, target);
  }
}

}  // namespace
}  // namespace tilewright
