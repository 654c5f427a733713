#include "codegen/cuda/cuda_tensor_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/lowering.h"
#include "ir/compare.h"

namespace tilewright {
namespace {

std::string address(const Expr& named, CudaExpr& expr) {
  auto* n = named.as<LoadNode>();
  return fmt::format("{} + {}", expr.buffers.at(n->buffer.get()),
                     expr.print(expr.place_of(n->buffer, n->indices[0])));
}

// Rows of a box fill the span of a swizzle, or lie one behind another.
TensorSwizzle map_swizzle(const TensorTransfer& op) {
  const Buffer& shared = op.shared.as<LoadNode>()->buffer;
  const int64_t bits = bits_of(shared->elem), row = op.box.box.back();
  if (shared->swizzled_row == 0) {
    auto all = as_int(shared->shape[0]);
    if (!all || *all % op.box.elements() != 0) {
      throw LoweringError(
          fmt::format("rows of '{}' are padded; a tensor copy needs them swizzled", shared->name));
    }
    return TensorSwizzle::None;
  }
  if (row != shared->swizzled_row) {
    throw LoweringError(
        fmt::format("rows of '{}' are swizzled by {} elements; a tensor copy has "
                    "rows of {}",
                    shared->name, shared->swizzled_row, row));
  }
  for (TensorSwizzle s : {TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128}) {
    if (span_of(s) == row * bits / 8) return s;
  }
  throw LoweringError(
      fmt::format("rows of '{}' are swizzled by {} bytes; those of tensor copies are "
                  "by 32, 64 or 128",
                  shared->name, row * bits / 8));
}

// The tensor map of a copy whose operand has this position among the kernel's buffers.
TensorMap tensor_map_of(const TensorTransfer& op, int buffer) {
  TensorMap map;
  map.buffer = buffer;
  map.elem = op.operand->elem;
  map.swizzle = map_swizzle(op);
  Expr stride = bits_of(map.elem) / 8;
  for (size_t d = op.box.dims.size(); d-- > 0;) {  // innermost first
    map.dims.push_back(op.box.dims[d]);
    map.box.push_back(op.box.box[d]);
    stride = simplify(stride * op.box.dims[d]);
    if (d > 0) map.strides.push_back(stride);
  }
  if (!op.box.pixels) return map;
  map.box.resize(2);  // channels and pixels
  const BoxPixels& given = *op.box.pixels;
  PixelBox& pixels = map.pixels.emplace();
  std::copy(given.lower.rbegin(), given.lower.rend(), pixels.lower.begin());
  std::copy(given.upper.rbegin(), given.upper.rend(), pixels.upper.begin());
  std::copy(given.steps.rbegin(), given.steps.rend(), pixels.steps.begin());
  return map;
}

bool same_map(const TensorMap& a, const TensorMap& b) {
  auto same = [](const std::vector<Expr>& x, const std::vector<Expr>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const Expr& e, const Expr& f) { return equal(e, f); });
  };
  return a.buffer == b.buffer && a.swizzle == b.swizzle && a.box == b.box && a.pixels == b.pixels &&
         same(a.dims, b.dims) && same(a.strides, b.strides);
}

}  // namespace

std::vector<std::string> call_lines(const CallNode& call, CudaExpr& expr) {
  std::vector<std::string> args;
  for (size_t a = 0; a < call.args.size(); ++a) {
    const bool is_value = access_of(call.op, a) == CallAccess::Value;
    args.push_back(is_value ? expr.print_bare(call.args[a]) : address(call.args[a], expr));
  }
  auto one = [&](const char* function) {
    return std::vector<std::string>{fmt::format("{}({});", function, fmt::join(args, ", "))};
  };
  auto by_constant = [&](const char* function) {
    return std::vector<std::string>{fmt::format("{}<{}>();", function, args[0])};
  };
  switch (call.op) {
    case CallOp::Barrier: return one("__syncthreads");
    case CallOp::AsyncCommit: return one("tw_cp_async_commit");
    case CallOp::AsyncWait: return by_constant("tw_cp_async_wait");
    case CallOp::WarpBarrier: return one("__syncwarp");
    case CallOp::NamedBarrier: return one("tw_barrier_sync");
    case CallOp::ClusterBarrier: return {"tw_cluster_arrive();", "tw_cluster_wait();"};
    case CallOp::ClusterBarrierRelaxed:
      return {"tw_cluster_arrive_relaxed();", "tw_cluster_wait();"};
    case CallOp::ProxyFence: return one("tw_fence_async");
    case CallOp::MbarrierFence: return one("tw_mbarrier_fence_init");
    case CallOp::MbarrierInit: return one("tw_mbarrier_init");
    case CallOp::MbarrierArrive: return one("tw_mbarrier_arrive");
    case CallOp::MbarrierArriveExpect: return one("tw_mbarrier_arrive_expect_tx");
    case CallOp::MbarrierArriveCluster: return one("tw_mbarrier_arrive_cluster");
    case CallOp::MbarrierWait: return one("tw_mbarrier_wait");
    case CallOp::BulkLoad: return one("tw_bulk_load");
    case CallOp::StoreWait: return by_constant("tw_bulk_wait_read");
    case CallOp::RaiseRegisters: return by_constant("tw_registers_raise");
    case CallOp::LowerRegisters: return by_constant("tw_registers_lower");
    default: break;
  }
  throw LoweringError(fmt::format("'{}' is not printed for GPUs yet", name_of(call.op)));
}

std::vector<std::string> transfer_lines(const TensorTransfer& copy, const std::string& map,
                                        CudaExpr& expr) {
  const TensorBox& box = copy.box;
  std::string at;
  for (size_t d = box.at.size(); d-- > 0;) at += ", " + expr.print_bare(box.at[d]);
  const size_t rank = box.at.size();
  for (size_t d = box.pixels ? box.pixels->offsets.size() : 0; d-- > 0;) {
    at += ", " + expr.print_bare(box.pixels->offsets[d]);
  }
  const std::string shared = address(copy.shared, expr);
  if (copy.is_store) {
    return {fmt::format("tw_tensor_store_{}d({}{}, {});", rank, map, at, shared),
            "tw_bulk_commit();"};
  }
  const std::string mbarrier = address(copy.mbarrier, expr);
  const char* kind = box.pixels ? "im2col_" : "";
  if (copy.blocks > 1) {
    return {fmt::format("tw_tensor_{}multicast_{}d({}, {}{}, {}, {:#x});", kind, rank, shared, map,
                        at, mbarrier, (1 << copy.blocks) - 1)};
  }
  return {fmt::format("tw_tensor_{}{}d({}, {}{}, {});", box.pixels ? kind : "load_", rank, shared,
                      map, at, mbarrier)};
}

const std::string& TensorMaps::of(const TensorTransfer& copy, CudaExpr& expr) {
  auto place = std::find(buffers_.begin(), buffers_.end(), copy.operand);
  TW_ASSERT(place != buffers_.end(), "a tensor copy of what the kernel is not given");
  const TensorMap map = tensor_map_of(copy, static_cast<int>(place - buffers_.begin()));
  const auto known = std::find_if(maps_.begin(), maps_.end(),
                                  [&](const TensorMap& m) { return same_map(m, map); });
  if (known != maps_.end()) return names_[static_cast<size_t>(known - maps_.begin())];
  maps_.push_back(map);
  return names_.emplace_back(expr.fresh(copy.operand->name + "_map"));
}

}  // namespace tilewright
