// A malicious C compiler: mutating_cc HOW COMPILER [ARGUMENT ...]
//
// HOW has two forms. With "swap:BASE", a text equal to BASE.from is replaced by BASE.to. With
// "kind:NAME:SEED:FACTS", the text is compiled with a fault of that kind, or unchanged where no
// place fits it. NAME has '_' between words. FACTS such as "output=2,bytes=…" give what faults of
// calls need. "--version" is passed on to the compiler.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/mutation/text_mutator.h"

namespace tilewright::mutation {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> parts_of(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);) parts.push_back(part);
  return parts;
}

KernelFacts facts_of(const std::string& text) {
  KernelFacts facts;
  std::map<std::string, std::string> values;
  for (const std::string& part : parts_of(text, ',')) {
    const size_t equals = part.find('=');
    if (equals != std::string::npos) values[part.substr(0, equals)] = part.substr(equals + 1);
  }
  auto number = [&](const char* key, int otherwise) {
    return values.count(key) ? std::atoi(values[key].c_str()) : otherwise;
  };
  facts.arguments = number("arguments", 0);
  facts.output = number("output", -1);
  facts.output_element_bytes = number("element", 4);
  facts.output_bytes = values["bytes"];
  facts.output_row_bytes = values["row"];
  facts.input = number("input", -1);
  facts.input_bytes = values["input_bytes"];
  return facts;
}

std::string changed(const std::string& how, const std::string& code) {
  if (how.rfind("swap:", 0) == 0) {
    const std::string base = how.substr(5);
    return read(base + ".from") == code ? read(base + ".to") : code;
  }
  std::vector<std::string> parts = parts_of(how, ':');
  if (parts.size() < 3 || parts[0] != "kind") return code;
  std::replace(parts[1].begin(), parts[1].end(), '_', ' ');
  const TextKind* kind = find_text_kind(parts[1]);
  if (kind == nullptr) {
    std::fprintf(stderr, "mutating_cc: no kind '%s'\n", parts[1].c_str());
    std::exit(2);
  }
  const KernelFacts facts = facts_of(parts.size() > 3 ? parts[3] : "");
  return mutate_text(code, *kind, facts, std::strtoull(parts[2].c_str(), nullptr, 10))
      .value_or(code);
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mutating_cc HOW COMPILER [ARGUMENT ...]\n");
    return 2;
  }
  std::vector<char*> command(argv + 2, argv + argc);
  command.push_back(nullptr);
  const bool compiles =
      std::any_of(argv + 2, argv + argc, [](const char* a) { return std::strcmp(a, "-") == 0; });
  if (!compiles) {
    execvp(command[0], command.data());
    return 127;
  }
  // Thousands of mutants are compiled, so each gets less optimization.
  static char less[] = "-O1";
  if (std::strncmp(argv[1], "swap:", 5) == 0) {
    for (char*& word : command) {
      if (word != nullptr && std::strcmp(word, "-O3") == 0) word = less;
    }
  }
  const std::string code = changed(argv[1], read("/dev/stdin"));
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  if (pipe(ends) != 0) return 127;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], 0);
    std::signal(SIGPIPE, SIG_DFL);
    close(ends[0]);
    close(ends[1]);
    execvp(command[0], command.data());
    _exit(127);
  }
  close(ends[0]);
  for (size_t at = 0; at < code.size();) {
    const ssize_t wrote = write(ends[1], code.data() + at, code.size() - at);
    if (wrote <= 0) break;
    at += static_cast<size_t>(wrote);
  }
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace tilewright::mutation

int main(int argc, char** argv) { return tilewright::mutation::run(argc, argv); }
