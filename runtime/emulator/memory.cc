#include "runtime/emulator/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilewright::emulator {
namespace {

constexpr unsigned char kPoison = 0xcb;

// "As[5]", "4 elements at As[5]".
std::string name_place(const tw_emu_array& array, int64_t offset, int bytes) {
  int64_t index = offset / array.element_bytes - (offset % array.element_bytes < 0);
  int count = std::max(1, bytes / array.element_bytes);
  std::string place = fmt::format("{}[{}]", array.name, index);
  return count == 1 ? place : fmt::format("{} elements at {}", count, place);
}

[[noreturn]] void fail(FaultKind kind, const tw_emu_array& array, int64_t offset, int line,
                       std::string problem) {
  Fault fault;
  fault.fault.kind = kind;
  fault.fault.buffer = array.name;
  fault.fault.index = offset / array.element_bytes;
  fault.fault.line = line;
  fault.fault.problem = std::move(problem);
  throw fault;
}

ByteState* states_at(const tw_emu_array& array, int64_t offset) {
  return array.storage->states.data() + array.begin + offset;
}

unsigned char* bytes_at(const tw_emu_array& array, int64_t offset) {
  return array.storage->data + array.begin + offset;
}

Mark mark_of(const ThreadState& by, int line) { return {by.id, by.epoch, by.warp_epoch, line}; }

}  // namespace

void Memory::begin_launch(int threads_per_block, uint32_t first_epoch) {
  threads_ = threads_per_block;
  first_epoch_ = first_epoch;
  arrays_.clear();
  fences_.resize(static_cast<size_t>(threads_per_block));
}

void Memory::begin_block(int64_t shared_bytes) {
  shared_bytes_.assign(static_cast<size_t>(shared_bytes), kPoison);
  shared_.states.assign(static_cast<size_t>(shared_bytes), ByteState());
  shared_.data = shared_bytes_.data();
  shared_.bytes = shared_bytes;
  shared_.space = Space::Shared;
  for (std::vector<uint32_t>& epochs : fences_) epochs.clear();
}

tw_emu_array* Memory::shared_array(const ThreadState& by, const char* name, int64_t offset,
                                   int64_t count, int element_bytes, int line) {
  int64_t bytes = count * element_bytes;
  for (auto& known : arrays_) {
    if (known->begin == offset && known->bytes == bytes && known->name == name &&
        known->element_bytes == element_bytes) {
      return known.get();
    }
  }
  auto array = std::make_unique<tw_emu_array>();
  array->name = name;
  array->storage = &shared_;
  array->begin = offset;
  array->bytes = bytes;
  array->element_bytes = element_bytes;
  if (offset < 0 || count < 0 || offset + bytes > shared_.bytes) {
    fail(FaultKind::OutOfBounds, *array, 0, line,
         fmt::format("places {} at bytes {} to {} of shared memory, of which the launch gives {}",
                     name, offset, offset + bytes, shared_.bytes));
  }
  if (offset % std::min(element_bytes, 16) != 0) {
    fail(FaultKind::Misaligned, *array, 0, line,
         fmt::format("places {}, of elements of {} bytes, at byte {} of shared memory", name,
                     element_bytes, offset));
  }
  arrays_.push_back(std::move(array));
  return arrays_.back().get();
}

void Memory::check_place(const ThreadState&, const tw_emu_array& array, int64_t offset, int bytes,
                         const char* verb, int line) const {
  if (offset < 0 || offset + bytes > array.bytes) {
    fail(FaultKind::OutOfBounds, array, offset, line,
         fmt::format("{} {}, but {} has {} elements", verb, name_place(array, offset, bytes),
                     array.name, array.bytes / array.element_bytes));
  }
  if ((array.begin + offset) % bytes != 0) {
    fail(FaultKind::Misaligned, array, offset, line,
         fmt::format("{} {} bytes at {}, {} bytes into the memory: no multiple of {}", verb, bytes,
                     name_place(array, offset, 1), array.begin + offset, bytes));
  }
}

