// Index expressions at given values of their variables.
#include "tuner/index_value.h"

#include <gtest/gtest.h>

#include "ir/buffer.h"

namespace tilewright {
namespace {

TEST(IndexValues, FollowTheMeaningOfExpressions) {
  Var i("i"), j("j"), unknown("u");
  IndexValues v;
  v.set(i, -7);
  v.define(j, i * 2 + 1);
  EXPECT_EQ(v.at(floordiv(i, 2)), -4) << "rounds down";
  EXPECT_EQ(v.at(floormod(i, 4)), 1);
  EXPECT_EQ(v.at(j), -13);
  EXPECT_EQ(v.at(unknown + 5), 5) << "what has no value counts as 0";
  EXPECT_EQ(v.at(min(i, j)), -13);
  EXPECT_EQ(v.at(i < j), 0);
  EXPECT_EQ(v.at(!(i < j) && ne(i, j)), 1);
  EXPECT_EQ(v.at(select(i < 0, Expr(3), Expr(4))), 3);
  EXPECT_EQ(v.at(call(ElemType::index, CallOp::IfThenElse, {i < 0, Expr(3), Expr(4)})), 3);
}

TEST(IndexValues, LanesOfVectorsDiffer) {
  Var i("i");
  IndexValues v;
  v.set(i, 10);
  Expr lanes = ramp(i, Expr(3), 4) + broadcast(Expr(1), 4);
  EXPECT_EQ(v.at(lanes, 0), 11);
  EXPECT_EQ(v.at(lanes, 3), 20);
}

TEST(IndexValues, WhatMemoryHoldsCountsAsZero) {
  Buffer b = make_buffer("b", ElemType::i32, {Expr(4)});
  EXPECT_EQ(IndexValues().at(cast(ElemType::index, load(b, {Expr(2)})) + 9), 9);
}

}  // namespace
}  // namespace tilewright
