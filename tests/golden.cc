#include "tests/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tilewright::test {
namespace {

namespace fs = std::filesystem;

// The running test's file under tests/golden.
fs::path golden_path(const std::string& source_file, const std::string& part) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = test->name();
  if (!part.empty()) name += "." + part;
  std::replace(name.begin(), name.end(), '/', '_');  // parameterized tests
  return fs::path(source_file).stem() / (name + ".txt");
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string first_difference(const std::string& golden, const std::string& text) {
  std::istringstream a(golden), b(text);
  std::string x, y;
  for (int line = 1;; ++line) {
    bool more_a = static_cast<bool>(std::getline(a, x));
    bool more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a) x = "(the end)";
    if (!more_b) y = "(the end)";
    if (x != y || (!more_a && !more_b)) {
      return "line " + std::to_string(line) + "\n  golden: " + x + "\n  got:    " + y;
    }
  }
}

}  // namespace

fs::path source_dir() { return TILEWRIGHT_SOURCE_DIR; }

::testing::AssertionResult matches_golden(const std::string& text, const std::string& source_file,
                                          const std::string& part) {
  return matches_golden_file(text, golden_path(source_file, part));
}

::testing::AssertionResult matches_golden_file(const std::string& text, const fs::path& file) {
  const fs::path path = source_dir() / "tests" / "golden" / file;
  const char* update = std::getenv("TILEWRIGHT_UPDATE_GOLDEN");
  if (update && std::string(update) == "1") {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return ::testing::AssertionSuccess();
  }
  if (!fs::exists(path)) {
    return ::testing::AssertionFailure()
           << path.string() << " is missing; TILEWRIGHT_UPDATE_GOLDEN=1 writes it. Got:\n"
           << text;
  }
  std::string golden = read_file(path);
  if (golden == text) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "the text differs from " << path.string() << " at " << first_difference(golden, text)
         << "\nTILEWRIGHT_UPDATE_GOLDEN=1 rewrites it. The whole text:\n"
         << text;
}

std::vector<std::vector<std::string>> golden_words(const fs::path& file) {
  std::ifstream in(source_dir() / "tests" / "golden" / file);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    if (!found.empty()) lines.push_back(found);
  }
  return lines;
}

}  // namespace tilewright::test
