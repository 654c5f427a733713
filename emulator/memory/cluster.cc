#include "emulator/memory/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tilewright::emulator {

void Cluster::begin(int blocks, int threads_per_block) {
  *this = {};
  threads_ = threads_per_block;
  left_.assign(static_cast<size_t>(blocks), 0);
  knew_.resize(static_cast<size_t>(blocks));
}

void Cluster::arrive(ThreadState& by, bool relaxed, int line) {
  if (by.came_to_cluster) {
    fail(FaultKind::BadBarrier, line,
         "comes to the barrier of the cluster again without a tw_cluster_wait() in between");
  }
  by.came_to_cluster = true;
  by.cluster_phase = phase_;
  arriving_inits_.join(by.fenced_inits);
  if (!relaxed) release(by, arriving_);
  ++come_;
  end_phase_if_all_came();
}

bool Cluster::wait(ThreadState& by, int line) {
  if (!by.came_to_cluster) {
    fail(FaultKind::BadBarrier, line,
         "waits at the barrier of the cluster, to which it has not come: tw_cluster_arrive() goes "
         "before that");
  }
  by.came_to_cluster = false;
  if (by.cluster_phase < phase_) {
    by.seen.join(released_);
    by.seen_inits.join(released_inits_);
    return true;
  }
  by.wait = ThreadState::Wait::Cluster;
  by.barrier_line = line;
  waiting_.push_back(&by);
  return false;
}

void Cluster::leave(ThreadState& by) {
  const auto rank = static_cast<size_t>(by.rank);
  ++left_[rank];
  knew_[rank].join(by.seen);
  // A thread that came and returned without waiting counts as one that came.
  if (by.came_to_cluster && by.cluster_phase == phase_) --come_;
  end_phase_if_all_came();
}

void Cluster::end_phase_if_all_came() {
  const int64_t left = std::accumulate(left_.begin(), left_.end(), int64_t{0});
  if (come_ == 0 || come_ + left < int64_t{threads_} * blocks()) return;
  released_.join(arriving_);
  released_inits_.join(arriving_inits_);
  arriving_ = arriving_inits_ = {};
  come_ = 0;
  ++phase_;
  for (ThreadState* thread : waiting_) {
    thread->seen.join(released_);
    thread->seen_inits.join(released_inits_);
    thread->wait = ThreadState::Wait::Ready;
  }
  waiting_.clear();
}

void Cluster::reach(const ThreadState& by, int64_t rank, const std::string& does, int line) const {
  if (rank < 0 || rank >= blocks()) {
    fail(FaultKind::BadBarrier, line,
         fmt::format("{} in block {} of the cluster, which has {}", does, rank, blocks()));
  }
  if (rank == by.rank || left_[static_cast<size_t>(rank)] < threads_) return;
  fail(
      FaultKind::ExitedBlock, line,
      fmt::format("{} in block {} of the cluster, which has returned: it has to stay until that is "
                  "done, as by a barrier of the cluster before its end",
                  does, rank));
}

void Cluster::touch(const ThreadState& by, int64_t rank, const std::string& does, int line) {
  reach(by, rank, does, line);
  if (rank == by.rank) return;
  touches_[{rank, by.place}] = {&by, by.epoch, by.warp_epoch, by.clock, line, does};
}

// One thread of the block that stays until it knows of all is enough.
void Cluster::check_end() const {
  for (const auto& [at, touch] : touches_) {
    const Order& knew = knew_[static_cast<size_t>(at.first)];
    const ThreadState& by = *touch.by;
    const bool known =
        touch.epoch < Order::at(knew.blocks, static_cast<size_t>(by.rank)) ||
        touch.clock < Order::at(knew.threads, static_cast<size_t>(by.place)) ||
        touch.warp_epoch < Order::at(knew.warps, static_cast<size_t>(by.place_of_warp));
    if (known) continue;
    fail(
        FaultKind::ExitedBlock, touch.line,
        fmt::format("{} in block {} of the cluster, which may have returned by then: no barrier of "
                    "the cluster stands between this and that block's end",
                    touch.does, at.first),
        &by);
  }
}

std::string Cluster::describe(const ThreadState& waiting) const {
  const int64_t left = std::accumulate(left_.begin(), left_.end(), int64_t{0});
  return fmt::format(
      "waits at the barrier of the cluster in line {}, to which {} of {} threads have come",
      waiting.barrier_line, come_, int64_t{threads_} * blocks() - left);
}

}  // namespace tilewright::emulator
