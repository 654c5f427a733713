// Vectors that neighbouring stores share, in the printed C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "tests/codegen/compiled_text.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

std::string c_of(const Program& program, const char* target = "avx512") {
  Module module;
  module.main = program;
  return generate_c(module, Target::parse(target)).code;
}

// Registers that are declared for what memory holds.
size_t held_in(const std::string& c) {
  size_t count = 0;
  const std::string mark = R"(__asm__("" : "+v"()";
  for (size_t at = c.find(mark); at != std::string::npos; at = c.find(mark, at + 1)) ++count;
  return count;
}

Program tile_of(int rows, int k = 8) {
  const std::string spec = "matmul:m=" + std::to_string(rows) + ",n=16,k=" + std::to_string(k);
  return test::matmul_in_tiles(spec, rows).program();
}

// The compiler loads a vector of two or three uses for each of them, and keeps one of more uses.
TEST(SharedLoads, OfTwoOrThreeRowsAreHeld) {
  EXPECT_EQ(held_in(c_of(tile_of(1))), 0u);
  EXPECT_EQ(held_in(c_of(tile_of(2))), 1u);
  EXPECT_EQ(held_in(c_of(tile_of(3))), 1u);
  EXPECT_EQ(held_in(c_of(tile_of(4))), 0u);
}

// AVX2 has two registers for the 16 columns; a target without it may have no such instructions.
TEST(SharedLoads, AreHeldInRegistersOfTheTarget) {
  EXPECT_EQ(held_in(c_of(tile_of(3), "avx2")), 2u);
  EXPECT_EQ(held_in(c_of(tile_of(3), "generic")), 0u);
}

// Two rows of Y by 16 columns, each a sum of `value`, which may read X and Z of 16 elements, and A of one per row.
Program two_rows(const std::string& value) {
  return parse_program(
      R"(program p(X: f32[16] input, A: f32[2] input, Z: f32[16] output, Y: f32[2, 16] output) {
  block root() {
    for r in 0..2 unrolled {
      for j in 0..16 vectorized {
        block a(v: spatial 2 = r, w: spatial 16 = j) {
          Y[v, w] = )" +
      value + R"(
          Z[w] = 1.0f32
        }
      }
    }
  }
})");
}

TEST(SharedLoads, OfWhatIsNotStoredMeanwhile) {
  EXPECT_EQ(held_in(c_of(two_rows("X[w] + 2.0f32"))), 1u);
  EXPECT_EQ(held_in(c_of(two_rows("Z[w] + 2.0f32"))), 0u) << "the first row's store changes Z";
}

// A guard may keep the load within its array.
TEST(SharedLoads, OfChoicesStay) {
  const Program p = two_rows("select((A[v] > 0.0f32), X[w], 0.0f32)");
  EXPECT_THAT(c_of(p), testing::HasSubstr("A[1]"));  // the choice is one of the run
  EXPECT_EQ(held_in(c_of(p)), 0u);
}

// The mask of an earlier store reads the vector, too.
TEST(SharedLoads, OfAConditionStay) {
  const Program p =
      parse_program(R"(program p(X: f32[16] input, Z: f32[2, 16] output, Y: f32[2, 16] output) {
  block root() {
    for r in 0..2 unrolled {
      for j in 0..16 vectorized {
        block a(v: spatial 2 = r, w: spatial 16 = j) {
          Z[v, w] = 1.0f32 if (X[w] > 0.0f32)
          Y[v, w] = X[w] + 2.0f32
        }
      }
    }
  }
})");
  EXPECT_EQ(held_in(c_of(p)), 0u);
}

TEST(SharedLoads, OfALaterUseThatIsGuardedStay) {
  const Program p = two_rows("X[w] + select((A[v] > 0.0f32), X[w], 0.0f32)");
  EXPECT_EQ(held_in(c_of(p)), 0u);
}

// A vector that a loop does not change is loaded before it.
TEST(SharedLoads, ThatALoopDoesNotChangeStay) {
  const Program p =
      parse_program(R"(program p(X: f32[16] input, A: f32[8, 2] input, Y: f32[8, 2, 16] output) {
  block root() {
    for i in 0..8 {
      for r in 0..2 unrolled {
        for j in 0..16 vectorized {
          block a(u: spatial 8 = i, v: spatial 2 = r, w: spatial 16 = j) {
            Y[u, v, w] = X[w] + A[u, v]
          }
        }
      }
    }
  }
})");
  EXPECT_EQ(held_in(c_of(p)), 0u);
}

// Accumulators, vectors in use and temporaries fit the 32 registers: 3 rows of 8 vectors leave 6.
TEST(SharedLoads, TakeNoMoreRegistersThanThereAre) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=3,n=128,k=8"))));
  const std::vector<Loop> loops = s.loops(s.block("C"));
  const std::vector<Loop> j = s.split(loops[1], {-1, 16});
  s.reorder({loops[2], loops[0], j[0], j[1]});
  s.decompose_reduction(s.block("C"), loops[2]);
  s.unroll(loops[0]);
  s.unroll(j[0]);
  s.vectorize(j[1]);
  EXPECT_EQ(held_in(c_of(s.program())), 6u);
}

TEST(SharedLoads, KeepTheValues) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this machine does not run avx512";
  const Program p = tile_of(3, 5);
  NdArrays arrays = test::arrays_of(p, false);
  interpret(p, arrays);
  const std::string c = c_of(p);
  ASSERT_EQ(held_in(c), 1u);
  const test::CompiledText text(c, "-O3 -mavx512f -mavx512bw -mavx512dq -mavx512vl");
  std::vector<void*> args;
  std::vector<std::vector<float>> data;
  for (const Param& param : p.params) {
    const NdArray& a = arrays[param.buffer->name];
    data.emplace_back(a.data.begin(), a.data.end());
  }
  std::vector<float*> aligned;
  for (std::vector<float>& d : data) {
    auto* at =
        static_cast<float*>(std::aligned_alloc(64, (d.size() * sizeof(float) + 63) / 64 * 64));
    std::copy(d.begin(), d.end(), at);
    aligned.push_back(at);
    args.push_back(at);
  }
  float* y = aligned.back();
  std::fill(y, y + 48, -1.0f);
  struct Context {
    int32_t threads = 1;
    void *parallel_for = nullptr, *pool = nullptr, *workspace = nullptr;
  } context;
  ASSERT_EQ(text.function<int32_t(void* const*, const int64_t*, const void*)>("tw_main")(
                args.data(), nullptr, &context),
            0);
  for (size_t i = 0; i < 48; ++i) EXPECT_NEAR(y[i], data.back()[i], 1e-5) << i;
  for (float* a : aligned) std::free(a);
}

}  // namespace
}  // namespace tilewright
