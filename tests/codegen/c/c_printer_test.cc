// The printed C: addresses that accesses share, and those that must stay where they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/text/parser.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string c_of(const std::string& text) {
  Module module;
  module.main = parse_program(text);
  return generate_c(module, Target::parse("generic")).code;
}

TEST(CPrinter, NeighboursShareAPointer) {
  std::string c = c_of(R"(program p(X: f32[64] input, Y: f32[64] output) {
  block root() {
    for i in 0..16 {
      block a(v: spatial 16 = i) {
        Y[v * 4] = X[v * 4 + 1]
        Y[v * 4 + 2] = X[v * 4 + 3]
      }
    }
  }
})");
  EXPECT_THAT(c, HasSubstr("float* Y_at = Y + (i * 4);")) << c;
  EXPECT_THAT(c, HasSubstr("Y_at[2] = X_at[3];")) << c;
}

// The run of statements that reads the index also stores it.
TEST(CPrinter, WhatLoadsItsAddressStaysInPlace) {
  std::string c = c_of(R"(program p(I: index[1] input, X: f32[64] input, Y: f32[2] output) {
  block root() {
    alloc J: index[1] global
    block a() {
      J[0] = I[0]
      Y[0] = X[J[0] * 4]
      Y[1] = X[J[0] * 4 + 1]
    }
  }
})");
  EXPECT_THAT(c, Not(HasSubstr("X_at"))) << c;
}

// The mask of a causal attention, and ones that need their guards, in whole and partial vectors: lowered, each
// selects what it selected.
TEST(CPrinter, MasksInLanesKeepTheirMeaning) {
  for (const char* value : {"select((vk <= vq), X[vk, vq], -1.0f32)",
                            "select(((vk * 3) > (17 - vq)), X[vk, vq], X[vk, 2])",
                            "select((vq >= 3), X[vk, vq - 3], -1.0f32)"}) {
    SCOPED_TRACE(value);
    const Program program = parse_program(
        std::string("program p(X: f32[8, 21] input, Y: f32[8, 21] output) {\n"
                    "  block root() {\n    for k in 0..8 {\n      for q in 0..21 vectorized {\n"
                    "        block a(vk: spatial 8 = k, vq: spatial 21 = q) {\n"
                    "          Y[vk, vq] = ") +
        value + "\n        }\n      }\n    }\n  }\n}");
    test::expect_same_meaning(program);
  }
}

// Lengths that memory holds, in masks of lanes: the text grows with the lanes of none of them.
TEST(CPrinter, LoadedEndsOfRampsArePrintedOnce) {
  Module module;
  module.main = parse_program(R"(program p(N: index[2] input, X: f32[64] input, Y: f32[16] output) {
  block root() {
    for i in 0..16 vectorized {
      block a(v: spatial 16 = i) {
        Y[v] = select(((v + N[0]) < ((v * N[1]) + N[1])), X[v], 0.0f32)
      }
    }
  }
})");
  const std::string c = generate_c(module, Target::parse("avx512")).code;
  size_t loads = 0;
  for (size_t at = c.find("N["); at != std::string::npos; at = c.find("N[", at + 1)) ++loads;
  EXPECT_LE(loads, 5u) << c;
  test::expect_same_meaning(module.main);
}

// A half that all lanes multiply by is widened in the vector.
TEST(CPrinter, HalvesAreSpreadBeforeTheyAreWidened) {
  for (const char* type : {"bf16", "f16"}) {
    SCOPED_TRACE(type);
    const Program p = parse_program(std::string("program p(A: ") + type +
                                    R"([8] input, X: f32[8, 16] input, Y: f32[8, 16] output) {
  block root() {
    for i in 0..8 {
      for j in 0..16 vectorized {
        block a(v: spatial 8 = i, w: spatial 16 = j) {
          Y[v, w] = X[v, w] * cast<f32>(A[v])
        }
      }
    }
  }
})");
    for (const char* target : {"avx512", "avx2", "generic"}) {
      Module module;
      module.main = p;
      const std::string c = generate_c(module, Target::parse(target)).code;
      const bool spreads = c.find(std::string("tw_spread_") + type) != std::string::npos;
      EXPECT_EQ(spreads, std::string(target) != "generic") << target << c;
    }
    test::expect_same_meaning(p);
  }
}

constexpr const char* kPolynomials = R"(program p(X: f32[64] input, Y: f32[32] output) {
  block root() {
    for i in 0..16 {
      block a(v: spatial 16 = i) {
        Y[v] = X[v] * X[v] * X[v] * X[v] * X[v] * X[v] * X[v] * X[v] * X[v]
        Y[v + 16] = X[v] * X[v] * X[v] * X[v] * X[v] * X[v] * X[v] * X[v] * SOURCE[v]
      }
    }
  }
})";

std::string polynomials(const std::string& source) {
  std::string text = kPolynomials;
  text.replace(text.find("SOURCE"), 6, source);
  return c_of(text);
}

// A compiler that meets a store between them computes their common factors twice.
TEST(CPrinter, LongValuesStandBeforeTheirStores) {
  const std::string c = polynomials("X");
  EXPECT_THAT(c, HasSubstr("float value_1 = ")) << c;
  EXPECT_LT(c.find("float value_1 = "), c.find("] = value;")) << c;
}

TEST(CPrinter, ValuesThatReadWhatIsStoredStay) {
  EXPECT_THAT(polynomials("Y"), Not(HasSubstr("value"))) << "the store may change Y[v]";
}

}  // namespace
}  // namespace tilewright
