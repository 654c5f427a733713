#include "tests/tuner/machine_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>

#include "base/files.h"
#include "kernel/prelude/cuda_prelude.h"
#include "runtime/compile/private_folder.h"
#include "runtime/cuda/nvrtc.h"

namespace tilewright {

std::string nvdisasm() {
  std::vector<std::string> folders = {"/usr/local/cuda/bin",
                                      user_cache().value_or("") + "/cuda/bin"};
  for (const char* path = std::getenv("PATH"); path && *path;) {
    const std::string rest = path, folder = rest.substr(0, rest.find(':'));
    folders.push_back(folder);
    path += std::min(rest.size(), folder.size() + 1);
  }
  for (const std::string& folder : folders) {
    if (std::filesystem::exists(folder + "/nvdisasm")) return folder + "/nvdisasm";
  }
  return "";
}

namespace {

// The text that `make` returns, from the cache directory if it has been made of this key before.
std::string kept(const std::string& key, const std::function<std::string()>& make) {
  const std::string folder = cache_directory().value_or("") + "/machine_code";
  if (!cache_directory() || !own_directory(folder)) return make();
  const std::string head = key + '\0',
                    path = folder + "/" + std::to_string(std::hash<std::string>{}(key));
  const std::string known = read_own_file(path).value_or("");
  if (known.starts_with(head)) return known.substr(head.size());
  const std::string made = make();
  if (!made.empty()) write_file_atomic(path, head + made);
  return made;
}

}  // namespace

std::string disassembly(const std::string& cubin) {
  // Without the analysis of branches, which changes nothing in what is printed here.
  const std::string program = nvdisasm() + " -c -ndf ";
  return kept(program + cubin, [&] {
    const std::string path = private_path(".cubin");
    if (!write_file_atomic(path, cubin)) return std::string();
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((program + path).c_str(), "r"), pclose);
    std::string text;
    char part[1 << 14];
    while (size_t got = fread(part, 1, sizeof part, pipe.get())) text.append(part, got);
    std::filesystem::remove(path);
    return text;
  });
}

Cubin cubin_of(const std::string& text, const std::string& arch) {
  const std::string key = cuda::nvrtc_identity() + arch + cuda_translation_unit(text, "kernel");
  // The size, a line break, the bytes, the log, either of which may hold any character.
  const std::string all = kept(key, [&] {
    std::string log;
    const std::string bytes = cuda::compile_to_cubin(text, "kernel", arch, &log);
    return fmt::format("{}\n", bytes.size()) + bytes + log;
  });
  const size_t first = all.find('\n') + 1, size = std::stoul(all);
  return {all.substr(first, size), all.substr(first + size)};
}

namespace {

// The label that an instruction names, as in "BRA `(.L_x_3)".
std::string label_in(const std::string& text) {
  const size_t at = text.find("`(");
  return at == std::string::npos ? "" : text.substr(at + 2, text.find(')', at) - at - 2);
}

bool ends_path(const MachineInstruction& i) {
  return !i.is_guarded && (i.name == "EXIT" || i.name == "RET" || i.name == "BRX");
}

// Jumps, but not BSSY and BSYNC, which name where paths meet again, nor calls, which come back.
bool jumps(const MachineInstruction& i) { return i.name == "BRA" || i.name == "BREAK"; }

// The largest register that an instruction names.
int largest_register(const MachineInstruction& i) {
  static const std::regex name(R"(\bR(\d+)\b)");
  int largest = -1;
  for (std::sregex_iterator at(i.text.begin(), i.text.end(), name), end; at != end; ++at) {
    largest = std::max(largest, std::stoi((*at)[1]));
  }
  return largest;
}

}  // namespace

MachineCode::MachineCode(std::string_view text) {
  static const std::regex instruction(
      R"(^\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?(([A-Z0-9_]+)[^;]*);)");
  static const std::regex label(R"(^(\.L_x_\d+):)");
  std::istringstream lines{std::string(text)};
  std::map<std::string, size_t> labels;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, label)) {
      labels[found[1]] = instructions_.size();
    } else if (std::regex_search(line, found, instruction)) {
      instructions_.push_back({found[3], found[2], found[1].matched});
    }
  }
  find_successors(labels);
  find_loops();
}

void MachineCode::find_successors(const std::map<std::string, size_t>& labels) {
  successors_.resize(instructions_.size());
  for (size_t i = 0; i < instructions_.size(); ++i) {
    const MachineInstruction& x = instructions_[i];
    auto there = jumps(x) ? labels.find(label_in(x.text)) : labels.end();
    if (there != labels.end() && there->second < instructions_.size()) {
      successors_[i].push_back(there->second);
    }
    const bool always_jumps = there != labels.end() && !x.is_guarded &&
                              x.text.find(" P") == std::string::npos &&
                              x.text.find(" !P") == std::string::npos;
    if (!always_jumps && !ends_path(x) && i + 1 < instructions_.size()) {
      successors_[i].push_back(i + 1);
    }
  }
}

