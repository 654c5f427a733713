#include "emulator/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilewright::emulator {
namespace {

constexpr unsigned char kPoison = 0xcb;
constexpr size_t kUnfencedLimit = 1024;

// Notes a write that the thread's next fence will make visible to the asynchronous proxy. Kernels
// that never fence write the same places again and again, which are noted once in a while.
void note_unfenced(ThreadState& by, const tw_emu_array& array, int64_t offset, int64_t bytes) {
  if (array.storage->space != Space::Shared) return;
  auto& list = by.unfenced;
  const int64_t begin = array.begin + offset;
  if (!list.empty() && list.back().second == begin) {
    list.back().second += bytes;
    return;
  }
  if (list.size() >= kUnfencedLimit) {
    std::sort(list.begin(), list.end());
    size_t last = 0;
    for (size_t i = 1; i < list.size(); ++i) {
      if (list[i].first <= list[last].second) {
        list[last].second = std::max(list[last].second, list[i].second);
      } else {
        list[++last] = list[i];
      }
    }
    list.resize(last + 1);
  }
  list.emplace_back(begin, begin + bytes);
}

// A byte that is no plain memory now.
[[noreturn]] void busy(const tw_emu_array& array, int64_t offset, const ByteState& state,
                       const char* does, int line) {
  if (state.use == ByteUse::MBarrier) {
    memory_fault(FaultKind::BadBarrier, array, offset, line,
                 fmt::format("{} {}, which is an mbarrier since line {}", does,
                             name_place(array, offset, 1), state.writer.line));
  }
  memory_fault(FaultKind::CopyInFlight, array, offset, line,
               fmt::format("{} {}, which the bulk store at line {} still reads: it was not waited "
                           "for",
                           does, name_place(array, offset, 1), state.readers[0].line));
}

// Whether the same threads wrote and read both bytes at the same times.
bool is_touched_alike(const ByteState& a, const ByteState& b) {
  return a.writer == b.writer && a.readers[0] == b.readers[0] && a.readers[1] == b.readers[1] &&
         a.other_lane[0] == b.other_lane[0] && a.other_lane[1] == b.other_lane[1];
}

}  // namespace

std::string name_place(const tw_emu_array& array, int64_t offset, int64_t bytes) {
  int64_t index = offset / array.element_bytes - (offset % array.element_bytes < 0);
  int64_t count = std::max<int64_t>(1, bytes / array.element_bytes);
  std::string place = fmt::format("{}[{}]", array.name, index);
  return count == 1 ? place : fmt::format("{} elements at {}", count, place);
}

void memory_fault(FaultKind kind, const tw_emu_array& array, int64_t offset, int line,
                  std::string problem) {
  Fault fault;
  fault.fault.kind = kind;
  fault.fault.buffer = array.name;
  fault.fault.index = offset / array.element_bytes;
  fault.fault.line = line;
  fault.fault.problem = std::move(problem);
  throw fault;
}

Mark Memory::mark_of(const ThreadState& by, int line) const {
  return {by.id, by.epoch, by.warp_epoch, by.clock, 0, line, fences_of(by.id)};
}

uint32_t& Memory::fences_of(uint32_t thread) { return fences_[(thread - 1) % fences_.size()]; }
uint32_t Memory::fences_of(uint32_t thread) const { return fences_[(thread - 1) % fences_.size()]; }

void Memory::begin_launch(int threads_per_block, int blocks_per_cluster, uint32_t first_epoch) {
  threads_ = threads_per_block;
  blocks_ = blocks_per_cluster;
  first_epoch_ = first_epoch;
  arrays_.clear();
  shared_bytes_.resize(static_cast<size_t>(blocks_));
  shared_ = std::vector<Storage>(static_cast<size_t>(blocks_));
}

void Memory::begin_cluster(int64_t shared_bytes) {
  fences_.assign(static_cast<size_t>(threads_) * static_cast<size_t>(blocks_), 0);
  for (size_t rank = 0; rank < shared_.size(); ++rank) {
    Storage& shared = shared_[rank];
    shared_bytes_[rank].assign(static_cast<size_t>(shared_bytes), kPoison);
    shared.states.assign(static_cast<size_t>(shared_bytes), ByteState());
    shared.data = shared_bytes_[rank].data();
    shared.bytes = shared_bytes;
    shared.space = Space::Shared;
    shared.rank = static_cast<int>(rank);
  }
}

