// Elements of every stored type, read and written by compiled code, compared bit for bit with the
// interpreter. They are read one by one, in vectors, unaligned, and one from each word.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/codegen.h"
#include "ir/bits.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "runtime/check/check.h"
#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/thread_pool.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

constexpr int64_t kCount = 512;

class StoredElements : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  ElemType elem() const { return *parse_elem_type(std::get<1>(GetParam())); }
  Target target() const { return Target::parse(std::get<0>(GetParam())); }
  void SetUp() override {
    if (!target().missing_features().empty()) GTEST_SKIP() << "this machine does not run it";
  }

  // Every code of narrow types, ordered so that neighbours differ; a few values of wide types.
  double value(ElemType e, int64_t i) const {
    if (bits_of(e) <= 8) {
      return from_bits(e, static_cast<uint64_t>(i * 37 + i / 16) & ((1 << bits_of(e)) - 1));
    }
    return round_to(e, is_float(e) ? (static_cast<double>(i) - 200.5) * 0.37 : i * 97 - 9000);
  }

  // Runs a program with an input X and an output Y, and compares. With `specials`, X holds
  // infinities and NaNs if the type has them.
  void expect_same(const std::string& text, const Target& target, bool specials = true) {
    SCOPED_TRACE(text);
    Program program = parse_program(text);
    KernelSource source = generate_c({program, {}}, target);
    SCOPED_TRACE(source.code);
    Kernel kernel(test_object(source), source.description);
    std::vector<OperandInfo> infos;
    for (const Param& p : program.params) {
      infos.push_back({p.buffer->name, p.buffer->elem, const_shape(p.buffer), p.role});
    }
    OperandSet operands(infos, 1);
    ThreadPool pool(1);
    HostArray &x = operands.at("X"), &y = operands.at("Y");
    NdArrays arrays;
    NdArray& in = arrays["X"] = NdArray::zeros(x.elem(), x.shape());
    for (int64_t i = 0; i < x.count(); ++i) {
      double wanted = value(x.elem(), i);
      x.set(i, wanted);
      if (specials && bits_of(x.elem()) == 8) {  // set() rounds them to finite values
        static_cast<uint8_t*>(x.data())[i] = static_cast<uint8_t>(to_bits(x.elem(), wanted));
      }
      in.data[static_cast<size_t>(i)] = x.get(i);
    }
    y.poison();
    BoundKernel bound(kernel, operands, {}, pool);
    bound.run();
    interpret(program, arrays);
    for (int64_t i = 0; i < y.count(); ++i) {
      double want = arrays["Y"].data[static_cast<size_t>(i)], got = y.get(i);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << "element " << i;
        continue;
      }
      ASSERT_EQ(to_bits(y.elem(), got), to_bits(y.elem(), want))
          << "element " << i << " is " << got << ", should be " << want;
    }
  }

  // for i { Y[i] = cast<out>(X[index of i]) }
  std::string copy(const std::string& in, const std::string& out, const std::string& index,
                   const std::string& kind, int64_t extent = 128) {
    std::string read = fmt::format("X[{}]", index);
    return fmt::format(
        "program copy(X: {0}[{1}] input, Y: {2}[{3}] output) {{ block root() {{ for i in 0..{3} "
        "{4} "
        "{{ block Y(v: spatial {3} = i) {{ Y[v] = {5} }} }} }} }}",
        in, kCount, out, extent, kind, in == out ? read : fmt::format("cast<{}>({})", out, read));
  }
};

TEST_P(StoredElements, AreReadOneByOne) {
  std::string type = to_string(elem());
  expect_same(copy(type, "f32", "(v * 3)", ""), target());
}

TEST_P(StoredElements, AreReadInVectors) {
  std::string type = to_string(elem());
  expect_same(copy(type, "f32", "v", "vectorized", kCount), target());
  expect_same(copy(type, "f32", "(v + 1)", "vectorized", 48), target());
  expect_same(copy(type, "f32", "(v + 16)", "vectorized", 27), target());
  expect_same(copy(type, is_float(elem()) ? "f64" : "i32", "v", "vectorized", 48), target());
}

class NarrowElements : public StoredElements {};    // more than two per word
class LookedUpElements : public StoredElements {};  // by permutations of words

TEST_P(NarrowElements, AreReadFromWords) {
  const int64_t in_word = 32 / bits_of(elem());
  for (int64_t place = 0; place < in_word; place += 3) {
    std::string index = fmt::format("((v * {}) + {})", in_word, place);
    expect_same(copy(to_string(elem()), "f32", index, "vectorized", 16), target());
  }
}

