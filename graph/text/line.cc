#include "graph/text/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "graph/graph.h"

namespace tilewright::graph {

void TextLine::fail(const std::string& why) const {
  throw GraphError(
      fmt::format("line {}, column {} (byte {}): {}", number_, at_ + 1, begin_ + at_, why));
}

void TextLine::expect(std::string_view word) {
  if (!take(word)) fail(fmt::format("expected '{}'", word));
}

std::string TextLine::word() {
  skip();
  const size_t begin = at_;
  while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                text_[at_] == '_' || text_[at_] == '.' || text_[at_] == ':')) {
    ++at_;
  }
  if (at_ == begin) fail("expected a name");
  return std::string(text_.substr(begin, at_ - begin));
}

std::string TextLine::text() {
  skip();
  if (at_ >= text_.size() || text_[at_] != '"') fail("expected a text in double quotes");
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) fail("the text does not end");
  const std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
  if (std::ranges::all_of(inner, [](char c) { return c >= ' ' && c <= '~' && c != '\\'; })) {
    at_ = end + 1;
    return std::string(inner);
  }
  const auto parsed = nlohmann::json::parse(text_.substr(at_, end + 1 - at_), nullptr,
                                            /*allow_exceptions=*/false);
  if (!parsed.is_string()) fail("the text is not valid");
  at_ = end + 1;
  return parsed.get<std::string>();
}

}  // namespace tilewright::graph
