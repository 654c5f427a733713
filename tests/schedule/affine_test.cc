#include "schedule/affine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ir/visitor.h"
#include "tests/schedule/fuzz/fuzz_schedule.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;

// Loops i, j, k, each over its extent.
class Recoverable : public ::testing::Test {
 protected:
  void extents(int64_t ni, int64_t nj, int64_t nk) {
    loops_.clear();
    known_ = Analyzer();
    Buffer none = make_buffer("none", ElemType::f32, {1});
    Stmt body = make_store(none, {0}, make_float(ElemType::f32, 0));
    for (const auto& [var, extent] : {std::pair(i, ni), {j, nj}, {k, nk}}) {
      known_.bind(var, Expr(0), Expr(extent));
      loops_.push_back(make_for(var, 0, extent, ForKind::Serial, body));
    }
  }

  // The names of the loops that the indices determine.
  std::vector<std::string> told(const std::vector<IndexForm>& forms) {
    std::set<const ExprNode*> found = recoverable(forms, loops_, known_);
    std::vector<std::string> names;
    for (const Var& var : {i, j, k}) {
      if (found.count(var.get())) names.push_back(var.name());
    }
    return names;
  }

  Var i{"i"}, j{"j"}, k{"k"};
  std::vector<Stmt> loops_;
  Analyzer known_;
};

TEST_F(Recoverable, CoefficientsThatExceedWhatLiesBelow) {
  extents(4, 3, 2);
  EXPECT_THAT(told({{i * 6 + j * 2 + k}}), ElementsAre("i", "j", "k"));
  EXPECT_THAT(told({{i * 5 + j * 2 + k}}), ElementsAre());
  EXPECT_THAT(told({{i * 6 + j + k}}), ElementsAre("i"));
  EXPECT_THAT(told({{i * -6 + j * 2 + k}}), ElementsAre("i", "j", "k"));
}

TEST_F(Recoverable, SeveralIndices) {
  extents(4, 3, 2);
  EXPECT_THAT(told({{Expr(i)}, {j * 2 + k}}), ElementsAre("i", "j", "k"));
  EXPECT_THAT(told({{Expr(i)}, {Expr(k)}}), ElementsAre("i", "k"));
  EXPECT_THAT(told({}), ElementsAre());
}

TEST_F(Recoverable, ValuesWithSlack) {
  extents(4, 3, 2);
  EXPECT_THAT(told({{i * 2, 1}}), ElementsAre("i"));
  EXPECT_THAT(told({{i * 2, 2}}), ElementsAre());
  EXPECT_THAT(told({{Expr(i), 1}}), ElementsAre());
}

TEST_F(Recoverable, DigitsOfALoop) {
  extents(12, 3, 2);
  EXPECT_THAT(told({{floordiv(i, 4)}, {floormod(i, 4)}}), ElementsAre("i"));
  EXPECT_THAT(told({{floordiv(i, 4)}, {floormod(floordiv(i, 2), 2)}, {floormod(i, 2)}}),
              ElementsAre("i"));
  EXPECT_THAT(told({{floordiv(i, 4)}}), ElementsAre());
  EXPECT_THAT(told({{floormod(i, 4)}}), ElementsAre());
  EXPECT_THAT(told({{floordiv(i, 4)}, {floormod(i, 3)}}), ElementsAre());
  EXPECT_THAT(told({{floordiv(i, 8)}, {floormod(i, 4)}}), ElementsAre());
}

TEST_F(Recoverable, DigitsOfAFusedLoopGiveItsParts) {
  extents(4, 3, 2);
  Expr flat = (i * 3 + j) * 2 + k;
  EXPECT_THAT(told({{floordiv(flat, 7)}, {floormod(flat, 7)}}), ElementsAre("i", "j", "k"));
  EXPECT_THAT(told({{floormod(flat, 7)}}), ElementsAre());
}

TEST_F(Recoverable, LoopsOfOneIterationAreAlwaysTold) {
  extents(4, 1, 2);
  EXPECT_THAT(told({}), ElementsAre("j"));
}

TEST_F(Recoverable, WhatIsNoSumTellsNothing) {
  extents(4, 3, 2);
  EXPECT_THAT(told({{i * j}}), ElementsAre());
  EXPECT_THAT(told({{min(i, j)}}), ElementsAre());
  EXPECT_THAT(told({{floordiv(i, j + 1)}}), ElementsAre());
}

TEST_F(Recoverable, UnboundedLoopsAreToldAtTheTopAlone) {
  extents(4, 3, 2);
  Analyzer open;
  open.bind(i, Interval{0, Interval::kPosInf});
  open.bind(j, Expr(0), Expr(3));
  open.bind(k, Expr(0), Expr(2));
  EXPECT_EQ(recoverable({{i * 6 + j * 2 + k}}, loops_, open).size(), 3u);
  EXPECT_EQ(recoverable({{i + j * 4}}, loops_, open).size(), 0u);
}

// A loop that is returned has different indices for different values, whatever the other loops are.
// Compared with all points of small boxes.
TEST_F(Recoverable, IsNeverWrong) {
  int told_loops = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    test::Draw draw(seed);
    int64_t n[] = {draw.between(1, 5), draw.between(1, 5), draw.between(1, 5)};
    extents(n[0], n[1], n[2]);
    auto sum = [&] {
      Expr e(0);
      for (const Var& var : {i, j, k}) e = e + var * Expr(draw.between(-2, 8));
      return e;
    };
    std::vector<IndexForm> forms;
    for (int64_t f = draw.between(1, 3); f > 0; --f) {
      Expr e = sum();
      int64_t by = draw.between(2, 6);
      switch (draw.below(4)) {
        case 0: e = floordiv(e, by); break;
        case 1: e = floormod(e, by); break;
        case 2: e = floormod(floordiv(e, by), draw.between(2, 4)); break;
        default: break;
      }
      forms.push_back({e, 0});
      if (draw.chance(50)) forms.push_back({floormod(e, by), 0});
    }
    std::set<const ExprNode*> found = recoverable(forms, loops_, known_);
    told_loops += static_cast<int>(found.size());
    const Var vars[] = {i, j, k};
    for (int d = 0; d < 3; ++d) {
      if (!found.count(vars[d].get())) continue;
      std::map<std::vector<int64_t>, int64_t> value_of;
      for (int64_t p = 0; p < n[0] * n[1] * n[2]; ++p) {
        int64_t at[] = {p / (n[1] * n[2]), p / n[2] % n[1], p % n[2]};
        VarMap values{{i.get(), Expr(at[0])}, {j.get(), Expr(at[1])}, {k.get(), Expr(at[2])}};
        std::vector<int64_t> index;
        for (const IndexForm& f : forms) {
          index.push_back(*as_int(simplify(substitute(f.value, values))));
        }
        auto [it, fresh] = value_of.emplace(index, at[d]);
        ASSERT_EQ(it->second, at[d]) << "seed " << seed << ", loop " << vars[d].name();
      }
    }
  }
  EXPECT_GT(told_loops, 1000);  // otherwise little was checked
}

}  // namespace
}  // namespace tilewright
