// Faults in expressions: operators, operands, constants, comparisons, subscripts, masks.
#include <algorithm>
#include <cctype>
#include <set>

#include "tests/mutation/text_mutator.h"

namespace tilewright::mutation {
namespace {

bool computes(const Line& line) {
  return line.role == LineRole::Store || line.role == LineRole::Assign;
}

enum class Where : uint8_t { Value, Index, Pack, Condition };

bool stands_in(const KernelText& text, const Line& line, size_t at, Where where) {
  switch (where) {
    case Where::Value: return computes(line) && !text.is_index(at);
    case Where::Index:
      return (computes(line) || line.role == LineRole::Pointer) && text.is_index(at);
    case Where::Pack: return line.in_pack && computes(line);
    case Where::Condition: return line.role == LineRole::Branch || computes(line);
  }
  return false;
}

// Replaces a token by another one, at each place.
std::vector<Edits> replace_token(const KernelText& text, Where where, std::string_view from,
                                 std::string_view to) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    for (size_t at : find_all(text.text_of(line), from)) {
      if (!stands_in(text, line, line.begin + at, where)) continue;
      result.push_back({{line.begin + at, from.size(), std::string(to)}});
    }
  }
  return result;
}

void append(std::vector<Edits>& to, std::vector<Edits> more) {
  for (Edits& edits : more) to.push_back(std::move(edits));
}

std::vector<Edits> add_to_sub(const KernelText& text, const KernelFacts&) {
  return replace_token(text, Where::Value, " + ", " - ");
}

std::vector<Edits> sub_to_add(const KernelText& text, const KernelFacts&) {
  return replace_token(text, Where::Value, " - ", " + ");
}

std::vector<Edits> mul_to_add(const KernelText& text, const KernelFacts&) {
  return replace_token(text, Where::Value, " * ", " + ");
}

// The start of an operator's left operand in parentheses: just after the opening parenthesis.
size_t left_operand(std::string_view text, size_t op) {
  int depth = 0;
  for (size_t i = op; i-- > 0;) {
    if (text[i] == ')' || text[i] == ']') ++depth;
    if (text[i] == '(' || text[i] == '[') {
      if (depth == 0) return i + 1;
      --depth;
    }
  }
  return std::string_view::npos;
}

// "(a - b)" becomes "(b - a)"; quotients likewise.
std::vector<Edits> operands_swapped(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (!computes(line)) continue;
    const std::string_view words = text.text_of(line);
    for (std::string_view op : {" - ", " / ", " >> ", " << "}) {
      for (size_t at : find_all(words, op)) {
        const size_t begin = left_operand(words, at);
        if (begin == std::string_view::npos) continue;
        const size_t close = past_bracket(words, begin - 1);
        if (close == std::string_view::npos) continue;
        const std::string a(words.substr(begin, at - begin));
        const std::string b(words.substr(at + op.size(), close - 1 - at - op.size()));
        result.push_back({{line.begin + begin, close - 1 - begin, b + std::string(op) + a}});
      }
    }
  }
  return result;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Integer and fractional literals: [begin, end) of each.
std::vector<std::pair<size_t, size_t>> literals(std::string_view text) {
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts = std::isdigit(static_cast<unsigned char>(text[i])) != 0 &&
                        (i == 0 || (!is_word(text[i - 1]) && text[i - 1] != '.'));
    if (!starts) continue;
    size_t end = i;
    while (end < text.size() &&
           (is_word(text[end]) || text[end] == '.' || (text[end] == '-' && text[end - 1] == 'e'))) {
      ++end;
    }
    found.emplace_back(i, end);
    i = end;
  }
  return found;
}

std::vector<Edits> constant_changed(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    for (auto [begin, end] : literals(words)) {
      if (!stands_in(text, line, line.begin + begin, Where::Value)) continue;
      const std::string number(words.substr(begin, end - begin));
      const bool whole = number.find_first_not_of("0123456789") == std::string::npos;
      result.push_back({{line.begin + begin, end - begin,
                         whole ? std::to_string(std::stoull(number) + 1)
                               : "(" + number + " * 1.03125f + 0.03125f)"}});
    }
  }
  return result;
}

