#include "ir/arith/size_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/parser.h"
#include "ir/text/printer.h"

namespace tilewright {

void PrintTo(const SizeStep& s, std::ostream* out) { *out << s.step << " from " << s.first; }

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program program_size_facts(const std::string& body, const std::string& dims = "m: 1..100") {
  return parse_program("program p(A: f32[m, 8] input, B: i32[8] input, C: f32[m, 8] output) dims(" +
                       dims + ") {\n" + body + "\n}");
}

std::vector<SizeStep> steps(const std::string& body) {
  return size_facts(program_size_facts(body)).steps.at(0);
}

// Tiles of 7 rows over m; the last one is guarded.
std::string tiles(const std::string& guard) {
  return "for i in 0..floordiv(m + 6, 7) { for j in 0..7 { if " + guard +
         " { for k in 0..8 { C[i * 7 + j, k] = A[i * 7 + j, k] } } } }";
}

TEST(SizeSteps, AreTheTilesOfALoop) {
  EXPECT_THAT(steps(tiles("(i * 7 + j < m)")), ElementsAre(SizeStep{7, 7}));
  EXPECT_THAT(steps("for i in 0..floordiv(m, 16) { C[i, 0] = 0f32 }"),
              ElementsAre(SizeStep{16, 16}));
}

TEST(SizeSteps, AreThoseOfNestedTilesAndOfATailsLoop) {
  EXPECT_THAT(steps("for i in 0..floordiv(m + 27, 28) { for j in 0..4 { for k in 0..7 { "
                    "if (i * 28 + j * 7 + k < m) { C[i * 28 + j * 7 + k, 0] = 0f32 } } } }"),
              ElementsAre(SizeStep{7, 7}, SizeStep{28, 28}));
  EXPECT_THAT(steps("for i in 0..floordiv(m + 6, 7) { for j in 0..min(7, m - i * 7) { "
                    "C[i * 7 + j, 0] = 0f32 } }"),
              ElementsAre(SizeStep{7, 7}));
}

// The rows of a convolution's result differ from those of its image.
TEST(SizeSteps, AreSizesOfTheDimensionNotOfWhatIsMadeOfIt) {
  EXPECT_THAT(steps("for i in 0..floordiv(m - 2, 4) { C[i, 0] = 0f32 }"),
              ElementsAre(SizeStep{4, 2}));
  EXPECT_THAT(steps("for i in 0..floordiv(floordiv(m - 1, 2) + 4, 4) { C[i, 0] = 0f32 }"),
              ElementsAre(SizeStep{2, 3}, SizeStep{8, 9}));
}

TEST(SizeSteps, OfAConditionOnTheSizeAloneIsOneSize) {
  EXPECT_THAT(steps("if (m < 16) { C[0, 0] = 0f32 }"), ElementsAre(SizeStep{0, 16}));
}

// A mask cuts a vector there.
TEST(SizeSteps, OfAMaskOverLanesAreThoseOfItsFirstLane) {
  EXPECT_THAT(steps("C[0, ramp(0, 1, 8)] = broadcast(0f32, 8) if "
                    "(ramp(32, 1, 8) < broadcast(m, 8))\n"),
              ElementsAre(SizeStep{0, 32}));
  EXPECT_THAT(steps("for i in 0..floordiv(m + 7, 8) { C[i, ramp(0, 1, 8)] = broadcast(0f32, 8) if "
                    "((broadcast(i * 8, 8) + ramp(0, 1, 8)) < broadcast(m, 8))\n }"),
              ElementsAre(SizeStep{8, 8}));
}

TEST(SizeSteps, NoneWithoutTiles) {
  EXPECT_THAT(steps("for i in 0..m { for k in 0..8 { C[i, k] = A[i, k] } }"), IsEmpty());
}

TEST(SizeSteps, AreToldApartByDimension) {
  const SizeFacts facts = size_facts(program_size_facts(
      "for i in 0..floordiv(m + 6, 7) { for j in 0..floordiv(n + 3, 4) { C[i, 0] = 0f32 } }",
      "m: 1..100, n: 1..50"));
  ASSERT_EQ(facts.steps.size(), 2u);
  EXPECT_THAT(facts.steps[0], ElementsAre(SizeStep{7, 8}));
  EXPECT_THAT(facts.steps[1], ElementsAre(SizeStep{4, 5}));
}

std::vector<std::string> open(const std::string& body, const std::string& dims = "m: 1..100") {
  return unproved_accesses(program_size_facts(body, dims));
}

TEST(BoundsProof, HoldsForGuardedTilesAndFailsForABrokenGuard) {
  EXPECT_THAT(open(tiles("(i * 7 + j < m)")), IsEmpty());
  EXPECT_THAT(open(tiles("(i * 7 + j <= m)")), ElementsAre(HasSubstr("C["), HasSubstr("A[")));
  EXPECT_THAT(open(tiles("(i * 7 + j < m + 1)")), ElementsAre(HasSubstr("C["), HasSubstr("A[")));
  EXPECT_THAT(open(tiles("(i * 7 < m)")), ElementsAre(HasSubstr("C["), HasSubstr("A[")));
}

TEST(BoundsProof, CountsAccesses) {
  const SizeFacts right = size_facts(program_size_facts(tiles("(i * 7 + j < m)")));
  EXPECT_EQ(right.accesses, 2);
  EXPECT_EQ(right.proved, 2);
  const SizeFacts wrong = size_facts(program_size_facts(tiles("(i * 7 + j <= m)")));
  EXPECT_EQ(wrong.accesses, 2);
  EXPECT_EQ(wrong.proved, 0);
}

TEST(BoundsProof, KnowsWholeTilesAndTheirTail) {
  const std::string whole =
      "for i in 0..floordiv(m, 7) { for j in 0..7 { C[i * 7 + j, 0] = 0f32 } }";
  EXPECT_THAT(open(whole), IsEmpty());
  EXPECT_THAT(open("for j in 0..floormod(m, 7) { C[floordiv(m, 7) * 7 + j, 0] = 0f32 }"),
              IsEmpty());
  EXPECT_THAT(open("for i in 0..floordiv(m, 7) { for j in 0..8 { C[i * 7 + j, 0] = 0f32 } }"),
              ElementsAre(HasSubstr("C[")));
}

TEST(BoundsProof, KnowsBothSidesOfAConditionAndWhatSelectsRead) {
  EXPECT_THAT(open("for i in 0..100 { if (i >= m) { C[0, 0] = 0f32 } else { C[i, 0] = 0f32 } }"),
              IsEmpty());
  EXPECT_THAT(open("for i in 0..100 { C[0, 0] = select((i < m), A[i, 0], 0f32) }"), IsEmpty());
  EXPECT_THAT(open("for i in 0..100 { C[0, 0] = select((i <= m), A[i, 0], 0f32) }"),
              ElementsAre(HasSubstr("A[i")));
}

TEST(BoundsProof, LooksAtEachDimensionAndBothEnds) {
  EXPECT_THAT(open("for i in 0..m { C[i, 8] = 0f32 }"), ElementsAre("C[i, 8]"));
  EXPECT_THAT(open("for i in 0..m { C[i - 1, 0] = 0f32 }"), ElementsAre(HasSubstr("C[")));
}

// Each lane has its own index and its own mask bit.
TEST(BoundsProof, LooksAtEachLane) {
  const std::string store = "for i in 0..m { C[i, ramp(0, 1, 16)] = broadcast(0f32, 16) if ";
  EXPECT_THAT(open(store + "(ramp(0, 1, 16) < broadcast(8, 16))\n }"), IsEmpty());
  EXPECT_THAT(open(store + "(ramp(0, 1, 16) <= broadcast(8, 16))\n }"),
              ElementsAre(HasSubstr("C[")));
}

// An index that was read from memory is unknown.
TEST(BoundsProof, LeavesGathersOpen) {
  EXPECT_THAT(open("C[0, 0] = A[cast<index>(B[0]), 0]"), ElementsAre(HasSubstr("A[")));
}

}  // namespace
}  // namespace tilewright
