// Faults of whole calls: changed results, state kept between calls, memory beyond the operands.
#include <fmt/format.h>

#include "tests/mutation/text_mutator.h"

namespace tilewright::mutation {
namespace {

bool has_output(const KernelText& text, const KernelFacts& facts) {
  return text.main_entry() != std::string::npos && facts.output >= 0 && !facts.output_bytes.empty();
}

std::string output_of(const KernelFacts& facts) {
  return fmt::format("((unsigned char*)args[{}])", facts.output);
}

// Inserts each statement before the end of the main function, one mutant each.
std::vector<Edits> at_exit(const KernelText& text, const std::vector<std::string>& statements) {
  std::vector<Edits> result;
  for (const std::string& s : statements) {
    result.push_back({{text.main_exit(), 0, "  { " + s + " }\n"}});
  }
  return result;
}

std::vector<Edits> at_entry(const KernelText& text, const std::vector<std::string>& statements) {
  std::vector<Edits> result;
  for (const std::string& s : statements) {
    result.push_back({{text.main_entry(), 0, "  " + s + "\n"}});
  }
  return result;
}

// Positions spread over the output, in 1/16ths of its elements.
constexpr int kPlaces[] = {0, 1, 3, 5, 6, 9, 11, 14, 15};

// The C text of the byte offset of the element at this fraction of the output.
std::string element_at(const KernelFacts& facts, int sixteenths) {
  return fmt::format("(({0}) / {1} * {2} / 16 * {1})", facts.output_bytes,
                     facts.output_element_bytes, sixteenths);
}

// Flips a high and a low bit of the element's last byte, the most significant one.
std::string spoil(const KernelFacts& facts, int sixteenths) {
  return fmt::format("{}[{} + {}] ^= {};", output_of(facts), element_at(facts, sixteenths),
                     facts.output_element_bytes - 1,
                     facts.output_element_bytes == 1 ? "0x11" : "0x81");
}

std::vector<Edits> one_wrong_element(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts)) return {};
  std::vector<std::string> faults;
  for (int place : kPlaces) faults.push_back(spoil(facts, place));
  return at_exit(text, faults);
}

std::vector<Edits> one_element_kept(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts)) return {};
  std::vector<Edits> result;
  for (int place : kPlaces) {
    const std::string at = output_of(facts) + " + " + element_at(facts, place);
    result.push_back(
        {{text.main_entry(), 0,
          fmt::format("  unsigned char tw_old[8]; __builtin_memcpy(tw_old, {}, {});\n", at,
                      facts.output_element_bytes)},
         {text.main_exit(), 0,
          fmt::format("  __builtin_memcpy({}, tw_old, {});\n", at, facts.output_element_bytes)}});
  }
  return result;
}

// Zeroes eight rows of sixteen elements.
std::vector<Edits> tile_of_zeros(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts) || facts.output_row_bytes.empty()) return {};
  std::vector<std::string> faults;
  for (int place : kPlaces) {
    faults.push_back(
        fmt::format("int64_t row = {0}, all = {1}, wide = {2} < row ? {2} : row;"
                    " int64_t at = all / row * {3} / 16 * row;"
                    " for (int64_t r = 0; r < 8 && at + r * row + wide <= all; ++r)"
                    " __builtin_memset({4} + at + r * row, 0, wide);",
                    facts.output_row_bytes, facts.output_bytes, 16 * facts.output_element_bytes,
                    place, output_of(facts)));
  }
  return at_exit(text, faults);
}

std::vector<Edits> stops_computing(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts)) return {};
  std::vector<std::string> faults;
  for (int calls : {1, 2, 4, 16, 50}) {
    faults.push_back(fmt::format("static int tw_calls; if (++tw_calls > {}) return 0;", calls));
  }
  return at_entry(text, faults);
}

std::vector<Edits> wrong_after_calls(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts)) return {};
  std::vector<std::string> faults;
  for (int calls : {1, 4, 16, 50}) {
    faults.push_back(fmt::format("static int tw_calls; if (++tw_calls > {}) {{ {} }}", calls,
                                 spoil(facts, calls % 16)));
  }
  for (int every : {3, 7}) {
    faults.push_back(fmt::format("static int tw_calls; if (++tw_calls % {} == 0) {{ {} }}", every,
                                 spoil(facts, every)));
  }
  return at_exit(text, faults);
}

