// Serving files: the part of a database that a serving process needs, in a file that never changes.
#pragma once

#include <filesystem>

#include "database/record.h"

namespace tilewright::database {

// Written into the header of a serving file ("TWsv") instead of kApplicationId.
inline constexpr int kServingApplicationId = 0x54577376;

// True when the file's header marks it as a serving file; false when it cannot be read.
bool is_serving_file(const std::filesystem::path& path);
// The same for a file's bytes.
bool is_serving_file(const Blob& bytes);

}  // namespace tilewright::database
