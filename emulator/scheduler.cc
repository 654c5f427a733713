#include "emulator/scheduler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "emulator/counters.h"
#include "emulator/instructions/collectives.h"
#include "emulator/instructions/wgmma.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright::emulator {
namespace {

namespace context = boost::context;

// Registers of a thread live on its stack; a page that is never touched costs nothing.
constexpr size_t kStackBytes = 256 << 10;

// All lanes know the steps that one of them has done or knows.
void order_lanes(const std::vector<ThreadState*>& lanes) {
  uint32_t warp_epoch = 0;
  Order seen;
  for (const ThreadState* lane : lanes) {
    if (!lane) continue;
    warp_epoch = std::max(warp_epoch, lane->warp_epoch);
    seen.join(lane->seen);
  }
  for (ThreadState* lane : lanes) {
    if (!lane) continue;
    lane->warp_epoch = warp_epoch + 1;
    lane->seen = seen;
  }
}

std::array<int, 3> coordinates(int64_t linear, const std::array<int, 3>& extents) {
  return {static_cast<int>(linear % extents[0]), static_cast<int>(linear / extents[0] % extents[1]),
          static_cast<int>(linear / extents[0] / extents[1])};
}

tw_emu_dim to_dim(const std::array<int, 3>& v) {
  return {static_cast<unsigned>(v[0]), static_cast<unsigned>(v[1]), static_cast<unsigned>(v[2])};
}

const char* name_of(WarpRequest::Kind kind) {
  switch (kind) {
    case WarpRequest::Kind::Sync: return "__syncwarp";
    case WarpRequest::Kind::Shuffle: return "shuffle";
    case WarpRequest::Kind::LdMatrix: return "ldmatrix";
    case WarpRequest::Kind::StMatrix: return "stmatrix";
    case WarpRequest::Kind::Mma: return "mma";
    case WarpRequest::Kind::SparseMma: return "mma.sp";
    case WarpRequest::Kind::WgmmaFence: return "wgmma.fence";
    case WarpRequest::Kind::WgmmaCommit: return "wgmma.commit_group";
    case WarpRequest::Kind::WgmmaWait: return "wgmma.wait_group";
    case WarpRequest::Kind::Wgmma: return "wgmma";
  }
  return "";
}

}  // namespace

Scheduler::Scheduler(Memory& memory, tw_emu_state& state, const EmulatorOptions& options,
                     EmulatorCounters& counters, int64_t& steps)
    : memory_(memory), mbarriers_(memory), state_(state), options_(options), counters_(counters),
      steps_(steps), random_(options.seed) {
  state_.host = &host_functions();
  state_.async = &async_host_functions();
}

// Unwinding takes the kernel's object, which is still loaded.
Scheduler::~Scheduler() { unwind_threads(); }

std::optional<EmulatorFault> Scheduler::run(const EmulatedLaunch& launch, int blocks_per_cluster,
                                            const tw_emu_entry& entry,
                                            const std::vector<tw_emu_argument>& arguments,
                                            uint32_t& epoch) {
  launch_ = launch;
  entry_ = &entry;
  arguments_ = &arguments;
  ActiveScheduler active(*this);
  blocks_ = std::vector<BlockState>(static_cast<size_t>(blocks_per_cluster));
  make_threads();
  state_.block_extent = to_dim(launch.block);
  state_.grid_extent = to_dim(launch.grid);
  memory_.begin_launch(static_cast<int>(block_threads()), blocks_per_cluster, ++epoch);
  const int64_t blocks = int64_t{1} * launch.grid[0] * launch.grid[1] * launch.grid[2];
  std::optional<EmulatorFault> fault;
  for (int64_t cluster = 0; cluster < blocks / blocks_per_cluster && !fault; ++cluster) {
    begin_cluster(cluster, ++epoch);
    fault = run_cluster(epoch);
  }
  unwind_threads();  // while this scheduler is still the active one
  return fault;
}

