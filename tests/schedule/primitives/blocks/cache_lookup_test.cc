// cache_lookup: copies of the elements of a buffer that a block looks up by numbers in memory.
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// Each block of rows uses the weight of its group.
std::string grouped(const std::string& index = "max(min(cast<index>(G[vb]), 2), 0)") {
  return R"(
program p(A: f32[4, 2, 6] input, G: i32[4] input, W: f32[3, 6, 5] weight, Y: f32[4, 2, 5] output) {
  block root() {
    for b in 0..4 { for i in 0..2 { for j in 0..5 { for k in 0..6 {
      block Y(vb: spatial 4 = b, vi: spatial 2 = i, vj: spatial 5 = j, vk: reduce 6 = k) {
        init { Y[vb, vi, vj] = 0.0f32 }
        Y[vb, vi, vj] = Y[vb, vi, vj] + A[vb, vi, vk] * W[)" +
         index + R"(, vk, vj]
      }
    }}}}
  }
})";
}

std::string look_up(Schedule& s, const std::string& buffer) {
  return s.cache_lookup({"Y"}, buffer, Scope::Shared).name;
}

TEST(CacheLookup, CopiesWhatTheIteratorsFind) {
  RewriteCase c(grouped());
  EXPECT_EQ(look_up(c.s, "W"), "W_shared");
  EXPECT_GOLDEN(c.str());
  c.check();
  // Moved into the loop over blocks of rows, the copy holds one matrix.
  c.s.compute_at({"W_shared"}, {"b"});
  c.check();
}

TEST(CacheLookup, RefusesWhatIsNotLookedUpByOneIterator) {
  RewriteCase plain(grouped("min(vb, 2)"));
  plain.refuses([](Schedule& s) { look_up(s, "W"); }, RefusalKind::Unsupported,
                "block 'Y' looks no index of 'W' up in memory");
  plain.refuses([](Schedule& s) { look_up(s, "Z"); }, RefusalKind::NotFound,
                "block 'Y' does not read 'Z'");
  RewriteCase two(grouped("max(min(cast<index>(G[vb]) + vi, 2), 0)"));
  two.refuses([](Schedule& s) { look_up(s, "W"); }, RefusalKind::Unsupported,
              "an index of 'W' is looked up by 2 iterators of block 'Y'; there may be one");
}

TEST(CacheLookup, RefusesNumbersThatAreComputed) {
  RewriteCase c(R"(
program p(A: f32[4] input, H: i32[4] input, W: f32[3] weight, Y: f32[4] output) {
  block root() {
    alloc G: i32[4] global
    for a in 0..4 { block G(va: spatial 4 = a) { G[va] = H[va] + 1i32 } }
    for b in 0..4 {
      block Y(vb: spatial 4 = b) { Y[vb] = A[vb] * W[max(min(cast<index>(G[vb]), 2), 0)] }
    }
  }
})");
  c.refuses([](Schedule& s) { look_up(s, "W"); }, RefusalKind::Dependence,
            "'G' is written; what is looked up must be there from the start");
}

}  // namespace
}  // namespace tilewright::test
