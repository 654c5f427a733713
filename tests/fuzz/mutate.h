// Mutations of inputs, the same everywhere for the same seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::fuzz {

// One of the inputs with a few edits: bits and bytes changed, numbers replaced by those at the ends
// of their ranges, pieces cut out, repeated, moved, or taken from another input, digits changed.
// Requires an input; the same seed and index give the same text.
std::string mutated(const std::vector<std::string>& inputs, uint64_t seed, uint64_t index);

}  // namespace tilewright::fuzz
