// Errors that a user can cause. TW_ASSERT reports faults of our own.
#pragma once

#include <stdexcept>
#include <string>

namespace tilewright {

// The base of every error whose message is for a user.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A request for an ill-typed or ill-formed node, or text of a program that does not parse.
class IrError : public Error {
 public:
  using Error::Error;
};

// An operator spec that describes no workload; the message shows the place.
class SpecError : public Error {
 public:
  using Error::Error;
};

// An option that the command line's grammar takes and its meaning does not, such as a size for a
// dimension that a model lacks (exit code 2).
class UsageError : public Error {
 public:
  using Error::Error;
};

// A mistake of our own (exit code 1): thrown so that a worker or the command line can report it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void internal_error(const char* file, int line, const char* condition,
                                 const std::string& message);

}  // namespace tilewright

// Checks an invariant of our own code in every build type.
#define TW_ASSERT(condition, message)                                                          \
  do {                                                                                         \
    if (!(condition)) ::tilewright::internal_error(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
