#include "schedule/error.h"

#include <fmt/core.h>

#include "ir/text/printer.h"

namespace tilewright {

std::string_view name_of(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::NotFound: return "not_found";
    case RefusalKind::BadArgument: return "bad_argument";
    case RefusalKind::BadStructure: return "bad_structure";
    case RefusalKind::Dependence: return "dependence";
    case RefusalKind::Unsupported: return "unsupported";
  }
  return "";
}

ScheduleError::ScheduleError(RefusalKind kind, std::string primitive, std::string message,
                             Program program, std::vector<Stmt> where)
    : Error(fmt::format("{}: {}", primitive, message)), kind_(kind),
      primitive_(std::move(primitive)), message_(std::move(message)),
      program_(program.body.defined() ? std::make_shared<const Program>(std::move(program))
                                      : nullptr),
      where_(std::move(where)) {}

std::string ScheduleError::explain() const {
  if (!program_) return what();
  PrintOptions options;
  for (const Stmt& s : where_) options.mark.push_back(s.get());
  options.note = message_;
  return fmt::format("{}\n{}", what(), to_string(*program_, options));
}

}  // namespace tilewright
