// A program under rewriting in a test: what it was, what it became, and what must hold of both.
#pragma once

#include <functional>
#include <string>

#include "tests/schedule/support.h"

namespace tilewright::testing {

struct RewriteCase {
  // `text` is a program as the printer writes it.
  explicit RewriteCase(const std::string& text) : s(parse(text)), before(s.program()) {}

  Schedule s;
  const Program before;

  // Program, trace and rewritten module, for a golden file.
  std::string str() const { return before_and_after(before, s); }
  // The module is legal, means what the program means, and its trace replays.
  void check() const;
  // `rewrite` is refused with a message that holds `message`, and with a program with a place marked
  // when `marked`; the schedule does not change.
  void refuses(const std::function<void(Schedule&)>& rewrite, RefusalKind kind,
               const std::string& message, bool marked = true) const;
};

}  // namespace tilewright::testing
