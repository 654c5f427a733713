// Sums with as many bits as tensor cores keep, and what the oracle grants for them.
#include "emulator/instructions/tensor_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/ops/spec.h"
#include "kernel/instructions/wgmma_rows.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/seeded.h"

namespace tilewright::emulator {
namespace {

const Instruction& mma(const char* name) { return *find_instruction(name); }
const Instruction& small_floats() { return *find_instruction("m64n8k32_f32_e4m3"); }

// One element of the sums: what stands in the registers, and the products' first factors; the second ones
// are 1.
double summed(const Instruction& row, const TensorSums& how, double sum,
              const std::vector<double>& terms) {
  Matrix a(row.m, row.k), b(row.k, row.n);
  for (int k = 0; k < row.k; ++k) {
    a.at({0, k}) = k < static_cast<int>(terms.size()) ? terms[static_cast<size_t>(k)] : 0;
    b.at({k, 0}) = 1;
  }
  return SumsOfProducts(row, how, a, b).add_to(sum, 0, 0);
}

double summed(const char* name, int compute_capability, double sum,
              const std::vector<double>& terms) {
  return summed(mma(name), tensor_sums(mma(name), compute_capability), sum, terms);
}

TEST(TensorSums, TermsAreCutBehindTheLargest) {
  const std::vector<double> small(16, 0x1p-25);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 80, 1, small), 1);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 1, small), 1 + 0x1p-21);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 0, 1, small), 1 + 0x1p-21);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 1, std::vector<double>(16, 0x1p-26)), 1);
}

// Neither what is aligned nor what comes out is rounded.
TEST(TensorSums, BitsAreCutTowardZero) {
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 1, {0x1p-24}), 1);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 1, {0x1p-24, 0x1p-24}), 1 + 0x1p-23);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, -1, {-0x1p-24}), -1);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 1, {-0x1p-26}), 1);
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 0, {0x1p-70, 0x1p-130}), 0x1p-70);
}

TEST(TensorSums, AmpereAddsOneHalfOfTheTermsAfterTheOther) {
  std::vector<double> terms(16, 0x1p-25);
  terms[15] = 1;
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 80, 0, terms), 1 + 0x1p-22);
  terms[15] = 0x1p-25;
  terms[0] = 1;
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 80, 0, terms), 1);
  EXPECT_EQ(summed("m16n8k8_f32_f16", 80, 0, {0x1p-25, 0x1p-25, 1}), 1) << "eight terms have none";
}

TEST(TensorSums, SmallFloatsHave13BitsOnAdaAndByWgmma) {
  EXPECT_EQ(summed("m16n8k32_f32_e4m3", 89, 256, {0x1p-6, 0x1p-6}), 256);
  EXPECT_EQ(summed("m16n8k32_f32_e4m3", 89, 256, {0x1p-5}), 256 + 0x1p-5);
  EXPECT_EQ(summed("m16n8k32_f32_e4m3", 90, 256, {0x1p-6, 0x1p-6}), 256 + 0x1p-5);
  EXPECT_EQ(summed(small_floats(), wgmma_sums(small_floats()), 256, {0x1p-6, 0x1p-6}), 256);
  const Instruction& halves = *find_instruction("m64n8k16_f32_f16");
  EXPECT_EQ(summed(halves, wgmma_sums(halves), 256, {0x1p-6}), 256 + 0x1p-6);
}

TEST(TensorSums, IntegersAndSpecialValuesAreExact) {
  EXPECT_TRUE(tensor_sums(mma("m16n8k32_s32_s8"), 80).is_exact());
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(summed("m16n8k16_f32_bf16", 90, 1, {infinity}), infinity);
  EXPECT_TRUE(std::isnan(summed("m16n8k16_f32_bf16", 90, infinity, {-infinity})));
}

// Products of 8-bit floats, `promoted` terms at a time by wgmma and the rest in f32.
double dot(const std::vector<double>& a, const std::vector<double>& b, size_t promoted) {
  const Instruction& row = small_floats();
  const TensorSums how = wgmma_sums(row);
  const auto step = static_cast<size_t>(row.k);
  float total = 0;
  for (size_t begin = 0; begin < a.size(); begin += promoted) {
    double sum = 0;
    for (size_t k = begin; k < std::min(begin + promoted, a.size()); k += step) {
      std::vector<double> terms;
      for (size_t r = 0; r < step; ++r) terms.push_back(a[k + r] * b[k + r]);
      sum = summed(row, how, sum, terms);
    }
    total += static_cast<float>(sum);
  }
  return static_cast<double>(total);
}