void Scheduler::make_threads() {
  const int count = launch_.block[0] * launch_.block[1] * launch_.block[2];
  const int blocks = static_cast<int>(blocks_.size()), warps = (count + kWarp - 1) / kWarp;
  threads_ = std::vector<Thread>(static_cast<size_t>(count) * blocks_.size());
  for (int i = 0; i < count * blocks; ++i) {
    ThreadState& state = threads_[static_cast<size_t>(i)].state;
    state.place = i;
    state.rank = i / count;
    state.index = i % count;
    state.place_of_warp = state.rank * warps + state.warp();
    state.position = to_dim(coordinates(state.index, launch_.block));
  }
  warp_order_.resize(static_cast<size_t>(warps) * static_cast<size_t>(blocks));
  lane_order_.resize(kWarp);
  std::iota(warp_order_.begin(), warp_order_.end(), 0);
  std::iota(lane_order_.begin(), lane_order_.end(), 0);
}

void Scheduler::start(Thread& thread) {
  auto run = [this, &thread](context::fiber&& main) {
    main_ = std::move(main);
    thread.stack.enter(main_stack_);
    try {
      body(thread);
    } catch (const context::detail::forced_unwind&) {
      thread.stack.end(main_stack_);
      throw;  // to where the fiber was made
    }
    return std::move(main_);
  };
  thread.fiber = context::fiber(std::allocator_arg, StackSource(kStackBytes, &thread.stack), run);
}

// One fiber runs its thread of every block, one after another, until it is unwound.
void Scheduler::body(Thread& thread) {
  while (true) {
    try {
      entry_->call(arguments_->data());
      require_landed(thread.state);
      check_end();
      cluster_.leave(thread.state);
    } catch (const Fault& f) {
      fault_ = located(f.fault, f.by ? *f.by : thread.state);
    }
    thread.state.wait = ThreadState::Wait::Done;
    yield();
  }
}

// A fiber's destructor throws where the fiber waits.
void Scheduler::unwind_threads() {
  for (Thread& thread : threads_) {
    if (!thread.fiber) continue;
    {
      Away away(main_stack_, thread.stack);
      thread.fiber = {};
    }
    thread.stack.release();
  }
  threads_.clear();
}

void Scheduler::begin_cluster(int64_t cluster, uint32_t epoch) {
  memory_.begin_cluster(launch_.shared_bytes);
  const auto first = static_cast<uint32_t>(cluster * static_cast<int64_t>(threads_.size()) + 1);
  const int64_t first_block = cluster * static_cast<int64_t>(blocks_.size());
  for (Thread& thread : threads_) {
    ThreadState& t = thread.state;
    t.id = first + static_cast<uint32_t>(t.place);
    t.block = to_dim(coordinates(first_block + t.rank, launch_.grid));
    t.came_to_cluster = false;
    t.wait = ThreadState::Wait::Ready;
    t.epoch = epoch;
    t.warp_epoch = 0;
    t.clock = 0;
    t.seen = t.fenced_inits = t.seen_inits = {};
    t.may_overlap = launch_.dependent;
    t.uncommitted.clear();
    t.groups.clear();
    t.wgmma = {};
    t.uncommitted_stores.clear();
    t.store_groups.clear();
    t.unfenced.clear();
  }
  mbarriers_.begin_cluster();
  cluster_.begin(static_cast<int>(blocks_.size()), static_cast<int>(block_threads()));
  for (size_t rank = 0; rank < blocks_.size(); ++rank) {
    blocks_[rank].named_barriers.begin_block();
    std::vector<ThreadState*> threads;
    const size_t from = first_of(static_cast<int>(rank));
    for (size_t i = from; i < from + block_threads(); ++i) threads.push_back(&threads_[i].state);
    blocks_[rank].registers.begin_block(std::move(threads), launch_.registers);
  }
  shuffle_order();
}

