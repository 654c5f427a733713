// Weights whose scales apply to group sums, end to end. Every weight type beside every activation
// type, at the places where codes are unpacked, compared with the oracle.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using ::testing::Contains;
using ::testing::Not;

struct GroupScaleCase {
  const char* spec;
  const char* intrinsic;  // on AVX-512
};

void PrintTo(const GroupScaleCase& c, std::ostream* out) { *out << c.spec; }

class GroupScale : public testing::TestWithParam<GroupScaleCase> {};

TEST_P(GroupScale, IsRightOnEveryTarget) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (const char* name : {"native", "avx2", "generic"}) {
    Target target = Target::parse(name);
    if (!target.missing_features().empty()) continue;
    SCOPED_TRACE(name);
    const Trial first = cpu_trial(w, target);
    EXPECT_EQ(choice_of(first, ".scales"), "sums");
    if (!find_intrinsic(GetParam().intrinsic)) {
      EXPECT_EQ(choice_of(first, ".intrinsic"), "not asked");
    } else if (has_row(target, GetParam().intrinsic)) {
      EXPECT_EQ(choice_of(first, ".intrinsic"), GetParam().intrinsic);
    }
    expect_right(w, cpu_schedule(w, target), target);
  }
}

TEST_P(GroupScale, IsRightWhereverCodesAreUnpacked) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse("native");
  SketchInput input{w, target, 2};
  std::set<std::string> places;
  for (uint64_t seed = 1; seed < 40 && places.size() < 3; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], input, trial);
      if (choice_of(trial, ".scales") != "sums") continue;
      std::string place = "dequantized";
      for (const Decision& d : trial.decisions()) {
        const std::string choice = text_of_answer(d.options.at(d.chosen));
        if (choice == "registers" || choice == "tile") place = choice;
      }
      if (!places.insert(place).second) continue;
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_GE(places.size(), has_row(target, GetParam().intrinsic) ? 3u : 1u);
}

INSTANTIATE_TEST_SUITE_P(
    EveryType, GroupScale,
    testing::Values(
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=u4,w.group=16,w.zero=u4", ""},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=nf4,w.group=64", ""},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i8,w.group=32", ""},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32,dtype=bf16,out=f32,w.scale=f16",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=u4,w.group=32,dtype=bf16,out=f32,w.zero=u4",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=32,dtype=bf16,w.zero=f16,w.scale=bf16",
            "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i2,w.group=32,dtype=bf16,out=f32",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i1,w.group=64,dtype=bf16,out=f32",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=nf4,w.values=bf16,w.group=64,dtype=bf16,out=f32",
            "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=32,dtype=bf16,out=f32,w.scale=e8m0",
            "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=u4,w.group=32,w.offset=f32", ""},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=u2,w.group=16,w.offset=bf16,dtype=bf16",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32,w.offset=f16,dtype=bf16,w.scale=f16",
            "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=32,dtype=i8,out=f32,w.scale=f32,w.offset=f32",
            "avx512.vpdpbusd_lanes"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32,dtype=i8,out=f32,w.scale=f16,w.offset=f16",
            "avx512.vpdpbusd_lanes"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=nf4,w.group=32,dtype=bf16,out=f32", ""},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32,dtype=i8,out=f32,w.scale=f16",
                       "avx512.vpdpbusd_lanes"},
        GroupScaleCase{
            "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=32,dtype=i8,out=f32,w.scale=f32,w.zero=u4",
            "avx512.vpdpbusd_lanes"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32,dtype=u8,out=f32,w.scale=f32",
                       "avx512.vpdpbusd"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i2,w.group=32,dtype=i8,out=f32,w.scale=f32",
                       "avx512.vpdpbusd_lanes"},
        GroupScaleCase{"matmul:m=5,n=48,k=64,w.dtype=i1,w.group=32,dtype=i8,out=f32,w.scale=f32",
                       "avx512.vpdpbusd_lanes"}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, GroupScale,
    testing::Values(
        GroupScaleCase{"matmul:m=1,n=208,k=256,w.dtype=u4,dtype=bf16,out=f32,w.zero=u4",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=1,n=208,k=256,w.dtype=u4,w.group=32,dtype=bf16,w.offset=f32",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=1,n=208,k=256,w.dtype=u4,w.group=32,w.offset=f16,w.scale=f16", ""},
        GroupScaleCase{"matmul:m=33,n=80,k=96,w.dtype=i4,w.group=32,dtype=i8,out=f32,w.scale=f16",
                       "avx512.vpdpbusd_lanes"},
        GroupScaleCase{"matmul:m=4,n=32,k=64,batch=3,trans_b=true,w.dtype=u4,w.group=16,"
                       "w.offset=f32,dtype=bf16,out=f32",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=4,n=32,k=64,batch=3,w.dtype=u4,w.group=16,w.zero=u4,dtype=bf16,out=f32",
            "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=4,n=32,k=64,trans_b=true,w.dtype=i4,w.group=16,dtype=bf16,out=f32",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=7,n=48,k=64,w.dtype=u4,w.group=32,w.zero=u4,dtype=i8,out=f32,w.scale=f16,"
            "epilogue=[bias,relu]",
            "avx512.vpdpbusd_lanes"},
        GroupScaleCase{"matmul:m=3,n=40,k=60,w.dtype=i4,w.group=20,dtype=bf16,out=f32",
                       "avx512.vdpbf16ps"}));

