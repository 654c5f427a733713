#include "ir/arith/index_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Point = std::vector<int64_t>;

int64_t evaluate(const Expr& e, const std::map<const ExprNode*, int64_t>& values) {
  if (auto value = as_int(e)) return *value;
  if (e.as<VarNode>()) return values.at(e.get());
  auto* n = e.as<BinaryNode>();
  int64_t a = evaluate(n->a, values), b = evaluate(n->b, values);
  int64_t mod = b == 0 ? 0 : ((a % b) + b) % b;
  switch (n->op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::FloorDiv: return (a - mod) / b;
    case BinaryOp::FloorMod: return mod;
    default: throw std::logic_error("not an index operation");
  }
}

Point map_point(const IndexMap& map, const Point& p) {
  std::map<const ExprNode*, int64_t> values;
  for (size_t i = 0; i < p.size(); ++i) values[map.inputs[i].get()] = p[i];
  Point result;
  for (const Expr& e : map.outputs) result.push_back(evaluate(e, values));
  return result;
}

std::vector<Point> box(const Point& shape) {
  std::vector<Point> points{{}};
  for (int64_t extent : shape) {
    std::vector<Point> next;
    for (const Point& p : points) {
      for (int64_t i = 0; i < extent; ++i) {
        next.push_back(p);
        next.back().push_back(i);
      }
    }
    points = std::move(next);
  }
  return points;
}

bool inside(const Point& p, const Point& shape) {
  for (size_t d = 0; d < p.size(); ++d) {
    if (p[d] < 0 || p[d] >= shape[d]) return false;
  }
  return true;
}

std::vector<Expr> exprs(const Point& shape) { return {shape.begin(), shape.end()}; }

Point ints(const std::vector<Expr>& list) {
  Point result;
  for (const Expr& e : list) result.push_back(as_int(e).value());
  return result;
}

// Every point maps into the image and back. Every point of the image maps back to a point that maps
// to it, or to one outside the shape.
void expect_bijection(const IndexMap& map, const Point& shape) {
  SCOPED_TRACE(map.str() + " over " + ::testing::PrintToString(shape));
  IndexMap inverse = map.inverse(exprs(shape));
  Point image = ints(map.image(exprs(shape)));
  for (const Point& p : box(shape)) {
    Point q = map_point(map, p);
    ASSERT_TRUE(inside(q, image)) << ::testing::PrintToString(p);
    ASSERT_EQ(map_point(inverse, q), p) << inverse.str();
  }
  size_t held = 0;
  for (const Point& q : box(image)) {
    Point p = map_point(inverse, q);
    if (!inside(p, shape)) continue;
    ++held;
    ASSERT_EQ(map_point(map, p), q) << inverse.str();
  }
  ASSERT_EQ(held, box(shape).size());
}

TEST(IndexMap, ParsesAppliesAndPrints) {
  IndexMap map = IndexMap::parse("(i, j) -> (floordiv(j, 16), i, floormod(j, 16))");
  EXPECT_EQ(map.str(), "(i, j) -> (floordiv(j, 16), i, floormod(j, 16))");
  Var a("a");
  std::vector<Expr> indices = map.apply({a, 35});
  ASSERT_EQ(indices.size(), 3u);
  EXPECT_EQ(to_string(indices[0]), "floordiv(35, 16)");
  EXPECT_EQ(to_string(indices[1]), "a");
  EXPECT_EQ(IndexMap::parse(map.str()).str(), map.str());
  EXPECT_EQ(IndexMap::parse("() -> (0)").str(), "() -> (0)");
}

TEST(IndexMap, MakeNamesItsInputs) {
  IndexMap map = IndexMap::make(2, [](const std::vector<Var>& v) {
    return std::vector<Expr>{v[1], v[0]};
  });
  EXPECT_EQ(map.str(), "(i0, i1) -> (i1, i0)");
}

TEST(IndexMap, InputsOfOneNamePrintApart) {
  Var a("i"), b("i");
  IndexMap map{{a, b}, {b, a}};
  EXPECT_EQ(map.str(), "(i, i_1) -> (i_1, i)");
}

