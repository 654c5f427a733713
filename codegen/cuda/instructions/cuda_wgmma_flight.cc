#include "codegen/cuda/instructions/cuda_wgmma_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "codegen/statements.h"
#include "ir/visitor.h"
#include "kernel/prelude/cuda_wgmma.h"

namespace tilewright {

bool is_wgmma_behind(const ForNode& loop) { return loop.annotations.count(kWgmmaBehindKey) != 0; }

bool runs_beside(const Stmt& s, const WgmmaNest& nest) {
  if (auto* loop = s.as<ForNode>(); loop && is_wgmma_behind(*loop)) {
    const auto stored = stored_by(s);
    return read_by(s).count(nest.sums.get()) == 0 && stored.count(nest.sums.get()) == 0 &&
           stored.count(nest.a.buffer.get()) == 0;
  }
  bool beside = true;
  for_each_stmt(s, [&](const Stmt& x) {
    auto* store = x.as<StoreNode>();
    auto* loop = x.as<ForNode>();
    beside &= x.kind() != StmtKind::Evaluate && !(loop && !mma_mark(*loop).empty());
    if (!store) return;
    beside &=
        is_private(store->buffer) && store->buffer != nest.sums && store->buffer != nest.a.buffer;
  });
  for_each_expr(s, [&](const Expr& e) {
    auto* read = e.as<LoadNode>();
    auto* call = e.as<CallNode>();
    beside &= !(read && (!is_private(read->buffer) || read->buffer == nest.sums)) &&
              !(call && call->op != CallOp::IfThenElse);
  });
  return beside;
}

std::vector<std::string> WgmmaFlight::group_lines(const WgmmaNest& nest, const ForNode& loop,
                                                  const Stmt& next, CudaExpr& expr) {
  if (!is_pending_ && next.defined() && runs_beside(next, nest)) {
    nests_.push_back(nest);
    makes_operands_ = makes_operands_ || is_wgmma_behind(loop);
    return wgmma_issue_lines(nest, expr);
  }
  if (is_pending_) pending_.push_back(nest);
  return wgmma_lines(nest, is_pending_ ? 1 : 0, expr);
}

std::vector<std::string> WgmmaFlight::end_pending(CudaExpr& expr) {
  std::vector<std::string> lines;
  for (const WgmmaNest& nest : std::exchange(pending_, {})) {
    for (const std::string& line : wgmma_end_lines(nest, expr)) lines.push_back(line);
  }
  is_pending_ = false;
  return lines;
}

std::vector<std::string> WgmmaFlight::wait_for(const Stmt& s, CudaExpr& expr) {
  size_t ended = 0;
  for (size_t i = 0; i < nests_.size(); ++i) {
    if (!runs_beside(s, nests_[i])) ended = i + 1;
  }
  std::vector<std::string> lines = wait_for_first(ended, expr);
  if (is_empty() || !makes_operands_) return lines;
  constexpr int kOperandBits = 16;  // the widest operand elements
  BufferSet inside;                 // allocated in `s`: no product behind it reads them
  for_each_stmt(s, [&](const Stmt& x) {
    if (auto* a = x.as<AllocateNode>()) inside.insert(a->buffer.get());
  });
  for_each_stmt(s, [&](const Stmt& x) {
    auto* n = x.as<StoreNode>();
    const bool is_made =
        n && bits_of(n->buffer->elem) <= kOperandBits && inside.count(n->buffer.get()) == 0;
    if (is_made && std::find(made_.begin(), made_.end(), n->buffer) == made_.end()) {
      made_.push_back(n->buffer);
    }
  });
  return lines;
}

std::vector<std::string> WgmmaFlight::wait_for_first(size_t count, CudaExpr& expr) {
  if (count == 0) return {};
  std::vector<std::string> lines = {fmt::format("tw_wgmma_wait<{}>();", nests_.size() - count)};
  for (size_t i = 0; i < count; ++i) {
    for (const std::string& line : wgmma_hold_lines(nests_[i], expr)) lines.push_back(line);
  }
  nests_.erase(nests_.begin(), nests_.begin() + static_cast<std::ptrdiff_t>(count));
  if (!is_empty()) return lines;
  // ptxas runs groups one after the other (C7513) where it sees an operand of a later group made
  // while others are in flight. The operand gets its registers here.
  for (const Buffer& b : made_) lines.push_back(wgmma_operand_line("tw_wgmma_settle", b, expr));
  made_.clear();
  makes_operands_ = false;
  return lines;
}

}  // namespace tilewright
