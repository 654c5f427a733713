#include "emulator/memory/mbarrier.h"

#include <fmt/format.h>

#include <utility>

namespace tilewright::emulator {
namespace {

// The limits of the PTX ISA on the counts of an mbarrier.
constexpr int64_t kMostArrivals = (1 << 20) - 1;
constexpr int64_t kMostBytes = (1 << 20) - 1;

[[noreturn]] void fail_barrier(const std::string& name, int line, std::string problem) {
  Fault fault;
  fault.fault.kind = FaultKind::BadBarrier;
  fault.fault.buffer = name.substr(0, name.find('['));
  fault.fault.line = line;
  fault.fault.problem = std::move(problem);
  throw fault;
}

void require_shared(const tw_emu_array& array, int64_t offset, int line) {
  if (array.storage->space == Space::Shared) return;
  fail_barrier(array.name, line,
               fmt::format("takes {} for an mbarrier, which is not in shared memory",
                           name_place(array, offset, 1)));
}

}  // namespace

void MBarriers::init(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t count,
                     int line) {
  require_shared(array, offset, line);
  const std::string name = name_place(array, offset, 1);
  if (count < 1 || count > kMostArrivals) {
    fail_barrier(name, line,
                 fmt::format("makes {} an mbarrier of {} arrivals; it has 1 to {}", name, count,
                             kMostArrivals));
  }
  if (barriers_.contains(place_of(array, offset))) {
    fail_barrier(
        name, line,
        fmt::format("makes {} an mbarrier, which it is already: tw_mbarrier_invalidate() goes "
                    "before that",
                    name));
  }
  memory_.claim_mbarrier(by, array, offset, line);
  Barrier b;
  b.name = name;
  b.number = made_++;
  b.count = b.pending = count;
  b.init = memory_.mark_of(by, line);
  barriers_.emplace(place_of(array, offset), std::move(b));
}

// As a fence of stores: it takes the place of the initialization.
void MBarriers::fence_init(ThreadState& by) {
  for (auto& [place, b] : barriers_) {
    if (b.init.thread != by.id || b.fenced) continue;
    b.fenced = true;
    b.init = memory_.mark_of(by, b.init.line);
  }
  release(by, by.fenced_inits);
}

MBarriers::Barrier& MBarriers::at(const ThreadState& by, tw_emu_array& array, int64_t offset,
                                  const char* verb, int line) {
  require_shared(array, offset, line);
  const std::string name = name_place(array, offset, 1);
  auto it = barriers_.find(place_of(array, offset));
  if (it == barriers_.end()) {
    fail_barrier(name, line,
                 fmt::format("{} {}, which no tw_mbarrier_init() has made one", verb, name));
  }
  const Barrier& b = it->second;
  const bool is_shown = b.fenced && !memory_.unordered(by, b.init, by.seen_inits);
  if (memory_.unordered(by, b.init) && !is_shown) {
    fail_barrier(
        name, line,
        fmt::format("{} {}, which another thread makes an mbarrier at line {} with no barrier "
                    "between",
                    verb, name, b.init.line));
  }
  return it->second;
}

void MBarriers::invalidate(ThreadState& by, tw_emu_array& array, int64_t offset, int line) {
  Barrier& b = at(by, array, offset, "ends the use of", line);
  if (!b.waiting.empty() || !b.copies.empty()) {
    fail_barrier(b.name, line,
                 fmt::format("ends the use of {} while {}", b.name,
                             b.copies.empty() ? "threads wait at it" : "copies are on their way"));
  }
  memory_.release_mbarrier(array, offset);
  barriers_.erase(place_of(array, offset));
}

void MBarriers::arrive(ThreadState& by, tw_emu_array& array, int64_t offset, int line) {
  Barrier& b = at(by, array, offset, "arrives at", line);
  settle(by, b, /*wanted=*/true);
  if (b.pending == 0) {
    fail_barrier(
        b.name, line,
        fmt::format("arrives at {}, all of whose {} arrivals have come in phase {} already, while "
                    "{} of {} bytes have",
                    b.name, b.count, b.phase, b.copied_bytes, b.expected_bytes));
  }
  release(by, b.arriving);
  --b.pending;
  check_bytes(b, line);
  settle(by, b, /*wanted=*/false);
}

void MBarriers::expect(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t bytes,
                       int line) {
  Barrier& b = at(by, array, offset, "announces bytes to", line);
  settle(by, b, /*wanted=*/true);
  if (bytes < 0 || b.expected_bytes + bytes > kMostBytes) {
    fail_barrier(b.name, line,
                 fmt::format("makes {} wait for {} bytes in a phase; it counts up to {}", b.name,
                             b.expected_bytes + bytes, kMostBytes));
  }
  b.expected_bytes += bytes;
  settle(by, b, /*wanted=*/false);
}

bool MBarriers::wait(ThreadState& by, tw_emu_array& array, int64_t offset, int64_t parity,
                     int line) {
  Barrier& b = at(by, array, offset, "waits at", line);
  if (parity != 0 && parity != 1) {
    fail_barrier(b.name, line,
                 fmt::format("waits at {} for a phase of parity {}; it is 0 or 1", b.name, parity));
  }
  const bool current = b.phase % 2 == static_cast<uint32_t>(parity);
  if (current) settle(by, b, /*wanted=*/true);
  if (b.phase % 2 != static_cast<uint32_t>(parity)) {
    by.seen.join(b.released);
    return true;
  }
  by.wait = ThreadState::Wait::MBarrier;
  by.barrier = array.begin + offset;
  by.barrier_line = line;
  b.waiting.push_back(&by);
  return false;
}

void MBarriers::check_copy(const ThreadState& by, tw_emu_array& array, int64_t offset, int line) {
  Barrier& b = at(by, array, offset, "counts the bytes of a copy at", line);
  if (!b.fenced) {
    fail_barrier(
        b.name, line,
        fmt::format("counts the bytes of a copy at {}, which line {} made an mbarrier with no "
                    "tw_mbarrier_fence_init() behind it: the asynchronous proxy need not see that",
                    b.name, b.init.line));
  }
}

void MBarriers::add(ThreadState& by, tw_emu_array& array, int64_t offset, BulkCopy copy, int line) {
  check_copy(by, array, offset, line);
  Barrier& b = at(by, array, offset, "counts the bytes of a copy at", line);
  settle(by, b, /*wanted=*/true);
  b.copied_bytes += static_cast<int64_t>(copy.bytes.size());
  b.copies.push_back(std::move(copy));
  check_bytes(b, line);
  settle(by, b, /*wanted=*/false);
}

// A device would end the phase as soon as the bytes that have come are those that are expected so far,
// whichever they are.
void MBarriers::check_bytes(const Barrier& b, int line) const {
  if (b.pending > 0 || b.copied_bytes <= b.expected_bytes) return;
  fail_barrier(b.name, line,
               fmt::format("brings {} bytes to {} in phase {}, which expects {}", b.copied_bytes,
                           b.name, b.phase, b.expected_bytes));
}

// Ends the phase if nothing is missing. The bytes of its copies come when somebody wants them: who
// waits for them, or needs the mbarrier for the next phase.
void MBarriers::settle(const ThreadState& by, Barrier& b, bool wanted) {
  if (b.pending > 0 || b.expected_bytes != b.copied_bytes) return;
  if (b.copies.empty() || wanted || !b.waiting.empty()) end_phase(by, b);
}

void MBarriers::end_phase(const ThreadState& by, Barrier& b) {
  Mark mark = memory_.mark_of(by, 0);
  mark.copy = static_cast<uint32_t>(b.number) + 1;
  mark.clock = b.phase + 1;
  for (const BulkCopy& copy : b.copies) {
    mark.thread = copy.by;  // for reports; it waits like everybody else
    memory_.land(copy, mark);
  }
  b.released.join(b.arriving);
  if (!b.copies.empty()) {
    Order::raise(b.released.copies, static_cast<size_t>(b.number), mark.clock);
  }
  b.arriving = {};
  b.copies.clear();
  b.expected_bytes = b.copied_bytes = 0;
  b.pending = b.count;
  ++b.phase;
  for (ThreadState* thread : b.waiting) {
    thread->seen.join(b.released);
    thread->wait = ThreadState::Wait::Ready;
  }
  b.waiting.clear();
}

std::string MBarriers::describe(const ThreadState& waiting) const {
  const Barrier& b = barriers_.at({waiting.rank, waiting.barrier});
  std::string text = fmt::format(
      "waits at {} in line {} for the end of phase {} (parity {}), to which {} of {} "
      "arrivals",
      b.name, waiting.barrier_line, b.phase, b.phase % 2, b.count - b.pending, b.count);
  if (b.expected_bytes > 0 || b.copied_bytes > 0) {
    text += fmt::format(" and {} of {} bytes", b.copied_bytes, b.expected_bytes);
  }
  return text + " have come";
}

const BulkCopy* MBarriers::left_over() const {
  for (const auto& [place, b] : barriers_) {
    if (!b.copies.empty()) return &b.copies.front();
  }
  return nullptr;
}

}  // namespace tilewright::emulator
