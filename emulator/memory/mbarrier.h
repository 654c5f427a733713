// The mbarriers of an emulated cluster of blocks: arrivals, phases, the bytes that copies bring, and what a wait
// tells the one who waited. As the PTX ISA defines them ("mbarrier").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emulator/memory/memory.h"

namespace tilewright::emulator {

/// Each function throws Fault. A thread that has to wait is left with Wait::MBarrier, and is made
/// ready by who completes the phase.
class MBarriers {
 public:
  explicit MBarriers(Memory& memory) : memory_(memory) {}

  /// Forgets those of the cluster before.
  void begin_cluster() {
    barriers_.clear();
    made_ = 0;
  }

  /// Makes 8 bytes of shared memory an mbarrier for phases of `count` arrivals.
  void init(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t count, int line);
  /// Shows the mbarriers that `by` made to copies.
  void fence_init(ThreadState& by);
  void invalidate(ThreadState& by, tw_emu_array& array, int64_t offset, int line);
  /// An arrival, behind which `by` may not be asked again in this phase.
  void arrive(ThreadState& by, tw_emu_array& array, int64_t offset, int line);
  /// The phase is to last until copies have brought so many more bytes.
  void expect(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t bytes, int line);
  /// Whether the phase of this parity has ended. If not, `by` waits for it.
  bool wait(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t parity, int line);
  /// A copy under way to shared memory, which lands when the phase that it belongs to ends: not
  /// before somebody waits for that, so that whoever does not wait finds nothing.
  void add(ThreadState& by, tw_emu_array& array, int64_t offset, BulkCopy copy, int line);
  /// Throws Fault where an mbarrier could not count a copy now; add() checks the same.
  void check_copy(const ThreadState& by, tw_emu_array& array, int64_t offset, int line);

  /// "waits at full[1] in line 7 for phase 2 (parity 0), of which 1 of 2 arrivals …".
  std::string describe(const ThreadState& waiting) const;
  /// A copy that nobody has waited for when the block ends: null if there is none.
  const BulkCopy* left_over() const;

 private:
  // The rank of the block in whose shared memory it lies, and where.
  using Place = std::pair<int, int64_t>;
  static Place place_of(const tw_emu_array& array, int64_t offset) {
    return {array.storage->rank, array.begin + offset};
  }

  struct Barrier {
    std::string name;  // "full[1]"
    int number = 0;    // among those of the cluster
    int64_t count = 0, pending = 0;
    int64_t expected_bytes = 0, copied_bytes = 0;
    uint32_t phase = 0;
    bool fenced = false;  // copies may see it
    Mark init;
    Order arriving, released;  // of the current phase, and of those that have ended
    std::vector<BulkCopy> copies;
    std::vector<ThreadState*> waiting;
  };

  Barrier& at(const ThreadState& by, tw_emu_array& array, int64_t offset, const char* verb,
              int line);
  void check_bytes(const Barrier& b, int line) const;
  void settle(const ThreadState& by, Barrier& b, bool wanted);
  void end_phase(const ThreadState& by, Barrier& b);

  Memory& memory_;
  std::map<Place, Barrier> barriers_;
  int made_ = 0;  // in this cluster
};

}  // namespace tilewright::emulator
