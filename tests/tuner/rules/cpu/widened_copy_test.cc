// Copies of operands in the type in which they are multiplied: where they are proposed, and that
// they are right.
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

std::string answer_widened_copy(const std::string& spec, const std::string& target,
                                const std::string& knob) {
  return choice_of(cpu_trial(make_workload(parse_spec(spec)), Target::parse(target)), knob);
}

TEST(WidenedCopy, IsProposedWhereElementsAreReadOften) {
  for (const char* type : {"bf16", "f16", "f8e4m3"}) {
    SCOPED_TRACE(type);
    std::string spec = std::string("matmul:m=32,n=48,k=40,out=f32,dtype=") + type;
    EXPECT_EQ(answer_widened_copy(spec, "avx2", "C.A"), "widened");
    EXPECT_EQ(answer_widened_copy(spec, "avx2", "C.B"), "widened");
  }
  EXPECT_EQ(
      answer_widened_copy("conv2d:n=1,h=9,w=9,ci=8,co=16,kernel=3,dtype=f16", "avx2", "Y_acc.W"),
      "widened");
}

// One row reads each element of the weight once, so fewer bytes count for more.
TEST(WidenedCopy, IsNotProposedOfAWeightThatIsReadOnce) {
  EXPECT_NE(answer_widened_copy("matmul:m=1,n=48,k=40,dtype=bf16", "avx2", "C.B"), "widened");
}

TEST(WidenedCopy, IsNotProposedOfWhatIsMultipliedAsItIs) {
  for (const char* spec : {"matmul:m=32,n=48,k=40", "matmul:m=32,n=48,k=40,dtype=i8",
                           "matmul:m=32,n=48,k=64,dtype=bf16,w.dtype=i4,w.group=32"}) {
    SCOPED_TRACE(spec);
    EXPECT_NE(answer_widened_copy(spec, "avx2", "C.B"), "widened");
  }
  // Dot products of bf16 take it as stored.
  const std::string dots = cpu_trial(make_workload(parse_spec("matmul:m=32,n=48,k=40,dtype=bf16")),
                                     Target::parse("avx512+avx512bf16"))
                               .config();
  EXPECT_NE(dots.find("vdpbf16ps"), std::string::npos) << dots;
  EXPECT_EQ(dots.find("widened"), std::string::npos) << dots;
}

class WidenedCopyKernel : public testing::TestWithParam<std::string> {};

TEST_P(WidenedCopyKernel, IsRight) {
  const Workload w = make_workload(parse_spec(GetParam()));
  const Target target = Target::parse("avx2");
  const Trial first = cpu_trial(w, target);
  int widened = 0;
  for (const Decision& d : first.decisions()) {
    if (d.options.at(d.chosen) != Answer("widened")) continue;
    SCOPED_TRACE(d.name);
    ++widened;
    expect_right(w, cpu_schedule(w, target, {{d.name, "none"}}), target);
  }
  EXPECT_GT(widened, 0) << first.config();
  const Schedule s = cpu_schedule(w, target);
  expect_right(w, s, target);
  EXPECT_NE(to_string(s.module()).find("_f32"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Specs, WidenedCopyKernel,
    testing::Values("matmul:m=33,n=50,k=41,dtype=bf16,out=f32", "matmul:m=33,n=50,k=41,dtype=f16",
                    "matmul:m=32,n=48,k=40,dtype=f8e4m3,out=f32",
                    "matmul:m=20,n=24,k=16,trans_a=true,trans_b=true,dtype=bf16",
                    "matmul:batch=3,m=20,n=24,k=16,dtype=bf16,epilogue=[bias,gelu]",
                    "matmul:m=32,n=48,k=64,dtype=bf16,w.dtype=nf4,w.group=32",
                    "conv2d:n=1,h=9,w=9,ci=8,co=16,kernel=3,pad=1,dtype=bf16",
                    "depthwise_conv2d:n=1,h=9,w=9,c=16,kernel=3,dtype=f16"));

}  // namespace
}  // namespace tilewright