std::optional<EmulatorFault> Scheduler::run_cluster(uint32_t& epoch) {
  while (true) {
    // Warps that wait for others of their warpgroup go on when these have come.
    for (bool ran = true; ran;) {
      ran = false;
      for (int warp : warp_order_) {
        while (run_warp(warp)) ran = true;
        if (fault_) return fault_;
      }
    }
    bool done = std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) {
      return t.state.wait == ThreadState::Wait::Done;
    });
    if (done) break;
    if (any_ready()) {  // a thread has completed what others wait for
      shuffle_order();
    } else if (resume_patient()) {
      continue;
    } else if (!release_barriers(epoch)) {
      return stuck();
    }
  }
  if (std::optional<EmulatorFault> fault = unfinished_copy()) return fault;
  for (size_t rank = 0; rank < blocks_.size(); ++rank) count(static_cast<int>(rank));
  return left_too_early();
}

// Lets every ready lane run until it waits; whether any did.
bool Scheduler::run_warp(int warp) {
  bool ran = false;
  const size_t warps = warps_of_block();
  for (int lane : lane_order_) {
    const size_t index = static_cast<size_t>(warp) % warps * kWarp + static_cast<size_t>(lane);
    const size_t i = static_cast<size_t>(warp) / warps * block_threads() + index;
    if (index >= block_threads() || threads_[i].state.wait != ThreadState::Wait::Ready) continue;
    resume(threads_[i]);
    if (fault_) return false;
    ran = true;
  }
  return ran;
}

void Scheduler::resume(Thread& thread) {
  running_ = thread.state.place;
  state_.thread = thread.state.position;
  state_.block = thread.state.block;
  state_.cluster_rank = static_cast<unsigned>(thread.state.rank);
  state_.lane = thread.state.lane();
  if (!thread.fiber) start(thread);
  Away away(main_stack_, thread.stack);
  thread.fiber = std::move(thread.fiber).resume();
}

void Scheduler::yield() {
  Away away(threads_[static_cast<size_t>(running_)].stack, main_stack_);
  main_ = std::move(main_).resume();
}

// Lets those blocks go on of which all threads have come to the same barrier; whether any have.
bool Scheduler::release_barriers(uint32_t& epoch) {
  bool released = false;
  for (size_t rank = 0; rank < blocks_.size(); ++rank) {
    released |= release_barrier(static_cast<int>(rank), epoch);
  }
  if (released) shuffle_order();
  return released;
}

bool Scheduler::release_barrier(int rank, uint32_t& epoch) {
  const auto begin = threads_.begin() + static_cast<std::ptrdiff_t>(first_of(rank));
  const auto end = begin + static_cast<std::ptrdiff_t>(block_threads());
  const int line = begin->state.barrier_line;
  const bool all = std::all_of(begin, end, [&](const Thread& t) {
    return t.state.wait == ThreadState::Wait::Block && t.state.barrier_line == line;
  });
  if (!all) return false;
  ++epoch;
  ++counters_.block_barriers;
  count(rank);
  // All know, too, the steps that another block told one of them.
  Order seen;
  if (blocks_.size() > 1) std::for_each(begin, end, [&](Thread& t) { seen.join(t.state.seen); });
  std::for_each(begin, end, [&](Thread& t) {
    t.state.wait = ThreadState::Wait::Ready;
    t.state.epoch = epoch;
    if (blocks_.size() > 1) t.state.seen = seen;
  });
  return true;
}

void Scheduler::count(int rank) {
  const size_t end = first_of(rank) + block_threads();
  for (size_t first = first_of(rank); first < end; first += kWarp) {
    std::vector<ThreadState*> lanes;
    for (size_t i = first; i < std::min(first + kWarp, end); ++i) {
      lanes.push_back(&threads_[i].state);
    }
    count_warp(lanes, counters_);
  }
}

void Scheduler::step(int line) {
  if (++steps_ <= options_.step_limit) return;
  fail(FaultKind::StepLimit, line,
       fmt::format("has not ended after {} operations of all threads", options_.step_limit));
}

