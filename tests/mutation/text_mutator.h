// Faults in a kernel's text, as a wrong compiler or a wrong transformation could leave them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/mutation/kernel_text.h"

namespace tilewright::mutation {

// One kind of fault. `places` lists every way to make it in a text.
struct TextKind {
  std::string name;
  std::vector<Edits> (*places)(const KernelText& text, const KernelFacts& facts);
};

const std::vector<TextKind>& text_kinds();
// Kinds that CUDA texts support as well.
std::vector<std::string> cuda_text_kinds();
// Kinds of faults in the pipelines of CUDA texts; they are in no other list.
const std::vector<TextKind>& pipeline_kinds();
// The text with one fault of that kind at each of its places.
std::vector<std::string> all_mutants(const std::string& code, const TextKind& kind);
// Null for an unknown name.
const TextKind* find_text_kind(std::string_view name);

// The text with one fault of that kind at a place that the seed chooses; nothing where it has no
// such place.
std::optional<std::string> mutate_text(const std::string& code, const TextKind& kind,
                                       const KernelFacts& facts, uint64_t seed);

// The families, each in its own file; they add their kinds to the list.
void add_expression_kinds(std::vector<TextKind>& kinds);
void add_statement_kinds(std::vector<TextKind>& kinds);
void add_call_kinds(std::vector<TextKind>& kinds);

}  // namespace tilewright::mutation
