// Software pipelining: copies to shared memory run some iterations ahead of their use.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "codegen/passes/gpu/gpu_ring.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Whether a wgmma of the body takes an operand from registers.
bool multiplies_registers(const Stmt& body) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) {
    auto* loop = s.as<ForNode>();
    if (!loop || !wgmma_mark(*loop)) return;
    const BufferSet sums = stored_by(s);
    for (const BufferNode* b : read_by(s)) {
      found |= b->scope != Scope::Global && b->scope != Scope::Shared && sums.count(b) == 0;
    }
  });
  return found;
}

// The parts of a pipelined loop's body.
struct Parts {
  std::vector<Buffer> copied;  // shared buffers that the copies fill
  std::vector<Buffer> others;  // other buffers that an iteration allocates
  std::vector<Stmt> copies, uses;
};

Parts take_apart(const ForNode& loop) {
  Parts parts;
  const Body body = body_of(loop.body);
  auto all_in = [](const BufferSet& buffers, Scope scope) {
    return std::all_of(buffers.begin(), buffers.end(),
                       [&](const BufferNode* b) { return b->scope == scope; });
  };
  // A copy that stands behind uses may move before them, unless they conflict.
  auto is_free = [&](const Stmt& s) {
    return std::none_of(parts.uses.begin(), parts.uses.end(),
                        [&](const Stmt& use) { return depends(s, use); });
  };
  BufferSet filled;
  for (const Stmt& s : body.stmts) {
    const BufferSet stored = stored_by(s);
    const bool is_copy =
        all_in(stored, Scope::Shared) && all_in(read_by(s), Scope::Global) && is_free(s);
    if (is_copy) filled.insert(stored.begin(), stored.end());
    (is_copy ? parts.copies : parts.uses).push_back(s);
  }
  for (const Buffer& b : body.buffers) {
    (filled.count(b.get()) != 0 ? parts.copied : parts.others).push_back(b);
  }
  if (parts.copied.empty() || parts.uses.empty()) {
    throw LoweringError(
        fmt::format("loop '{}' is to be pipelined, but no iteration of it begins "
                    "with copies from global to shared memory",
                    loop.var.name()));
  }
  return parts;
}

class Pipeliner : public Mutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto it = n.annotations.find(kPipelineStagesKey);
    if (it == n.annotations.end()) return Mutator::mutate_for(n, s);
    auto* stages = std::get_if<int64_t>(&it->second);
    if (!stages || *stages < 1 || *stages > 8) {
      throw LoweringError(fmt::format("'{}' of loop '{}' must be a number from 1 to 8",
                                      kPipelineStagesKey, n.var.name()));
    }
    if (leaves_wgmma_pending(n) && *stages < 3) {
      throw LoweringError(
          fmt::format("loop '{}' leaves wgmma pending ('{}'); its '{}' must be 3 or "
                      "more, got {}",
                      n.var.name(), kWgmmaPendingKey, kPipelineStagesKey, *stages));
    }
    if (leaves_wgmma_pending(n) && multiplies_registers(n.body)) {
      throw LoweringError(
          fmt::format("loop '{}' leaves wgmma pending ('{}') that take an operand from registers, "
                      "which each iteration makes anew; a loop inside of it may leave them so",
                      n.var.name(), kWgmmaPendingKey));
    }
    const bool is_ours = *stages > 1 && n.annotations.count(kCopiesKey) == 0;
    return is_ours ? pipelined(n, *stages) : Mutator::mutate_for(n, s);
  }

 private:
  static Stmt pipelined(const ForNode& n, int64_t stages) {
    Parts parts = take_apart(n);
    BufferMap rings;
    std::vector<Buffer> ring_buffers;
    for (const Buffer& b : parts.copied) {
      ring_buffers.push_back(ring_of(b, stages));
      rings[b.get()] = ring_buffers.back();
    }
    const Expr end = simplify(n.min + n.extent);
    auto slot = [&](const Expr& at) { return simplify(floormod(at - n.min, Expr(stages))); };
    auto copies_of = [&](const Expr& at) {
      const Stmt copies = substitute(make_seq(parts.copies), VarMap{{n.var.get(), at}});
      return make_if(at < end, copied_to_slot(rings, slot(at), copies));
    };
    // A slot becomes free an iteration later where a wgmma group still reads it.
    const int64_t distance = stages - (leaves_wgmma_pending(n) ? 2 : 1);
    Var ahead(n.var.name() + "_ahead");
    Stmt commit = call_statement(CallOp::AsyncCommit);
    Stmt fill = make_for(ahead, 0, distance, ForKind::Unrolled,
                         make_seq({copies_of(simplify(n.min + ahead)), commit}));
    const Stmt uses = with_buffers(parts.others, in_slot(rings, slot(n.var), make_seq(parts.uses)));
    // Behind the barrier, all threads see the copies that were waited for. Nobody reads any more
    // the slot that the next copies go to.
    Stmt body = make_seq({call_statement(CallOp::AsyncWait, {Expr(distance - 1)}),
                          call_statement(CallOp::Barrier), copies_of(n.var + Expr(distance)),
                          commit, uses});
    Annotations notes = n.annotations;
    notes.erase(kPipelineStagesKey);
    return with_buffers(
        ring_buffers, make_seq({fill, make_for(n.var, n.min, n.extent, n.for_kind, body, notes)}));
  }
};

}  // namespace

Program pipeline_loops(const Program& program) {
  return with_body(program, Pipeliner()(program.body));
}

}  // namespace tilewright