void Scheduler::note(const void* site, const tw_emu_array& array, int64_t offset, int bytes,
                     AccessKind kind) {
  std::vector<Access>& log = running().log;
  if (bytes == 0 || log.size() >= kLogLimit) return;
  log.push_back({site, array.storage->address + array.begin + offset, static_cast<int16_t>(bytes),
                 array.storage->space, kind});
}

void Scheduler::sync_block(int line) {
  ThreadState& thread = running();
  thread.barrier_line = line;
  thread.wait = ThreadState::Wait::Block;
  yield();
}

void Scheduler::collective(const WarpRequest& request) {
  ThreadState& thread = running();
  thread.request = request;
  if ((request.mask >> thread.lane() & 1) == 0) {
    fail(FaultKind::DivergentCollective, request.line,
         fmt::format("lane {} calls {} with the mask {:#x}, which lacks it", thread.lane(),
                     name_of(request.kind), request.mask));
  }
  thread.wait = ThreadState::Wait::Warp;
  if (!perform(thread)) yield();
}

// The lanes of the request's mask, at their indices, when each of them has made it; else nothing.
std::vector<ThreadState*> Scheduler::participants(const ThreadState& by) {
  std::vector<ThreadState*> lanes(kWarp, nullptr);
  for (size_t lane = 0; lane < kWarp; ++lane) {
    if ((by.request.mask >> lane & 1) == 0) continue;
    const size_t index = static_cast<size_t>(by.warp()) * kWarp + lane;
    if (index >= block_threads()) continue;  // the last warp of a block may be cut short
    ThreadState& thread = threads_[first_of(by.rank) + index].state;
    if (thread.wait != ThreadState::Wait::Warp || !thread.request.matches(by.request)) return {};
    lanes[lane] = &thread;
  }
  return lanes;
}

// Performs the request for the four warps of a warpgroup when all of them have made it.
bool Scheduler::perform_in_warpgroup(ThreadState& by) {
  std::vector<ThreadState*> lanes;
  const int first = by.index / kWarpgroup * kWarpgroup;
  for (int i = first; i < first + kWarpgroup; ++i) {
    if (static_cast<size_t>(i) >= block_threads()) {
      fail(FaultKind::DivergentCollective, by.request.line,
           fmt::format("wgmma takes all {} lanes of a warpgroup; the block has {} threads",
                       kWarpgroup, block_threads()));
    }
    ThreadState& thread = threads_[first_of(by.rank) + static_cast<size_t>(i)].state;
    if (thread.wait != ThreadState::Wait::Warp || !thread.request.matches(by.request)) return false;
    lanes.push_back(&thread);
  }
  multiply_warpgroup(lanes, memory_, options_.compute_capability, counters_);
  for (ThreadState* lane : lanes) lane->wait = ThreadState::Wait::Ready;
  return true;
}

// Does what the warp waits for if `by` was the last to come.
bool Scheduler::perform(ThreadState& by) {
  if (by.request.kind == WarpRequest::Kind::Wgmma) return perform_in_warpgroup(by);
  std::vector<ThreadState*> lanes = participants(by);
  if (lanes.empty()) return false;
  using Kind = WarpRequest::Kind;
  Kind kind = by.request.kind;
  bool matrices = kind != Kind::Sync && kind != Kind::Shuffle;
  if (matrices && std::find(lanes.begin(), lanes.end(), nullptr) != lanes.end()) {
    fail(FaultKind::DivergentCollective, by.request.line,
         fmt::format("{} takes all 32 lanes of a warp; the block has {} threads", name_of(kind),
                     block_threads()));
  }
  if (kind == Kind::Shuffle) shuffle(lanes, counters_);
  if (kind == Kind::LdMatrix) load_matrices(lanes, memory_, counters_);
  if (kind == Kind::StMatrix) store_matrices(lanes, memory_, counters_);
  if (kind == Kind::Mma || kind == Kind::SparseMma) {
    multiply_matrices(lanes, options_.compute_capability, counters_);
  }
  if (kind == Kind::WgmmaFence) fence_registers(lanes);
  if (kind == Kind::WgmmaCommit) commit_group(lanes);
  if (kind == Kind::WgmmaWait) wait_for_groups(lanes, memory_);
  if (kind == Kind::Sync) order_lanes(lanes);
  for (ThreadState* lane : lanes) {
    if (lane) lane->wait = ThreadState::Wait::Ready;
  }
  return true;
}

