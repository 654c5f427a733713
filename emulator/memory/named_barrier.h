// The barriers 1 to 15 of an emulated block, at which a part of its warps meet (`barrier` of the PTX
// ISA), and the registers that warps hand to each other (`setmaxnreg`).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/memory/memory.h"

namespace tilewright::emulator {

/// Each function throws Fault. Who has to wait is left with Wait::NamedBarrier.
class NamedBarriers {
 public:
  static constexpr int kCount = 16;  // 0 is that of __syncthreads

  void begin_block() { barriers_ = {}; }
  /// `by` comes to barrier `number`, which `threads` threads of the block complete. Whether it may go
  /// on: it waits for the others if it is to `wait`.
  bool come(ThreadState& by, int64_t number, int64_t threads, bool wait, int line);
  /// "waits at barrier 1 in line 7, to which 32 of 64 threads have come".
  std::string describe(const ThreadState& waiting) const;

 private:
  struct Barrier {
    int64_t threads = 0, come = 0;
    int line = 0;  // of the first that came
    Order arriving;
    std::vector<ThreadState*> waiting;
  };
  std::array<Barrier, kCount> barriers_;
};

/// The registers of a block's warps. Likewise, with Wait::Registers.
class RegisterBudget {
 public:
  /// `registers` of a thread when the block starts; 0: as many as blocks of so many threads can have.
  void begin_block(std::vector<ThreadState*> threads, int registers);
  /// The warp of `by` is to have `registers` a thread from now on, more or fewer of them. All threads
  /// of a warpgroup meet for that; more registers wait until others have given theirs back.
  bool set(ThreadState& by, int64_t registers, bool more, int line);
  /// "waits in line 7 for 240 registers a thread".
  std::string describe(const ThreadState& waiting) const;

 private:
  bool grant(size_t warpgroup);

  std::vector<ThreadState*> threads_;
  int64_t free_ = 0;
};

}  // namespace tilewright::emulator
