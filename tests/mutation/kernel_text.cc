#include "tests/mutation/kernel_text.h"

#include <algorithm>
#include <cctype>

namespace tilewright::mutation {
namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view p) { return text.substr(0, p.size()) == p; });
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view p) { return text.find(p) != std::string_view::npos; });
}

LineRole role_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (contains_any(text, {"__builtin_assume_aligned", "parallel_for", "closure", "TW_LOCAL_",
                          "context->workspace", "(void)", "return 0;", "= dims[", "= c->"}) ||
      starts_with_any(text, {"char* local", "int32_t tw_", "static void", "extern \"C\"", "}"})) {
    return LineRole::Frame;
  }
  if (starts_with_any(text, {"for ("})) return LineRole::Loop;
  if (starts_with_any(text, {"if ("})) return LineRole::Branch;
  const size_t equals = text.find(" = ");
  const std::string_view left = text.substr(0, equals);
  if (equals != std::string_view::npos && left.find("* ") != std::string_view::npos) {
    return LineRole::Pointer;
  }
  if (text.empty() || text.back() != ';') return LineRole::Other;
  if (starts_with_any(text, {"*(", "tw_store", "tw_put", "tw_scatter"})) return LineRole::Store;
  if (equals == std::string_view::npos) return LineRole::Other;
  return left.find('[') != std::string_view::npos ? LineRole::Store : LineRole::Assign;
}

}  // namespace

KernelText::KernelText(std::string code) : code_(std::move(code)) {
  const size_t first = code_.find("enum { TW_LOCAL_");
  functions_ = first == std::string::npos ? 0 : first;
  find_lines();
  mark_indices();
  find_main();
}

std::string_view KernelText::text_of(const Line& line) const {
  return std::string_view(code_).substr(line.begin, line.end - line.begin);
}

void KernelText::find_lines() {
  bool in_pack = false;
  for (size_t at = functions_; at < code_.size();) {
    size_t end = code_.find('\n', at);
    if (end == std::string::npos) end = code_.size();
    const std::string_view text = std::string_view(code_).substr(at, end - at);
    if (starts_with_any(text, {"enum { TW_LOCAL_tw_pack"})) in_pack = true;
    if (starts_with_any(text, {"enum { TW_LOCAL_tw_main"})) in_pack = false;
    lines_.push_back({at, end, role_of(text), in_pack});
    at = end + 1;
  }
}

void KernelText::mark_indices() {
  index_.assign(code_.size() + 1, false);
  for (const Line& line : lines_) {
    int depth = 0;
    bool offset = false;
    for (size_t i = line.begin; i < line.end; ++i) {
      if (line.role == LineRole::Pointer && code_[i] == '=') offset = true;
      depth += code_[i] == '[' ? 1 : 0;
      index_[i] = depth > 0 || offset;
      depth -= code_[i] == ']' ? 1 : 0;
    }
  }
}

void KernelText::find_main() {
  const size_t main = code_.find("\nint32_t tw_main(");
  if (main == std::string::npos) return;
  const std::string_view last_declaration = "(void)dims; (void)local; (void)shared;\n";
  const size_t declared = code_.find(last_declaration, main);
  const size_t exit = code_.find("  return 0;\n}", main);
  if (declared == std::string::npos || exit == std::string::npos) return;
  main_entry_ = declared + last_declaration.size();
  main_exit_ = exit;
}

std::vector<size_t> find_all(std::string_view text, std::string_view needle) {
  std::vector<size_t> places;
  for (size_t at = text.find(needle); at != std::string_view::npos;
       at = text.find(needle, at + needle.size())) {
    places.push_back(at);
  }
  return places;
}

size_t past_bracket(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ')' || text[i] == ']' || text[i] == '}') --depth;
    if (depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::string apply_edits(const std::string& code, const Edits& edits) {
  std::string result;
  size_t at = 0;
  for (const Edit& edit : edits) {
    result.append(code, at, edit.at - at);
    result += edit.text;
    at = edit.at + edit.length;
  }
  return result.append(code, at, std::string::npos);
}

}  // namespace tilewright::mutation
