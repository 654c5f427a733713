// The asynchronous functions that kernels call: each is a step of the thread that runs.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "emulator/memory/tensor_copy.h"
#include "emulator/scheduler.h"

namespace tilewright::emulator {
namespace {

// The scheduler of the step that begins.
Scheduler& stepped(int line) {
  Scheduler& scheduler = active_scheduler();
  scheduler.step(line);
  return scheduler;
}

void mbarrier_init(tw_emu_array* array, long long offset, int arrivals, int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().init(s.running(), *array, offset, arrivals, line);
}

void mbarrier_fence_init(int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().fence_init(s.running());
}

void mbarrier_invalidate(tw_emu_array* array, long long offset, int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().invalidate(s.running(), *array, offset, line);
}

void mbarrier_arrive(tw_emu_array* array, long long offset, int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().arrive(s.running(), *array, offset, line);
}

void mbarrier_expect(tw_emu_array* array, long long offset, int bytes, int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().expect(s.running(), *array, offset, bytes, line);
}

void mbarrier_wait(tw_emu_array* array, long long offset, int parity, int line) {
  Scheduler& s = stepped(line);
  ++s.counters().barrier_waits;
  s.let_others_run();
  if (!s.mbarriers().wait(s.running(), *array, offset, parity, line)) s.wait_for_others();
}

// The name of the mbarrier of another block, for reports.
std::string arrives_at(tw_emu_array* array, long long offset) {
  return "arrives at " + name_place(*array, offset, 1);
}

void mbarrier_arrive_at(tw_emu_array* array, long long offset, int rank, int line) {
  Scheduler& s = stepped(line);
  if (array->storage->space != Space::Shared) {
    return s.mbarriers().arrive(s.running(), *array, offset, line);  // which refuses it
  }
  s.cluster().touch(s.running(), rank, arrives_at(array, offset), line);
  s.mbarriers().arrive(s.running(), *s.memory().counterpart(*array, rank), offset, line);
}

void grid_wait(int line) { stepped(line).running().may_overlap = false; }

void cluster_arrive(int relaxed, int line) {
  Scheduler& s = stepped(line);
  s.cluster().arrive(s.running(), relaxed != 0, line);
}

void cluster_wait(int line) {
  Scheduler& s = stepped(line);
  ++s.counters().barrier_waits;
  if (!s.cluster().wait(s.running(), line)) s.wait_for_others();
}

void named_barrier(int number, int threads, int wait, int line) {
  Scheduler& s = stepped(line);
  s.counters().barrier_waits += wait;
  if (!s.named_barriers().come(s.running(), number, threads, wait != 0, line)) s.wait_for_others();
}

void registers(int count, int more, int line) {
  Scheduler& s = stepped(line);
  if (!s.registers().set(s.running(), count, more != 0, line)) s.wait_for_others();
}

// mbarriers are shown to copies by this fence, too.
void fence_async(int line) {
  Scheduler& s = stepped(line);
  s.memory().fence_async(s.running());
  s.mbarriers().fence_init(s.running());
}

void count_copy(Scheduler& s, const BulkCopy& copy) {
  ++s.counters().bulk_copies;
  s.counters().bulk_bytes += static_cast<int64_t>(copy.bytes.size());
}

void bulk_load(tw_emu_array* to, long long to_offset, tw_emu_array* from, long long from_offset,
               int bytes, tw_emu_array* barrier, long long barrier_offset, int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().check_copy(s.running(), *barrier, barrier_offset, line);
  if (to->storage->space != Space::Shared) {
    memory_fault(FaultKind::BadCopy, *to, to_offset, line,
                 "loads to " + to->name + ", which is not in shared memory");
  }
  BulkCopy copy =
      copy_bytes(s.memory(), s.running(), {*to, to_offset}, {*from, from_offset}, bytes, line);
  count_copy(s, copy);
  s.mbarriers().add(s.running(), *barrier, barrier_offset, std::move(copy), line);
}

// A copy to one block by the map and what else it is told; makes it anew for each block that gets it.
using MakeCopy = BulkCopy (*)(Scheduler& s, const tw_emu_tensor_map& map, int rank, const int* at,
                              const int* offsets, Place to, int line);

BulkCopy make_box(Scheduler& s, const tw_emu_tensor_map& map, int rank, const int* at, const int*,
                  Place to, int line) {
  return load_box(s.memory(), s.running(), map, rank, at, to, line);
}

BulkCopy make_windows(Scheduler& s, const tw_emu_tensor_map& map, int rank, const int* at,
                      const int* offsets, Place to, int line) {
  return load_windows(s.memory(), s.running(), map, rank, at, offsets, to, line);
}

void load(MakeCopy make, tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
          const int* at, const int* offsets, tw_emu_array* barrier, long long barrier_offset,
          int line) {
  Scheduler& s = stepped(line);
  s.mbarriers().check_copy(s.running(), *barrier, barrier_offset, line);
  BulkCopy copy = make(s, *map, rank, at, offsets, {*to, offset}, line);
  count_copy(s, copy);
  s.mbarriers().add(s.running(), *barrier, barrier_offset, std::move(copy), line);
}

// To each block of the mask, at whose own mbarrier the bytes count.
void multicast(MakeCopy make, tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
               const int* at, const int* offsets, tw_emu_array* barrier, long long barrier_offset,
               unsigned mask, int line) {
  Scheduler& s = stepped(line);
  if (mask == 0) {
    memory_fault(FaultKind::BadCopy, *to, offset, line,
                 "copies to no block: the mask of its multicast is 0");
  }
  for (const tw_emu_array* array : {to, barrier}) {
    if (array->storage->space == Space::Shared) continue;
    memory_fault(FaultKind::BadCopy, *array, 0, line,
                 "multicasts to " + array->name + ", which is not in shared memory");
  }
  if (mask >> s.cluster().blocks() != 0) {
    memory_fault(FaultKind::BadCopy, *to, offset, line,
                 fmt::format("copies to the blocks of the mask {:#x}; the cluster has {}", mask,
                             s.cluster().blocks()));
  }
  BulkCopy copy;
  for (int block = 0; mask >> block != 0; ++block) {
    if ((mask >> block & 1) == 0) continue;
    s.cluster().reach(s.running(), block, "multicasts to " + name_place(*to, offset, 1), line);
    tw_emu_array& there = *s.memory().counterpart(*to, block);
    tw_emu_array& counts = *s.memory().counterpart(*barrier, block);
    s.mbarriers().check_copy(s.running(), counts, barrier_offset, line);
    copy = make(s, *map, rank, at, offsets, {there, offset}, line);
    s.mbarriers().add(s.running(), counts, barrier_offset, copy, line);
  }
  count_copy(s, copy);  // what comes from global memory, once
}

void tensor_load(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                 const int* at, tw_emu_array* barrier, long long barrier_offset, int line) {
  load(make_box, to, offset, map, rank, at, nullptr, barrier, barrier_offset, line);
}

void tensor_multicast(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                      const int* at, tw_emu_array* barrier, long long barrier_offset, unsigned mask,
                      int line) {
  multicast(make_box, to, offset, map, rank, at, nullptr, barrier, barrier_offset, mask, line);
}

void tensor_im2col(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                   const int* at, const int* offsets, tw_emu_array* barrier,
                   long long barrier_offset, int line) {
  load(make_windows, to, offset, map, rank, at, offsets, barrier, barrier_offset, line);
}

void tensor_im2col_multicast(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                             const int* at, const int* offsets, tw_emu_array* barrier,
                             long long barrier_offset, unsigned mask, int line) {
  multicast(make_windows, to, offset, map, rank, at, offsets, barrier, barrier_offset, mask, line);
}

void bulk_store(tw_emu_array* to, long long to_offset, tw_emu_array* from, long long from_offset,
                int bytes, int line) {
  Scheduler& s = stepped(line);
  if (from->storage->space != Space::Shared) {
    memory_fault(FaultKind::BadCopy, *from, from_offset, line,
                 "stores from " + from->name + ", which is not in shared memory");
  }
  BulkCopy copy =
      copy_bytes(s.memory(), s.running(), {*to, to_offset}, {*from, from_offset}, bytes, line);
  count_copy(s, copy);
  s.running().uncommitted_stores.push_back(std::move(copy));
}

void tensor_store(tw_emu_tensor_map* map, int rank, const int* at, tw_emu_array* from,
                  long long offset, int line) {
  Scheduler& s = stepped(line);
  BulkCopy copy = store_box(s.memory(), s.running(), *map, rank, at, {*from, offset}, line);
  count_copy(s, copy);
  s.running().uncommitted_stores.push_back(std::move(copy));
}

void bulk_commit(int line) {
  ThreadState& thread = stepped(line).running();
  thread.store_groups.push_back(std::move(thread.uncommitted_stores));
  thread.uncommitted_stores.clear();
}

void bulk_wait(int pending, int written, int line) {
  Scheduler& s = stepped(line);
  wait_for_stores(s.memory(), s.running(), pending, written != 0, line);
}

void prefetch(int line) { stepped(line); }

}  // namespace

const tw_emu_async_host& async_host_functions() {
  static const tw_emu_async_host functions = {
      .mbarrier_init = mbarrier_init,
      .mbarrier_fence_init = mbarrier_fence_init,
      .mbarrier_invalidate = mbarrier_invalidate,
      .mbarrier_arrive = mbarrier_arrive,
      .mbarrier_expect = mbarrier_expect,
      .mbarrier_wait = mbarrier_wait,
      .mbarrier_arrive_at = mbarrier_arrive_at,
      .grid_wait = grid_wait,
      .cluster_arrive = cluster_arrive,
      .cluster_wait = cluster_wait,
      .named_barrier = named_barrier,
      .registers = registers,
      .fence_async = fence_async,
      .bulk_load = bulk_load,
      .bulk_store = bulk_store,
      .tensor_load = tensor_load,
      .tensor_multicast = tensor_multicast,
      .tensor_im2col = tensor_im2col,
      .tensor_im2col_multicast = tensor_im2col_multicast,
      .tensor_store = tensor_store,
      .bulk_commit = bulk_commit,
      .bulk_wait = bulk_wait,
      .prefetch = prefetch,
  };
  return functions;
}

}  // namespace tilewright::emulator