// Columns that do not fill whole vectors are zero-padded at load.
INSTANTIATE_TEST_SUITE_P(
    Columns, GroupScale,
    testing::Values(
        GroupScaleCase{
            "matmul:m=5,n=45,k=64,w.dtype=u4,w.group=32,w.zero=u4,dtype=bf16,out=f32,w.scale=bf16",
            "avx512.vdpbf16ps"},
        GroupScaleCase{
            "matmul:m=5,n=45,k=64,w.dtype=u4,w.group=32,w.offset=f16,dtype=bf16,w.scale=f16",
            "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=1,n=100,k=128,w.dtype=i4,w.group=32,dtype=i8,out=f32,w.scale=f16,"
                       "epilogue=[bias,relu]",
                       "avx512.vpdpbusd_lanes"},
        GroupScaleCase{
            "matmul:m=5,n=27,k=64,batch=2,trans_b=true,w.dtype=f4e2m1,w.group=32,w.scale=e8m0,"
            "dtype=bf16,out=f32",
            "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=41,k=64,w.dtype=u4,w.group=32,w.zero=f16,dtype=bf16,out=bf16",
                       "avx512.vdpbf16ps"}));

// With few columns most of a vector would be zeros.
TEST(GroupScaleColumns, OfLessThanTwoThirdsOfAVectorAreNotPadded) {
  Workload w = make_workload(parse_spec("matmul:m=5,n=10,k=64,w.dtype=i4,dtype=bf16,out=f32"));
  Target target = Target::parse("native");
  EXPECT_EQ(choice_of(cpu_trial(w, target), ".intrinsic"), "not asked");
  expect_right(w, cpu_schedule(w, target), target);
}

INSTANTIATE_TEST_SUITE_P(
    Compressed, GroupScale,
    testing::Values(
        GroupScaleCase{"matmul:m=1,n=96,k=256,dtype=bf16,out=f32,w.dtype=u4,w.group=128,"
                       "w.scale=f16,w.sparse=2:4,w.vector=16",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=48,k=256,dtype=bf16,out=f32,w.dtype=i4,w.group=128,"
                       "w.sparse=1:4,w.vector=16",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=5,n=64,k=192,dtype=bf16,out=f32,w.dtype=u4,w.group=64,w.zero=u4,"
                       "w.sparse=4:8,w.vector=32,epilogue=[bias,relu]",
                       "avx512.vdpbf16ps"},
        GroupScaleCase{"matmul:m=3,n=32,k=128,w.dtype=u4,w.group=32,w.sparse=2:4,w.vector=16", ""},
        GroupScaleCase{"matmul:m=3,n=32,k=120,dtype=bf16,out=f32,w.dtype=i4,w.group=24,"
                       "w.sparse=2:6,w.vector=16",
                       ""}));

