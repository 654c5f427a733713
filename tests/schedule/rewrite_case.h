// A program that a test rewrites, its original, and the properties that must hold.
#pragma once

#include <functional>
#include <string>

#include "tests/schedule/support.h"

namespace tilewright::test {

struct RewriteCase {
  // `text` is a program in the printer's text form.
  explicit RewriteCase(const std::string& text) : s(parse(text)), before(s.program()) {}

  Schedule s;
  const Program before;

  // Program, trace and rewritten module, for a golden file.
  std::string str() const { return before_and_after(before, s); }
  // Checks that the module is legal and has the program's meaning, and that its trace replays.
  void check() const;
  // Checks that `rewrite` is refused with a message that contains `message`, and leaves the
  // schedule unchanged. With `marked`, the printed program must have a marked place.
  void refuses(const std::function<void(Schedule&)>& rewrite, RefusalKind kind,
               const std::string& message, bool marked = true) const;
};

}  // namespace tilewright::test
