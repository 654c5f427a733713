// The asynchronous proxy's effects on memory: bulk copies, the fence that shows it what threads
// wrote, and the bytes that are mbarriers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/memory/memory.h"

namespace tilewright::emulator {
namespace {

constexpr int kMBarrierBytes = 8;

}  // namespace

// The fence takes the place of the store: who is ordered behind the fence alone may read by the
// asynchronous proxy.
void Memory::fence_async(ThreadState& by) {
  for (const auto& [begin, end] : by.unfenced) {
    for (int64_t i = begin; i < end; ++i) {
      ByteState& state = shared_[static_cast<size_t>(by.rank)].states[static_cast<size_t>(i)];
      if (state.writer.thread != by.id || state.writer.copy != 0 || state.in_flight) continue;
      state.fenced = true;
      state.writer = mark_of(by, state.writer.line);
    }
  }
  by.unfenced.clear();
  ++fences_of(by.id);
}

void Memory::check_fenced(const tw_emu_array& array, int64_t offset, int64_t bytes,
                          const char* verb, int line) const {
  if (array.storage->space != Space::Shared) return;
  const ByteState* state = states_at(array, offset);
  for (int64_t i = 0; i < bytes; ++i, ++state) {
    if (state->fenced) continue;
    memory_fault(
        FaultKind::MissingFence, array, offset + i, line,
        fmt::format("{} {}, which a thread wrote at line {} with no tw_fence_async() behind "
                    "it: the asynchronous proxy need not see that",
                    verb, name_place(array, offset + i, 1), state->writer.line));
  }
}

// Reads of threads and writes of copies are of different proxies, which barriers alone do not order (PTX
// ISA, "Causality order"). The reader is asked for the fence.
void Memory::check_reads_fenced(const tw_emu_array& array, int64_t offset, int64_t bytes,
                                int line) const {
  if (array.storage->space != Space::Shared) return;
  const ByteState* state = states_at(array, offset);
  for (int64_t i = 0; i < bytes; ++i, ++state) {
    for (int r = 0; r < 2; ++r) {
      if (!is_unfenced(*state, r)) continue;
      memory_fault(
          FaultKind::MissingFence, array, offset + i, line,
          fmt::format(
              "copies to {}, which a thread read at line {} with no tw_fence_async() behind "
              "it: the copy may come before that",
              name_place(array, offset + i, 1), state->readers[r].line));
    }
  }
}

void Memory::bulk_read(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t bytes,
                       unsigned char* out, int line) {
  check_bounds(array, offset, bytes, "copies from", line);
  check_read(by, array, offset, bytes, line);
  check_fenced(array, offset, bytes, "copies from", line);
  ByteState* state = states_at(array, offset);
  const bool shared = array.storage->space == Space::Shared;
  if (array.storage->written) note_reads(by, state, bytes, line, true);
  for (int64_t i = 0; shared && i < bytes; ++i) state[i].use = ByteUse::BulkSource;
  std::memcpy(out, bytes_at(array, offset), static_cast<size_t>(bytes));
}

void Memory::end_bulk_read(const ThreadState& by, const BulkCopy::Stretch& source, int line) {
  ByteState* state = states_at(*source.to, source.offset);
  for (int64_t i = 0; i < source.bytes; ++i) state[i].use = ByteUse::Plain;
  note_reads(by, state, source.bytes, line, true);  // whoever is to write there has to come behind
}

void Memory::begin_bulk_write(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t bytes,
                              int line) {
  check_bounds(array, offset, bytes, "copies to", line);
  check_write(by, array, offset, bytes, line);
  check_fenced(array, offset, bytes, "copies to", line);
  check_reads_fenced(array, offset, bytes, line);
  ByteState* state = states_at(array, offset);
  for (int64_t i = 0; i < bytes; ++i) {
    state[i].in_flight = true;
    state[i].writer = mark_of(by, line);
  }
}

void Memory::land(const BulkCopy& copy, Mark mark) {
  const unsigned char* from = copy.bytes.data();
  mark.line = copy.line;
  for (const BulkCopy::Stretch& s : copy.stretches) {
    ByteState* state = states_at(*s.to, s.offset);
    for (int64_t i = 0; i < s.bytes; ++i) {
      state[i].in_flight = false;
      state[i].initialized = true;
      state[i].fenced = true;
      state[i].writer = mark;
    }
    std::memcpy(bytes_at(*s.to, s.offset), from, static_cast<size_t>(s.bytes));
    from += s.bytes;
  }
}

void Memory::claim_mbarrier(ThreadState& by, tw_emu_array& array, int64_t offset, int line) {
  check_place(by, array, offset, kMBarrierBytes, "makes an mbarrier of", line);
  check_write(by, array, offset, kMBarrierBytes, line);
  ByteState* state = states_at(array, offset);
  for (int i = 0; i < kMBarrierBytes; ++i) {
    state[i].initialized = false;
    state[i].fenced = true;  // its own fence is asked of the mbarrier
    state[i].use = ByteUse::MBarrier;
    state[i].writer = mark_of(by, line);
  }
}

void Memory::release_mbarrier(const tw_emu_array& array, int64_t offset) {
  ByteState* state = states_at(array, offset);
  for (int i = 0; i < kMBarrierBytes; ++i) state[i].use = ByteUse::Plain;
}

}  // namespace tilewright::emulator