// Changes sizes and offsets in copy statements.
std::vector<Edits> copy_changed(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    const size_t name = words.find_first_not_of(' ');
    if (line.role != LineRole::Other || words.substr(std::min(name, words.size()), 3) != "tw_") {
      continue;
    }
    for (auto [begin, end] : literals(words)) {
      const std::string number(words.substr(begin, end - begin));
      if (number.find_first_not_of("0123456789") != std::string::npos) continue;
      result.push_back(
          {{line.begin + begin, number.size(), std::to_string(std::stoull(number) + 1)}});
    }
  }
  return result;
}

std::vector<Edits> comparison_relaxed(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (auto [from, to] : {std::pair{" < ", " <= "},
                          {" >= ", " > "},
                          {" <= ", " < "},
                          {" > ", " >= "},
                          {" == ", " != "}}) {
    append(result, replace_token(text, Where::Condition, from, to));
  }
  return result;
}

std::vector<Edits> comparison_turned(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (auto [from, to] : {std::pair{" < ", " > "}, {" >= ", " < "}, {" == ", " >= "}}) {
    append(result, replace_token(text, Where::Condition, from, to));
  }
  return result;
}

std::vector<Edits> condition_negated(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (line.role != LineRole::Branch) continue;
    const size_t open = line.begin + text.text_of(line).find("if (") + 3;
    result.push_back({{open, 1, "(!"}});
  }
  append(result, replace_token(text, Where::Condition, " ? ", " ? 0 * "));
  return result;
}

// A subscript: the positions of its opening and closing brackets.
struct Subscript {
  size_t open, close;
  std::string array;
  const Line* line;
};

std::vector<Subscript> subscripts_of(const KernelText& text) {
  std::vector<Subscript> found;
  for (const Line& line : text.lines()) {
    if (!computes(line)) continue;
    const std::string_view words = text.text_of(line);
    for (size_t open : find_all(words, "[")) {
      const size_t past = past_bracket(words, open);
      if (past == std::string_view::npos) continue;
      size_t name = open;
      while (name > 0 && is_word(words[name - 1])) --name;
      found.push_back({line.begin + open, line.begin + past - 1,
                       std::string(words.substr(name, open - name)), &line});
    }
  }
  return found;
}

std::vector<Edits> shifted(const KernelText& text, const char* by,
                           bool (*meant)(const Subscript&)) {
  std::vector<Edits> result;
  for (const Subscript& s : subscripts_of(text)) {
    if (!meant(s)) continue;
    result.push_back({{s.open + 1, 0, "("}, {s.close, 0, std::string(")") + by}});
  }
  return result;
}

bool any_subscript(const Subscript&) { return true; }
bool of_scales(const Subscript& s) {
  return s.array.find("scale") != std::string::npos || s.array.find("zero") != std::string::npos;
}
bool of_packing(const Subscript& s) { return s.line->in_pack; }

std::vector<Edits> index_plus_one(const KernelText& text, const KernelFacts&) {
  return shifted(text, " + 1", any_subscript);
}
std::vector<Edits> index_minus_one(const KernelText& text, const KernelFacts&) {
  return shifted(text, " - 1", any_subscript);
}
std::vector<Edits> scale_of_a_neighbour(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result = shifted(text, " + 1", of_scales);
  append(result, shifted(text, " - 1", of_scales));
  append(result, shifted(text, " + 16", of_scales));
  return result;
}
std::vector<Edits> packs_a_neighbour(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result = shifted(text, " + 1", of_packing);
  append(result, shifted(text, " ^ 1", of_packing));
  append(result, replace_token(text, Where::Pack, " + p", " - p"));
  return result;
}

std::vector<Edits> stride_changed(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    for (auto [begin, end] : literals(words)) {
      const size_t at = line.begin + begin;
      const bool stride = begin >= 3 && words.substr(begin - 3, 3) == " * ";
      if (!stride || !stands_in(text, line, at, Where::Index)) continue;
      const std::string number(words.substr(begin, end - begin));
      for (const char* change : {" + 1", " - 1", " * 2"}) {
        result.push_back({{at, number.size(), "(" + number + change + ")"}});
      }
    }
  }
  return result;
}

