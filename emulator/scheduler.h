// The threads of a cluster of blocks as fibers: who runs when, barriers, and what warps do together.
// Without clusters each block is one by itself.
#pragma once

#include <boost/context/fiber.hpp>
#include <optional>
#include <string>
#include <vector>

#include "emulator/memory/cluster.h"
#include "emulator/memory/mbarrier.h"
#include "emulator/memory/memory.h"
#include "emulator/memory/named_barrier.h"
#include "emulator/stack_switch.h"

namespace tilewright::emulator {

// Runs one launch. Only one runs in a thread of the process at a time.
class Scheduler {
 public:
  // `state` is the kernel's; its host is set here.
  Scheduler(Memory& memory, tw_emu_state& state, const EmulatorOptions& options,
            EmulatorCounters& counters, int64_t& steps);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Runs all blocks, so many that are neighbours along x together; returns the first fault. `epoch`
  // counts on from launch to launch.
  std::optional<EmulatorFault> run(const EmulatedLaunch& launch, int blocks_per_cluster,
                                   const tw_emu_entry& entry,
                                   const std::vector<tw_emu_argument>& arguments, uint32_t& epoch);

  // The kernel's requests, in the thread that runs. Each throws Fault.
  ThreadState& running() { return threads_[static_cast<size_t>(running_)].state; }
  Memory& memory() { return memory_; }
  EmulatorCounters& counters() { return counters_; }
  void step(int line);
  void note(const void* site, const tw_emu_array& array, int64_t offset, int bytes,
            AccessKind kind);
  MBarriers& mbarriers() { return mbarriers_; }
  Cluster& cluster() { return cluster_; }
  NamedBarriers& named_barriers() { return own().named_barriers; }
  RegisterBudget& registers() { return own().registers; }
  void sync_block(int line);
  // The thread waits for what another one will make it ready: its `wait` says so.
  void wait_for_others() { yield(); }
  // In some orders of threads, all others run first as far as they can.
  void let_others_run();
  // Returns when all lanes of the request's mask have made it and it is done.
  void collective(const WarpRequest& request);

 private:
  struct Thread {
    ThreadState state;
    Stack stack;
    boost::context::fiber fiber;  // from the first time that the thread runs
  };

  // The state of one block.
  struct BlockState {
    NamedBarriers named_barriers;
    RegisterBudget registers;
  };

  void make_threads();
  void start(Thread& thread);
  void body(Thread& thread);
  void unwind_threads();
  void begin_cluster(int64_t cluster, uint32_t epoch);
  std::optional<EmulatorFault> run_cluster(uint32_t& epoch);
  bool run_warp(int warp);
  void resume(Thread& thread);
  void yield();
  bool perform(ThreadState& by);
  bool perform_in_warpgroup(ThreadState& by);
  std::vector<ThreadState*> participants(const ThreadState& by);
  bool any_ready() const;
  bool resume_patient();
  bool release_barriers(uint32_t& epoch);
  bool release_barrier(int rank, uint32_t& epoch);
  void count(int rank);
  void check_end() const;
  std::optional<EmulatorFault> unfinished_copy();
  std::optional<EmulatorFault> left_too_early() const;
  BlockState& own() { return blocks_[static_cast<size_t>(running().rank)]; }
  // The first thread of a block.
  size_t first_of(int rank) const { return static_cast<size_t>(rank) * block_threads(); }
  size_t block_threads() const { return threads_.size() / blocks_.size(); }
  size_t warps_of_block() const { return (block_threads() + kWarp - 1) / kWarp; }
  std::string doing(const ThreadState& thread) const;
  std::string name_of_thread(size_t place) const;
  EmulatorFault stuck() const;
  std::optional<EmulatorFault> deadlock() const;
  EmulatorFault located(EmulatorFault fault, const ThreadState& by) const;
  void shuffle_order();

  Memory& memory_;
  MBarriers mbarriers_;
  Cluster cluster_;
  std::vector<BlockState> blocks_;  // of a cluster, by rank
  tw_emu_state& state_;
  const EmulatorOptions& options_;
  EmulatorCounters& counters_;
  int64_t& steps_;
  uint64_t random_;
  EmulatedLaunch launch_;
  std::vector<Thread> threads_;               // of a cluster, block by block
  std::vector<int> warp_order_, lane_order_;  // warps of the cluster, block by block
  int running_ = 0;
  const tw_emu_entry* entry_ = nullptr;
  const std::vector<tw_emu_argument>* arguments_ = nullptr;
  boost::context::fiber main_;
  Stack main_stack_;
  std::optional<EmulatorFault> fault_;
};

// The functions that kernels call; they ask the scheduler that runs in this thread of the process.
const tw_emu_host& host_functions();
const tw_emu_async_host& async_host_functions();
Scheduler& active_scheduler();
// Makes `scheduler` that one until the object's end.
class ActiveScheduler {
 public:
  explicit ActiveScheduler(Scheduler& scheduler);
  ~ActiveScheduler();
  ActiveScheduler(const ActiveScheduler&) = delete;
  ActiveScheduler& operator=(const ActiveScheduler&) = delete;
};

}  // namespace tilewright::emulator