bool Memory::same_warp(uint32_t a, uint32_t b) const {
  auto threads = static_cast<uint32_t>(threads_);
  uint32_t i = a - 1, j = b - 1;
  return i / threads == j / threads && i % threads / kWarp == j % threads / kWarp;
}

bool Memory::unordered(const ThreadState& by, const Mark& mark) const {
  if (mark.thread == 0 || mark.thread == by.id || mark.epoch < first_epoch_) return false;
  auto threads = static_cast<uint32_t>(threads_);
  if ((mark.thread - 1) / threads != (by.id - 1) / threads) return true;  // blocks have no order
  if (mark.epoch < by.epoch) return false;
  return !(same_warp(mark.thread, by.id) && mark.warp_epoch < by.warp_epoch);
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
  // Linear numbers for now: the scheduler, which knows the launch, turns them into coordinates.
  fault.fault.other_thread = {static_cast<int>(other % threads), 0, 0};
  fault.fault.other_block = {static_cast<int>(other / threads), 0, 0};
  fault.fault.problem =
      fmt::format("{} {}, which another thread{} {} at line {} with no {} between", does,
                  name_place(array, offset, 1), same_block ? "" : " of another block", did,
                  mark.line, same_block ? "barrier" : "launch");
  throw fault;
}

void Memory::check_read(const ThreadState& by, const tw_emu_array& array, int64_t offset, int bytes,
                        int line) const {
  const ByteState* state = states_at(array, offset);
  for (int i = 0; i < bytes; ++i, ++state) {
    if (state->in_flight) {
      fail(FaultKind::CopyInFlight, array, offset + i, line,
           fmt::format("reads {}, which the asynchronous copy at line {} writes: it was not waited "
                       "for",
                       name_place(array, offset + i, 1), state->writer.line));
    }
    if (!state->initialized) {
      fail(FaultKind::UninitializedRead, array, offset + i, line,
           fmt::format("reads {}, which nothing has written so far",
                       name_place(array, offset + i, 1)));
    }
    if (unordered(by, state->writer)) {
      race(by, array, offset + i, state->writer, "reads", "writes", line);
    }
  }
}

