// Golden text: what a test prints is held to tests/golden/<file>/<test>.txt.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tilewright::test {

// The root of the tree.
std::filesystem::path source_dir();

// Compares `text` with the golden file of the running test. `source_file` is the test's __FILE__;
// `part` tells several texts of one test apart. A missing file fails. With the environment variable
// TILEWRIGHT_UPDATE_GOLDEN=1 the file is written instead.
::testing::AssertionResult matches_golden(const std::string& text, const std::string& source_file,
                                          const std::string& part = "");
// The same with a file of this path under tests/golden, whatever test runs.
::testing::AssertionResult matches_golden_file(const std::string& text,
                                               const std::filesystem::path& file);

// The words of each line of a file under tests/golden that has any. A comment, from '#' on, is none.
std::vector<std::vector<std::string>> golden_words(const std::filesystem::path& file);

}  // namespace tilewright::test

#define EXPECT_GOLDEN(text) EXPECT_TRUE(::tilewright::test::matches_golden((text), __FILE__))
#define EXPECT_GOLDEN_PART(text, part) \
  EXPECT_TRUE(::tilewright::test::matches_golden((text), __FILE__, (part)))
