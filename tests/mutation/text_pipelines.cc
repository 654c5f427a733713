// Faults of pipelines: what a ring of stages, asynchronous copies and matrix instructions need.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "tests/mutation/text_mutator.h"

namespace tilewright::mutation {
namespace {

// A call in a text: where it begins, its length with the semicolon, and where its arguments lie.
struct FoundCall {
  size_t at = 0, length = 0;
  std::vector<std::pair<size_t, size_t>> arguments;  // begin and length
};

// The calls of functions whose names begin so, in the kernels' own text.
std::vector<FoundCall> calls_of(const KernelText& text, std::string_view name) {
  const std::string& code = text.code();
  std::vector<FoundCall> calls;
  for (size_t at : find_all(code, name)) {
    const size_t open = code.find('(', at);
    const size_t past = open == std::string::npos ? open : past_bracket(code, open);
    if (past == std::string::npos || past >= code.size() || code[past] != ';') continue;
    FoundCall call{at, past + 1 - at, {}};
    int depth = 0;
    size_t begin = open + 1;
    for (size_t i = open + 1; i < past; ++i) {
      if (code[i] == '(' || code[i] == '{' || code[i] == '[') ++depth;
      if ((code[i] == ',' && depth == 0) || i + 1 == past) {
        call.arguments.emplace_back(begin, i - begin);
        begin = i + 1;
      }
      if (code[i] == ')' || code[i] == '}' || code[i] == ']') --depth;
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

// Each of the calls left out.
std::vector<Edits> dropped(const KernelText& text, std::initializer_list<const char*> names) {
  std::vector<Edits> result;
  for (const char* name : names) {
    for (const FoundCall& call : calls_of(text, name))
      result.push_back({{call.at, call.length, ";"}});
  }
  return result;
}

// Each release of a stage, and all of them.
std::vector<Edits> release_dropped(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result = dropped(text, {"tw_mbarrier_arrive(", "tw_mbarrier_arrive_cluster("});
  Edits all;
  for (const Edits& one : result) all.push_back(one.front());
  std::sort(all.begin(), all.end(), [](const Edit& a, const Edit& b) { return a.at < b.at; });
  if (all.size() > 1) result.push_back(all);
  return result;
}

std::vector<Edits> arrival_dropped(const KernelText& text, const KernelFacts&) {
  return dropped(text, {"tw_mbarrier_arrive_expect_tx("});
}

std::vector<Edits> fence_dropped(const KernelText& text, const KernelFacts&) {
  return dropped(text, {"tw_fence_async(", "tw_mbarrier_fence_init(", "tw_wgmma_fence("});
}

std::vector<Edits> wait_dropped(const KernelText& text, const KernelFacts&) {
  return dropped(text, {"tw_mbarrier_wait(", "tw_wgmma_wait<", "tw_bulk_wait_read<",
                        "tw_cp_async_wait<", "tw_grid_wait("});
}

std::vector<Edits> commit_dropped(const KernelText& text, const KernelFacts&) {
  return dropped(text, {"tw_wgmma_commit(", "tw_bulk_commit(", "tw_cp_async_commit("});
}

// One argument of each call behind a text and before another one.
std::vector<Edits> wrapped(const KernelText& text, const char* name, size_t argument,
                           const char* before, const char* after) {
  std::vector<Edits> result;
  for (const FoundCall& call : calls_of(text, name)) {
    if (call.arguments.size() <= argument) continue;
    const auto [at, length] = call.arguments[argument];
    result.push_back({{at, length, before + text.code().substr(at, length) + after}});
  }
  return result;
}

std::vector<Edits> parity_turned(const KernelText& text, const KernelFacts&) {
  return wrapped(text, "tw_mbarrier_wait(", 1, " ((", ") ^ 1)");
}

std::vector<Edits> bytes_changed(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result = wrapped(text, "tw_mbarrier_arrive_expect_tx(", 1, " (", ") + 16");
  for (Edits& e : wrapped(text, "tw_mbarrier_arrive_expect_tx(", 1, " (", ") - 16")) {
    result.push_back(std::move(e));
  }
  return result;
}

// A group waited for by those that leave one more in flight.
std::vector<Edits> wait_relaxed(const KernelText& text, const KernelFacts&) {
  static const std::regex wait(R"((tw_wgmma_wait|tw_cp_async_wait)<(\d+)>)");
  std::vector<Edits> result;
  const std::string& code = text.code();
  for (std::sregex_iterator at(code.begin(), code.end(), wait), end; at != end; ++at) {
    result.push_back({{static_cast<size_t>(at->position(2)), static_cast<size_t>(at->length(2)),
                       std::to_string(std::stoi((*at)[2]) + 1)}});
  }
  return result;
}

// The next stage of the ring in place of an operation's own.
std::vector<Edits> stage_of_another(const KernelText& text, const KernelFacts&) {
  static const std::regex stage(R"(([a-zA-Z]\w*|\)) % (\d)\b)");
  std::vector<Edits> result;
  for (const char* name : {"tw_mbarrier_wait(", "tw_mbarrier_arrive", "tw_tensor_load_",
                           "tw_tensor_multicast_", "tw_tensor_im2col_", "tw_bulk_load("}) {
    for (const FoundCall& call : calls_of(text, name)) {
      if (call.arguments.empty()) continue;
      const auto [begin, length] = call.arguments.front();
      const std::string place = text.code().substr(begin, length);
      std::smatch found;
      if (!std::regex_search(place, found, stage) || found[1] == "bx" || found[1] == "tx") continue;
      const std::string name_of_stage = found[1];
      const std::string next = name_of_stage == ")" ? " + 1)" : "(" + name_of_stage + " + 1)";
      result.push_back({{begin + static_cast<size_t>(found.position(1)),
                         static_cast<size_t>(found.length(1)), next}});
    }
  }
  return result;
}

// Another tile of an operand: eight elements further.
std::vector<Edits> tile_of_another(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const char* name : {"tw_tensor_load_", "tw_tensor_multicast_", "tw_tensor_im2col_"}) {
    for (Edits& e : wrapped(text, name, 2, "", " + 8")) result.push_back(std::move(e));
  }
  return result;
}

}  // namespace

const std::vector<TextKind>& pipeline_kinds() {
  static const std::vector<TextKind> kinds = {
      {"release dropped", release_dropped},   {"arrival dropped", arrival_dropped},
      {"fence dropped", fence_dropped},       {"wait dropped", wait_dropped},
      {"wait relaxed", wait_relaxed},         {"commit dropped", commit_dropped},
      {"parity turned", parity_turned},       {"bytes changed", bytes_changed},
      {"stage of another", stage_of_another}, {"tile of another", tile_of_another},
  };
  return kinds;
}

std::vector<std::string> all_mutants(const std::string& code, const TextKind& kind) {
  std::vector<std::string> mutants;
  for (const Edits& edits : kind.places(KernelText(code), {})) {
    std::string changed = apply_edits(code, edits);
    if (changed != code) mutants.push_back(std::move(changed));
  }
  return mutants;
}

}  // namespace tilewright::mutation