tw_emu_array* Memory::shared_array(const ThreadState& by, const char* name, int64_t offset,
                                   int64_t count, int element_bytes, int line) {
  Storage& shared = shared_[static_cast<size_t>(by.rank)];
  const tw_emu_array array{name, &shared, offset, count * element_bytes, element_bytes};
  if (offset < 0 || count < 0 || offset + array.bytes > shared.bytes) {
    memory_fault(
        FaultKind::OutOfBounds, array, 0, line,
        fmt::format("places {} at bytes {} to {} of shared memory, of which the launch gives {}",
                    name, offset, offset + array.bytes, shared.bytes));
  }
  if (offset % std::min(element_bytes, 16) != 0) {
    memory_fault(FaultKind::Misaligned, array, 0, line,
                 fmt::format("places {}, of elements of {} bytes, at byte {} of shared memory",
                             name, element_bytes, offset));
  }
  return named(array);
}

tw_emu_array* Memory::named(const tw_emu_array& array) {
  for (auto& known : arrays_) {
    if (known->storage == array.storage && known->begin == array.begin &&
        known->bytes == array.bytes && known->element_bytes == array.element_bytes &&
        known->name == array.name) {
      return known.get();
    }
  }
  arrays_.push_back(std::make_unique<tw_emu_array>(array));
  return arrays_.back().get();
}

tw_emu_array* Memory::counterpart(const tw_emu_array& array, int rank) {
  tw_emu_array other = array;
  other.storage = &shared_[static_cast<size_t>(rank)];
  return named(other);
}

void Memory::check_bounds(const tw_emu_array& array, int64_t offset, int64_t bytes,
                          const char* verb, int line) const {
  if (offset < 0 || offset + bytes > array.bytes) {
    memory_fault(
        FaultKind::OutOfBounds, array, offset, line,
        fmt::format("{} {}, but {} has {} elements", verb, name_place(array, offset, bytes),
                    array.name, array.bytes / array.element_bytes));
  }
}

void Memory::check_place(const ThreadState&, const tw_emu_array& array, int64_t offset, int bytes,
                         const char* verb, int line) const {
  check_bounds(array, offset, bytes, verb, line);
  if ((array.begin + offset) % bytes != 0) {
    memory_fault(FaultKind::Misaligned, array, offset, line,
                 fmt::format("{} {} bytes at {}, {} bytes into the memory: no multiple of {}", verb,
                             bytes, name_place(array, offset, 1), array.begin + offset, bytes));
  }
}

bool Memory::same_warp(uint32_t a, uint32_t b) const {
  auto threads = static_cast<uint32_t>(threads_);
  uint32_t i = a - 1, j = b - 1;
  return i / threads == j / threads && i % threads / kWarp == j % threads / kWarp;
}

bool Memory::unordered(const ThreadState& by, const Mark& mark) const {
  return unordered(by, mark, by.seen);
}

bool Memory::unordered(const ThreadState& by, const Mark& mark, const Order& seen) const {
  if (mark.thread == 0 || mark.epoch < first_epoch_) return false;
  if (mark.thread == by.id && mark.copy == 0) return false;
  const auto threads = static_cast<uint32_t>(threads_), blocks = static_cast<uint32_t>(blocks_);
  const uint32_t block = (mark.thread - 1) / threads, own = (by.id - 1) / threads;
  if (block / blocks != own / blocks) return true;  // clusters have no order
  // Who asked for a copy need not be of the block to which it came, whose epochs these are.
  if (mark.copy != 0 && blocks > 1) {
    return Order::at(seen.copies, mark.copy - 1) < mark.clock;
  }
  if (block == own && mark.epoch < by.epoch) return false;
  if (mark.copy != 0) return Order::at(seen.copies, mark.copy - 1) < mark.clock;
  if (same_warp(mark.thread, by.id) && mark.warp_epoch < by.warp_epoch) return false;
  const uint32_t rank = block % blocks, index = (mark.thread - 1) % threads;
  if (block != own && mark.epoch < Order::at(seen.blocks, rank)) return false;
  const size_t warps = (threads + kWarp - 1) / kWarp;
  return mark.clock >= Order::at(seen.threads, rank * threads + index) &&
         mark.warp_epoch >= Order::at(seen.warps, rank * warps + index / kWarp);
}

void Memory::race(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                  const Mark& mark, const char* does, const char* did, int line) const {
  Fault fault;
  fault.fault.kind = FaultKind::Race;
  fault.fault.buffer = array.name;
  fault.fault.index = offset / array.element_bytes;
  fault.fault.line = line;
  uint32_t threads = static_cast<uint32_t>(threads_), other = mark.thread - 1;
  bool same_block = other / threads == (by.id - 1) / threads;
  const uint32_t in_cluster = threads * static_cast<uint32_t>(blocks_);
  bool same_cluster = other / in_cluster == (by.id - 1) / in_cluster;
  // Linear numbers for now: the scheduler, which knows the launch, turns them into coordinates.
  fault.fault.other_thread = {static_cast<int>(other % threads), 0, 0};
  fault.fault.other_block = {static_cast<int>(other / threads), 0, 0};
  fault.fault.problem =
      fmt::format("{} {}, which another thread{} {} at line {} with no {} between", does,
                  name_place(array, offset, 1), same_block ? "" : " of another block", did,
                  mark.line, same_block || same_cluster ? "barrier" : "launch");
  throw fault;
}