void Memory::check_write(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                         int bytes, int line) const {
  const ByteState* state = states_at(array, offset);
  for (int i = 0; i < bytes; ++i, ++state) {
    if (state->in_flight) {
      fail(FaultKind::CopyInFlight, array, offset + i, line,
           fmt::format("writes {}, which the asynchronous copy at line {} writes, too: it was not "
                       "waited for",
                       name_place(array, offset + i, 1), state->writer.line));
    }
    if (state->async_readers > 0) {
      fail(FaultKind::WgmmaInFlight, array, offset + i, line,
           fmt::format("writes {}, which a wgmma reads that was not waited for",
                       name_place(array, offset + i, 1)));
    }
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

void Memory::note_read(const ThreadState& by, ByteState& state, int line) const {
  Mark mark = mark_of(by, line);
  for (int r = 0; r < 2; ++r) {
    Mark& known = state.readers[r];
    if (known.thread == 0 || known.epoch < first_epoch_ || !same_warp(known.thread, by.id)) {
      continue;
    }
    bool same_time = known.epoch == by.epoch && known.warp_epoch == by.warp_epoch;
    if (!same_time) state.other_lane[r] = -1;
    if (same_time && known.thread != by.id) {
      auto threads = static_cast<uint32_t>(threads_);
      state.other_lane[r] = static_cast<int8_t>((known.thread - 1) % threads % kWarp);
    }
    known = mark;
    return;
  }
  state.readers[1] = state.readers[0];
  state.other_lane[1] = state.other_lane[0];
  state.readers[0] = mark;
  state.other_lane[0] = -1;
}

void Memory::load(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes, void* out,
                  int line) {
  check_place(by, array, offset, bytes, "reads", line);
  check_read(by, array, offset, bytes, line);
  if (array.storage->written) {
    ByteState* state = states_at(array, offset);
    for (int i = 0; i < bytes; ++i) note_read(by, state[i], line);
  }
  std::memcpy(out, bytes_at(array, offset), static_cast<size_t>(bytes));
}

void Memory::store(ThreadState& by, tw_emu_array& array, int64_t offset, int bytes,
                   const void* value, int line) {
  check_place(by, array, offset, bytes, "writes", line);
  check_write(by, array, offset, bytes, line);
  ByteState* state = states_at(array, offset);
  for (int i = 0; i < bytes; ++i) {
    state[i].initialized = true;
    state[i].writer = mark_of(by, line);
    state[i].fences = fences_of(by);
  }
  std::memcpy(bytes_at(array, offset), value, static_cast<size_t>(bytes));
}

AsyncCopy Memory::copy_async(ThreadState& by, tw_emu_array& to, int64_t to_offset,
                             tw_emu_array& from, int64_t from_offset, int bytes, int valid,
                             int line) {
  if (to.storage->space != Space::Shared || from.storage->space != Space::Global) {
    fail(FaultKind::BadLaunch, to, to_offset, line,
         fmt::format("copies asynchronously from {} to {}; it goes from global to shared memory",
                     from.name, to.name));
  }
  if (valid < 0 || valid > bytes) {
    fail(FaultKind::BadLaunch, to, to_offset, line,
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
    if (from.storage->written) {
      for (int i = 0; i < valid; ++i) note_read(by, states_at(from, from_offset)[i], line);
    }
    std::memcpy(copy.bytes.data(), bytes_at(from, from_offset), static_cast<size_t>(valid));
  }
  ByteState* state = states_at(to, to_offset);
  for (int i = 0; i < bytes; ++i) {
    state[i].in_flight = true;
    state[i].writer = mark_of(by, line);
  }
  return copy;
}

void Memory::land(const ThreadState& by, const AsyncCopy& copy) {
  ByteState* state = states_at(*copy.to, copy.offset);
  for (int i = 0; i < copy.count; ++i) {
    state[i].in_flight = false;
    state[i].initialized = true;
    state[i].writer = mark_of(by, copy.line);  // others see it after the next barrier
    state[i].fences = fences_of(by);
  }
  std::memcpy(bytes_at(*copy.to, copy.offset), copy.bytes.data(), static_cast<size_t>(copy.count));
}

uint32_t Memory::fences_of(const ThreadState& by) const {
  return static_cast<uint32_t>(fences_[static_cast<size_t>(by.index)].size());
}

void Memory::fence_async(const ThreadState& by) {
  fences_[static_cast<size_t>(by.index)].push_back(by.epoch);
}

// The writer's first fence behind the store counts where a barrier stands between it and the reader,
// and so does one of the reader's behind the barrier.
bool Memory::is_fenced(const ThreadState& by, const ByteState& state) const {
  const Mark& writer = state.writer;
  if (writer.thread == 0 || writer.epoch < first_epoch_) return true;
  const auto index = static_cast<size_t>((writer.thread - 1) % static_cast<uint32_t>(threads_));
  const std::vector<uint32_t>& of_writer = fences_[index];
  const bool is_own = writer.thread == by.id;
  if (state.fences < of_writer.size() && (is_own || of_writer[state.fences] < by.epoch))
    return true;
  const std::vector<uint32_t>& own = fences_[static_cast<size_t>(by.index)];
  return !own.empty() && own.back() > writer.epoch;
}

void Memory::begin_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                              int line) {
  check_place(by, array, offset, 1, "multiplies", line);
  check_read(by, array, offset, 1, line);
  ByteState& state = *states_at(array, offset);
  if (!is_fenced(by, state)) {
    fail(FaultKind::MissingFence, array, offset, line,
         fmt::format("multiplies {}, which line {} stores, with no fence.proxy.async between",
                     name_place(array, offset, 1), state.writer.line));
  }
  ++state.async_readers;
}

void Memory::end_async_read(const ThreadState& by, const tw_emu_array& array, int64_t offset,
                            int line) {
  ByteState& state = *states_at(array, offset);
  --state.async_readers;
  note_read(by, state, line);
}

}  // namespace tilewright::emulator
