#include "ir/call_table.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tilewright {
namespace {

constexpr auto kValue = CallAccess::Value;
constexpr auto kSync = CallAccess::Sync;

constexpr std::array kRows = {
    CallRow{CallOp::Bitcast, "bitcast", {{{"value"}}}, {}, false},
    CallRow{CallOp::IfThenElse, "if_then_else", {{{"cond"}, {"a"}, {"b"}}}, {}, false},
    CallRow{CallOp::Dot, "dot", {{{"acc"}, {"a"}, {"b"}}}, {}, false},
    CallRow{CallOp::LaneSum, "lane_sum", {{{"vector"}}}, "vectors", false},
    CallRow{CallOp::LaneMax, "lane_max", {{{"vector"}}}, "vectors", false},
    CallRow{CallOp::Prefetch, "prefetch", {{{"address", CallAccess::Address}, {"locality"}}}},
    CallRow{CallOp::Barrier, "barrier"},
    CallRow{CallOp::AsyncCommit, "async_commit"},
    CallRow{CallOp::AsyncWait, "async_wait", {{{"groups"}}}},
    CallRow{CallOp::WarpBarrier, "warp_barrier"},
    CallRow{CallOp::NamedBarrier, "named_barrier", {{{"number"}, {"threads"}}}},
    CallRow{CallOp::ClusterBarrier, "cluster_barrier"},
    CallRow{CallOp::ClusterBarrierRelaxed, "cluster_barrier_relaxed"},
    CallRow{CallOp::ProxyFence, "proxy_fence"},
    CallRow{CallOp::MbarrierFence, "mbarrier_fence"},
    CallRow{CallOp::MbarrierInit, "mbarrier_init", {{{"mbarrier", kSync}, {"arrivals"}}}},
    CallRow{CallOp::MbarrierArrive, "mbarrier_arrive", {{{"mbarrier", kSync}}}},
    CallRow{
        CallOp::MbarrierArriveExpect, "mbarrier_arrive_expect", {{{"mbarrier", kSync}, {"bytes"}}}},
    CallRow{CallOp::MbarrierArriveCluster,
            "mbarrier_arrive_cluster",
            {{{"mbarrier", kSync}, {"rank"}}}},
    CallRow{CallOp::MbarrierWait, "mbarrier_wait", {{{"mbarrier", kSync}, {"parity"}}}},
    CallRow{
        CallOp::BulkLoad,
        "bulk_load",
        {{{"to", CallAccess::Write}, {"from", CallAccess::Read}, {"bytes"}, {"mbarrier", kSync}}}},
    CallRow{CallOp::TensorLoad,
            "tensor_load",
            {{{"to", CallAccess::Write},
              {"operand", CallAccess::MapRead},
              {"mbarrier", kSync},
              {"blocks"}}},
            "tile"},
    CallRow{CallOp::TensorLoadIm2col,
            "tensor_load_im2col",
            {{{"to", CallAccess::Write},
              {"operand", CallAccess::MapRead},
              {"mbarrier", kSync},
              {"blocks"}}},
            "tile"},
    CallRow{CallOp::TensorStore,
            "tensor_store",
            {{{"from", CallAccess::Read}, {"operand", CallAccess::MapWrite}}},
            "tile"},
    CallRow{CallOp::StoreWait, "store_wait", {{{"groups"}}}},
    CallRow{CallOp::RaiseRegisters, "raise_registers", {{{"registers"}}}},
    CallRow{CallOp::LowerRegisters, "lower_registers", {{{"registers"}}}},
};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].op) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "row_of() finds a row by its operation");

}  // namespace

size_t CallRow::count() const {
  return static_cast<size_t>(std::count_if(operands.begin(), operands.end(),
                                           [](const CallOperand& o) { return !o.name.empty(); }));
}

std::span<const CallRow> call_rows() { return kRows; }

const CallRow& row_of(CallOp op) { return kRows.at(static_cast<size_t>(op)); }

std::string_view name_of(CallOp op) { return row_of(op).name; }

CallAccess access_of(CallOp op, size_t argument) {
  const auto& operands = row_of(op).operands;
  return argument < operands.size() ? operands[argument].access : kValue;
}

const CallNode* as_call(const Expr& e, CallOp op) {
  auto* n = e.as<CallNode>();
  return n && n->op == op ? n : nullptr;
}

const Expr& operand_of(const CallNode& call, std::string_view name) {
  const auto& operands = row_of(call.op).operands;
  const auto found = std::find_if(operands.begin(), operands.end(),
                                  [&](const CallOperand& o) { return o.name == name; });
  TW_ASSERT(found != operands.end(), "a call has no operand of this name: " + std::string(name));
  return call.args[static_cast<size_t>(found - operands.begin())];
}

}  // namespace tilewright