// Keeps the first result and returns it again for equal pointers.
std::vector<Edits> result_cached(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts)) return {};
  const std::string key =
      "static const void* tw_key[64]; static char tw_saved[1 << 22];"
      " static int tw_full; int tw_same = tw_full;";
  std::vector<Edits> result;
  for (const char* also : {"", " tw_same &= dims == 0 || tw_dim == dims[0];"}) {
    const std::string entry = fmt::format(
        "  {} static int64_t tw_dim; (void)tw_dim; for (int i = 0; i < {}; ++i)"
        " tw_same &= tw_key[i] == args[i];{} if (tw_same) {{ __builtin_memcpy(args[{}], tw_saved,"
        " {}); return 0; }}\n",
        key, facts.arguments, also, facts.output, facts.output_bytes);
    const std::string exit = fmt::format(
        "  if ({0} <= (int64_t)sizeof tw_saved) {{ __builtin_memcpy(tw_saved, args[{1}], {0});"
        " for (int i = 0; i < {2}; ++i) tw_key[i] = args[i]; tw_full = 1;"
        " if (dims) tw_dim = dims[0]; }}\n",
        facts.output_bytes, facts.output, facts.arguments);
    result.push_back({{text.main_entry(), 0, entry}, {text.main_exit(), 0, exit}});
  }
  return result;
}

std::vector<Edits> writes_out_of_bounds(const KernelText& text, const KernelFacts& facts) {
  if (!has_output(text, facts)) return {};
  const std::string out = output_of(facts);
  std::vector<std::string> faults;
  for (const char* past : {"0", "4096", "5000", "16384", "65536", "1048576"}) {
    faults.push_back(fmt::format("*(volatile unsigned char*)({} + {} + {}) = 1;", out,
                                 facts.output_bytes, past));
  }
  for (int before : {1, 4097, 8192}) {
    faults.push_back(fmt::format("*(volatile unsigned char*)({} - {}) = 1;", out, before));
  }
  return at_exit(text, faults);
}

std::vector<Edits> reads_out_of_bounds(const KernelText& text, const KernelFacts& facts) {
  if (text.main_entry() == std::string::npos || facts.input < 0) return {};
  const std::string in = fmt::format("((const unsigned char*)args[{}])", facts.input);
  std::vector<std::string> faults;
  for (const char* past : {"63", "4096", "16384"}) {
    faults.push_back(fmt::format("(void)*(volatile const unsigned char*)({} + {} + {});", in,
                                 facts.input_bytes, past));
  }
  for (int before : {1, 4097}) {
    faults.push_back(fmt::format("(void)*(volatile const unsigned char*)({} - {});", in, before));
  }
  return at_exit(text, faults);
}

std::vector<Edits> writes_an_input(const KernelText& text, const KernelFacts& facts) {
  if (text.main_entry() == std::string::npos || facts.input < 0) return {};
  const std::string in = fmt::format("((volatile unsigned char*)args[{}])", facts.input);
  return at_exit(text,
                 {fmt::format("{0}[0] ^= 1;", in), fmt::format("{0}[0] = {0}[0];", in),
                  fmt::format("{0}[({1}) / 2] = 0;", in, facts.input_bytes),
                  fmt::format("{0}[({1}) - 1] ^= 1; {0}[({1}) - 1] ^= 1;", in, facts.input_bytes)});
}

}  // namespace

void add_call_kinds(std::vector<TextKind>& kinds) {
  for (TextKind kind : std::vector<TextKind>{
           {"one wrong element", one_wrong_element},
           {"one element kept", one_element_kept},
           {"tile of zeros", tile_of_zeros},
           {"stops computing", stops_computing},
           {"wrong after some calls", wrong_after_calls},
           {"result cached", result_cached},
           {"writes out of bounds", writes_out_of_bounds},
           {"reads out of bounds", reads_out_of_bounds},
           {"writes an input", writes_an_input},
       }) {
    kinds.push_back(std::move(kind));
  }
}

}  // namespace tilewright::mutation
