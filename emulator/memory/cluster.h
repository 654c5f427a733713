// The blocks of an emulated cluster: their barrier, and what one of them does to another one, which has
// to be there still. As the PTX ISA defines them (barrier.cluster, mapa, the scope .cluster).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emulator/memory/memory.h"

namespace tilewright::emulator {

/// Each function throws Fault. Who has to wait is left with Wait::Cluster.
class Cluster {
 public:
  /// A cluster of so many blocks of so many threads begins.
  void begin(int blocks, int threads_per_block);

  /// Comes to the barrier. What the thread has done and knows goes to whoever waits there; if it is
  /// `relaxed`, only the mbarriers that it has made and fenced.
  void arrive(ThreadState& by, bool relaxed, int line);
  /// Whether all threads that have not returned have come since. If not, `by` waits for them.
  bool wait(ThreadState& by, int line);
  /// `by` returns: nobody waits for it any more.
  void leave(ThreadState& by);

  /// `by` is to reach into the block `rank`; throws where there is none, or where it has returned.
  /// `does` says what: "arrives at empty[1]".
  void reach(const ThreadState& by, int64_t rank, const std::string& does, int line) const;
  /// As `reach`, for an access that nobody there need notice: the block's end has to come behind
  /// it.
  void touch(const ThreadState& by, int64_t rank, const std::string& does, int line);
  /// When all blocks have returned: throws where one of them may have done so too early.
  void check_end() const;

  int blocks() const { return static_cast<int>(left_.size()); }
  /// "waits at the barrier of the cluster in line 7, to which 32 of 64 threads have come".
  std::string describe(const ThreadState& waiting) const;

 private:
  // The last thing that a thread did to another block.
  struct Touch {
    const ThreadState* by = nullptr;
    uint32_t epoch = 0, warp_epoch = 0, clock = 0;
    int line = 0;
    std::string does;
  };

  void end_phase_if_all_came();

  int threads_ = 0;                                   // of a block
  std::vector<int64_t> left_;                         // threads that have returned, by rank
  std::vector<Order> knew_;                           // what these knew
  std::map<std::pair<int64_t, int>, Touch> touches_;  // by rank, and place of the thread
  int64_t come_ = 0, phase_ = 0;
  Order arriving_, released_;
  Order arriving_inits_, released_inits_;  // of mbarriers
  std::vector<ThreadState*> waiting_;
};

}  // namespace tilewright::emulator
