// A report as HTML.
#pragma once

#include <string>

#include "cli/report/report_data.h"

namespace tilewright::cli {

// A page in one file that fetches nothing and runs no script.
std::string report_page(const Report& report);

// Only what stands on the page.
std::string report_content(const Report& report);

// A page around nothing, which `kLiveScript` fills and keeps up to date.
std::string live_page();

// Served as /live.js: asks for /content every other second and shows it when it has changed.
extern const char* const kLiveScript;

}  // namespace tilewright::cli