// A panel of a tile's columns is unpacked once and used for all rows. Its loops stand under the
// column tiles and under no loop of rows.
TEST(GroupScalePanel, IsUnpackedOnceForAllRows) {
  Target target = Target::parse("native");
  for (const char* form :
       {"m=40,n=96,k=128,dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f16",
        "m=33,n=80,k=64,batch=3,dtype=bf16,out=f32,w.dtype=u4,w.zero=u4,w.group=16",
        "m=50,n=64,k=128,dtype=bf16,out=f32,w.dtype=i2,w.group=64,epilogue=[bias,relu]"}) {
    SCOPED_TRACE(form);
    Workload w = make_workload(parse_spec(std::string("matmul:") + form));
    const Trial first = cpu_trial(w, target);
    if (!decision_on(first, ".intrinsic")) GTEST_SKIP() << "no dot products";
    const char* unpacked = decision_on(first, ".B_u8") ? ".B_u8" : ".B_bf16";
    const Choices choices = {{unpacked, "panel"}};
    const Trial trial = cpu_trial(w, target, choices);
    EXPECT_EQ(choice_of(trial, unpacked), "panel") << trial.config();
    EXPECT_EQ(decision_on(trial, ".v0.s2"), nullptr) << trial.config();
    expect_right(w, cpu_schedule(w, target, choices), target);
  }
}

// It is no option if it does not stay in the cache, or if its number of uses is unknown.
TEST(GroupScalePanel, IsNotOfferedWhereItWouldNotPay) {
  Target target = Target::parse("native");
  target.l2_bytes = 1 << 20;
  for (const char* form : {"m=32,n=64,k=65536", "m=1..40,n=64,k=64", "m=8,n=64,k=64"}) {
    SCOPED_TRACE(form);
    Workload w = make_workload(parse_spec(
        std::string("matmul:dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f16,") + form));
    EXPECT_THAT(options_of(cpu_trial(w, target), ".B_u8"), Not(Contains("panel")));
  }
}

// The other operand's elements are gathered by permutations of its vectors.
TEST(CompressedGroups, AreGatheredByPermutations) {
  Target target = Target::parse("native");
  if (!has_row(target, "avx512.vdpbf16ps")) GTEST_SKIP() << "no vdpbf16ps";
  for (const char* sparse : {"2:4", "1:4", "4:8"}) {
    Workload w = make_workload(parse_spec(fmt::format(
        "matmul:m=1,n=96,k=512,dtype=bf16,out=f32,w.dtype=u4,w.group=128,w.scale=f16,w.vector=16,"
        "w.sparse={}",
        sparse)));
    std::string text = generate_c(cpu_schedule(w, target).module(), target).code;
    EXPECT_NE(text.find("tw_pick64_bf16x"), std::string::npos) << sparse;
  }
}

// Beside bytes the weight is read with its zeros.
TEST(CompressedGroups, AreNotMadeForBytes) {
  Workload w =
      make_workload(parse_spec("matmul:m=3,n=32,k=128,dtype=i8,out=f32,w.dtype=i4,"
                               "w.scale=f32,w.group=32,w.sparse=2:4,w.vector=16"));
  Target target = Target::parse("native");
  EXPECT_EQ(choice_of(cpu_trial(w, target), ".sparse"), "zeros");
  expect_right(w, cpu_schedule(w, target), target);
}

// Kernels of the new form that are wrong -------------------------------------------------------

using Indices = std::vector<Expr>;

class GroupScaleReadMutator : public Mutator {
 public:
  GroupScaleReadMutator(std::string buffer, std::function<Expr(const Buffer&, Indices)> read)
      : buffer_(std::move(buffer)), read_(std::move(read)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer->name == buffer_ ? read_(n.buffer, n.indices) : Mutator::mutate_load(n, e);
  }

 private:
  std::string buffer_;
  std::function<Expr(const Buffer&, Indices)> read_;
};

// The neighbour along a dimension, counted from the end if negative.
std::function<Expr(const Buffer&, Indices)> next_along(int dim) {
  return [dim](const Buffer& b, Indices at) {
    size_t d = dim < 0 ? at.size() + static_cast<size_t>(dim) : static_cast<size_t>(dim);
    at[d] = floormod(at[d] + Expr(1), b->shape[d]);
    return load(b, at);
  };
}

