// Equations of Einsum.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::onnx {

// An index is a letter; those of an ellipsis are numbers below 0, -1 the last one.
struct Einsum {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
};

// Nothing for an equation that does not fit operands of these numbers of axes.
inline std::optional<Einsum> parse_einsum(std::string text, const std::vector<size_t>& ranks) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Einsum e;
  size_t widest = 0;  // axes of the ellipsis
  auto read = [&](const std::string& term, int dots) -> std::optional<std::vector<int>> {
    std::vector<int> indices;
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.compare(i, 3, "...") == 0) {
        for (int d = dots; d > 0; --d) indices.push_back(-d);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
        indices.push_back(term[i]);
      } else {
        return std::nullopt;
      }
    }
    return indices;
  };
  left += ',';
  for (size_t at = 0, end = 0; (end = left.find(',', at)) != std::string::npos; at = end + 1) {
    const std::string term = left.substr(at, end - at);
    if (e.inputs.size() == ranks.size()) return std::nullopt;
    const size_t rank = ranks[e.inputs.size()];
    const bool open = term.find("...") != std::string::npos;
    const size_t letters = term.size() - (open ? 3 : 0);
    if (letters > rank || (!open && letters != rank)) return std::nullopt;
    widest = std::max(widest, rank - letters);
    auto indices = read(term, static_cast<int>(rank - letters));
    if (!indices) return std::nullopt;
    e.inputs.push_back(std::move(*indices));
  }
  if (e.inputs.size() != ranks.size()) return std::nullopt;
  std::vector<int> all;
  for (const auto& input : e.inputs) all.insert(all.end(), input.begin(), input.end());
  if (arrow != std::string::npos) {
    auto output = read(text.substr(arrow + 2), static_cast<int>(widest));
    if (!output) return std::nullopt;
    e.output = std::move(*output);
  } else {
    // The ellipsis, then the letters that occur once.
    for (int d = static_cast<int>(widest); d > 0; --d) e.output.push_back(-d);
    for (int c = 'A'; c <= 'z'; ++c) {
      if (std::ranges::count(all, c) == 1) e.output.push_back(c);
    }
  }
  for (int index : e.output) {
    if (std::ranges::count(all, index) == 0 || std::ranges::count(e.output, index) > 1) {
      return std::nullopt;
    }
  }
  return e;
}

}  // namespace tilewright::onnx
