#include "tests/mutation/text_mutator.h"

#include <algorithm>

#include "schedule/trial.h"

namespace tilewright::mutation {

const std::vector<TextKind>& text_kinds() {
  static const std::vector<TextKind> kinds = [] {
    std::vector<TextKind> list;
    add_expression_kinds(list);
    add_statement_kinds(list);
    add_call_kinds(list);
    return list;
  }();
  return kinds;
}

std::vector<std::string> cuda_text_kinds() {
  return {"add to sub",         "sub to add",
          "mul to add",         "operands swapped",
          "constant changed",   "copy changed",
          "loop one short",     "loop one long",
          "loop starts late",   "loop steps by two",
          "term left out",      "term counted twice",
          "comparison relaxed", "comparison turned",
          "condition negated",  "index plus one",
          "index minus one",    "stride changed",
          "offset of another",  "axes swapped",
          "store dropped",      "store elsewhere",
          "store doubled",      "assignment dropped",
          "output accumulated", "maximum starts at zero",
          "barrier dropped"};
}

const TextKind* find_text_kind(std::string_view name) {
  const std::vector<TextKind>& kinds = text_kinds();
  auto found = std::find_if(kinds.begin(), kinds.end(),
                            [&](const TextKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

std::optional<std::string> mutate_text(const std::string& code, const TextKind& kind,
                                       const KernelFacts& facts, uint64_t seed) {
  std::vector<Edits> places = kind.places(KernelText(code), facts);
  if (places.empty()) return std::nullopt;
  std::string changed = apply_edits(code, places[Rng(seed).below(places.size())]);
  return changed == code ? std::nullopt : std::optional(std::move(changed));
}

}  // namespace tilewright::mutation
