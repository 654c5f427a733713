// Seeded mutations of inputs: the same seed gives the same text on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::fuzz {

// One of the inputs with a few edits. Edits change bits, bytes and digits, and replace numbers by
// those at the ends of their ranges. They also cut, repeat or move pieces, or take them from
// another input. Requires at least one input; the same seed and index give the same text.
std::string mutated(const std::vector<std::string>& inputs, uint64_t seed, uint64_t index);

}  // namespace tilewright::fuzz
