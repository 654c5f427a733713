// Tables and texts for people, no wider than the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tilewright::cli {

// Columns of the terminal that the stream writes to (1: standard output, 2: standard error); 80
// where it writes to none. Between 40 and 160.
size_t terminal_width(int stream);

// The text in lines of at most `width` columns, broken at spaces and behind commas; all but the first
// begin with `indent` spaces. A word that is longer stays whole.
std::string wrapped(const std::string& text, size_t width, size_t indent);

// Prints one line to standard output, wrapped to the terminal's width. Further lines stand `indent`
// columns to the right of where its first word does.
void print_wrapped(const std::string& line, size_t indent = 2);

// Rows of one name and values to its right. A name that does not fit beside the values stands alone
// in the lines above them, so nothing is cut off.
class Table {
 public:
  // `heads`: of the name and of each value.
  explicit Table(std::vector<std::string> heads);

  void row(std::vector<std::string> cells);  // as many as heads
  // A text below the last row, across the table, 2 columns to the right.
  void note(const std::string& text);
  // Ends with a newline. Empty without rows and notes.
  std::string text(size_t width) const;

 private:
  struct Line {
    std::vector<std::string> cells;
    bool is_note = false;
  };

  std::vector<std::string> heads_;
  std::vector<Line> lines_;
};

}  // namespace tilewright::cli
