// A parser of untrusted input under fuzzing. tests/fuzz/NAME_fuzz.cc is one target and becomes the
// program NAME_fuzz (tests/fuzz/driver.cc). With clang and TILEWRIGHT_FUZZERS libFuzzer chooses the
// inputs; otherwise they are seeded mutations of the target's own inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Passes one input to the parser. A documented error is correct. Any other exception, a fault and a
// violated guarantee of the parser are failures.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tilewright::fuzz {

// Small valid inputs of the target, from which mutations start.
std::vector<std::string> seed_inputs();

// Prints the message and aborts unless the condition holds.
void require(bool condition, std::string_view message);

// The input as text, in memory that ends with the input, so that reads beyond it are detected.
inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace tilewright::fuzz
