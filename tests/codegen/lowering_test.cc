// Lowering keeps the meaning of programs: each pass, and all of them together, are checked against
// the interpreter.
#include "codegen/lowering.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "schedule/schedule.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

using test::expect_same_meaning;

// A matmul of odd sizes in tiles that do not divide them.
Schedule tiled_matmul() {
  Schedule s(lower(make_workload(parse_spec("matmul:m=13,n=37,k=11"))));
  Block c = s.block("C");
  std::vector<Loop> loops = s.loops(c);
  std::vector<Loop> i = s.split(loops[0], {-1, 2, 3});
  std::vector<Loop> j = s.split(loops[1], {-1, 32});
  std::vector<Loop> k = s.split(loops[2], {-1, 4});
  s.reorder({i[0], j[0], i[1], k[0], k[1], i[2], j[1]});
  s.decompose_reduction(c, k[0]);
  s.unroll(i[2]);
  s.vectorize(j[1]);
  s.parallel(s.fuse({i[0], j[0]}));
  return s;
}

TEST(Lowering, KeepsTheMeaningOfATiledMatmul) { expect_same_meaning(tiled_matmul().program()); }

TEST(Lowering, KeepsTheMeaningWithoutAnyOptionalPass) {
  for (const Pass& pass : cpu_passes()) {
    if (pass.required) continue;
    SCOPED_TRACE(pass.name);
    LoweringOptions options;
    options.without = {pass.name};
    expect_same_meaning(tiled_matmul().program(), options);
  }
}

TEST(Lowering, KeepsTheMeaningOfUnscheduledOperators) {
  for (const char* spec :
       {"conv2d:n=1,h=5,w=6,ci=3,co=4,kernel=3,pad=1,stride=2", "softmax:m=3,n=5",
        "layer_norm:m=2,n=7", "norm:b=2,m=3,n=4", "depthwise_conv2d:n=1,h=4,w=4,c=3,kernel=3,pad=1",
        "conv2d_transpose:n=1,h=3,w=3,ci=2,co=2,kernel=4,stride=2,pad=1",
        "matmul:m=3,n=4,k=5,epilogue=[bias,relu]"}) {
    SCOPED_TRACE(spec);
    expect_same_meaning(lower(make_workload(parse_spec(spec))));
  }
}

TEST(Lowering, TheBulkOfATiledLoopRunsWithoutItsCondition) {
  Program lowered = lower_for_cpu(tiled_matmul().program(), Target::parse("avx512"));
  std::string text = to_string(lowered);
  // One branch per register tile remains, and no condition inside the reduction.
  EXPECT_NE(text.find("if ("), std::string::npos);
  size_t reduction = text.find("for k_0");
  ASSERT_NE(reduction, std::string::npos);
  std::string body = text.substr(reduction, text.find("}", reduction) - reduction);
  EXPECT_EQ(body.find("if ("), std::string::npos) << body;
}

// Partial sums in 16 lanes of rows of 100: six whole vectors, and one that ends after four lanes.
TEST(Lowering, TheBulkOfAReductionInLanesHasNoMask) {
  Program p = parse_program(R"(
program sums(X: f32[4, 100] input, Y: f32[4, 16] output) {
  block root() {
    for i in 0..4 {
      for l_init in 0..16 vectorized {
        block start(vi: spatial 4 = i, vl: spatial 16 = l_init) {
          Y[vi, vl] = 0.0f32
        }
      }
      for k in 0..7 {
        for l in 0..16 vectorized {
          block sum(vi_1: spatial 4 = i, vk: reduce 7 = k, vl_1: spatial 16 = l) {
            Y[vi_1, vl_1] = (Y[vi_1, vl_1] + select((((vk * 16) + vl_1) < 100), X[vi_1, ((vk * 16) + vl_1)], 0.0f32))
          }
        }
      }
    }
  }
}
)");
  expect_same_meaning(p);
  const std::string text = to_string(lower_for_cpu(p, Target::parse("avx512")));
  const size_t loop = text.find("for k");
  ASSERT_NE(loop, std::string::npos) << text;
  EXPECT_NE(text.find("in 0..6", loop), std::string::npos) << text;
  const std::string body = text.substr(loop, text.find("}", loop) - loop);
  EXPECT_EQ(body.find("select"), std::string::npos) << body;
  EXPECT_NE(text.find("select", loop), std::string::npos) << "the last vector has one\n" << text;
}

TEST(Lowering, AccumulatorsStayInRegistersDuringTheReduction) {
  std::string text = to_string(lower_for_cpu(tiled_matmul().program(), Target::parse("avx512")));
  EXPECT_NE(text.find("C_acc"), std::string::npos);
  LoweringOptions without;
  without.without = {"promote_accumulators"};
  text = to_string(lower_for_cpu(tiled_matmul().program(), Target::parse("avx512"), without));
  EXPECT_EQ(text.find("C_acc"), std::string::npos);
}

