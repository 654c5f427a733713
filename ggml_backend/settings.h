// Settings in the environment: TILEWRIGHT_DB, and TILEWRIGHT_GGML with NAME=VALUE,NAME=VALUE.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <ggml.h>

namespace tilewright::ggml {

// A fault of what the user gave; its text says what would do.
class SettingsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Settings {
  std::string database = "tilewright.db";
  std::string specs;  // the file that takes specs without a kernel; "": none
  int threads =
      0;  // for which kernels are looked for before ggml says how many; set to the processors
  int64_t rows = 64;        // the most rows of one launch: kernels are of m=1 and of m=2..rows
  bool trial = true;        // products are timed and compared before a kernel takes them
  double tolerance = 0.05;  // of the comparison, as a share of the output's root mean square
  std::vector<std::string> trust;  // public keys
};

// Throws SettingsError for an unknown name and for a value that is none.
Settings read_settings(const char* database, const char* text);

// Says a line through ggml's log.
void say(ggml_log_level level, const std::string& line);

}  // namespace tilewright::ggml