TEST(IndexMap, ImageRoundsUp) {
  IndexMap map = IndexMap::parse("(i, j) -> (floordiv(j, 16), i, floormod(j, 16))");
  EXPECT_THAT(ints(map.image({4, 32})), ElementsAre(2, 4, 16));
  EXPECT_THAT(ints(map.image({4, 33})), ElementsAre(3, 4, 16));
  EXPECT_THAT(ints(map.image({4, 10})), ElementsAre(1, 4, 16));
  EXPECT_THAT(ints(IndexMap::parse("(i, j) -> (i * 2 + j)").image({3, 4})), ElementsAre(8));
  EXPECT_THAT(ints(IndexMap::parse("(i) -> (i + 3, 0)").image({4})), ElementsAre(7, 1));
}

TEST(IndexMap, ImageOfADynamicExtent) {
  Var m("m");
  IndexMap map = IndexMap::parse("(i, j) -> (floordiv(i, 8), j, floormod(i, 8))");
  std::vector<Expr> image = map.image({m, 5});
  EXPECT_EQ(to_string(image[0]), "floordiv((m + 7), 8)");
  EXPECT_EQ(to_string(image[1]), "5");
  EXPECT_EQ(to_string(image[2]), "8");
  EXPECT_EQ(map.inverse({m, 5}).str(), "(p0, p1, p2) -> (((p0 * 8) + p2), p1)");
}

TEST(IndexMap, InversesReadWell) {
  EXPECT_EQ(IndexMap::parse("(i, j) -> (j, i)").inverse({3, 4}).str(), "(p0, p1) -> (p1, p0)");
  EXPECT_EQ(IndexMap::parse("(i, j) -> (i * 4 + j)").inverse({3, 4}).str(),
            "(p0) -> (floordiv(p0, 4), floormod(p0, 4))");
}

TEST(IndexMap, BijectionsByEnumeration) {
  const std::vector<std::pair<std::string, Point>> cases = {
      {"(i, j) -> (i, j)", {3, 4}},
      {"(i, j) -> (floordiv(j, 4), i, floormod(j, 4))", {3, 8}},
      {"(i, j) -> (floordiv(j, 4), i, floormod(j, 4))", {3, 10}},    // padded
      {"(i, j) -> (floordiv(j, 16), i, floormod(j, 16))", {3, 10}},  // one tile, padded
      {"(i, j) -> (floordiv(i, 2), floordiv(j, 3), floormod(j, 3), floormod(i, 2))", {5, 7}},
      {"(i) -> (floordiv(i, 12), floordiv(floormod(i, 12), 4), floormod(i, 4))", {30}},
      {"(i) -> (floordiv(i, 12), floormod(floordiv(i, 4), 3), floormod(i, 4))", {30}},
      {"(i, j) -> (i * 4 + j)", {3, 4}},
      {"(i, j) -> (floordiv(i * 10 + j, 4), floormod(i * 10 + j, 4))", {3, 10}},  // cuts across j
      {"(i, j) -> (floordiv(i * 8 + j, 4), floormod(i * 8 + j, 4))", {3, 8}},
      {"(i, j) -> (floordiv(i * 8 + j, 16), floormod(i * 8 + j, 16))", {3, 8}},
      {"(i, j, k) -> (j, floordiv(k, 4) * 5 + i, floormod(k, 4))", {5, 2, 10}},
      {"(i, j) -> (0, i, j * 1, 0)", {1, 3}},
      {"(i, j) -> (floordiv(j, 4) * 4 + floormod(j, 4), i)", {2, 10}},
      {"(i, j) -> (floormod(j, 2), i, floordiv(floordiv(j, 2), 3), floormod(floordiv(j, 2), 3))",
       {2, 13}},
  };
  for (const auto& [text, shape] : cases) expect_bijection(IndexMap::parse(text), shape);
}

// A map of splits, fusions and permutations of a box `shape`, with the extents of its outputs. Some
// splits round up.
struct RandomMap {
  IndexMap map;
  Point shape, extents;
  int padded = 0;
};