// The zeros that a sum starts from are never stored: the loop's results overwrite them.
TEST(Lowering, AccumulatorsStartWithTheirInitialValues) {
  auto tiled = [](int64_t n) {
    Schedule s = test::matmul_in_tiles(fmt::format("matmul:m=6,n={},k=5", n), 3);
    std::vector<Loop> init = s.loops(s.block("C_init"));
    s.unroll(init[init.size() - 2]);
    s.vectorize(init.back());
    return s;
  };
  auto zeros_in_memory = [&](const std::vector<std::string>& without) {
    LoweringOptions options;
    options.without = without;
    Schedule s = tiled(32);
    Program lowered = lower_for_cpu(s.program(), Target::parse("avx512"), options);
    int stores = 0;
    for_each_stmt(lowered.body, [&](const Stmt& stmt) {
      auto* store = stmt.as<StoreNode>();
      stores += store && store->buffer->scope == Scope::Global && store->value.as<BroadcastNode>();
    });
    return stores;
  };
  EXPECT_EQ(zeros_in_memory({}), 0);
  EXPECT_GT(zeros_in_memory({"start_accumulators"}), 0);
  expect_same_meaning(tiled(32).program());
  // Partial rows: the zeros of the lanes outside are not missed.
  expect_same_meaning(tiled(14).program());
}

// Values that are read elsewhere, as a bias, start in registers too, unless they change on the way.
TEST(Lowering, AccumulatorsStartWithWhatStaysTheSame) {
  auto after = [](const std::string& between) {
    Program p = parse_program(R"(
program sum(A: f32[8] input, T: f32[1] input, C: f32[1] output, D: f32[1] output) {
  C[0] = T[0]
  )" + between + R"(
  allocate acc: f32[1] register {
    acc[0] = C[0]
    for k in 0..8 {
      acc[0] = (acc[0] + A[k])
    }
    C[0] = acc[0]
  }
}
)");
    return to_string(start_accumulators(p));
  };
  auto stores_first = [](const std::string& text) {
    return text.find("C[0] = T[0]") != std::string::npos;
  };
  EXPECT_FALSE(stores_first(after(""))) << after("");
  EXPECT_FALSE(stores_first(after("D[0] = 1.0f32"))) << after("D[0] = 1.0f32");
  EXPECT_TRUE(stores_first(after("T[0] = 1.0f32"))) << after("T[0] = 1.0f32");
}

// Rows of 14 elements in vectors of 16: the vectors overlap, their stored parts do not.
TEST(Lowering, AccumulatorsOfCutRowsStayInRegisters) {
  Schedule s = test::matmul_in_tiles("matmul:m=6,n=14,k=5", 3);
  std::string text = to_string(lower_for_cpu(s.program(), Target::parse("avx512")));
  EXPECT_NE(text.find("C_acc"), std::string::npos) << text;
  expect_same_meaning(s.program());
}

TEST(Lowering, BuffersThatATileUsesAreAsSmallAsTheTile) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=8,n=32,k=4,epilogue=[relu]"))));
  Block acc = s.block("C_acc");
  std::vector<Loop> loops = s.loops(acc);
  std::vector<Loop> i = s.split(loops[0], {-1, 2});
  s.reverse_compute_at(s.block("C"), i[0]);
  bool found = false;
  LoweringOptions options;
  options.observe = [&](const std::string& pass, const Program& p, double) {
    if (pass == "compact_buffers") {
      found = to_string(p).find("allocate C_acc: f32[2, 32]") != std::string::npos;
    }
  };
  lower_for_cpu(s.program(), Target::parse("avx512"), options);
  EXPECT_TRUE(found);
  expect_same_meaning(s.program());
}

// A copy of one element, all of whose dimensions a layout has dropped (found by the fuzzer).
TEST(Lowering, BuffersWithoutDimensionsFindTheirPlace) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=1,n=5,k=1"))));
  Block copy = s.cache_read(s.block("C"), "A", Scope::Global);
  s.transform_layout("A_global",
                     IndexMap::make(2, [](const auto&) { return std::vector<Expr>{}; }));
  EXPECT_EQ(s.node(copy).name, "A_global");
  std::string text = to_string(lower_for_cpu(s.program(), Target::parse("generic")));
  EXPECT_NE(text.find("allocate A_global: f32[1] global"), std::string::npos) << text;
  expect_same_meaning(s.program());
}

TEST(Lowering, RefusesEndlessUnrolling) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=100,n=100,k=100"))));
  for (const Loop& l : s.loops(s.block("C"))) s.unroll(l);
  try {
    lower_for_cpu(s.program(), Target::parse("avx2"));
    FAIL() << "a million statements were accepted";
  } catch (const LoweringError& e) {
    EXPECT_NE(std::string(e.what()).find("at most 6000 are allowed"), std::string::npos)
        << e.what();
  }
}

TEST(GenerateC, WritesTheSameTextEachTime) {
  Module m = tiled_matmul().module();
  EXPECT_EQ(generate_c(m, Target::parse("avx2")).code, generate_c(m, Target::parse("avx2")).code);
}

TEST(GenerateC, DescribesItsParameters) {
  KernelSource source = generate_c(tiled_matmul().module(), Target::parse("generic"));
  const KernelFunction& f = source.description.main;
  ASSERT_EQ(f.params.size(), 3u);
  EXPECT_EQ(f.params[1].name, "B");
  EXPECT_EQ(f.params[1].role, ParamRole::Weight);
  EXPECT_EQ(f.params[2].shape, (std::vector<KernelExtent>{13, 37}));
}

}  // namespace
}  // namespace tilewright
