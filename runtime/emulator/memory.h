// Global and shared memory of emulated kernels with a state for every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulator/thread_state.h"

namespace tilewright::emulator {

// Who touched a byte: a thread at a time.
struct Mark {
  uint32_t thread = 0;  // its id in the launch; 0: nobody
  uint32_t epoch = 0, warp_epoch = 0;
  int32_t line = 0;
};

struct ByteState {
  bool initialized = false;
  bool in_flight = false;           // an asynchronous copy writes it; `writer` is who asked
  int8_t other_lane[2] = {-1, -1};  // another lane of the reader's warp that read it then, too
  uint16_t async_readers = 0;       // warps whose wgmma reads it until they have waited for it
  uint32_t fences = 0;              // to the asynchronous proxy, of the writer when it wrote
  Mark writer;
  Mark readers[2];  // of two warps: what a third one adds is no news to a writer
};

// Bytes with their state: a buffer, or the shared memory of a block.
struct Storage {
  unsigned char* data = nullptr;
  int64_t bytes = 0;
  Space space = Space::Global;
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

class Memory {
 public:
  // The threads of a block, to tell lanes of a warp from others.
  void begin_launch(int threads_per_block, uint32_t first_epoch);
  // Clears shared memory: `bytes` of it, all unset.
  void begin_block(int64_t shared_bytes);

  // A name in the block's shared memory, one object for each name and place. Throws Fault when it
  // does not lie in it or is not aligned to its elements.
  tw_emu_array* shared_array(const ThreadState& by, const char* name, int64_t offset, int64_t count,
                             int element_bytes, int line);
  Storage& shared() { return shared_; }

  // Each throws Fault, and changes nothing then.
  void load(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes, void* out, int line);
  void store(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes, const void* value,
             int line);
  // The copy's bytes are taken at once and land in `land`.
  AsyncCopy copy_async(ThreadState& by, tw_emu_array& to, int64_t to_offset, tw_emu_array& from,
                       int64_t from_offset, int bytes, int valid, int line);
  void land(const ThreadState& by, const AsyncCopy& copy);

  // The fence between what a thread does to memory and what asynchronous matrix instructions do.
  void fence_async(const ThreadState& by);
  // A byte that such an instruction of the warp of `by` reads, and that it has read: who writes it
  // in between is at fault, and who writes it later races as with a reader.
  void begin_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int line);
  void end_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int line);

 private:
  uint32_t fences_of(const ThreadState& by) const;
  // Whether such an instruction of `by` sees what was stored here.
  bool is_fenced(const ThreadState& by, const ByteState& state) const;
  void check_place(const ThreadState& by, const tw_emu_array& array, int64_t offset, int bytes,
                   const char* verb, int line) const;
  void check_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int bytes,
                  int line) const;
  void check_write(const ThreadState& by, const tw_emu_array& array, int64_t offset, int bytes,
                   int line) const;
  void note_read(const ThreadState& by, ByteState& state, int line) const;
  bool same_warp(uint32_t a, uint32_t b) const;
  // Whether what `mark` says may happen at the same time as what `by` does now.
  bool unordered(const ThreadState& by, const Mark& mark) const;
  [[noreturn]] void race(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                         const Mark& mark, const char* does, const char* did, int line) const;

  int threads_ = 1;
  uint32_t first_epoch_ = 0;
  std::vector<unsigned char> shared_bytes_;
  Storage shared_;
  std::vector<std::unique_ptr<tw_emu_array>> arrays_;
  std::vector<std::vector<uint32_t>> fences_;  // of each thread of the block, in which epochs
};

}  // namespace tilewright::emulator