// Every code at every position in a word, as elements for dot products.
TEST_P(LookedUpElements, AreLookedUpAsBf16) {
  const int64_t in_word = 16 / bits_of(elem());
  for (int64_t place = 0; place < in_word; ++place) {
    std::string index = fmt::format("((v * {}) + {})", in_word, place);
    expect_same(copy(to_string(elem()), "bf16", index, "vectorized", 32), target());
  }
}

TEST_P(StoredElements, AreWritten) {
  std::string type = to_string(elem());
  expect_same(copy(type, type, "(v * 2)", ""), target(), false);
  expect_same(copy(type, type, "v", "vectorized", 64), target(), false);
  if (is_float(elem())) {
    expect_same(copy("f32", type, "v", ""), target(), false);
    expect_same(copy("f32", type, "v", "vectorized"), target(), false);
  } else {
    expect_same(copy("i32", type, "v", ""), target(), false);
  }
}

const std::string kStoredElementsTargets[] = {"avx512", "avx2", "generic"};
const std::string kNarrow[] = {"i8", "u8",  "i4",     "u4",     "i2",     "u2",  "i1",
                               "u1", "nf4", "f4e2m1", "f8e4m3", "f8e5m2", "e8m0"};
const std::string kWide[] = {"i16", "u16", "f16", "bf16"};

INSTANTIATE_TEST_SUITE_P(Narrow, StoredElements,
                         testing::Combine(testing::ValuesIn(kStoredElementsTargets),
                                          testing::ValuesIn(kNarrow)));
INSTANTIATE_TEST_SUITE_P(Wide, StoredElements,
                         testing::Combine(testing::ValuesIn(kStoredElementsTargets),
                                          testing::ValuesIn(kWide)));
INSTANTIATE_TEST_SUITE_P(Narrow, NarrowElements,
                         testing::Combine(testing::ValuesIn(kStoredElementsTargets),
                                          testing::ValuesIn(kNarrow)));
INSTANTIATE_TEST_SUITE_P(Narrow, LookedUpElements,
                         testing::Combine(testing::Values(std::string("avx512")),
                                          testing::ValuesIn(kNarrow)));

// Two threads would write one byte in turns, and might see it half written.
TEST(PackedElements, AreNotWrittenInParallel) {
  Program program = parse_program(
      "program copy(X: u4[64] input, Y: u4[64] output) { block root() { for i in 0..64 parallel { "
      "block Y(v: spatial 64 = i) { Y[v] = X[v] } } } }");
  try {
    generate_c({program, {}}, Target::parse("generic"));
    FAIL() << "no error";
  } catch (const LoweringError& e) {
    EXPECT_STREQ(e.what(),
                 "a parallel loop writes 'Y', whose elements of type u4 share bytes; make the loop "
                 "serial, or have each iteration write whole bytes");
  }
}

// Different threads may write rows of whole bytes, but not rows that end in the middle of a byte.
TEST(PackedElements, AreWrittenInParallelByTheByte) {
  auto rows_of = [](int columns) {
    return parse_program(fmt::format(
        "program copy(X: u4[8, {0}] input, Y: u4[8, {0}] output) {{ block root() {{ for i in 0..8 "
        "parallel {{ for j in 0..{0} {{ block Y(v: spatial 8 = i, w: spatial {0} = j) {{ "
        "Y[v, w] = X[v, w] }} }} }} }} }}",
        columns));
  };
  EXPECT_NO_THROW(generate_c({rows_of(6), {}}, Target::parse("generic")));
  EXPECT_THROW(generate_c({rows_of(5), {}}, Target::parse("generic")), LoweringError);
}

// The program that packs a weight runs on all threads if it is large and its loops write different
// elements. The bytes are the same.
TEST(PackedElements, ArePackedInParallel) {
  for (const char* spec : {"matmul:m=4,n=256,k=256,w.dtype=u4,w.group=32,w.zero=u4",
                           "matmul:m=4,n=256,k=256,w.sparse=2:4,w.vector=16"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    Target target = Target::parse("native");
    Trial first = Trial::first();
    Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
    ASSERT_FALSE(s.module().packs.empty());
    std::string code = generate_c(s.module(), target).code;
    EXPECT_NE(code.find("tw_pack_0_body_0"), std::string::npos) << code;
    expect_right(w, s, target);
  }
}

}  // namespace
}  // namespace tilewright
