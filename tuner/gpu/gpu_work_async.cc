// Counts mbarriers, TMA copies and warp specialization, and what runs beside products.
#include <algorithm>

#include "tuner/gpu/gpu_work_counter.h"

namespace tilewright::gpu_work_detail {

// Producers and consumers run side by side, so that the producers' waits add nothing to the
// consumers' waits.
void Counter::part(const IfNode& n) {
  role_.warps = static_cast<int>(role_.consumers / kWarp);
  place_.guards.emplace_back(n.cond, true);
  walk(n.then_case);
  place_.guards.back().second = false;
  const double exposed = work_.waits.exposed, overlapped = work_.waits.overlapped,
               rounds = waits_.rounds;
  role_.warps = 1;
  role_.copies_ahead = true;
  const double issued = work_.instructions, passes = work_.shared_passes;
  walk(n.else_case);
  products_.beside.instructions += work_.instructions - issued;
  products_.beside.passes += work_.shared_passes - passes;
  work_.waits.exposed = exposed;
  work_.waits.overlapped = overlapped;
  waits_.rounds = rounds;
  role_.copies_ahead = false;
  role_.warps = static_cast<int>(role_.consumers / kWarp);
  place_.guards.pop_back();
}

// A wait for one stage of a ring, of which `ahead` others are on their way. A copy starts when all
// readers are known to have read its stage, also those in the other block of a cluster.
void Counter::wait_for_stage(double ahead) {
  const double release = kArrivalLatency + (order_.in_cluster ? kClusterLatency / 2 : 0);
  const double times = place_.times * work_.teams.count;
  work_.waits.overlapped += times * (release + kGlobalLatency) / ahead;
  rings_.ahead = std::max(rings_.ahead, ahead);
  rings_.stages_read += times;
  rings_.waits = true;
}

Counter::Beginning Counter::begin_loop() {
  return {work_.instructions,  work_.shared_passes, work_.products.operations,
          work_.global.size(), products_.beside,    std::exchange(rings_.waits, false)};
}

// Notes how often a ring is filled from empty, and what runs beside products: all of a loop that
// multiplies, unless it also stores results, as the loop over a persistent block's tiles does.
void Counter::end_loop(const Beginning& b, double times_around) {
  if (std::exchange(rings_.waits, b.waits_for_stage))
    rings_.fills = std::max(rings_.fills, times_around);
  const bool stores = std::any_of(work_.global.begin() + static_cast<std::ptrdiff_t>(b.accesses),
                                  work_.global.end(), [](const auto& a) { return a.is_store; });
  if (stores || work_.products.operations == b.mma_operations) return;
  products_.beside = {b.beside.instructions + work_.instructions - b.instructions,
                      b.beside.passes + work_.shared_passes - b.passes};
}

// Transfers of a stage take the SM's port for a while, which is part of the time until it is there.
// The first stage of a ring is waited for; producer warps fill theirs once per block.
void Counter::count_transfers() {
  if (rings_.stages_read == 0) return;
  const double transfer = rings_.received / kPortBytes;
  work_.waits.overlapped += transfer / rings_.ahead;
  const double fills = role_.consumers > 0 ? 1 : rings_.fills;
  work_.waits.exposed += fills * (kGlobalLatency + transfer / rings_.stages_read);
}

void Counter::count_bare() {
  if (work_.products.operations == 0) return;
  work_.bare.instructions = work_.instructions - products_.beside.instructions;
  work_.bare.passes = work_.shared_passes - products_.beside.passes;
  for (const GlobalAccess& a : work_.global) work_.bare.bytes += a.is_store ? a.bytes : 0;
}

void Counter::transfer(const TensorTransfer& copy) {
  const TensorBox& box = copy.box;
  const auto bytes = static_cast<double>(bytes_for(copy.operand->elem, box.elements()));
  Expr index = 0;
  for (size_t d = 0; d < box.at.size(); ++d) {
    index = index * box.dims[d] + box.at[d];
    const bool is_offset = box.pixels && d > 0 && d + 1 < box.at.size();
    if (is_offset) index = index + box.pixels->offsets[d - 1];
  }
  // One thread of each team stores; one producer loads for all of them.
  const double times = place_.times * (copy.is_store ? work_.teams.count : 1);
  work_.global.push_back({copy.operand, index, copy.is_store, bytes * times, false});
  // Multicast: each block loads a part of the tile from memory and receives all of it.
  const double moved = bytes * times * static_cast<double>(copy.blocks);
  work_.shared_passes += moved / kPassBytes;
  work_.tma.bytes += bytes * times;
  if (copy.blocks > 1) work_.tma.multicast_bytes += bytes * times;
  if (!copy.is_store) rings_.received += moved;
}

void Counter::asynchronous(const Expr& e) {
  const CallNode& call = *e.as<CallNode>();
  const bool sets_registers =
      call.op == CallOp::RaiseRegisters || call.op == CallOp::LowerRegisters;
  if (!sets_registers) issue(1);
  switch (call.op) {
    case CallOp::TensorLoad:
    case CallOp::TensorLoadIm2col:
    case CallOp::TensorStore: return transfer(*tensor_transfer(e));
    case CallOp::BulkLoad: {
      auto* first = operand_of(call, "from").as<LoadNode>();
      const auto bytes = static_cast<double>(work_.values.at(operand_of(call, "bytes")));
      work_.global.push_back(
          {first->buffer, first->indices[0], false, bytes * place_.times, false});
      work_.shared_passes += bytes / kPassBytes * place_.times;
      work_.tma.bytes += bytes * place_.times;
      rings_.received += bytes * place_.times;
      return;
    }
    case CallOp::MbarrierWait: {
      if (role_.copies_ahead) return;
      work_.waits.barriers += place_.times;
      // One stage is in use; with pending wgmma groups another one is not free yet.
      const auto named = operand_of(call, "mbarrier").as<LoadNode>()->buffer;
      const int64_t stages = work_.values.at(named->shape[0]) / (role_.consumers > 0 ? 2 : 1);
      if (stages < 2) {  // no ring: a team waits for its turn
        work_.waits.exposed += place_.times * kArrivalLatency;
        work_.teams.tiles = std::max(work_.teams.tiles, place_.times * work_.teams.count);
        return;
      }
      const auto ahead =
          static_cast<double>(std::max<int64_t>(1, stages - (products_.has_pending ? 2 : 1)));
      return wait_for_stage(ahead);
    }
    case CallOp::AsyncWait:
      if (!target_.gpu.has_async_copy()) return;
      return wait_for_stage(static_cast<double>(work_.values.at(operand_of(call, "groups"))) + 1);
    case CallOp::Barrier:
    case CallOp::NamedBarrier:
      work_.waits.barriers += place_.times;
      work_.waits.exposed +=
          place_.times * (kBarrierLatency + kSharedLatency + waits_.rounds * kGlobalLatency);
      waits_.rounds = 0;
      waits_.has_barrier = true;
      return;
    case CallOp::ClusterBarrier:
    case CallOp::ClusterBarrierRelaxed:
      work_.waits.exposed += place_.times * kClusterLatency;
      return;
    case CallOp::RaiseRegisters:
      role_.budget = static_cast<int>(work_.values.at(operand_of(call, "registers")));
      return;
    default: return;
  }
}

}  // namespace tilewright::gpu_work_detail
