// Serving files: what a serving process needs of a database, in a file that nobody changes.
#pragma once

#include <filesystem>

#include "database/record.h"

namespace tilewright::database {

// Written into the header of a serving file ("TWsv") in the place of kApplicationId.
inline constexpr int kServingApplicationId = 0x54577376;

// Whether the file says that it is one; false for what cannot be read.
bool is_serving_file(const std::filesystem::path& path);
// The same of a file's bytes.
bool is_serving_file(const Blob& bytes);

}  // namespace tilewright::database
