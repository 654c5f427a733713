#include "base/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(Knobs, EachIsDescribedAndItsDefaultIsGood) {
  for (const KnobInfo& knob : knobs()) {
    EXPECT_EQ(&info(knob.knob), &knob);
    const bool is_shared = knob.knob == Knob::NoColor;  // with other programs: no-color.org
    EXPECT_NE(is_shared, knob.name.starts_with("TILEWRIGHT_")) << knob.name;
    EXPECT_FALSE(knob.description.empty());
    EXPECT_EQ(knob_problem(knob, knob.default_text), "") << knob.name;
  }
}

TEST(Knobs, ValuesComeFromTheEnvironment) {
  unsetenv("TILEWRIGHT_CC");
  EXPECT_EQ(knob_text(Knob::Cc), "cc");
  setenv("TILEWRIGHT_CC", "gcc-12", 1);
  EXPECT_EQ(knob_text(Knob::Cc), "gcc-12");
  unsetenv("TILEWRIGHT_CC");
  setenv("TILEWRIGHT_PIN", "off", 1);
  EXPECT_FALSE(knob_boolean(Knob::Pin));
  unsetenv("TILEWRIGHT_PIN");
  EXPECT_TRUE(knob_boolean(Knob::Pin));
  setenv("TILEWRIGHT_SPIN_US", "7", 1);
  EXPECT_EQ(knob_integer(Knob::SpinMicroseconds), 7);
  setenv("TILEWRIGHT_SPIN_US", "", 1);
  EXPECT_EQ(knob_integer(Knob::SpinMicroseconds), 40);
  unsetenv("TILEWRIGHT_SPIN_US");
}

TEST(Knobs, BadValueWarnsOnceWithTheSyntaxAndTheDefaultHolds) {
  setenv("TILEWRIGHT_COMPILE_TIMEOUT", "soon", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(knob_integer(Knob::CompileTimeout), 60);
  EXPECT_EQ(knob_integer(Knob::CompileTimeout), 60);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: TILEWRIGHT_COMPILE_TIMEOUT=soon: expected an integer from 1 to 3600; using "
            "60\n");
  unsetenv("TILEWRIGHT_COMPILE_TIMEOUT");
}

TEST(Knobs, AReaderReportsWhatItDoesNotAcceptOnce) {
  setenv("TILEWRIGHT_PEERS", "here", 1);
  testing::internal::CaptureStderr();
  warn_of_knob(Knob::Peers, "expected there");
  warn_of_knob(Knob::Peers, "expected there");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: TILEWRIGHT_PEERS=here: expected there\n");
  unsetenv("TILEWRIGHT_PEERS");
}

TEST(Knobs, ProblemsNameTheSyntax) {
  EXPECT_THAT(knob_problem(info(Knob::CompileTimeout), "0"), HasSubstr("from 1 to 3600"));
  EXPECT_THAT(knob_problem(info(Knob::CompileTimeout), "5x"), HasSubstr("from 1 to 3600"));
  EXPECT_THAT(knob_problem(info(Knob::Pin), "maybe"), HasSubstr("1, true, yes, on"));
  EXPECT_THAT(knob_problem(info(Knob::Log), "loud"), HasSubstr("one of trace|debug"));
  EXPECT_EQ(knob_problem(info(Knob::Log), "off"), "");
  EXPECT_NE(knob_problem(info(Knob::Log), "of"), "");
}

}  // namespace
}  // namespace tilewright
