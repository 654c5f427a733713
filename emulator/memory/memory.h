// Global and shared memory of emulated kernels with a state for every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/thread_state.h"

namespace tilewright::emulator {

// Who touched a byte: a thread at a time, or a copy that an mbarrier counts.
struct Mark {
  uint32_t thread = 0;  // its id in the launch; 0: nobody
  uint32_t epoch = 0, warp_epoch = 0;
  uint32_t clock = 0;  // of the thread; of a copy the phases that have ended with its own
  uint32_t copy = 0;  // 1 + the number of the mbarrier that counted it; 0: the thread itself did it
  int32_t line = 0;
  uint32_t fences = 0;  // to the asynchronous proxy that the thread had made by then, or kByProxy
  bool operator==(const Mark&) const = default;
};
constexpr uint32_t kByProxy = ~uint32_t{0};  // the asynchronous proxy itself did it

// The use of a byte besides plain memory.
enum class ByteUse : uint8_t {
  Plain,
  BulkSource,  // a bulk store still reads it
  MBarrier,
};

struct ByteState {
  bool initialized = false;
  bool in_flight = false;  // an asynchronous copy writes it; `writer` is who asked
  ByteUse use = ByteUse::Plain;
  bool fenced = true;               // the asynchronous proxy may see what `writer` wrote
  int8_t other_lane[2] = {-1, -1};  // another lane of the reader's warp that read it then, too
  uint32_t other_fences[2] = {};    // of that lane, as in Mark
  uint16_t async_readers = 0;       // warps whose wgmma reads it until they have waited for it
  Mark writer;
  Mark readers
      [2];  // of two warps: what a third one adds is no news to a writer, but for a fence it lacks
};

// Bytes with their state: a buffer, or the shared memory of a block.
struct Storage {
  unsigned char* data = nullptr;
  int64_t bytes = 0;
  Space space = Space::Global;
  int rank = 0;         // of shared memory: whose, in the cluster
  bool written = true;  // by some parameter of the launch: else readers are not noted
  int64_t address = 0;  // where counters take it to lie
  std::vector<ByteState> states;
};

}  // namespace tilewright::emulator

// A name for a stretch of a storage.
struct tw_emu_array {
  std::string name;
  tilewright::emulator::Storage* storage = nullptr;
  int64_t begin = 0, bytes = 0;
  int element_bytes = 1;
};

namespace tilewright::emulator {

inline ByteState* states_at(const tw_emu_array& array, int64_t offset) {
  return array.storage->states.data() + array.begin + offset;
}
inline unsigned char* bytes_at(const tw_emu_array& array, int64_t offset) {
  return array.storage->data + array.begin + offset;
}
// "As[5]", "4 elements at As[5]".
std::string name_place(const tw_emu_array& array, int64_t offset, int64_t bytes);
[[noreturn]] void memory_fault(FaultKind kind, const tw_emu_array& array, int64_t offset, int line,
                               std::string problem);

class Memory {
 public:
  // The threads of a block, to tell lanes of a warp from others, and the blocks of a cluster.
  void begin_launch(int threads_per_block, int blocks_per_cluster, uint32_t first_epoch);
  // Clears the shared memory of each of its blocks: `bytes` of it, all unset.
  void begin_cluster(int64_t shared_bytes);

  // A name in the shared memory of the thread's block, one object for each name and place. Throws Fault
  // when it does not lie in it or is not aligned to its elements.
  tw_emu_array* shared_array(const ThreadState& by, const char* name, int64_t offset, int64_t count,
                             int element_bytes, int line);
  // The array at the same place in the block `rank` of the cluster, under the same name. `array`
  // must be one in shared memory, `rank` one of the cluster's.
  tw_emu_array* counterpart(const tw_emu_array& array, int rank);

