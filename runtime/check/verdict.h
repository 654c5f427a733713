// The outcome of a candidate.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright {

enum class Verdict : uint8_t {
  Ok,           // right, and timed
  Wrong,        // an output element is wrong or was not written, or an input was changed
  OutOfBounds,  // it wrote outside its buffers
  Compile,      // the compiler refused it
  Runtime,      // it crashed, exited, ran out of memory, or could not be loaded
  Timeout,      // it did not end in time
};

std::string_view name_of(Verdict verdict);
std::optional<Verdict> parse_verdict(std::string_view name);

}  // namespace tilewright
