#include "codegen/cuda/instructions/cuda_stmatrix.h"

#include <fmt/format.h>

#include "codegen/cuda_lowering.h"
#include "codegen/loop_nest.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"
#include "kernel/instructions/fragment.h"

namespace tilewright {
namespace {

constexpr int kFirstCapability = 90;
constexpr int kPair = 2;

[[noreturn]] void fail_stmatrix(const ForNode& loop, const std::string& reason) {
  throw LoweringError(fmt::format("loop '{}' is marked as stmatrix: {}", loop.var.name(), reason));
}

// An index as a function of the lane and the matrix.
class LanePlaces {
 public:
  LanePlaces(const ForNode& loop, const std::vector<const ForNode*>& loops, Expr index, Expr thread,
             Analyzer& known)
      : loop_(loop), loops_(loops), index_(std::move(index)), thread_(std::move(thread)),
        known_(known) {}

  // The location of element (row, 2 * pair) of a matrix.
  Expr at(const Expr& warp, const Expr& row, const Expr& pair, const Expr& matrix) {
    const Expr lane = ldmatrix_fragment(false).place().apply({row, pair * kPair})[0];
    VarMap values = {{thread_.get(), warp * Expr(kWarp) + lane}};
    Expr rest = matrix;
    for (size_t l = loops_.size(); l-- > 0;) {
      values[loops_[l]->var.get()] = l == 0 ? rest : floormod(rest, loops_[l]->extent);
      rest = floordiv(rest, loops_[l]->extent);
    }
    return known_.simplify(substitute(index_, values));
  }

  // Refuses unless neighbours of a row, or of a column, are contiguous in memory from a multiple of
  // 16 bytes on.
  void require_rows(int64_t matrices, bool is_transposed) {
    KnowledgeScope scope(known_);
    Var warp("w"), row("r"), pair("q"), matrix("x");
    known_.bind(warp, 0, Expr(kWarp));
    known_.bind(row, 0, Expr(kCoreRows));
    known_.bind(pair, 0, Expr(kCoreLanes));
    known_.bind(matrix, 0, Expr(matrices));
    Expr start = is_transposed ? at(warp, 0, pair, matrix) : at(warp, row, 0, matrix);
    Expr moved = at(warp, row, pair, matrix) - start;
    bool neighbours = known_.prove(eq(moved, is_transposed ? Expr(row) : pair * Expr(kPair)));
    if (!neighbours || !known_.prove(eq(floormod(start, Expr(kCoreRows)), 0))) {
      fail_stmatrix(loop_,
                    "lane l must store elements 2 * (l % 4) and 2 * (l % 4) + 1 of row l / 4 of a "
                    "matrix, whose rows (or columns) lie at multiples of 16 bytes");
    }
  }

 private:
  const ForNode& loop_;
  const std::vector<const ForNode*>& loops_;
  Expr index_, thread_;
  Analyzer& known_;
};

// The statement with which a lane stores its part of the matrix of that number.
Stmt piece_of(const std::vector<const ForNode*>& loops, int64_t number) {
  VarMap values;
  for (size_t l = loops.size(); l-- > 0;) {
    const int64_t extent = *as_int(loops[l]->extent);
    values[loops[l]->var.get()] = Expr(number % extent);
    number /= extent;
  }
  return substitute(loops.back()->body, values);
}

}  // namespace

bool has_stmatrix(const GpuFacts& gpu) { return gpu.compute_capability >= kFirstCapability; }

StmatrixNest match_stmatrix(const ForNode& loop, const Expr& thread, Analyzer& known) {
  const auto [loops, body] = loop_nest(loop);
  int64_t matrices = 1;
  for (const ForNode* at : loops) {
    if (!is_int(at->min, 0)) fail_stmatrix(loop, "its loops must begin at 0");
    matrices *= as_int(at->extent).value_or(0);
  }
  auto* store = body.as<StoreNode>();
  auto* index = store && !store->predicate.defined() ? store->indices[0].as<RampNode>() : nullptr;
  bool is_pair = index && store->value.type().lanes == kPair &&
                 store->buffer->scope == Scope::Shared && bits_of(store->buffer->elem) == 16;
  bool counted = matrices == 1 || matrices == 2 || matrices == 4;
  if (!is_pair || !counted || !thread.defined()) {
    fail_stmatrix(
        loop,
        "it must be loops over two or four matrices, in one over threads, around a vectorized "
        "store of two elements of 16 bits to shared memory, on no condition");
  }
  StmatrixNest nest;
  nest.buffer = store->buffer;
  nest.is_transposed = !is_int(index->stride, 1);
  LanePlaces places(loop, loops, index->base, thread, known);
  places.require_rows(matrices, nest.is_transposed);
  // This lane's warp, and the matrix row whose address it supplies.
  const Expr warp = floordiv(thread, Expr(kWarp)), row = floormod(thread, Expr(kCoreRows));
  const Expr matrix = floormod(floordiv(thread, Expr(kCoreRows)), Expr(matrices));
  nest.row = places.at(warp, row, 0, matrix);
  if (nest.is_transposed) {
    nest.row = known.simplify(places.at(warp, 0, floordiv(row, Expr(kPair)), matrix) +
                              floormod(row, Expr(kPair)) * index->stride);
  }
  for (int64_t x = 0; x < matrices; ++x) nest.pieces.push_back(piece_of(loops, x));
  return nest;
}

std::vector<std::string> stmatrix_lines(const StmatrixNest& nest, CudaExpr& expr) {
  const auto count = static_cast<int64_t>(nest.pieces.size());
  Buffer pieces = make_buffer("matrices", nest.buffer->elem, {kPair * count}, Scope::Register);
  const std::string name = expr.buffers[pieces.get()] = expr.fresh(pieces->name);
  std::vector<std::string> lines = {
      fmt::format("__align__(16) {} {}[{}];", cuda_type(pieces->elem), name, kPair * count)};
  for (int64_t x = 0; x < count; ++x) {
    const StoreNode& store = *nest.pieces[static_cast<size_t>(x)].as<StoreNode>();
    Stmt own = make_store(pieces, {ramp(Expr(kPair * x), 1, kPair)}, store.value);
    for (const std::string& line : expr.store(*own.as<StoreNode>())) lines.push_back(line);
  }
  lines.push_back(fmt::format("tw_stmatrix_x{}{}({} + {}, *(unsigned(*)[{}]){});", count,
                              nest.is_transposed ? "_trans" : "",
                              expr.buffers.at(nest.buffer.get()), expr.place(nest.buffer, nest.row),
                              count, name));
  return lines;
}

}  // namespace tilewright
