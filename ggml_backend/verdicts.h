// Verdicts of trials in a file beside the database, so that the next process tries nothing.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "ggml_backend/settings.h"

namespace tilewright::ggml {

// The file DATABASE.trials. Its first line says for which database, ggml, processor and tolerance its verdicts hold;
// with another one they are forgotten. Where it cannot be written, verdicts hold for the process. Everything here may
// be called by many threads.
class Verdicts {
 public:
  explicit Verdicts(const Settings& settings);

  // Whether the kernel has won; nothing where there was no trial. A key is a line without its end.
  std::optional<bool> find(const std::string& key);
  void add(const std::string& key, bool is_won);

 private:
  std::string path_, header_;
  std::mutex mutex_;
  bool has_file_ = false;  // with this header
  std::map<std::string, bool> known_;
};

}  // namespace tilewright::ggml
