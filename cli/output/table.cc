#include "cli/output/table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace tilewright::cli {
namespace {

constexpr size_t kUsualWidth = 80, kLeastWidth = 40, kMostWidth = 160;
constexpr size_t kLeastName = 24;  // columns; where less is left all names stand alone
constexpr size_t kGap = 2, kIndent = 2;

// Where the line that begins at `begin` ends: behind a space or a comma, at most `width` columns on
// if there is one.
size_t end_of_line(const std::string& text, size_t begin, size_t width) {
  if (text.size() - begin <= width) return text.size();
  size_t end = text.find_last_of(" ,", begin + width - 1);
  // A space may stand right behind the last column.
  if (text[begin + width] == ' ') end = begin + width;
  if (end == std::string::npos || end <= begin) end = text.find_first_of(" ,", begin + width);
  return end == std::string::npos ? text.size() : end + 1;
}

// The cells right of the name.
std::string values_text(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string text;
  for (size_t i = 1; i < cells.size(); ++i) {
    text += std::string(kGap, ' ') + fmt::format("{:>{}}", cells[i], widths[i]);
  }
  return text;
}

}  // namespace

size_t terminal_width(int stream) {
  winsize size = {};
  if (isatty(stream) == 0 || ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualWidth;
  }
  return std::clamp<size_t>(size.ws_col, kLeastWidth, kMostWidth);
}

std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t before = out.empty() ? 0 : indent;
    const size_t end = end_of_line(text, begin, width > before ? width - before : 1);
    std::string line = text.substr(begin, end - begin);
    while (line.ends_with(' ')) line.pop_back();
    out += (out.empty() ? "" : "\n") + std::string(before, ' ') + line;
    begin = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return out;
}

void print_wrapped(const std::string& line, size_t indent) {
  const size_t lead = std::min(line.find_first_not_of(' '), line.size());
  const std::string margin = line.substr(0, lead);
  std::string text = margin;
  for (char c : wrapped(line.substr(lead), terminal_width(STDOUT_FILENO) - lead, indent)) {
    text += c;
    if (c == '\n') text += margin;
  }
  fmt::print("{}\n", text);
}

Table::Table(std::vector<std::string> heads) : heads_(std::move(heads)) {}

void Table::row(std::vector<std::string> cells) {
  TW_ASSERT(cells.size() == heads_.size(), "a cell a column");
  lines_.push_back({std::move(cells), false});
}

void Table::note(const std::string& text) { lines_.push_back({{text}, true}); }

std::string Table::text(size_t width) const {
  if (lines_.empty()) return "";
  std::vector<size_t> widths;
  for (const std::string& head : heads_) widths.push_back(head.size());
  for (const Line& line : lines_) {
    for (size_t i = 0; i < line.cells.size() && !line.is_note; ++i) {
      widths[i] = std::max(widths[i], line.cells[i].size());
    }
  }
  size_t values = 0;
  for (size_t i = 1; i < widths.size(); ++i) values += kGap + widths[i];
  const size_t rest = width > values ? width - values : 0;
  const size_t name_width = rest < kLeastName ? 0 : std::min(rest, widths[0]);
  const auto row_text = [&](const std::vector<std::string>& cells) {
    const bool alone = cells[0].size() > name_width;
    std::string text = alone ? wrapped(cells[0], width, kIndent) + "\n" : "";
    text += fmt::format("{:<{}}", alone ? "" : cells[0], name_width) + values_text(cells, widths);
    return text + "\n";
  };
  std::string text = row_text(heads_);
  for (const Line& line : lines_) {
    text += line.is_note ? std::string(kIndent, ' ') +
                               wrapped(line.cells[0], width - kIndent, kIndent) + "\n"
                         : row_text(line.cells);
  }
  return text;
}

}  // namespace tilewright::cli
