// The printed C: addresses that accesses share, and those that must stay where they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/text/parser.h"

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

// A causal mask in lanes: constants of 32 bits beside one distance, and neighbours that are there are read in
// all lanes.
TEST(CPrinter, ComparesLanesIn32Bits) {
  std::string c = c_of(R"(program p(X: f32[8, 16] input, Y: f32[8, 16] output) {
  block root() {
    for k in 0..8 {
      for q in 0..16 vectorized {
        block a(vk: spatial 8 = k, vq: spatial 16 = q) {
          Y[vk, vq] = select((vk <= vq), X[vk, vq], -1.0f32)
        }
      }
    }
  }
})");
  EXPECT_THAT(c, HasSubstr("((int32_t)(k)) <= (tw_i32x4){0, 1, 2, 3})")) << c;
  EXPECT_THAT(c, Not(HasSubstr("?"))) << "no lane is guarded: " << c;
}

// Elements behind the last one are none.
TEST(CPrinter, GuardsLanesThatMayLieOutside) {
  std::string c = c_of(R"(program p(X: f32[13] input, Y: f32[16] output) {
  block root() {
    for q in 0..16 vectorized {
      block a(vq: spatial 16 = q) {
        Y[vq] = select((vq >= 3), X[vq - 3], -1.0f32)
      }
    }
  }
})");
  EXPECT_THAT(c, HasSubstr("?")) << c;
}

}  // namespace
}  // namespace tilewright
