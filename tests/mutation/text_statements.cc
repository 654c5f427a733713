// Faults in statements: loops, stores, reduction terms, threads, workspace.
#include "tests/mutation/text_mutator.h"

namespace tilewright::mutation {
namespace {

// Positions of the parts of "for (int64_t v = A; v < B; ++v) {". CUDA texts count in ints.
struct Loop {
  const Line* line;
  std::string var;
  size_t start, end, step;  // after A, after B, at "++"
};

std::vector<Loop> loops_of(const KernelText& text) {
  std::vector<Loop> found;
  for (const Line& line : text.lines()) {
    if (line.role != LineRole::Loop) continue;
    const std::string_view words = text.text_of(line);
    const size_t type = words.find(' ', words.find("for (") + 5);
    const size_t equals = words.find(" = ");
    const size_t first = words.find(';'), second = words.find(';', first + 1);
    const size_t step = words.find("++", second);
    if (type == std::string_view::npos || step == std::string_view::npos) continue;
    found.push_back({&line, std::string(words.substr(type + 1, equals - type - 1)),
                     line.begin + first, line.begin + second, line.begin + step});
  }
  return found;
}

// The position after the loop's opening brace, on the next line.
size_t body_of(const Loop& loop) { return loop.line->end; }

std::vector<Edits> loop_one_short(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Loop& loop : loops_of(text)) result.push_back({{loop.end, 0, " - 1"}});
  return result;
}

std::vector<Edits> loop_one_long(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Loop& loop : loops_of(text)) result.push_back({{loop.end, 0, " + 1"}});
  return result;
}

std::vector<Edits> loop_starts_late(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Loop& loop : loops_of(text)) result.push_back({{loop.start, 0, " + 1"}});
  return result;
}

std::vector<Edits> loop_steps_by_two(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Loop& loop : loops_of(text)) {
    result.push_back({{loop.step, 2 + loop.var.size(), loop.var + " += 2"}});
  }
  return result;
}

// Skips one iteration: a term of a reduction, a chunk of terms, or a tile.
std::vector<Edits> term_left_out(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Loop& loop : loops_of(text)) {
    for (const char* which : {"0", "1", "2", "3", "7"}) {
      result.push_back({{body_of(loop), 0, " if (" + loop.var + " == " + which + ") continue;"}});
    }
  }
  return result;
}

std::vector<Edits> term_counted_twice(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (line.role != LineRole::Assign) continue;
    if (text.text_of(line).find(" + ") == std::string_view::npos) continue;
    result.push_back({{line.end, 0, " " + std::string(text.text_of(line))}});
  }
  return result;
}

std::vector<Edits> store_dropped(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (line.role == LineRole::Store) result.push_back({{line.begin, line.end - line.begin, ";"}});
  }
  return result;
}

std::vector<Edits> assignment_dropped(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    const size_t equals = words.find(" = ");
    const size_t name = words.find_first_not_of(' ');
    const bool one_word = equals != std::string_view::npos &&
                          words.substr(name, equals - name).find(' ') == std::string_view::npos;
    if (line.role == LineRole::Assign && one_word) {
      result.push_back({{line.begin, line.end - line.begin, ";"}});
    }
  }
  return result;
}

// The subscript of a store's target.
std::pair<size_t, size_t> target_of(const KernelText& text, const Line& line) {
  const std::string_view words = text.text_of(line);
  const size_t equals = words.find(" = ");
  const size_t open = words.find('[');
  if (open == std::string_view::npos || (equals != std::string_view::npos && open > equals)) {
    return {std::string::npos, 0};
  }
  const size_t past = past_bracket(words, open);
  if (past == std::string_view::npos) return {std::string::npos, 0};
  return {line.begin + open + 1, line.begin + past - 1};
}

std::vector<Edits> stores_moved(const KernelText& text, bool and_kept,
                                std::initializer_list<const char*> by) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (line.role != LineRole::Store) continue;
    auto [open, close] = target_of(text, line);
    if (open == std::string::npos) continue;
    for (const char* shift : by) {
      Edits edits = {{open, 0, "("}, {close, 0, std::string(")") + shift}};
      if (and_kept) {
        std::string moved = apply_edits(text.code().substr(0, line.end), edits).substr(line.begin);
        edits = {{line.end, 0, " " + moved}};
      }
      result.push_back(std::move(edits));
    }
  }
  return result;
}