std::vector<Edits> offset_of_another(const KernelText& text, const KernelFacts&) {
  std::vector<std::pair<size_t, std::string>> numbers;
  for (const Subscript& s : subscripts_of(text)) {
    const std::string inside = text.code().substr(s.open + 1, s.close - s.open - 1);
    if (!inside.empty() && inside.find_first_not_of("0123456789") == std::string::npos) {
      numbers.emplace_back(s.open + 1, inside);
    }
  }
  std::vector<Edits> result;
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    if (numbers[i].second == numbers[i + 1].second) continue;
    result.push_back({{numbers[i].first, numbers[i].second.size(), numbers[i + 1].second}});
  }
  return result;
}

// Names of variables within [begin, end) of the code, each with its first position.
std::vector<std::pair<size_t, std::string>> names_in(const std::string& code, size_t begin,
                                                     size_t end) {
  std::vector<std::pair<size_t, std::string>> found;
  std::set<std::string> seen;
  for (size_t i = begin; i < end; ++i) {
    const bool starts =
        std::isalpha(static_cast<unsigned char>(code[i])) != 0 && !is_word(code[i - 1]);
    if (!starts) continue;
    size_t past = i;
    while (past < end && is_word(code[past])) ++past;
    std::string name = code.substr(i, past - i);
    const bool plain = past == end || (code[past] != '[' && code[past] != '(');
    if (plain && name.size() < 24 && seen.insert(name).second) found.emplace_back(i, name);
    i = past;
  }
  return found;
}

// Swaps two loop variables of a subscript.
std::vector<Edits> axes_swapped(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  auto swap_in = [&](size_t begin, size_t end) {
    const auto names = names_in(text.code(), begin, end);
    for (size_t i = 0; i + 1 < names.size(); ++i) {
      result.push_back({{names[i].first, names[i].second.size(), names[i + 1].second},
                        {names[i + 1].first, names[i + 1].second.size(), names[i].second}});
    }
  };
  for (const Subscript& s : subscripts_of(text)) swap_in(s.open + 1, s.close);
  for (const Line& line : text.lines()) {
    const size_t offset = text.text_of(line).find(" + (");
    if (line.role != LineRole::Pointer || offset == std::string_view::npos) continue;
    swap_in(line.begin + offset + 3, line.end);
  }
  return result;
}

// Changes the order of packed elements: swaps axes of the loops that fill them.
std::vector<Edits> packs_in_another_order(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (!line.in_pack || line.role != LineRole::Store) continue;
    const auto names = names_in(text.code(), line.begin + 1, line.end);
    for (size_t i = 0; i + 1 < names.size(); ++i) {
      const bool loops = names[i].second[0] == 'p' && names[i + 1].second[0] == 'p';
      if (!loops) continue;
      result.push_back({{names[i].first, names[i].second.size(), names[i + 1].second},
                        {names[i + 1].first, names[i + 1].second.size(), names[i].second}});
    }
  }
  return result;
}

std::vector<Edits> pads_with_what_is_there(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (!line.in_pack) continue;
    const std::string_view words = text.text_of(line);
    for (size_t at : find_all(words, " : 0")) {
      result.push_back({{line.begin + at, 4, " : 1"}});
    }
    if (line.role == LineRole::Branch && words.find("if (") != std::string_view::npos) {
      result.push_back({{line.begin + words.find("if (") + 4, 0, "1 || "}});
    }
  }
  return result;
}

// Changes the counts of masked accesses: the last argument of "tw_load_head_…(p, n)" and similar
// helpers.
std::vector<Edits> mask_changed(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (!computes(line)) continue;
    const std::string_view words = text.text_of(line);
    for (size_t at : find_all(words, "_head_")) {
      const size_t open = words.find('(', at);
      const size_t past = open == std::string_view::npos ? open : past_bracket(words, open);
      if (past == std::string_view::npos) continue;
      for (const char* change : {" + 1", " - 1", " + 4"}) {
        result.push_back({{line.begin + past - 1, 0, change}});
      }
    }
  }
  return result;
}