class RandomMaps {
 public:
  explicit RandomMaps(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  RandomMap over_some_box(bool pads) {
    Point shape;
    for (int64_t d = 1 + below(3); d > 0; --d) shape.push_back(1 + below(9));
    return over(shape, pads);
  }

  RandomMap over(const Point& shape, bool pads) {
    RandomMap r{{}, shape, shape};
    for (size_t d = 0; d < shape.size(); ++d) r.map.inputs.emplace_back("i" + std::to_string(d));
    r.map.outputs = {r.map.inputs.begin(), r.map.inputs.end()};
    for (int64_t step = below(5); step > 0; --step) take_step(r, step % 3, pads);
    return r;
  }

 private:
  void take_step(RandomMap& r, int64_t kind, bool pads) {
    auto d = static_cast<size_t>(below(static_cast<int64_t>(r.extents.size())));
    auto e = static_cast<size_t>(below(static_cast<int64_t>(r.extents.size())));
    const int64_t c = 1 + below(6);
    const bool even = r.extents[d] % c == 0;
    std::vector<Expr>& out = r.map.outputs;
    if (kind == 0 && d != e) {  // fuse
      out[d] = out[d] * r.extents[e] + out[e];
      r.extents[d] *= r.extents[e];
      out.erase(out.begin() + static_cast<long>(e));
      r.extents.erase(r.extents.begin() + static_cast<long>(e));
    } else if (kind == 1 && (even || (pads && out[d].as<VarNode>()))) {  // split
      out.push_back(floormod(out[d], c));
      out[d] = floordiv(out[d], c);
      r.extents[d] = (r.extents[d] + c - 1) / c;
      r.extents.push_back(c);
      r.padded += !even;
    } else {
      std::swap(out[d], out[e]);
      std::swap(r.extents[d], r.extents[e]);
    }
  }

  std::mt19937 random_;
};

TEST(IndexMap, RandomSplitsFusionsAndPermutationsAreBijections) {
  int padded = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomMap r = RandomMaps(seed).over_some_box(true);
    padded += r.padded;
    ASSERT_EQ(ints(r.map.image(exprs(r.shape))), r.extents) << r.map.str();
    expect_bijection(r.map, r.shape);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(padded, 50);
}

// The laws of an algebra of maps, each at every point of a box.
TEST(IndexMap, RandomMapsComposeAssociativelyAndWithTheirInverses) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    RandomMaps random(seed);
    const RandomMap h = random.over_some_box(false), g = random.over(h.extents, false),
                    f = random.over(g.extents, false);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + f.map.str() + " after " + g.map.str() +
                 " after " + h.map.str());
    const IndexMap left = compose(compose(f.map, g.map), h.map),
                   right = compose(f.map, compose(g.map, h.map));
    const IndexMap back = compose(h.map.inverse(exprs(h.shape)), h.map),
                   forth = compose(h.map, h.map.inverse(exprs(h.shape)));
    for (const Point& p : box(h.shape)) {
      ASSERT_EQ(map_point(left, p), map_point(f.map, map_point(g.map, map_point(h.map, p))));
      ASSERT_EQ(map_point(right, p), map_point(left, p));
      ASSERT_EQ(map_point(back, p), p);
    }
    for (const Point& q : box(h.extents)) ASSERT_EQ(map_point(forth, q), q);
    // The inverse of a composition is that of its parts, in reverse.
    const IndexMap inverse = compose(g.map, h.map).inverse(exprs(h.shape)),
                   parts = compose(h.map.inverse(exprs(h.shape)), g.map.inverse(exprs(g.shape)));
    for (const Point& q : box(g.extents)) ASSERT_EQ(map_point(inverse, q), map_point(parts, q));
  }
}

TEST(IndexMap, RandomMapsRepeatAsBijectionsOfNumberedCopies) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    RandomMaps random(seed);
    const RandomMap f = random.over_some_box(false);
    Point whole = f.shape, image;
    for (int64_t& extent : whole) {
      image.push_back(1 + random.below(3));
      extent *= image.back();
    }
    image.insert(image.end(), f.extents.begin(), f.extents.end());
    const IndexMap map = repeat(f.map, f.shape);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + map.str());
    ASSERT_EQ(ints(map.image(exprs(whole))), image);
    expect_bijection(map, whole);
    if (HasFatalFailure()) return;
    for (const Point& p : box(whole)) {
      Point expected, inside;
      for (size_t d = 0; d < p.size(); ++d) {
        expected.push_back(p[d] / f.shape[d]);
        inside.push_back(p[d] % f.shape[d]);
      }
      for (int64_t x : map_point(f.map, inside)) expected.push_back(x);
      ASSERT_EQ(map_point(map, p), expected);
    }
  }
}

