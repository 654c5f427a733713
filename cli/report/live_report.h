// A report that follows a database while a search fills it.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/report/local_server.h"
#include "cli/report/report_baselines.h"

namespace tilewright::cli {

class LiveReport {
 public:
  LiveReport(const CommonOptions& options, ReportBenches benches)
      : options_(options), benches_(std::move(benches)) {}

  // The page, its script, or its content as of now.
  ServedAnswer answer(const std::string& path);

 private:
  std::string content();

  const CommonOptions& options_;
  ReportBenches benches_;
  std::string stamp_ = {};  // of what `latest_` was made from
  bool searching_ = false;  // says `latest_`
  ServedAnswer latest_ = {};
};

}  // namespace tilewright::cli