// "waits at __syncthreads in line 4", "has returned".
std::string Scheduler::doing(const ThreadState& thread) const {
  using Wait = ThreadState::Wait;
  const BlockState& block = blocks_[static_cast<size_t>(thread.rank)];
  switch (thread.wait) {
    case Wait::Block: return fmt::format("waits at __syncthreads in line {}", thread.barrier_line);
    case Wait::Warp:
      return fmt::format("waits at {} in line {}", name_of(thread.request.kind),
                         thread.request.line);
    case Wait::Cluster: return cluster_.describe(thread);
    case Wait::MBarrier: return mbarriers_.describe(thread);
    case Wait::NamedBarrier: return block.named_barriers.describe(thread);
    case Wait::Registers: return block.registers.describe(thread);
    case Wait::Done: return "has returned";
    case Wait::Others:
    case Wait::Ready: return "runs";
  }
  return "";
}

// Why nobody can go on: two threads that wait for each other at different places.
EmulatorFault Scheduler::stuck() const {
  if (std::optional<EmulatorFault> fault = deadlock()) return *fault;
  using Wait = ThreadState::Wait;
  auto waits_in_warp = [](const Thread& t) { return t.state.wait == Wait::Warp; };
  auto in_warp = std::find_if(threads_.begin(), threads_.end(), waits_in_warp);
  bool collective = in_warp != threads_.end();
  auto blamed =
      collective ? in_warp : std::find_if(threads_.begin(), threads_.end(), [](const Thread& t) {
        return t.state.wait == Wait::Block;
      });
  const ThreadState& one = blamed->state;
  EmulatorFault fault;
  fault.kind = collective ? FaultKind::DivergentCollective : FaultKind::DivergentBarrier;
  fault.line = collective ? one.request.line : one.barrier_line;
  const int team = one.request.kind == WarpRequest::Kind::Wgmma ? kWarpgroup : kWarp;
  for (const Thread& t : threads_) {
    const ThreadState& other = t.state;
    if (other.rank != one.rank) continue;
    if (collective &&
        (other.index / team != one.index / team || (one.request.mask >> other.lane() & 1) == 0)) {
      continue;
    }
    bool together = other.wait == one.wait && (collective ? other.request.matches(one.request)
                                                          : other.barrier_line == fault.line);
    if (together) continue;
    fault.other_thread = {other.index, 0, 0};
    fault.other_block = {static_cast<int>((other.id - 1) / block_threads()), 0, 0};
    fault.problem =
        fmt::format("{}; thread ({}) {}", doing(one),
                    fmt::join(coordinates(other.index, launch_.block), ", "), doing(other));
    break;
  }
  return located(fault, one);
}

// With the coordinates of the thread, and of the other one, for which checks gave linear numbers.
EmulatorFault Scheduler::located(EmulatorFault fault, const ThreadState& by) const {
  fault.kernel = launch_.entry;
  fault.block = {static_cast<int>(by.block.x), static_cast<int>(by.block.y),
                 static_cast<int>(by.block.z)};
  fault.thread = coordinates(by.index, launch_.block);
  if (fault.other_thread) {
    fault.other_thread = coordinates((*fault.other_thread)[0], launch_.block);
    fault.other_block = coordinates(fault.other_block[0], launch_.grid);
  }
  return fault;
}

}  // namespace tilewright::emulator