// The digits of a map are the map.
TEST(IndexMap, RandomMapsAreTheSumsOfTheirDigits) {
  int compared = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const RandomMap f = RandomMaps(seed).over_some_box(false);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + f.map.str());
    std::vector<std::vector<IndexMap::Digit>> digits;
    try {
      digits = f.map.digits(f.shape);
    } catch (const IrError&) {
      continue;  // a fused index that is cut elsewhere
    }
    ++compared;
    for (const Point& p : box(f.shape)) {
      Point sums;
      for (const auto& output : digits) {
        sums.push_back(0);
        for (const IndexMap::Digit& d : output) {
          sums.back() += p[static_cast<size_t>(d.input)] / d.unit % d.extent * d.scale;
        }
      }
      ASSERT_EQ(sums, map_point(f.map, p));
      ASSERT_EQ(f.map.at(p), sums);
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(IndexMap, DigitsComeHighestFirst) {
  const IndexMap map = IndexMap::parse("(i, j) -> (floormod(i, 8) * 4 + floordiv(j, 2), 0)");
  using Digits = std::vector<IndexMap::Digit>;
  EXPECT_EQ(map.digits({16, 8}), (std::vector<Digits>{{{0, 1, 8, 4}, {1, 2, 4, 1}}, {}}));
  EXPECT_THROW(map.digits({16}), IrError);
  EXPECT_THROW(IndexMap::parse("(i) -> (i + 1)").digits({4}), IrError);
  const IndexMap cut = IndexMap::parse("(i, j) -> (floordiv(i * 10 + j, 4))");
  EXPECT_THROW(cut.digits({3, 10}), IrError);
}

TEST(IndexMap, SameDigitsAreSeenThroughOtherTexts) {
  auto same = [](const char* f, const char* g) {
    return same_digits(IndexMap::parse(f), IndexMap::parse(g), {16, 8});
  };
  EXPECT_TRUE(
      same("(i, j) -> (i * 8 + j)", "(i, j) -> (floordiv(j, 2) * 2 + floormod(j, 2) + i * 8)"));
  EXPECT_TRUE(same("(i, j) -> (floormod(i, 16))", "(i, j) -> (i)"));
  EXPECT_TRUE(same("(i, j) -> (floormod(j, 64) + floordiv(j, 64) * 512)", "(i, j) -> (j)"));
  EXPECT_FALSE(same("(i, j) -> (i * 8 + j)", "(i, j) -> (i * 16 + j)"));
  EXPECT_FALSE(same("(i, j) -> (i * 8 + j)", "(i, j) -> (i * 8 + floormod(j, 4))"));
  EXPECT_FALSE(same("(i, j) -> (i * i)", "(i, j) -> (i * i)"));
}

TEST(IndexMap, CompositionWantsAsManyIndicesAsThereAre) {
  const IndexMap swap = IndexMap::parse("(i, j) -> (j, i)");
  EXPECT_THROW(compose(swap, IndexMap::parse("(i) -> (i)")), IrError);
  EXPECT_THROW(repeat(swap, {4}), IrError);
}

std::string refusal_index_map(const std::string& text, const Point& shape) {
  try {
    IndexMap::parse(text).inverse(exprs(shape));
  } catch (const IrError& e) {
    return e.what();
  }
  return "no error";
}

TEST(IndexMap, MapsWithoutAnInverseAreRefused) {
  EXPECT_THAT(refusal_index_map("(i, j) -> (i)", {2, 3}),
              HasSubstr("the input 'j' is in none of its outputs"));
  EXPECT_THAT(refusal_index_map("(i) -> (floordiv(i, 2))", {4}),
              HasSubstr("a part of the input 'i' is in none of its outputs"));
  EXPECT_THAT(refusal_index_map("(i) -> (floormod(i, 2))", {4}),
              HasSubstr("a part of the input 'i' is in none of its outputs"));
  EXPECT_THAT(refusal_index_map("(i) -> (i, i)", {4}),
              HasSubstr("a part of the input 'i' is in its outputs twice"));
  EXPECT_THAT(refusal_index_map("(i) -> (floordiv(i, 2), i)", {4}), HasSubstr("twice"));
  EXPECT_THAT(refusal_index_map("(i, j) -> (i + j)", {4, 4}),
              HasSubstr("leaves gaps or joins values"));
  EXPECT_THAT(refusal_index_map("(i) -> (i * 2)", {4}), HasSubstr("leaves gaps"));
  EXPECT_THAT(refusal_index_map("(i) -> (i + 1)", {4}), HasSubstr("leaves gaps"));
  EXPECT_THAT(refusal_index_map("(i) -> (i)", {4, 4}),
              HasSubstr("takes 1 indices, the shape has 2"));
  // Rounding up in the middle of an input would give one element two positions.
  EXPECT_THAT(refusal_index_map("(i) -> (floordiv(i, 6), floordiv(floormod(i, 6), 4), "
                                "floormod(floormod(i, 6), 4))",
                                {12}),
              HasSubstr("cuts a part of an index unevenly"));
}

TEST(IndexMap, ExpressionsThatAreNoDigitsAreRefused) {
  EXPECT_THAT(refusal_index_map("(i) -> (i * i)", {4}),
              HasSubstr("(i * i) multiplies two indices"));
  EXPECT_THAT(refusal_index_map("(i) -> (3 - i)", {4}),
              HasSubstr("subtracts more than a constant"));
  EXPECT_THAT(refusal_index_map("(i) -> (i * -1)", {4}),
              HasSubstr("multiplies by a negative constant"));
  EXPECT_THAT(refusal_index_map("(i) -> (max(i, 1))", {4}),
              HasSubstr("is not made of +, *, floordiv"));
  EXPECT_THAT(refusal_index_map("(i) -> (cast<index>(cast<i32>(i)))", {4}),
              HasSubstr("is not made of"));
  EXPECT_THAT(refusal_index_map("(i) -> (floordiv(i, 0))", {4}), HasSubstr("no positive constant"));
  EXPECT_THAT(refusal_index_map("(i, j) -> (floordiv(i, j))", {4, 4}),
              HasSubstr("no positive constant"));
  EXPECT_THAT(refusal_index_map("(i) -> (floordiv(i + 1, 4))", {4}),
              HasSubstr("a sum whose constant part is no multiple"));
  EXPECT_THAT(refusal_index_map("(i, j) -> (floordiv(i + j, 4))", {4, 4}), HasSubstr("overlap"));
  Var other("x");
  IndexMap map{{Var("i")}, {other}};
  EXPECT_THROW(map.image({4}), IrError);
}

TEST(IndexMap, TextThatIsNoMapIsRefusedWithItsPlace) {
  auto message = [](const std::string& text) {
    try {
      IndexMap::parse(text);
    } catch (const IrError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("i -> i"), HasSubstr("1:1: expected '(', got 'i'"));
  EXPECT_THAT(message("(i, i) -> (i)"), HasSubstr("1:5: a second index 'i'"));
  EXPECT_THAT(message("(i) -> (j)"), HasSubstr("1:9: no variable 'j' is known here; known are i"));
  EXPECT_THAT(message("(i) -> (i) x"), HasSubstr("1:12: expected the end of the map, got 'x'"));
  EXPECT_THAT(message("(i) (i)"), HasSubstr("1:5: expected '->'"));
  EXPECT_THAT(message("(i) -> (0.5f32)"), HasSubstr("the output 0.5f32 has type f32, not index"));
  EXPECT_THAT(message("(i) -> (i"), HasSubstr("expected ')' or ',', got the end of the text"));
}

TEST(IndexMap, ApplyWantsAnIndexForEachInput) {
  EXPECT_THROW(IndexMap::parse("(i, j) -> (i)").apply({1}), IrError);
}

}  // namespace
}  // namespace tilewright
