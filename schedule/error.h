// Refusals of schedule primitives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/stmt.h"

namespace tilewright {

// The kind of precondition that failed. The tuner counts illegal candidates by it.
enum class RefusalKind : uint8_t {
  NotFound,      // no loop, block or buffer of that name
  BadArgument,   // an argument out of its range
  BadStructure,  // the loops or blocks do not have the structure that the primitive needs
  Dependence,    // the rewrite would change the order of dependent computations
  Unsupported,   // legal, but beyond what the primitive does
};

std::string_view name_of(RefusalKind kind);

// A primitive's refusal. The tuner uses it as a value, and a person reads its explanation. what()
// is one line. explain() prints the program with the offending places underlined, and does so only
// when called.
class ScheduleError : public Error {
 public:
  ScheduleError(RefusalKind kind, std::string primitive, std::string message, Program program = {},
                std::vector<Stmt> where = {});
  RefusalKind kind() const { return kind_; }
  const std::string& primitive() const { return primitive_; }
  std::string explain() const;

 private:
  RefusalKind kind_;
  std::string primitive_, message_;
  std::shared_ptr<const Program> program_;
  std::vector<Stmt> where_;
};

}  // namespace tilewright