struct Errors {
  int within = 0, within_f32 = 0, within_unpromoted = 0;
  double bound = 0, term = 0;  // the largest bound, the average magnitude of a term
};

constexpr int kDots = 100;

Errors errors_of(int64_t k) {
  const Workload w =
      make_workload(parse_spec("matmul:m=1,n=1,dtype=f8e4m3,out=f32,k=" + std::to_string(k)));
  Errors errors;
  for (uint64_t seed = 0; seed < kDots; ++seed) {
    const SeededValues x(seed, "A", ElemType::f8e4m3), y(seed, "B", ElemType::f8e4m3);
    std::vector<double> a, b;
    for (int64_t i = 0; i < k; ++i) {
      a.push_back(x.at(i));
      b.push_back(y.at(i));
      errors.term += std::abs(a.back() * b.back()) / static_cast<double>(k * kDots);
    }
    const std::map<std::string, ElementReader> readers = {
        {"A", [&](int64_t i) { return a[static_cast<size_t>(i)]; }},
        {"B", [&](int64_t i) { return b[static_cast<size_t>(i)]; }}};
    const Oracle::Value narrow = Oracle(w, readers, {}, narrow_sums(90)).at(0);
    const double bound = allowed_error(ElemType::f32, narrow);
    const double strict = allowed_error(ElemType::f32, Oracle(w, readers).at(0));
    const double lost = std::abs(dot(a, b, 128) - narrow.value);
    errors.within += lost <= bound ? 1 : 0;
    errors.within_f32 += lost <= strict ? 1 : 0;
    errors.within_unpromoted += std::abs(dot(a, b, a.size()) - narrow.value) <= bound ? 1 : 0;
    errors.bound = std::max(errors.bound, bound);
  }
  return errors;
}

// The result of sm_90 lies within the granted error, in which an omitted term would show. The
// result without f32 in between does not.
TEST(NarrowSums, GrantWhatPromotedSumsLose) {
  for (int64_t k : {128, 1024, 4096}) {
    const Errors errors = errors_of(k);
    EXPECT_EQ(errors.within, kDots) << k;
    EXPECT_LT(errors.bound, errors.term) << k;
  }
  EXPECT_LT(errors_of(128).within_f32, kDots * 3 / 4) << "what f32 would lose is less";
  EXPECT_LT(errors_of(8192).within_unpromoted, kDots);
}

TEST(NarrowSums, AreThoseOfProductsOfSmallFloats) {
  auto error = [](const std::string& spec, NarrowSums narrow) {
    const Workload w = make_workload(parse_spec(spec));
    std::map<std::string, ElementReader> readers;
    for (const Param& p : w.inputs) {
      readers[p.buffer->name] = [](int64_t i) { return i % 3 == 0 ? 1.0 : 0.125; };
    }
    return Oracle(w, readers, {}, narrow).at(0).error;
  };
  for (const char* spec : {"matmul:m=1,n=1,k=256,dtype=f8e5m2,out=f32",
                           "matmul:m=1,n=1,k=256,dtype=f8e4m3,out=f32,w.dtype=i4",
                           "conv2d:n=1,h=6,w=6,ci=32,co=1,kernel=3,dtype=f8e4m3,out=f32"}) {
    EXPECT_GT(error(spec, narrow_sums(90)), 8 * error(spec, {})) << spec;
  }
  for (const char* spec :
       {"matmul:m=1,n=1,k=256,dtype=f16", "matmul:m=1,n=1,k=256,dtype=f16,w.dtype=f8e4m3"}) {
    EXPECT_EQ(error(spec, narrow_sums(90)), error(spec, {})) << spec;
  }
  EXPECT_EQ(narrow_sums(80).fraction_bits, 0);
  EXPECT_EQ(narrow_sums(100).fraction_bits, 0);
}

}  // namespace
}  // namespace tilewright::emulator