void Memory::check_launch(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                          const char* verb, int line) const {
  if (!by.may_overlap || array.storage->space != Space::Global) return;
  memory_fault(FaultKind::EarlyAccess, array, offset, line,
               fmt::format("{} {} before tw_grid_wait(): the launch before may not have ended",
                           verb, name_place(array, offset, 1)));
}

void Memory::check_read(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                        int64_t bytes, int line) const {
  check_launch(by, array, offset, "reads", line);
  const ByteState* state = states_at(array, offset);
  for (int64_t i = 0; i < bytes; ++i, ++state) {
    if (state->use == ByteUse::MBarrier) busy(array, offset + i, *state, "reads", line);
    if (state->in_flight) {
      memory_fault(
          FaultKind::CopyInFlight, array, offset + i, line,
          fmt::format("reads {}, which the asynchronous copy at line {} writes: it was not waited "
                      "for",
                      name_place(array, offset + i, 1), state->writer.line));
    }
    if (!state->initialized) {
      memory_fault(FaultKind::UninitializedRead, array, offset + i, line,
                   fmt::format("reads {}, which nothing has written so far",
                               name_place(array, offset + i, 1)));
    }
    // Neighbours were mostly written together, and the first of them tells for all.
    if (i > 0 && state->writer == state[-1].writer) continue;
    if (unordered(by, state->writer)) {
      race(by, array, offset + i, state->writer, "reads", "writes", line);
    }
  }
}

void Memory::check_write(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                         int64_t bytes, int line) const {
  check_launch(by, array, offset, "writes", line);
  const ByteState* state = states_at(array, offset);
  for (int64_t i = 0; i < bytes; ++i, ++state) {
    if (state->use != ByteUse::Plain) busy(array, offset + i, *state, "writes", line);
    if (state->in_flight) {
      memory_fault(
          FaultKind::CopyInFlight, array, offset + i, line,
          fmt::format("writes {}, which the asynchronous copy at line {} writes, too: it was not "
                      "waited for",
                      name_place(array, offset + i, 1), state->writer.line));
    }
    if (state->async_readers > 0) {
      memory_fault(FaultKind::WgmmaInFlight, array, offset + i, line,
                   fmt::format("writes {}, which a wgmma reads that was not waited for",
                               name_place(array, offset + i, 1)));
    }
    if (i > 0 && is_touched_alike(state[-1], *state)) continue;
    if (unordered(by, state->writer)) {
      race(by, array, offset + i, state->writer, "writes", "writes", line);
    }
    for (int r = 0; r < 2; ++r) {
      Mark reader = state->readers[r];
      // One mark stands for all lanes of a warp that read: of them, another one than the writer.
      if (reader.thread == by.id && state->other_lane[r] >= 0) {
        reader.thread += static_cast<uint32_t>(state->other_lane[r] - by.lane());
      }
      if (unordered(by, reader)) race(by, array, offset + i, reader, "writes", "reads", line);
    }
  }
}

bool Memory::is_unfenced(const ByteState& state, int r) const {
  const Mark& reader = state.readers[r];
  if (reader.thread == 0) return false;
  if (reader.fences == fences_of(reader.thread)) return true;
  if (state.other_lane[r] < 0) return false;
  const uint32_t lane = (reader.thread - 1) % static_cast<uint32_t>(threads_) % kWarp;
  const uint32_t other = reader.thread - lane + static_cast<uint32_t>(state.other_lane[r]);
  return state.other_fences[r] == fences_of(other);
}

void Memory::note_reads(const ThreadState& by, ByteState* states, int64_t bytes, int line,
                        bool by_proxy) const {
  Mark mark = mark_of(by, line);
  if (by_proxy) mark.fences = kByProxy;
  const auto threads = static_cast<uint32_t>(threads_);
  const uint32_t index = (by.id - 1) % threads, first_lane = by.id - index % kWarp;
  const uint32_t behind_warp = std::min(first_lane + kWarp, by.id - index + threads);
  for (int64_t i = 0; i < bytes; ++i) note_read(mark, first_lane, behind_warp, states[i]);
}

