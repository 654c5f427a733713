// Counts mbarriers, TMA copies and warp specialization.
#include <algorithm>

#include "tuner/gpu/gpu_work_counter.h"

namespace tilewright::gpu_work_detail {

// Producers and consumers run side by side, so that the producers' waits add nothing to the
// consumers' waits.
void Counter::part(const IfNode& n) {
  role_warps_ = static_cast<int>(consumers_ / kWarp);
  guards_.emplace_back(n.cond, true);
  walk(n.then_case);
  guards_.back().second = false;
  const double exposed = work_.exposed, overlapped = work_.overlapped, rounds = rounds_;
  role_warps_ = 1;
  copies_ahead_ = true;
  walk(n.else_case);
  work_.exposed = exposed;
  work_.overlapped = overlapped;
  rounds_ = rounds;
  copies_ahead_ = false;
  role_warps_ = static_cast<int>(consumers_ / kWarp);
  guards_.pop_back();
}

void Counter::asynchronous(const AsyncOp& op) {
  using Kind = AsyncOp::Kind;
  constexpr double kPassBytes = 128;
  // A round trip between SMs of a cluster: 180 cycles each way (Luo et al., see gpu_work.h).
  constexpr double kClusterLatency = 360;
  issue(1);
  switch (op.kind) {
    case Kind::Load:
    case Kind::Store: {
      const auto bytes = static_cast<double>(bytes_for(op.operand->elem, op.box.elements()));
      Expr index = 0;
      for (size_t d = 0; d < op.box.at.size(); ++d) {
        index = index * op.box.dims[d] + op.box.at[d];
        const bool is_offset = op.box.pixels && d > 0 && d + 1 < op.box.at.size();
        if (is_offset) index = index + op.box.pixels->offsets[d - 1];
      }
      work_.global.push_back({op.operand, index, op.kind == Kind::Store, bytes * times_, false});
      // Multicast: each block loads a part of the tile from memory and receives all of it.
      work_.shared_passes += bytes / kPassBytes * times_ * static_cast<double>(op.blocks);
      work_.box_bytes += bytes * times_;
      if (op.blocks > 1) work_.multicast_bytes += bytes * times_;
      return;
    }
    case Kind::LoadBytes: {
      auto* first = op.element.as<LoadNode>();
      const auto bytes = static_cast<double>(work_.values.at(op.count));
      work_.global.push_back({first->buffer, first->indices[0], false, bytes * times_, false});
      work_.shared_passes += bytes / kPassBytes * times_;
      work_.box_bytes += bytes * times_;
      return;
    }
    case Kind::WaitPhase: {
      if (copies_ahead_) return;
      work_.barriers += times_;
      // One stage is in use; with pending wgmma groups another one is not free yet.
      const auto named = op.barrier.as<LoadNode>()->buffer;
      const int64_t stages = work_.values.at(named->shape[0]) / (consumers_ > 0 ? 2 : 1);
      const auto ahead = static_cast<double>(std::max<int64_t>(1, stages - (has_pending_ ? 2 : 1)));
      work_.overlapped += times_ * kGlobalLatency / ahead;
      return;
    }
    case Kind::NamedBarrier:
      work_.barriers += times_;
      work_.exposed += times_ * (kBarrierLatency + kSharedLatency + rounds_ * kGlobalLatency);
      rounds_ = 0;
      has_barrier_ = true;
      return;
    case Kind::ClusterBarrier: work_.exposed += times_ * kClusterLatency; return;
    case Kind::Fence:
    case Kind::WarpBarrier:
    case Kind::MakeBarrier:
    case Kind::ShowBarriers:
    case Kind::Arrive:
    case Kind::WaitStores: return;
  }
}

}  // namespace tilewright::gpu_work_detail
