#include "codegen/cuda/cuda_async_op.h"

#include <utility>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

Stmt statement(CallOp op, std::vector<Expr> args) {
  return make_evaluate(call(ElemType::boolean, op, std::move(args)));
}

// Names an operand by its first element.
Expr name_of_operand(const Buffer& operand) {
  return load(operand, std::vector<Expr>(operand->shape.size(), Expr(0)));
}

Buffer buffer_of(const Expr& named) { return named.as<LoadNode>()->buffer; }

void append(std::vector<Expr>& args, const TensorBox& box) {
  args.insert(args.end(), box.at.begin(), box.at.end());
  args.insert(args.end(), box.dims.begin(), box.dims.end());
  for (int64_t extent : box.box) args.emplace_back(extent);
  if (!box.pixels) return;
  const BoxPixels& pixels = *box.pixels;
  args.insert(args.end(), pixels.offsets.begin(), pixels.offsets.end());
  for (const auto* numbers : {&pixels.lower, &pixels.upper, &pixels.steps}) {
    for (int64_t n : *numbers) args.emplace_back(n);
  }
}

std::vector<int64_t> numbers_from(std::vector<Expr>::const_iterator first, std::ptrdiff_t count) {
  std::vector<int64_t> numbers;
  for (auto e = first; e != first + count; ++e) numbers.push_back(as_int(*e).value_or(0));
  return numbers;
}

TensorBox box_from(const std::vector<Expr>& args, size_t first, std::ptrdiff_t rank) {
  const auto at = args.begin() + static_cast<std::ptrdiff_t>(first);
  return {{at, at + rank}, {at + rank, at + 2 * rank}, numbers_from(at + 2 * rank, rank)};
}

TensorBox box_from(const std::vector<Expr>& args, size_t first) {
  return box_from(args, first, static_cast<std::ptrdiff_t>((args.size() - first) / 3));
}

// An im2col TMA load: prefetch(to, operand, rank, mbarrier, …, [blocks])
AsyncOp load_of_windows(const std::vector<Expr>& args) {
  constexpr size_t kFirst = 4;
  const auto rank = static_cast<std::ptrdiff_t>(as_int(args[2]).value_or(0)), image = rank - 2;
  TensorBox box = box_from(args, kFirst, rank);
  const auto at = args.begin() + kFirst + 3 * rank;
  box.pixels = BoxPixels{{at, at + image},
                         numbers_from(at + image, image),
                         numbers_from(at + 2 * image, image),
                         numbers_from(at + 3 * image, image)};
  const bool is_shared = args.end() - at > 4 * image;
  const int64_t blocks = is_shared ? as_int(args.back()).value_or(1) : 1;
  return {AsyncOp::Kind::Load, args[3], {}, 0, args[0], buffer_of(args[1]), std::move(box), blocks};
}

// The blocks of a TMA load: the number behind the three of each dimension, or 1 without one.
int64_t blocks_from(const std::vector<Expr>& args) {
  return (args.size() - 3) % 3 == 1 ? as_int(args.back()).value_or(1) : 1;
}

}  // namespace

int64_t TensorBox::elements() const {
  int64_t count = 1;
  for (int64_t extent : box) count *= extent;
  return count;
}

