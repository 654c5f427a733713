#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/ops/aliases.h"
#include "ir/ops/keys.h"

namespace tilewright::ops {
namespace {

using Kind = RawValue::Kind;

// A piece of a value, with its offset in the value's text.
struct Part {
  std::string text;
  size_t offset = 0;
};

std::string join_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string shortened(const std::string& text) {
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

class Converter {
 public:
  Converter(const KeyDef& key, const std::string& dotted, const RawValue& raw)
      : key_(key), dotted_(dotted), raw_(raw) {}

  SpecValue value() {
    switch (key_.kind) {
      case KeyKind::Flag: return flag();
      case KeyKind::Size:
      case KeyKind::SizeMap: return size(scalar("a size or a range such as 16..4096", true));
      case KeyKind::Count: return whole(scalar(count_text(), false), key_.min, key_.max);
      case KeyKind::Number: return number();
      case KeyKind::Choice:
      case KeyKind::ElemMap: return choice(text("one of " + join_names(key_.choices)));
      case KeyKind::Text: return text("text").text;
      case KeyKind::Extents: return extents();
      case KeyKind::Shape:
      case KeyKind::ShapeMap: return shape();
      case KeyKind::Ints: return ints();
      case KeyKind::Names: return names();
      case KeyKind::Sparsity: return sparsity();
    }
    return {};
  }

 private:
  [[noreturn]] void fail(const std::string& message, size_t offset = 0) const {
    throw KeyError(dotted_, message, offset);
  }
  [[noreturn]] void unexpected(const std::string& expected, const RawValue& got) const {
    fail(fmt::format("expected {}, got {}", expected, describe(got)),
         got.verbatim && got.text_offset >= raw_.text_offset ? got.text_offset - raw_.text_offset
                                                             : 0);
  }
  std::string count_text() const {
    return fmt::format("a whole number from {} to {}", key_.min, key_.max);
  }

  // The text of a number. With `ranges`, a string is accepted too, as it may hold a range.
  Part scalar(const std::string& expected, bool ranges) const {
    return scalar(raw_, expected, ranges);
  }
  Part scalar(const RawValue& raw, const std::string& expected, bool strings) const {
    bool fits = raw.kind == Kind::Number || raw.kind == Kind::Word ||
                (strings && raw.kind == Kind::String && raw.text.find("..") != std::string::npos);
    if (!fits) unexpected(expected, raw);
    return {raw.text, raw.text_offset - raw_.text_offset};
  }
  Part text(const std::string& expected) const {
    if (raw_.kind != Kind::String && raw_.kind != Kind::Word) unexpected(expected, raw_);
    return {raw_.text, 0};
  }

  int64_t whole(const Part& part, int64_t min, int64_t max) const {
    int64_t value = 0;
    const char* end = part.text.data() + part.text.size();
    auto [rest, error] = std::from_chars(part.text.data(), end, value);
    bool ok = error == std::errc() && rest == end && value >= min && value <= max;
    if (!ok) {
      fail(fmt::format("expected a whole number from {} to {}, got '{}'", min, max,
                       shortened(part.text)),
           part.offset);
    }
    return value;
  }

  DimSize size(const Part& part) const {
    size_t dots = part.text.find("..");
    if (dots == std::string::npos) {
      int64_t value = whole(part, 1, kMaxSize);
      return {value, value};
    }
    DimSize range{whole({part.text.substr(0, dots), part.offset}, 1, kMaxSize),
                  whole({part.text.substr(dots + 2), part.offset + dots + 2}, 1, kMaxSize)};
    if (range.min > range.max) {
      fail(fmt::format("the range {} ends before it begins", part.text), part.offset);
    }
    return range;
  }

  bool flag() const {
    if (raw_.kind == Kind::Bool || raw_.kind == Kind::Word) {
      if (raw_.text == "true") return true;
      if (raw_.text == "false") return false;
    }
    unexpected("true or false", raw_);
  }

  double number() const {
    Part part = scalar("a number", false);
    double value = 0;
    const char* end = part.text.data() + part.text.size();
    auto [rest, error] = std::from_chars(part.text.data(), end, value);
    bool ok =
        error == std::errc() && rest == end && std::isfinite(value) && value > 0 && value < 1e30;
    if (!ok) fail(fmt::format("expected a positive number, got '{}'", part.text), part.offset);
    return value;
  }

  std::string choice(const Part& part) const {
    const auto& known = key_.choices;
    if (std::find(known.begin(), known.end(), part.text) != known.end()) return part.text;
    if (auto own = choice_by_alias(part.text, known)) return *own;
    fail(fmt::format("expected one of {}, got '{}'{}", join_names(known), part.text,
                     suggestion(part.text, known)),
         part.offset);
  }

  // The items of a list: of a JSON list, of an inline `[a,b]`, or of a scalar with separators.
  std::vector<Part> list(const std::string& expected, const std::string& separators,
                         bool strings) const {
    std::vector<Part> parts;
    if (raw_.kind == Kind::List) {
      for (const RawValue& item : raw_.items) {
        bool fits = strings ? item.kind == Kind::String
                            : item.kind == Kind::Number || item.kind == Kind::String;
        if (!fits) unexpected(expected, item);
        parts.push_back({item.text, item.text_offset - raw_.text_offset});
      }
      return parts;
    }
    bool scalar = raw_.kind == Kind::Word || raw_.kind == Kind::String ||
                  (!strings && raw_.kind == Kind::Number);
    if (!scalar) unexpected(expected, raw_);
    const std::string& t = raw_.text;
    bool bracketed = t.size() >= 2 && t.front() == '[' && t.back() == ']';
    size_t begin = bracketed, end = t.size() - bracketed;
    const std::string split = bracketed ? "," : separators;
    while (begin < end || !parts.empty()) {
      size_t stop = std::min(t.find_first_of(split, begin), end);
      size_t from = t.find_first_not_of(' ', begin);
      size_t to = stop;
      while (to > from && t[to - 1] == ' ') --to;
      parts.push_back({from < to ? t.substr(from, to - from) : "", std::min(from, stop)});
      if (stop >= end) break;
      begin = stop + 1;
    }
    return parts;
  }

  std::vector<int64_t> extents() const {
    std::vector<int64_t> values;
    for (const Part& part : list(count_text() + ", or one per axis such as 3x5", "x", false)) {
      values.push_back(whole(part, key_.min, key_.max));
    }
    if (values.empty()) fail("expected " + count_text() + ", got an empty list");
    return values;
  }

  std::vector<DimSize> shape() const {
    std::vector<DimSize> sizes;
    for (const Part& part : list("a list of sizes such as [128,64] or 128x64", "x", false)) {
      sizes.push_back(size(part));
    }
    if (sizes.empty()) fail("expected at least one size, got an empty list");
    if (sizes.size() > 8) fail(fmt::format("expected at most 8 sizes, got {}", sizes.size()));
    return sizes;
  }

  std::vector<int64_t> ints() const {
    std::vector<int64_t> values;
    for (const Part& part : list("a list of whole numbers", "+", false)) {
      values.push_back(whole(part, key_.min, key_.max));
    }
    return values;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> values;
    std::string expected =
        key_.choices.empty() ? "a list of names" : "a list of " + join_names(key_.choices);
    for (const Part& part : list(expected, "+", true)) {
      values.push_back(key_.choices.empty() ? part.text : choice(part));
    }
    return values;
  }

  std::string sparsity() const {
    Part part = text("none or N:M such as 2:4");
    size_t colon = part.text.find(':');
    if (part.text == "none") return part.text;
    if (colon == std::string::npos) {
      fail(fmt::format("expected none or N:M such as 2:4, got '{}'", part.text));
    }
    int64_t n = whole({part.text.substr(0, colon), 0}, 1, 64);
    int64_t m = whole({part.text.substr(colon + 1), colon + 1}, 2, 64);
    if (n > m) {
      fail(fmt::format("N:M keeps N of M elements, so N is at most M, got {}:{}", n, m));
    }
    return fmt::format("{}:{}", n, m);
  }

  const KeyDef& key_;
  const std::string& dotted_;
  const RawValue& raw_;
};

}  // namespace

SpecValue convert(const KeyDef& key, const std::string& dotted, const RawValue& raw) {
  return Converter(key, dotted, raw).value();
}

}  // namespace tilewright::ops
