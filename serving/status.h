// Errors on their way to a caller in C: a status and a text that stays with the thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "tilewright/tilewright.h"

namespace tilewright::serving {

// An error that a caller of the library is told, with its status.
class ServingError : public Error {
 public:
  ServingError(tw_status status, const std::string& message) : Error(message), status_(status) {}
  tw_status status() const { return status_; }

 private:
  tw_status status_;
};

const char* status_name(tw_status status) noexcept;
const char* last_error() noexcept;

// Files the exception that is being handled: sets the thread's text and returns its status.
tw_status status_of_exception() noexcept;

// Runs the body of a function of the C interface: nothing leaves it but a status.
template <class Body>
tw_status guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return TW_OK;
  } catch (...) {
    return status_of_exception();
  }
}

// Throws ServingError (argument) that names what is null.
void require(const void* pointer, const char* name);
// Throws ServingError (argument): "index is 3; there are 2 operands".
void check_index(size_t index, size_t count, const char* what);
[[noreturn]] void bad_struct(const char* name, size_t given, size_t known);

// A caller's struct as this version knows it: fields that the caller's version lacks are 0. Throws
// ServingError (argument) for one whose size was not set, or that says more than is known here.
template <class Struct>
Struct read_struct(const Struct* given, const char* name) {
  require(given, name);
  const size_t size = given->struct_size;
  const char* bytes = reinterpret_cast<const char*>(given);
  if (size < sizeof(size_t) || size > sizeof(Struct) + 4096) bad_struct(name, size, sizeof(Struct));
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) bad_struct(name, size, sizeof(Struct));
  }
  Struct known{};
  std::memcpy(static_cast<void*>(&known), bytes, std::min(size, sizeof(Struct)));
  return known;
}

// Fills as much of the caller's struct as the caller's version knows.
template <class Struct>
void write_struct(Struct* out, Struct value, const char* name) {
  require(out, name);
  value.struct_size = out->struct_size;
  if (value.struct_size < sizeof(size_t)) bad_struct(name, value.struct_size, sizeof(Struct));
  std::memcpy(static_cast<void*>(out), &value, std::min(value.struct_size, sizeof(Struct)));
}

}  // namespace tilewright::serving