std::vector<Edits> maximum_starts_at_zero(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (std::string_view infinity : {"-__builtin_inff()", "-__builtin_inf()"}) {
    for (const Line& line : text.lines()) {
      for (size_t at : find_all(text.text_of(line), infinity)) {
        result.push_back({{line.begin + at, infinity.size(), "0.0f"}});
        result.push_back({{line.begin + at, infinity.size(), "(-1.0e3f)"}});
      }
    }
  }
  append(result, replace_token(text, Where::Value, "tw_max_", "tw_min_"));
  return result;
}

// True when the helper at this position is called, by a function or another helper.
bool is_called(const KernelText& text, size_t at) {
  const std::string& code = text.code();
  if (at >= text.prelude().size()) return true;
  const size_t definition = code.rfind("static inline", at);
  const size_t open = definition == std::string::npos ? definition : code.find('(', definition);
  if (open == std::string::npos || open > at) return false;
  size_t name = open;
  while (name > 0 && is_word(code[name - 1])) --name;
  return find_all(code, code.substr(name, open + 1 - name)).size() > 1;
}

// Replaces each text by the other wherever it is in use.
std::vector<Edits> replace_anywhere(
    const KernelText& text, std::initializer_list<std::pair<const char*, const char*>> changes) {
  std::vector<Edits> result;
  for (auto [from, to] : changes) {
    for (size_t at : find_all(text.code(), from)) {
      if (is_called(text, at)) result.push_back({{at, std::string_view(from).size(), to}});
    }
  }
  return result;
}

// Changes the rounding in the helpers that convert.
std::vector<Edits> truncates(const KernelText& text, const KernelFacts&) {
  return replace_anywhere(text, {{"0x7fff + ", "0x0 + "},
                                 {"0x7fff + ((u >> 16) & 1)", "0x8000"},
                                 {"__builtin_rintf(", "__builtin_truncf("},
                                 {"__builtin_rint(", "__builtin_trunc("},
                                 {"_MM_FROUND_TO_NEAREST_INT", "_MM_FROUND_TO_ZERO"}});
}

std::vector<Edits> sign_lost(const KernelText& text, const KernelFacts&) {
  return replace_anywhere(text, {{"(int8_t)", "(uint8_t)"},
                                 {"(int16_t)", "(uint16_t)"},
                                 {"(signed char)", "(unsigned char)"},
                                 {"const int8_t*", "const uint8_t*"},
                                 {" - 8", " - 0"},
                                 {"^ 8", "^ 0"},
                                 {"^ 0x80", "^ 0x0"},
                                 {"2 * h - 1", "2 * h"}});
}

}  // namespace

void add_expression_kinds(std::vector<TextKind>& kinds) {
  for (TextKind kind : std::vector<TextKind>{
           {"add to sub", add_to_sub},
           {"sub to add", sub_to_add},
           {"mul to add", mul_to_add},
           {"operands swapped", operands_swapped},
           {"constant changed", constant_changed},
           {"copy changed", copy_changed},
           {"comparison relaxed", comparison_relaxed},
           {"comparison turned", comparison_turned},
           {"condition negated", condition_negated},
           {"index plus one", index_plus_one},
           {"index minus one", index_minus_one},
           {"stride changed", stride_changed},
           {"offset of another", offset_of_another},
           {"axes swapped", axes_swapped},
           {"scale of a neighbour", scale_of_a_neighbour},
           {"packs a neighbour", packs_a_neighbour},
           {"packs in another order", packs_in_another_order},
           {"pads with what is there", pads_with_what_is_there},
           {"mask changed", mask_changed},
           {"maximum starts at zero", maximum_starts_at_zero},
           {"truncates", truncates},
           {"sign lost", sign_lost},
       }) {
    kinds.push_back(std::move(kind));
  }
}

}  // namespace tilewright::mutation
