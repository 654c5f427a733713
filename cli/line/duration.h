// Lengths of time as users write them.
#pragma once

#include <optional>
#include <string>

namespace tilewright::cli {

// Seconds of "90", "90s", "10m", "1.5h", "1h30m", "2d", "1h 30min": numbers with the units d, h, m and
// s (also day, hour, min, sec and their plurals), the largest first, each at most once. Nothing for
// other text, and for what is not more than 0.
std::optional<double> parse_duration(const std::string& text);
// The same of an argument of --time. Throws UsageError.
double parse_time_limit(const std::string& text);

}  // namespace tilewright::cli