std::optional<AsyncOp> async_op(const Expr& e) {
  using Kind = AsyncOp::Kind;
  auto* c = e.as<CallNode>();
  if (!c || c->args.empty()) return std::nullopt;
  const std::vector<Expr>& args = c->args;
  auto is_named = [&](size_t i) { return args.size() > i && args[i].as<LoadNode>() != nullptr; };
  const bool names = is_named(0);
  switch (c->op) {
    case CallOp::Barrier:
      if (!names && args.size() == 1 && is_int(args[0], 0)) {
        return AsyncOp{Kind::Fence, {}, {}, 0, {}, {}, {}};
      }
      if (!names && args.size() == 1 && as_int(args[0])) {
        return AsyncOp{Kind::ClusterBarrier, {}, {}, 0, {}, {}, {}, *as_int(args[0])};
      }
      if (!names && args.size() == 2 && is_named(1) && as_int(args[0])) {
        return AsyncOp{Kind::ClusterBarrier, args[1], {}, 0, {}, {}, {}, *as_int(args[0])};
      }
      if (!names && (args.size() != 2 || !as_int(args[1]))) return std::nullopt;
      if (!names && is_int(args[0], 0))
        return AsyncOp{Kind::WarpBarrier, {}, {}, kWarp, {}, {}, {}};
      if (!names) return AsyncOp{Kind::NamedBarrier, {}, args[0], *as_int(args[1]), {}, {}, {}};
      if (args.size() == 1) return AsyncOp{Kind::ShowBarriers, args[0], {}, 0, {}, {}, {}};
      return AsyncOp{Kind::MakeBarrier, args[0], args[1], 0, {}, {}, {}};
    case CallOp::AsyncCommit:
      if (!names || args.size() < 2) return std::nullopt;
      if (args.size() == 2) return AsyncOp{Kind::Arrive, args[0], args[1], 0, {}, {}, {}};
      if (args.size() == 3) {
        return AsyncOp{Kind::Arrive, args[0], args[1], 0, {}, {}, {}, 1, args[2]};
      }
      if (!is_named(1)) return std::nullopt;
      return AsyncOp{Kind::Store, {}, {}, 0, args[0], buffer_of(args[1]), box_from(args, 2)};
    case CallOp::AsyncWait:
      if (!names) return std::nullopt;
      if (args.size() == 2) return AsyncOp{Kind::WaitPhase, args[0], args[1], 0, {}, {}, {}};
      return AsyncOp{Kind::WaitStores, {}, {}, 0, args[0], {}, {}};
    case CallOp::Prefetch:
      if (!names || !is_named(1)) return std::nullopt;
      if (is_named(3) && as_int(args[2])) return load_of_windows(args);
      if (!is_named(2)) return std::nullopt;
      if (args.size() == 4) {
        return AsyncOp{Kind::LoadBytes, args[2], args[3], 0, args[0], {}, {}, 1, {}, args[1]};
      }
      return AsyncOp{Kind::Load,        args[2],          {}, 0, args[0], buffer_of(args[1]),
                     box_from(args, 3), blocks_from(args)};
    case CallOp::Bitcast:
    case CallOp::IfThenElse:
    case CallOp::Dot: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<AsyncOp> async_op(const Stmt& s) {
  auto* n = s.as<EvaluateNode>();
  return n ? async_op(n->value) : std::nullopt;
}

Stmt make_mbarrier(const Expr& barrier, int64_t arrivals) {
  return statement(CallOp::Barrier, {barrier, Expr(arrivals)});
}

Stmt show_mbarriers(const Expr& barriers) { return statement(CallOp::Barrier, {barriers}); }

Stmt named_barrier(int64_t number, int64_t threads) {
  return statement(CallOp::Barrier, {Expr(number), Expr(threads)});
}

Stmt fence_async() { return statement(CallOp::Barrier, {Expr(0)}); }
Stmt warp_barrier() { return statement(CallOp::Barrier, {Expr(0), Expr(kWarp)}); }

Stmt cluster_barrier(int64_t blocks) { return statement(CallOp::Barrier, {Expr(blocks)}); }

Stmt cluster_barrier_of(const Expr& barriers, int64_t blocks) {
  return statement(CallOp::Barrier, {Expr(blocks), barriers});
}

Stmt arrive(const Expr& barrier, const Expr& bytes) {
  return statement(CallOp::AsyncCommit, {barrier, bytes});
}

Stmt arrive_at(const Expr& barrier, const Expr& rank) {
  return statement(CallOp::AsyncCommit, {barrier, Expr(0), rank});
}

Stmt wait_phase(const Expr& barrier, const Expr& parity) {
  return statement(CallOp::AsyncWait, {barrier, parity});
}

Stmt load_box(const Expr& to, const Buffer& operand, const Expr& barrier, const TensorBox& box,
              int64_t blocks) {
  std::vector<Expr> args = {to, name_of_operand(operand)};
  if (box.pixels) args.emplace_back(static_cast<int64_t>(box.at.size()));
  args.push_back(barrier);
  append(args, box);
  if (blocks > 1) args.emplace_back(blocks);
  return statement(CallOp::Prefetch, std::move(args));
}

Stmt load_bytes(const Expr& to, const Expr& from, const Expr& barrier, int64_t bytes) {
  return statement(CallOp::Prefetch, {to, from, barrier, Expr(bytes)});
}

Stmt store_box(const Expr& from, const Buffer& operand, const TensorBox& box) {
  std::vector<Expr> args = {from, name_of_operand(operand)};
  append(args, box);
  return statement(CallOp::AsyncCommit, std::move(args));
}

Stmt wait_stores(const Expr& array) { return statement(CallOp::AsyncWait, {array}); }

}  // namespace tilewright
