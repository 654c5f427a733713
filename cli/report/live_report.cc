#include "cli/report/live_report.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "cli/output/svg.h"
#include "cli/report/report_data.h"
#include "cli/report/report_page.h"
#include "database/tables/checksum.h"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

// Size and time of a file; empty where there is none.
std::string state_of(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  if (error) return "";
  const auto bytes = fs::file_size(file, error);
  return fmt::format("{} {} ", time.time_since_epoch().count(), error ? 0 : bytes);
}

}  // namespace

// A database that is not there yet, or holds nothing yet, is a state like others.
std::string LiveReport::content() {
  searching_ = false;
  try {
    const database::Store store = open_store(options_);
    const Report report = gather_report(options_, benches_, store);
    searching_ = report.searching;
    return report_content(report);
  } catch (const Error& e) {
    return fmt::format("<p class=\"waiting\">Nothing to show yet: {}</p>\n",
                       escape_markup(e.what()));
  }
}

ServedAnswer LiveReport::answer(const std::string& path) {
  if (path == "/") return {.body = live_page()};
  if (path == "/live.js") return {.type = "text/javascript", .body = kLiveScript};
  if (path != "/content") return {404, "text/plain", "there is only /\n"};
  // SQLite writes changes into the second file first.
  std::string stamp = state_of(options_.db) + state_of(options_.db + "-wal");
  // A run that was killed leaves no change behind: the passing of time ends it.
  if (searching_) stamp += std::to_string(std::time(nullptr) / 60);
  if (stamp != stamp_ || latest_.tag.empty()) {
    stamp_ = stamp;
    latest_.body = content();
    latest_.tag = fmt::format("\"{}\"", database::content_hash(latest_.body));
  }
  return latest_;
}

}  // namespace tilewright::cli
