// The check that every candidate must pass rejects kernels with errors in reading a stored weight.
#include <gtest/gtest.h>

#include <functional>

#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "tests/tuner/kernel_check.h"

namespace tilewright {
namespace {

using Indices = std::vector<Expr>;

// Rewrites the reads of one buffer in the dequantized value.
class LowBitMutantsReadMutator : public Mutator {
 public:
  LowBitMutantsReadMutator(std::string buffer,
                           std::function<Expr(const Buffer&, const Indices&)> read)
      : buffer_(std::move(buffer)), read_(std::move(read)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer->name == buffer_ ? read_(n.buffer, n.indices) : e;
  }

 private:
  std::string buffer_;
  std::function<Expr(const Buffer&, const Indices&)> read_;
};

struct LowBitMutantsMutant {
  const char* name;
  const char* buffer;
  std::function<Expr(const Buffer&, const Indices&)> read;
};

// The neighbour that shares a byte.
Expr neighbour(const Expr& i) { return i + Expr(1) - floormod(i, Expr(2)) * Expr(2); }

std::vector<LowBitMutantsMutant> mutants_low_bit_mutants() {
  return {
      {"swapped nibbles", "B",
       [](const Buffer& b, const Indices& at) {
         return load(b, {at[0], neighbour(at[1])});
       }},
      {"zero point off by one", "B.zero",
       [](const Buffer& b, const Indices& at) { return load(b, at) + make_const(b->elem, 1); }},
      {"no zero point", "B.zero",
       [](const Buffer& b, const Indices&) { return make_const(b->elem, 0); }},
      {"scale of the next group", "B.scale",
       [](const Buffer& b, const Indices& at) {
         return load(b, {floormod(at[0] + Expr(1), b->shape[0]), at[1]});
       }},
      {"zero point of the next column", "B.zero",
       [](const Buffer& b, const Indices& at) {
         return load(b, {at[0], neighbour(at[1])});
       }},
      {"no scale", "B.scale",
       [](const Buffer& b, const Indices&) { return make_const(b->elem, 1); }},
      {"dropped tail", "B",
       [](const Buffer& b, const Indices& at) {
         return select(at[0] < b->shape[0] - Expr(1), load(b, at), make_const(b->elem, 8));
       }},
  };
}

class LowBitMutants : public testing::TestWithParam<const char*> {};

TEST_P(LowBitMutants, AreRejected) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("native");
  EXPECT_EQ(check_schedule(w, Schedule(lower(w)), target).verdict, Verdict::Ok);
  for (const LowBitMutantsMutant& m : mutants_low_bit_mutants()) {
    Workload wrong = w;
    LowBitMutantsReadMutator mutate(m.buffer, m.read);
    wrong.stages[0].value = mutate(w.stages[0].value);
    ASSERT_FALSE(wrong.stages[0].value.same_as(w.stages[0].value)) << m.name;
    EXPECT_EQ(check_schedule(w, Schedule(lower(wrong)), target).verdict, Verdict::Wrong) << m.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LowBitMutants,
                         testing::Values("matmul:m=4,n=32,k=64,w.dtype=u4,w.group=16,w.zero=u4",
                                         "matmul:m=1,n=30,k=400,w.dtype=u4,w.group=32,w.zero=u4,"
                                         "w.scale=f16,dtype=bf16,out=f32",
                                         "matmul:m=3,n=32,k=70,w.dtype=u4,w.group=32,w.zero=u4,"
                                         "w.scale=bf16"));

}  // namespace
}  // namespace tilewright
