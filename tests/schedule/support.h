// Shared by the tests of schedules: programs, refusals, and the checks that every primitive's
// result must pass.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ir/stmt.h"
#include "schedule/schedule.h"

namespace tilewright::test {

// C[m, n] = sum over k of A[m, k] * B[k, n], in lowered form.
Program matmul(int64_t m = 30, int64_t n = 16, int64_t k = 8);
// T = A * 2, then C = T + 1, elementwise over [m, n].
Program chain(int64_t m = 20, int64_t n = 16);
// S[m] = the reduction of A[m, k] over k.
Program row_reduce(const std::string& reducer = "sum", int64_t m = 6, int64_t k = 20);
// A program in the text form. It may omit "program p(…)"; then A and C are f32[64].
Program parse(const std::string& text);

// The text of the original program, the trace, and the rewritten program (with its packs).
std::string before_and_after(const Program& before, const Schedule& after);

// replays(): replaying the trace through its JSON gives the same program. same_meaning(): the
// scheduled module computes the same results as the program. The inputs are small integers in f32,
// so the comparison is exact. `dims` gives the dynamic dimensions.
::testing::AssertionResult replays(const Program& before, const Schedule& after);
::testing::AssertionResult same_meaning(const Program& before, const Module& after,
                                        const std::map<std::string, int64_t>& dims = {});

// True when `fn` is refused as `kind` with a message that contains `message`, which explain() also
// prints.
template <class Fn>
::testing::AssertionResult refuses(Fn&& fn, RefusalKind kind, const std::string& message) {
  try {
    fn();
  } catch (const ScheduleError& e) {
    if (e.kind() != kind) {
      return ::testing::AssertionFailure()
             << "refused as " << name_of(e.kind()) << ": " << e.what();
    }
    if (std::string(e.what()).find(message) == std::string::npos) {
      return ::testing::AssertionFailure() << "refused with: " << e.what();
    }
    if (e.explain().find(message) == std::string::npos) {
      return ::testing::AssertionFailure() << "explained without the message: " << e.explain();
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "was not refused";
}

}  // namespace tilewright::test

#define EXPECT_REFUSED(expression, kind, message) \
  EXPECT_TRUE(::tilewright::test::refuses([&] { expression; }, RefusalKind::kind, message))

// Checks the golden text, the replay and the meaning.
#define EXPECT_REWRITE(before, schedule)                                          \
  do {                                                                            \
    EXPECT_GOLDEN(::tilewright::test::before_and_after((before), (schedule)));    \
    EXPECT_TRUE(::tilewright::test::replays((before), (schedule)));               \
    EXPECT_TRUE(::tilewright::test::same_meaning((before), (schedule).module())); \
  } while (false)
