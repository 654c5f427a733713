// deduplicate: intermediates that hold the same values become one.
#include <fmt/format.h>

#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// Two products of A, each with its own copy of A; the second copy holds `value`.
std::string program_deduplicate(const std::string& value, const std::string& between = "") {
  return fmt::format(R"(
program p(A: f32[6, 8] input, G: f32[8, 4] input, U: f32[8, 4] input, C: f32[6, 4] output) {{
  block root() {{
    alloc T: f32[6, 8] shared
    alloc T_1: f32[6, 8] shared
    alloc P: f32[6, 4] global
    for a in 0..6 {{ for b in 0..8 {{
      block T(va: spatial 6 = a, vb: spatial 8 = b) {{
        T[va, vb] = A[va, vb] * 2f32
      }}
    }}}}
    for i in 0..6 {{ for j in 0..4 {{ for k in 0..8 {{
      block P(vi: spatial 6 = i, vj: spatial 4 = j, vk: reduce 8 = k) {{
        init {{ P[vi, vj] = 0f32 }}
        P[vi, vj] = P[vi, vj] + T[vi, vk] * G[vk, vj]
      }}
    }}}}}}
    {1}
    for c in 0..6 {{ for d in 0..8 {{
      block T_1(vc: spatial 6 = c, vd: spatial 8 = d) {{
        T_1[vc, vd] = {0}
      }}
    }}}}
    for i_1 in 0..6 {{ for j_1 in 0..4 {{ for k_1 in 0..8 {{
      block C(vi: spatial 6 = i_1, vj: spatial 4 = j_1, vk: reduce 8 = k_1) {{
        init {{ C[vi, vj] = P[vi, vj] }}
        C[vi, vj] = C[vi, vj] + T_1[vi, vk] * U[vk, vj]
      }}
    }}}}}}
  }}
}})",
                     value, between);
}

TEST(Deduplicate, ReadersOfTheSecondReadTheFirst) {
  RewriteCase c(program_deduplicate("A[vc, vd] * 2f32"));
  c.s.deduplicate({"T_1"}, {"T"});
  EXPECT_GOLDEN(c.str());
  EXPECT_EQ(c.s.program().body.as<BlockNode>()->allocs.size(), 2u) << "its buffer goes, too";
  c.check();
}

TEST(Deduplicate, Refuses) {
  auto dedup = [](Schedule& s) { s.deduplicate({"T_1"}, {"T"}); };
  const char* other = "do not store the same values in buffers of the same type, shape and scope";
  RewriteCase(program_deduplicate("A[vc, vd] * 3f32"))
      .refuses(dedup, RefusalKind::Unsupported, other);
  RewriteCase(program_deduplicate("A[vc, floormod(vd + 1, 8)] * 2f32"))
      .refuses(dedup, RefusalKind::Unsupported, other);
  RewriteCase same(program_deduplicate("A[vc, vd] * 2f32"));
  same.refuses([](Schedule& s) { s.deduplicate({"T"}, {"T_1"}); }, RefusalKind::Dependence,
               "block 'T_1' does not stand before block 'T'");
  same.refuses([](Schedule& s) { s.deduplicate({"T_1"}, {"P"}); }, RefusalKind::BadStructure,
               "block 'P' is a reduction");
  // Both read X, which has changed when the second one runs.
  const std::string x = R"(for e{0} in 0..6 {{ for f{0} in 0..8 {{
      block X{0}(ve: spatial 6 = e{0}, vf: spatial 8 = f{0}) {{
        X[ve, vf] = A[ve, vf] + {0}f32
      }}
    }}}})";
  std::string text = program_deduplicate("X[vc, vd] * 2f32", fmt::format(fmt::runtime(x), 2));
  auto put = [&](const std::string& before, const std::string& what) {
    text.insert(text.find(before), what);
  };
  put("for a in", fmt::format(fmt::runtime(x), 1) + "\n    ");
  put("alloc P", "alloc X: f32[6, 8] global\n    ");
  text.replace(text.find("A[va, vb]"), 1, "X");
  RewriteCase(text).refuses(dedup, RefusalKind::Dependence,
                            "block 'X2' writes 'X', which block 'T' has read before");
  Schedule moved = same.s;
  moved.compute_at({"T_1"}, {"i_1"});
  EXPECT_TRUE(refuses([&] { dedup(moved); }, RefusalKind::BadStructure,
                      "block 'T_1' shares its loops with other blocks"));
}

}  // namespace
}  // namespace tilewright::test
