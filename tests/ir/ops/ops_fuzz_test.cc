// Damaged specs: whatever the text, it is either refused with SpecError or round-trips.
#include <gtest/gtest.h>

#include <random>

#include "ir/ops/operator.h"
#include "ir/ops/spec.h"

namespace tilewright {
namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const Operator& op : operators()) {
    Spec spec = parse_spec(op.example);
    texts.push_back(op.example);
    texts.push_back(canonical_text(spec));
    texts.push_back("[" + canonical_text(spec) + "]");
  }
  texts.push_back("matmul:m=1..8,n=8,k=64,w.dtype=u4,w.group=32,w.zero=u4,w.sparse=2:4,w.vector=4");
  texts.push_back(
      "expr:expr=\"P[h] = select(h >= 1 && !(h >= 9), X[h-1], -0.5e1); "
      "Y[o] max= P[o+r] * W[r//2, I[r]]\",dims.h=10,dims.o=8,dims.r=3,shapes.W=[4,4]");
  return texts;
}

std::string damaged(std::string text, std::mt19937& rng) {
  static const std::string kBytes = "0123456789-.,:;=[](){}\"\\+*/%<>!&|abijkmnwx_ \n\x7f\xc3";
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng); };
  for (size_t edits = 1 + pick(2); edits > 0 && !text.empty(); --edits) {
    size_t at = pick(text.size());
    switch (pick(5)) {
      case 0: text[at] = kBytes[pick(kBytes.size())]; break;
      case 1: text.insert(at, 1, kBytes[pick(kBytes.size())]); break;
      case 2: text.erase(at, 1 + pick(4)); break;
      case 3: text.insert(at, text.substr(pick(text.size()), pick(12))); break;
      case 4: text.insert(at, std::to_string(int64_t{1} << pick(63))); break;
    }
  }
  return text;
}

TEST(SpecFuzz, DamagedTextIsRefusedOrRoundTrips) {
  std::mt19937 rng(20240607);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    for (const std::string& seed : seeds()) {
      std::string text = damaged(seed, rng);
      SCOPED_TRACE(text);
      try {
        Spec spec = parse_spec(text);
        std::string canonical = canonical_text(spec);
        ASSERT_EQ(canonical_text(parse_spec(canonical)), canonical);
        ASSERT_EQ(canonical_text(parse_spec(spec_to_inline(spec))), canonical);
        ++accepted;
      } catch (const SpecError& e) {
        ASSERT_NE(std::string(e.what()).find('^'), std::string::npos) << e.what();
        ++refused;
      } catch (const std::exception& e) {
        FAIL() << "not a SpecError: " << e.what();
      }
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tilewright