  // Each throws Fault, and changes nothing then.
  void load(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes, void* out, int line);
  void store(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes, const void* value,
             int line);
  // The copy's bytes are taken at once and land in `land`.
  AsyncCopy copy_async(ThreadState& by, tw_emu_array& to, int64_t to_offset, tw_emu_array& from,
                       int64_t from_offset, int bytes, int valid, int line);
  void land(ThreadState& by, const AsyncCopy& copy);

  // Bulk copies and mbarriers (async_memory.cc). All throw Fault, and change nothing then.
  //
  // Makes what the thread wrote to shared memory visible to the asynchronous proxy.
  void fence_async(ThreadState& by);
  // The asynchronous proxy reads `bytes` for `by`. From shared memory it sees fenced writes alone, and
  // still reads when this returns, until end_bulk_read().
  void bulk_read(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t bytes,
                 unsigned char* out, int line);
  void end_bulk_read(const ThreadState& by, const BulkCopy::Stretch& source, int line);
  // It is to write there: nobody may touch the bytes until they have landed.
  void begin_bulk_write(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t bytes,
                        int line);
  // All bytes of the copy come to their places, as `mark` says.
  void land(const BulkCopy& copy, Mark mark);
  // Eight bytes become an mbarrier, or memory again.
  void claim_mbarrier(ThreadState& by, tw_emu_array& array, int64_t offset, int line);
  void release_mbarrier(const tw_emu_array& array, int64_t offset);
  Mark mark_of(const ThreadState& by, int line) const;
  // Whether what `mark` says may happen at the same time as what `by` does now.
  bool unordered(const ThreadState& by, const Mark& mark) const;
  // The same for a thread that barriers told no more than `seen`.
  bool unordered(const ThreadState& by, const Mark& mark, const Order& seen) const;

  // A byte that an asynchronous matrix instruction of the warp of `by` reads, and that it has read: who
  // writes it in between is at fault, and who writes it later races as with a reader.
  void begin_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int line);
  void end_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int line);

 private:
  void check_place(const ThreadState& by, const tw_emu_array& array, int64_t offset, int bytes,
                   const char* verb, int line) const;
  void check_bounds(const tw_emu_array& array, int64_t offset, int64_t bytes, const char* verb,
                    int line) const;
  // Checks an access of a launch that may have started while the one before it runs.
  void check_launch(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                    const char* verb, int line) const;
  void check_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int64_t bytes,
                  int line) const;
  void check_write(const ThreadState& by, const tw_emu_array& array, int64_t offset, int64_t bytes,
                   int line) const;
  // Whether that one of a byte's readers, or the other lane of its warp, has made no fence to the
  // asynchronous proxy since.
  bool is_unfenced(const ByteState& state, int r) const;
  void note_reads(const ThreadState& by, ByteState* states, int64_t bytes, int line,
                  bool by_proxy = false) const;
  void note_read(const Mark& mark, uint32_t first_lane, uint32_t behind_warp,
                 ByteState& state) const;
  // Checks that threads' reads of shared memory that a copy is to fill have come before it.
  void check_reads_fenced(const tw_emu_array& array, int64_t offset, int64_t bytes, int line) const;
  uint32_t& fences_of(uint32_t thread);
  uint32_t fences_of(uint32_t thread) const;
  bool same_warp(uint32_t a, uint32_t b) const;
  void check_fenced(const tw_emu_array& array, int64_t offset, int64_t bytes, const char* verb,
                    int line) const;
  [[noreturn]] void race(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                         const Mark& mark, const char* does, const char* did, int line) const;

  tw_emu_array* named(const tw_emu_array& array);

  int threads_ = 1, blocks_ = 1;  // of a block, of a cluster
  uint32_t first_epoch_ = 0;
  std::vector<uint32_t> fences_;  // to the asynchronous proxy, by thread of the cluster
  std::vector<std::vector<unsigned char>> shared_bytes_;  // by rank
  std::vector<Storage> shared_;
  std::vector<std::unique_ptr<tw_emu_array>> arrays_;
};

}  // namespace tilewright::emulator
