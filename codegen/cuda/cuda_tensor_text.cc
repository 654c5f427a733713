#include "codegen/cuda/cuda_tensor_text.h"

#include <fmt/format.h>

#include <algorithm>

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
TensorSwizzle swizzle_of(const AsyncOp& op, int64_t swizzled_row) {
  const Buffer& shared = op.shared.as<LoadNode>()->buffer;
  const int64_t bits = bits_of(shared->elem), row = op.box.box.back();
  if (swizzled_row == 0) {
    auto all = as_int(shared->shape[0]);
    if (!all || *all % op.box.elements() != 0) {
      throw LoweringError(
          fmt::format("rows of '{}' are padded; a tensor copy needs them swizzled", shared->name));
    }
    return TensorSwizzle::None;
  }
  if (row != swizzled_row) {
    throw LoweringError(
        fmt::format("rows of '{}' are swizzled by {} elements; a tensor copy has "
                    "rows of {}",
                    shared->name, swizzled_row, row));
  }
  for (TensorSwizzle s : {TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128}) {
    if (span_of(s) == row * bits / 8) return s;
  }
  throw LoweringError(
      fmt::format("rows of '{}' are swizzled by {} bytes; those of tensor copies are "
                  "by 32, 64 or 128",
                  shared->name, row * bits / 8));
}

}  // namespace

std::vector<std::string> async_lines(const AsyncOp& op, CudaExpr& expr) {
  using Kind = AsyncOp::Kind;
  switch (op.kind) {
    case Kind::MakeBarrier:
      return {fmt::format("tw_mbarrier_init({}, {});", address(op.barrier, expr),
                          expr.print_bare(op.count))};
    case Kind::ShowBarriers: return {"tw_mbarrier_fence_init();"};
    case Kind::NamedBarrier:
      return {fmt::format("tw_barrier_sync({}, {});", expr.print_bare(op.count), op.threads)};
    case Kind::Fence: return {"tw_fence_async();"};
    case Kind::WarpBarrier: return {"__syncwarp();"};
    case Kind::ClusterBarrier:
      return {op.barrier.defined() ? "tw_cluster_arrive_relaxed();" : "tw_cluster_arrive();",
              "tw_cluster_wait();"};
    case Kind::Arrive:
      if (op.rank.defined()) {
        return {fmt::format("tw_mbarrier_arrive_cluster({}, {});", address(op.barrier, expr),
                            expr.print_bare(op.rank))};
      }
      if (is_int(op.count, 0)) {
        return {fmt::format("tw_mbarrier_arrive({});", address(op.barrier, expr))};
      }
      return {fmt::format("tw_mbarrier_arrive_expect_tx({}, {});", address(op.barrier, expr),
                          expr.print_bare(op.count))};
    case Kind::WaitPhase:
      return {fmt::format("tw_mbarrier_wait({}, {});", address(op.barrier, expr),
                          expr.print_bare(op.count))};
    case Kind::WaitStores: return {"tw_bulk_wait_read<0>();"};
    case Kind::LoadBytes:
      return {fmt::format("tw_bulk_load({}, {}, {}, {});", address(op.shared, expr),
                          address(op.element, expr), expr.print_bare(op.count),
                          address(op.barrier, expr))};
    case Kind::Load:
    case Kind::Store: break;
  }
  return {};
}

std::vector<std::string> box_lines(const AsyncOp& op, const std::string& map, CudaExpr& expr) {
  std::string at;
  for (size_t d = op.box.at.size(); d-- > 0;) at += ", " + expr.print_bare(op.box.at[d]);
  const size_t rank = op.box.at.size();
  for (size_t d = op.box.pixels ? op.box.pixels->offsets.size() : 0; d-- > 0;) {
    at += ", " + expr.print_bare(op.box.pixels->offsets[d]);
  }
  const std::string shared = address(op.shared, expr);
  const char* kind = op.box.pixels ? "im2col_" : "";
  if (op.kind == AsyncOp::Kind::Load && op.blocks > 1) {
    return {fmt::format("tw_tensor_{}multicast_{}d({}, {}{}, {}, {:#x});", kind, rank, shared, map,
                        at, address(op.barrier, expr), (1 << op.blocks) - 1)};
  }
  if (op.kind == AsyncOp::Kind::Load) {
    return {fmt::format("tw_tensor_{}{}d({}, {}{}, {});", op.box.pixels ? kind : "load_", rank,
                        shared, map, at, address(op.barrier, expr))};
  }
  return {fmt::format("tw_tensor_store_{}d({}{}, {});", rank, map, at, shared),
          "tw_bulk_commit();"};
}

TensorMap tensor_map_of(const AsyncOp& op, int buffer, int64_t swizzled_row) {
  TensorMap map;
  map.buffer = buffer;
  map.elem = op.operand->elem;
  map.swizzle = swizzle_of(op, swizzled_row);
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

}  // namespace tilewright
