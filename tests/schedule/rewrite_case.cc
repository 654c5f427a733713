#include "tests/schedule/rewrite_case.h"

#include "ir/text/printer.h"

namespace tilewright::test {

void RewriteCase::check() const {
  EXPECT_TRUE(replays(before, s));
  EXPECT_TRUE(same_meaning(before, s.module()));
  for (const Program& pack : s.module().packs) EXPECT_TRUE(same_meaning(pack, Module{pack, {}}));
}

void RewriteCase::refuses(const std::function<void(Schedule&)>& rewrite, RefusalKind kind,
                          const std::string& message, bool marked) const {
  Schedule attempt = s;
  auto run = [&] {
    try {
      rewrite(attempt);
    } catch (const ScheduleError& e) {
      if (marked) {
        EXPECT_THAT(e.explain(), ::testing::HasSubstr("^^^"));
      }
      throw;
    }
  };
  EXPECT_TRUE(::tilewright::test::refuses(run, kind, message));
  EXPECT_EQ(to_string(attempt.module()), to_string(s.module()));
  EXPECT_EQ(attempt.trace().steps.size(), s.trace().steps.size());
}

}  // namespace tilewright::test