// By instruction, those that every path to it passes. Iterates to the fixed point.
std::vector<MachineCode::Set> MachineCode::dominators() const {
  const size_t n = instructions_.size();
  std::vector<std::vector<size_t>> predecessors(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t next : successors_[i]) predecessors[next].push_back(i);
  }
  std::vector<Set> all(n, Set(n, true));
  if (n == 0) return all;
  all[0].assign(n, false);
  all[0][0] = true;
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t i = 1; i < n; ++i) {
      Set own(n, !predecessors[i].empty());
      for (size_t p : predecessors[i]) {
        for (size_t d = 0; d < n; ++d) own[d] = own[d] && all[p][d];
      }
      own[i] = true;
      if (own != all[i]) {
        all[i] = std::move(own);
        changes = true;
      }
    }
  }
  return all;
}

void MachineCode::find_loops() {
  const size_t n = instructions_.size();
  const std::vector<Set> dominating = dominators();
  std::map<size_t, Set> loops;  // by the first instruction
  for (size_t i = 0; i < n; ++i) {
    for (size_t first : successors_[i]) {
      if (!dominating[i][first]) continue;
      Set& body = loops.try_emplace(first, n, false).first->second;
      body[first] = true;
      std::vector<size_t> left = {i};
      while (!left.empty()) {
        const size_t at = left.back();
        left.pop_back();
        if (body[at]) continue;
        body[at] = true;
        for (size_t p = 0; p < n; ++p) {
          if (std::count(successors_[p].begin(), successors_[p].end(), at) > 0) left.push_back(p);
        }
      }
    }
  }
  in_loop_.assign(n, false);
  std::pair<int, long> best = {-1, 0};
  const bool multiplies = count(multiplies_matrices) > 0;
  for (const auto& [first, body] : loops) {
    std::vector<size_t> members;
    int products = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!body[i]) continue;
      in_loop_[i] = true;
      members.push_back(i);
      products += multiplies_matrices(instructions_[i]) ? 1 : 0;
    }
    const long size = static_cast<long>(members.size());
    const std::pair<int, long> rank = multiplies ? std::pair{products, -size} : std::pair{0, size};
    if (rank <= best && best.first >= 0) continue;
    best = rank;
    main_loop_ = members;
  }
}

int MachineCode::count(const Matches& matches) const {
  return static_cast<int>(std::count_if(instructions_.begin(), instructions_.end(), matches));
}

int MachineCode::count_in_loops(const Matches& matches) const {
  int found = 0;
  for (size_t i = 0; i < instructions_.size(); ++i) {
    found += in_loop_[i] && matches(instructions_[i]) ? 1 : 0;
  }
  return found;
}

int MachineCode::count_in_main_loop(const Matches& matches) const {
  return static_cast<int>(std::count_if(main_loop_.begin(), main_loop_.end(),
                                        [&](size_t i) { return matches(instructions_[i]); }));
}

std::vector<MachineCode::RegisterWindow> MachineCode::register_windows() const {
  static const std::regex limit_at(R"(USETMAXREG\S*\s+(?:U?P\w+,\s*)?(0x[0-9a-f]+))");
  std::vector<RegisterWindow> windows;
  for (size_t i = 0; i < instructions_.size(); ++i) {
    std::smatch found;
    if (!std::regex_search(instructions_[i].text, found, limit_at)) continue;
    RegisterWindow window{static_cast<int>(std::stoul(found[1], nullptr, 16)), 0};
    Set seen(instructions_.size(), false);
    std::vector<size_t> left = {i};
    while (!left.empty()) {
      const size_t at = left.back();
      left.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      window.largest = std::max(window.largest, largest_register(instructions_[at]));
      for (size_t next : successors_[at]) left.push_back(next);
    }
    windows.push_back(window);
  }
  return windows;
}

std::map<std::string, MachineCode> machine_code_of(const std::string& disassembly) {
  const std::string opening = "\n.text.";
  std::map<std::string, MachineCode> functions;
  for (size_t at = disassembly.find(opening); at != std::string::npos;) {
    const size_t name = at + opening.size(), end = disassembly.find(':', name);
    const size_t next = disassembly.find(opening, end);
    functions.emplace(disassembly.substr(name, end - name),
                      std::string_view(disassembly).substr(end, next - end));
    at = next;
  }
  return functions;
}

MachineCode::Matches named(std::string name) {
  return [name = std::move(name)](const MachineInstruction& i) { return i.name == name; };
}

bool multiplies_matrices(const MachineInstruction& i) {
  for (const char* name : {"HGMMA", "IGMMA", "QGMMA", "BGMMA", "HMMA", "IMMA", "QMMA", "BMMA"}) {
    if (i.name == name) return true;
  }
  return false;
}

}  // namespace tilewright
