// The text of a generated kernel, split into the lines and functions that mutations change.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::mutation {

// A replacement of `length` bytes at `at`.
struct Edit {
  size_t at = 0;
  size_t length = 0;
  std::string text;
};

// Several replacements that are applied together, in ascending order without overlap.
using Edits = std::vector<Edit>;

// Facts that mutations need about the operands of the main function. Sizes are C expressions over
// `dims`. An index of -1 or an empty size is unknown.
struct KernelFacts {
  int arguments = 0;
  int output = -1;
  int output_element_bytes = 4;
  bool output_is_float = true;
  std::string output_bytes, output_row_bytes;
  int input = -1;  // the first input operand
  std::string input_bytes;
};

enum class LineRole : uint8_t {
  Frame,    // part of the calling convention: arguments, closures, workspace
  Pointer,  // a base pointer of accesses
  Loop,
  Branch,
  Store,   // writes memory: an array element, or through a helper
  Assign,  // sets a variable
  Other,
};

struct Line {
  size_t begin, end;  // without the line break
  LineRole role;
  bool in_pack;  // in a function that lays out a weight
};

class KernelText {
 public:
  explicit KernelText(std::string code);

  const std::string& code() const { return code_; }
  // The lines of the functions; `prelude` has the helpers before them.
  const std::vector<Line>& lines() const { return lines_; }
  std::string_view prelude() const { return std::string_view(code_).substr(0, functions_); }
  std::string_view text_of(const Line& line) const;
  // True when the position is in a subscript, or in the offset of a pointer.
  bool is_index(size_t at) const { return index_[at]; }
  // Positions after the first declarations of the main function, and before its last statement;
  // npos without a main function.
  size_t main_entry() const { return main_entry_; }
  size_t main_exit() const { return main_exit_; }

 private:
  void find_lines();
  void mark_indices();
  void find_main();

  std::string code_;
  size_t functions_ = 0;
  size_t main_entry_ = std::string::npos, main_exit_ = std::string::npos;
  std::vector<Line> lines_;
  std::vector<bool> index_;
};

// Positions of `needle` in `text`, ascending.
std::vector<size_t> find_all(std::string_view text, std::string_view needle);
// The position after the bracket that closes the one at `open`; npos when none does.
size_t past_bracket(std::string_view text, size_t open);
std::string apply_edits(const std::string& code, const Edits& edits);

}  // namespace tilewright::mutation
