// Activations that the kernel quantizes row by row, end to end: in integer dot products, on every
// target, and in kernels with a wrong row.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

struct QuantizedRowsCase {
  const char* spec;
  const char* intrinsic;  // on AVX-512
};

void PrintTo(const QuantizedRowsCase& c, std::ostream* out) { *out << c.spec; }

class QuantizedRows : public testing::TestWithParam<QuantizedRowsCase> {};

TEST_P(QuantizedRows, AreRightAsWrittenAndTuned) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (const char* name : {"native", "avx2", "generic"}) {
    Target target = Target::parse(name);
    if (!target.missing_features().empty()) continue;
    SCOPED_TRACE(name);
    expect_right(w, apply_sketch(default_sketch(), {w, target, 2}, Choices()), target);
    if (has_row(target, GetParam().intrinsic)) {
      EXPECT_EQ(choice_of(cpu_trial(w, target), ".intrinsic"), GetParam().intrinsic);
    }
    expect_right(w, cpu_schedule(w, target), target);
  }
}

TEST_P(QuantizedRows, AreRightInRandomSchedules) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse("native");
  SketchInput input{w, target, 2};
  int checked = 0;
  for (uint64_t seed = 1; seed < 40 && checked < 4; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], input, trial);
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
      ++checked;
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_EQ(checked, 4);
}

constexpr const char* kDot = "avx512.vpdpbusd_lanes";

INSTANTIATE_TEST_SUITE_P(
    All, QuantizedRows,
    testing::Values(
        QuantizedRowsCase{"matmul:m=1,n=48,k=64,a.dtype=i8,w.dtype=i4,w.group=32,w.scale=f16",
                          kDot},
        QuantizedRowsCase{"matmul:m=33,n=48,k=96,a.dtype=i8,w.dtype=u4,w.group=32,w.zero=u4", kDot},
        QuantizedRowsCase{"matmul:m=1,n=48,k=64,a.dtype=i8,w.dtype=u4,w.group=32,w.offset=f32",
                          kDot},
        QuantizedRowsCase{"matmul:m=9,n=48,k=96,dtype=bf16,a.dtype=i8,w.dtype=i4,w.group=32,"
                          "w.scale=f16,w.offset=f16",
                          kDot},
        QuantizedRowsCase{"matmul:m=33,n=64,k=200,a.dtype=i8,w.dtype=i8", kDot},
        QuantizedRowsCase{"matmul:m=1,n=64,k=200,a.dtype=i8,w.dtype=u8,w.zero=u8,w.group=40", kDot},
        QuantizedRowsCase{"matmul:m=5,n=48,k=64,dtype=bf16,a.dtype=i8,w.dtype=u2,w.group=16", kDot},
        QuantizedRowsCase{"matmul:m=5,n=48,k=64,dtype=bf16,a.dtype=i8,w.dtype=i2,w.group=32,"
                          "epilogue=[bias,relu]",
                          kDot},
        QuantizedRowsCase{"matmul:m=5,n=40,k=70,a.dtype=i8,w.dtype=i4,w.group=32", ""},
        QuantizedRowsCase{"matmul:m=4,n=32,k=64,batch=2,trans_a=true,trans_b=true,a.dtype=i8,"
                          "w.dtype=i4,w.group=16",
                          kDot}));

// Kernels that are wrong ------------------------------------------------------------------------

using Indices = std::vector<Expr>;

class QuantizedRowsReadMutator : public Mutator {
 public:
  QuantizedRowsReadMutator(std::string buffer, std::function<Expr(const Buffer&, Indices)> read)
      : buffer_(std::move(buffer)), read_(std::move(read)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer->name == buffer_ ? read_(n.buffer, n.indices) : Mutator::mutate_load(n, e);
  }

 private:
  std::string buffer_;
  std::function<Expr(const Buffer&, Indices)> read_;
};

TEST(QuantizedRowsMutants, AreRejected) {
  Workload w = make_workload(
      parse_spec("matmul:m=4,n=32,k=96,a.dtype=i8,w.dtype=i4,w.group=32,w.scale=f16"));
  Target target = Target::parse("native");
  auto stage_of = [](Workload& workload, const std::string& output) -> Stage& {
    return *std::find_if(workload.stages.begin(), workload.stages.end(),
                         [&](const Stage& s) { return s.output->name == output; });
  };
  auto expect_wrong = [&](const char* name, const char* output, Mutator& mutate) {
    Workload wrong = w;
    Stage& stage = stage_of(wrong, output);
    Expr value = mutate(stage.value);
    ASSERT_FALSE(value.same_as(stage.value)) << name;
    stage.value = value;
    EXPECT_EQ(check_schedule(w, Schedule(lower(wrong)), target).verdict, Verdict::Wrong) << name;
  };
  auto read = [&](const char* name, const char* output, const char* buffer, auto fn) {
    QuantizedRowsReadMutator mutate(buffer, fn);
    expect_wrong(name, output, mutate);
  };
  auto next = [](const Buffer& b, Indices at) {
    at[0] = floormod(at[0] + Expr(1), b->shape[0]);
    return load(b, at);
  };
  read("no row scale", "C", "A_scale",
       [](const Buffer& b, const Indices&) { return make_const(b->elem, 1); });
  read("scale of the next row", "C", "A_scale", next);
  read("quantized by the next row's scale", "A_q", "A_scale", next);
  read("codes of the next row", "C_acc", "A_q", next);
  class Truncate : public Mutator {
    Expr mutate_unary(const UnaryNode& n, const Expr& e) override {
      return n.op == UnaryOp::Round ? unary(UnaryOp::Floor, n.a) : Mutator::mutate_unary(n, e);
    }
  } truncate;
  expect_wrong("rounded down", "A_q", truncate);
}

}  // namespace
}  // namespace tilewright
