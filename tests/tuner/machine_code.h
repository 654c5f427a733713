// Machine code as NVIDIA's disassembler prints it: instructions, loops, and what tests ask of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

// The disassembler's path; empty where there is none.
std::string nvdisasm();
// Its output for a cubin.
std::string disassembly(const std::string& cubin);

// NVRTC's cubin of a kernel and what it said. This and the output above are kept in the cache of compiled
// kernels: tests of one kernel, each its own process, make them once.
struct Cubin {
  std::string bytes, log;
};
Cubin cubin_of(const std::string& text, const std::string& arch);

struct MachineInstruction {
  std::string name;  // "HGMMA", without its forms
  std::string text;  // all of it, without its guard
  bool is_guarded = false;
};

// A function of a cubin. Loops are natural ones: a jump back to a block that dominates it.
class MachineCode {
 public:
  using Matches = std::function<bool(const MachineInstruction&)>;

  explicit MachineCode(std::string_view text);

  const std::vector<MachineInstruction>& instructions() const { return instructions_; }
  // Instructions of all of it, in any loop, or in the main loop.
  int count(const Matches& matches) const;
  int count_in_loops(const Matches& matches) const;
  int count_in_main_loop(const Matches& matches) const;
  // The loop with the most matrix instructions, or without these with the most instructions; of
  // nested ones the innermost. 0 instructions if there is no loop.
  int main_loop_size() const { return static_cast<int>(main_loop_.size()); }
  // The largest register behind each instruction that takes or gives registers, by its limit.
  struct RegisterWindow {
    int limit = 0, largest = 0;
  };
  std::vector<RegisterWindow> register_windows() const;

 private:
  using Set = std::vector<bool>;  // by instruction

  void find_successors(const std::map<std::string, size_t>& labels);
  std::vector<Set> dominators() const;
  void find_loops();

  std::vector<MachineInstruction> instructions_;
  std::vector<std::vector<size_t>> successors_;
  Set in_loop_;
  std::vector<size_t> main_loop_;
};

// The functions of a disassembly by name.
std::map<std::string, MachineCode> machine_code_of(const std::string& disassembly);

// Whether an instruction has this name: "HGMMA", "R2UR".
MachineCode::Matches named(std::string name);
// Whether it multiplies matrices.
bool multiplies_matrices(const MachineInstruction& i);

}  // namespace tilewright