// Leaves out the last iteration of the loop over partial sums.
class GroupScaleTailDropper : public Mutator {
 public:
  bool dropped = false;

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    bool sums = false;
    for_each_stmt(n.body, [&](const Stmt& inner) {
      auto* block = inner.as<BlockNode>();
      if (!block || block->name != "C_partial") return;
      for (const IterVar& iter : block->iters) {
        sums |= iter.kind == IterKind::Reduce && uses_var(iter.binding, n.var);
      }
    });
    int64_t extent = *as_int(n.extent);
    if (!sums || extent < 2 || dropped) return Mutator::mutate_for(n, s);
    dropped = true;
    return make_for(n.var, n.min, extent - 1, n.for_kind, n.body, n.annotations);
  }
};

// The parameter with the scales. Beside an intrinsic's columns they stay in their own order.
const char* scale_of(const Schedule& s) {
  const bool packed = std::ranges::any_of(
      s.program().params, [](const Param& p) { return p.buffer->name == "B.scale_packed"; });
  return packed ? "B.scale_packed" : "B.scale";
}

class GroupScaleMutants : public testing::TestWithParam<const char*> {};

TEST_P(GroupScaleMutants, AreRejected) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("native");
  Schedule right = cpu_schedule(w, target);
  ASSERT_EQ(check_schedule(w, right, target).verdict, Verdict::Ok);
  auto expect_wrong = [&](const char* name, Mutator& mutate) {
    Module module = right.module();
    Stmt body = mutate(module.main.body);
    ASSERT_FALSE(body.same_as(module.main.body)) << name;
    module.main.body = body;
    EXPECT_EQ(check_schedule(w, Schedule(module), target).verdict, Verdict::Wrong) << name;
  };
  auto read = [&](const char* name, const char* buffer, auto fn) {
    GroupScaleReadMutator mutate(buffer, fn);
    expect_wrong(name, mutate);
  };
  const char* scale = scale_of(right);
  read("scale of the next group", scale, next_along(0));
  read("scale of the next column", scale, next_along(1));
  read("codes of another place in the word", "B_packed", next_along(-1));
  read("sum of the next group", "C_sum", next_along(-1));
  read("no zero term", "C_sum",
       [](const Buffer& b, const Indices&) { return make_const(b->elem, 0); });
  if (!w.weight->zero.empty()) {
    read("zero point of the next group", "B.zero", next_along(0));
    read("zero point off by one", "B.zero",
         [](const Buffer& b, const Indices& at) { return load(b, at) + make_const(b->elem, 1); });
  }
  GroupScaleTailDropper drop;
  expect_wrong("dropped tail", drop);
  EXPECT_TRUE(drop.dropped);
}

INSTANTIATE_TEST_SUITE_P(
    All, GroupScaleMutants,
    testing::Values("matmul:m=4,n=32,k=64,w.dtype=u4,w.group=16,w.zero=u4",
                    "matmul:m=1,n=32,k=384,w.dtype=u4,w.group=32,w.zero=u4,w.scale=f16,dtype=bf16,"
                    "out=f32",
                    "matmul:m=3,n=32,k=96,w.dtype=i4,w.group=32,w.scale=f16,dtype=i8,out=f32"));

TEST(CompressedGroups, WrongOnesAreRejected) {
  Workload w = make_workload(
      parse_spec("matmul:m=4,n=64,k=256,w.dtype=u4,w.group=64,w.scale=f16,dtype=bf16,out=f32,"
                 "w.sparse=2:4,w.vector=16"));
  Target target = Target::parse("native");
  Schedule right = cpu_schedule(w, target);
  ASSERT_EQ(check_schedule(w, right, target).verdict, Verdict::Ok);
  if (right.trace().str().find("reindex") == std::string::npos) GTEST_SKIP() << "no vdpbf16ps";
  auto expect_wrong = [&](const char* name, const char* buffer, auto fn) {
    Module module = right.module();
    GroupScaleReadMutator mutate(buffer, fn);
    Stmt body = mutate(module.main.body);
    ASSERT_FALSE(body.same_as(module.main.body)) << name;
    module.main.body = body;
    EXPECT_EQ(check_schedule(w, Schedule(module), target).verdict, Verdict::Wrong) << name;
  };
  expect_wrong("scale of the next group", scale_of(right), next_along(0));
  expect_wrong("rows of the next columns", "B_rows", next_along(0));
  expect_wrong("the row of the next element", "B_rows", next_along(-1));
}

}  // namespace
}  // namespace tilewright
