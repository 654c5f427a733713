// A report as one HTML page that fetches nothing.
#pragma once

#include <string>

#include "cli/report/report_data.h"

namespace tilewright::cli {

std::string report_page(const Report& report);

}  // namespace tilewright::cli