std::vector<Edits> store_elsewhere(const KernelText& text, const KernelFacts&) {
  return stores_moved(text, false, {" + 1", " - 1", " + 16"});
}

std::vector<Edits> store_doubled(const KernelText& text, const KernelFacts&) {
  return stores_moved(text, true, {" + 1", " + 8", " + 16"});
}

// Adds results to the old contents of memory.
std::vector<Edits> output_accumulated(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    if (line.role != LineRole::Store) continue;
    const std::string_view words = text.text_of(line);
    const size_t equals = words.find(" = ");
    if (equals == std::string_view::npos) continue;
    const size_t name = words.find_first_not_of(' ');
    const std::string target(words.substr(name, equals - name));
    result.push_back({{line.begin + equals + 3, 0, target + " + "}});
  }
  return result;
}

std::vector<Edits> store_truncated(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    const size_t at = words.find("tw_store_head_");
    if (at == std::string_view::npos) continue;
    const size_t past = past_bracket(words, words.find('(', at));
    if (past != std::string_view::npos) result.push_back({{line.begin + past - 1, 0, " - 1"}});
  }
  return result;
}

// Changes the ranges that threads' parallel bodies receive.
std::vector<Edits> share_left_out(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (size_t at : find_all(text.code(), "(void)worker;\n")) {
    for (const char* fault : {"if (worker == 1) return;\n", "if (begin > 0) ++begin;\n",
                              "if (end - begin > 1) --end;\n", "if (begin >= 2) return;\n"}) {
      result.push_back({{at + 14, 0, fault}});
    }
  }
  return result;
}

// Makes declarations that contain `marked` static: threads share them, and later calls find old
// values.
std::vector<Edits> made_static(const KernelText& text, std::string_view marked) {
  std::vector<Edits> result;
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    const bool declares = line.role == LineRole::Other &&
                          words.find(';') != std::string_view::npos &&
                          words.find(marked) != std::string_view::npos;
    const size_t name = words.find_first_not_of(' ');
    if (declares) result.push_back({{line.begin + name, 0, "static "}});
  }
  return result;
}

// Makes threads share their private memory, or makes buffers overlap.
std::vector<Edits> workspace_shared(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result = made_static(text, "__attribute__((aligned(64)))");
  for (std::string_view part :
       {" + (int64_t)worker * TW_LOCAL_tw_main", " + (int64_t)worker * TW_LOCAL_tw_pack_0"}) {
    for (size_t at : find_all(text.code(), part)) result.push_back({{at, part.size(), ""}});
  }
  for (std::string_view part : {"*)(shared + ", "*)(local + "}) {
    for (size_t at : find_all(text.code(), part)) {
      result.push_back({{at + part.size(), 0, "0 * "}});
    }
  }
  return result;
}

std::vector<Edits> kept_between_calls(const KernelText& text, const KernelFacts&) {
  return made_static(text, "_acc");
}

std::vector<Edits> barrier_dropped(const KernelText& text, const KernelFacts&) {
  std::vector<Edits> result;
  for (std::string_view call : {"__syncthreads();", "__syncwarp();", "tw_wait_all();"}) {
    for (size_t at : find_all(text.code(), call)) result.push_back({{at, call.size(), ";"}});
  }
  for (const Line& line : text.lines()) {
    const std::string_view words = text.text_of(line);
    const bool waits = words.find("wait") != std::string_view::npos && !words.empty() &&
                       words.back() == ';' && words.find('=') == std::string_view::npos;
    if (waits) result.push_back({{line.begin, line.end - line.begin, ";"}});
  }
  return result;
}

}  // namespace

void add_statement_kinds(std::vector<TextKind>& kinds) {
  for (TextKind kind : std::vector<TextKind>{
           {"loop one short", loop_one_short},
           {"loop one long", loop_one_long},
           {"loop starts late", loop_starts_late},
           {"loop steps by two", loop_steps_by_two},
           {"term left out", term_left_out},
           {"term counted twice", term_counted_twice},
           {"store dropped", store_dropped},
           {"assignment dropped", assignment_dropped},
           {"store elsewhere", store_elsewhere},
           {"store doubled", store_doubled},
           {"store truncated", store_truncated},
           {"output accumulated", output_accumulated},
           {"share left out", share_left_out},
           {"workspace shared", workspace_shared},
           {"kept between calls", kept_between_calls},
           {"barrier dropped", barrier_dropped},
       }) {
    kinds.push_back(std::move(kind));
  }
}

}  // namespace tilewright::mutation