void Memory::note_read(const Mark& mark, uint32_t first_lane, uint32_t behind_warp,
                       ByteState& state) const {
  for (int r = 0; r < 2; ++r) {
    Mark& known = state.readers[r];
    if (known.thread < first_lane || known.thread >= behind_warp || known.epoch < first_epoch_) {
      continue;  // another warp, or nobody
    }
    bool same_time = known.epoch == mark.epoch && known.warp_epoch == mark.warp_epoch;
    if (!same_time) state.other_lane[r] = -1;
    if (same_time && known.thread != mark.thread) {
      state.other_lane[r] = static_cast<int8_t>(known.thread - first_lane);
      state.other_fences[r] = known.fences;
    }
    known = mark;
    return;
  }
  // One of the two gives way: not a warp whose fence is still missing, if the other has made its own.
  if (!is_unfenced(state, 1) || is_unfenced(state, 0)) {
    state.readers[1] = state.readers[0];
    state.other_lane[1] = state.other_lane[0];
    state.other_fences[1] = state.other_fences[0];
  }
  state.readers[0] = mark;
  state.other_lane[0] = -1;
}

void Memory::load(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes, void* out,
                  int line) {
  check_place(by, array, offset, bytes, "reads", line);
  check_read(by, array, offset, bytes, line);
  if (array.storage->written) note_reads(by, states_at(array, offset), bytes, line);
  std::memcpy(out, bytes_at(array, offset), static_cast<size_t>(bytes));
}

void Memory::store(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes,
                   const void* value, int line) {
  check_place(by, array, offset, bytes, "writes", line);
  check_write(by, array, offset, bytes, line);
  ByteState* state = states_at(array, offset);
  const Mark mark = mark_of(by, line);
  for (int i = 0; i < bytes; ++i) {
    state[i].initialized = true;
    state[i].fenced = false;
    state[i].writer = mark;
  }
  note_unfenced(by, array, offset, bytes);
  std::memcpy(bytes_at(array, offset), value, static_cast<size_t>(bytes));
}

AsyncCopy Memory::copy_async(ThreadState& by, tw_emu_array& to, int64_t to_offset,
                             tw_emu_array& from, int64_t from_offset, int bytes, int valid,
                             int line) {
  if (to.storage->space != Space::Shared || from.storage->space != Space::Global) {
    memory_fault(
        FaultKind::BadLaunch, to, to_offset, line,
        fmt::format("copies asynchronously from {} to {}; it goes from global to shared memory",
                    from.name, to.name));
  }
  if (valid < 0 || valid > bytes) {
    memory_fault(FaultKind::BadLaunch, to, to_offset, line,
                 fmt::format("copies {} valid bytes of {}", valid, bytes));
  }
  AsyncCopy copy{&to, to_offset, {}, bytes, line};
  check_place(by, to, to_offset, bytes, "copies to", line);
  check_write(by, to, to_offset, bytes, line);
  if (valid > 0) {
    // The source may end within the vector; it must be aligned like all of it.
    if ((from.begin + from_offset) % bytes != 0) {
      check_place(by, from, from_offset, bytes, "copies from", line);
    }
    for (int i = 0; i < valid; ++i) {
      check_place(by, from, from_offset + i, 1, "copies from", line);
    }
    check_read(by, from, from_offset, valid, line);
    if (from.storage->written) note_reads(by, states_at(from, from_offset), valid, line);
    std::memcpy(copy.bytes.data(), bytes_at(from, from_offset), static_cast<size_t>(valid));
  }
  ByteState* state = states_at(to, to_offset);
  for (int i = 0; i < bytes; ++i) {
    state[i].in_flight = true;
    state[i].writer = mark_of(by, line);
  }
  return copy;
}

void Memory::land(ThreadState& by, const AsyncCopy& copy) {
  ByteState* state = states_at(*copy.to, copy.offset);
  for (int i = 0; i < copy.count; ++i) {
    state[i].in_flight = false;
    state[i].initialized = true;
    state[i].fenced = false;                   // it is none of the asynchronous proxy
    state[i].writer = mark_of(by, copy.line);  // others see it after the next barrier
  }
  note_unfenced(by, *copy.to, copy.offset, copy.count);
  std::memcpy(bytes_at(*copy.to, copy.offset), copy.bytes.data(), static_cast<size_t>(copy.count));
}

void Memory::begin_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                              int line) {
  check_place(by, array, offset, 1, "multiplies", line);
  check_read(by, array, offset, 1, line);
  ByteState& state = *states_at(array, offset);
  if (!state.fenced) {
    memory_fault(FaultKind::MissingFence, array, offset, line,
                 fmt::format("multiplies {}, which line {} stores, with no fence.proxy.async "
                             "between",
                             name_place(array, offset, 1), state.writer.line));
  }
  ++state.async_readers;
}

void Memory::end_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                            int line) {
  ByteState& state = *states_at(array, offset);
  --state.async_readers;
  note_reads(by, &state, 1, line, true);
}

}  // namespace tilewright::emulator
