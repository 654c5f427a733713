#include "cli/line/duration.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace tilewright::cli {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};

constexpr Unit kUnits[] = {
    {"d", 86400},   {"day", 86400},  {"days", 86400}, {"h", 3600}, {"hr", 3600},
    {"hour", 3600}, {"hours", 3600}, {"m", 60},       {"min", 60}, {"mins", 60},
    {"minute", 60}, {"minutes", 60}, {"s", 1},        {"sec", 1},  {"secs", 1},
    {"second", 1},  {"seconds", 1},
};

// 0 for a word that is no unit.
double seconds_of(std::string_view unit) {
  for (const Unit& u : kUnits) {
    if (u.name == unit) return u.seconds;
  }
  return 0;
}

void skip_spaces(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
}

}  // namespace

std::optional<double> parse_duration(const std::string& text) {
  std::string_view rest = text;
  double total = 0, last_unit = INFINITY;
  skip_spaces(rest);
  while (!rest.empty()) {
    double number = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || !(number >= 0) || !std::isfinite(number)) return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    skip_spaces(rest);
    const size_t letters = rest.find_first_of("0123456789. ");
    const std::string_view word = rest.substr(0, letters);
    // A bare number is of seconds where it stands alone.
    const bool bare = word.empty() && rest.empty() && total == 0 && last_unit == INFINITY;
    const double unit = bare ? 1 : seconds_of(word);
    if (unit == 0 || unit >= last_unit) return std::nullopt;
    total += number * unit;
    last_unit = unit;
    rest.remove_prefix(word.size());
    skip_spaces(rest);
  }
  return total > 0 && std::isfinite(total) ? std::optional(total) : std::nullopt;
}

double parse_time_limit(const std::string& text) {
  if (const auto seconds = parse_duration(text)) return *seconds;
  throw UsageError(
      fmt::format("--time: expected a time such as 90s, 10m, 2h or 1h30m, got '{}'", text));
}

}  // namespace tilewright::cli
