// Turns loops that are bound to axes into the grid and the threads of a kernel.
#include <fmt/core.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

constexpr std::array kAxes = {ForKind::BlockX,  ForKind::BlockY,  ForKind::BlockZ,
                              ForKind::ThreadX, ForKind::ThreadY, ForKind::ThreadZ};
constexpr std::array kAxisNames = {"bx", "by", "bz", "tx", "ty", "tz"};

bool is_axis(ForKind kind) {
  return is_block_axis(kind) || is_thread_axis(kind) || kind == ForKind::Warp;
}

// The axis that a loop's iterations are spread over: warps are 32 threads each along x.
ForKind axis_kind(const ForNode& n) {
  return n.for_kind == ForKind::Warp ? ForKind::ThreadX : n.for_kind;
}

// The number of threads that carry out one iteration.
int64_t team_of(const ForNode& n) {
  if (n.for_kind != ForKind::Warp) return 1;
  auto it = n.annotations.find(kTeamKey);
  if (it == n.annotations.end()) return kWarp;
  auto* lanes = std::get_if<int64_t>(&it->second);
  if (!lanes || *lanes < 1 || kWarp % *lanes != 0) {
    throw LoweringError(
        fmt::format("'{}' of loop '{}' must be a divisor of {}", kTeamKey, n.var.name(), kWarp));
  }
  return *lanes;
}

int64_t threads_of(const ForNode& n) { return *as_int(n.extent) * team_of(n); }

// The step of a reduction: buffer[indices] = op(buffer[indices], term).
struct ReductionStep {
  const StoreNode* store;
  BinaryOp op;
  Expr term;
};

// The only statement under the loops and conditions of a body, where it is such a step. None of
// these loops may change the element of its result.
std::optional<ReductionStep> step_under(const Stmt& body) {
  const StoreNode* store = nullptr;
  int statements = 0;
  std::vector<Var> vars;
  for_each_stmt(body, [&](const Stmt& s) {
    if (auto* loop = s.as<ForNode>()) vars.push_back(loop->var);
    const bool goes_on = s.as<ForNode>() || s.as<IfNode>();
    if (!goes_on) ++statements, store = s.as<StoreNode>();
  });
  auto* step = store && statements == 1 ? store->value.as<BinaryNode>() : nullptr;
  if (!step || store->predicate.defined()) return std::nullopt;
  auto is_result = [&](const Expr& e) {
    auto* read = e.as<LoadNode>();
    return read && read->buffer == store->buffer && equal(read->indices[0], store->indices[0]);
  };
  if (is_result(step->a) == is_result(step->b)) return std::nullopt;
  for (const Expr& index : store->indices) {
    for (const Var& var : vars) {
      if (uses_var(index, var)) return std::nullopt;
    }
  }
  return ReductionStep{store, step->op, is_result(step->a) ? step->b : step->a};
}

// The initial value of a reduction by this operation.
std::optional<Expr> start_of(BinaryOp op, const Type& type) {
  switch (op) {
    case BinaryOp::Add: return identity_of(Reducer::Sum, type);
    case BinaryOp::Max: return identity_of(Reducer::Max, type);
    case BinaryOp::Min: return identity_of(Reducer::Min, type);
    default: return std::nullopt;
  }
}

// Redirects what a marked nest has in registers to this lane's elements: its accumulators, and an
// operand that was brought there.
class OwnElements : public Mutator {
 public:
  explicit OwnElements(Expr lane) : lane_(std::move(lane)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return is_private(n.buffer) ? load(n.buffer, own(n.indices), n.predicate)
                                : Mutator::mutate_load(n, e);
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (!is_private(n.buffer)) return Mutator::mutate_store(n, s);
    return make_store(n.buffer, own(n.indices), mutate(n.value), n.predicate);
  }

 private:
  // The last two indices are an element's lane and its place among the lane's elements. They become
  // this lane and the first place; the other elements follow.
  std::vector<Expr> own(std::vector<Expr> indices) {
    if (indices.size() < 2) {
      throw LoweringError("the register operand of mma has no dimensions for lane and register");
    }
    indices[indices.size() - 2] = lane_;
    indices.back() = 0;
    return indices;
  }

  Expr lane_;
};

// An axis of one kernel.
struct Axis {
  Var var;
  Expr extent;
  Annotations notes;  // annotations of a loop over blocks
};

// The axes that the loops of a kernel are bound to, each as long as the longest of its loops.
std::map<ForKind, Axis> axes_of(const Stmt& kernel) {
  std::map<ForKind, Axis> axes;
  for_each_stmt(kernel, [&](const Stmt& s) {
    auto* n = s.as<ForNode>();
    if (!n) return;
    if (n->for_kind == ForKind::Parallel) {
      throw LoweringError(
          fmt::format("loop '{}' is {}, which no GPU kernel is made of; bind it to "
                      "a block or thread axis",
                      n->var.name(), name_of(n->for_kind)));
    }
    if (!is_axis(n->for_kind)) return;
    ForKind kind = axis_kind(*n);
    if (is_thread_axis(kind) && !as_int(n->extent)) {
      throw LoweringError(fmt::format("loop '{}' over {} has no constant extent", n->var.name(),
                                      name_of(n->for_kind)));
    }
    auto [it, added] = axes.try_emplace(kind);
    Axis& axis = it->second;
    size_t which = std::find(kAxes.begin(), kAxes.end(), kind) - kAxes.begin();
    if (added) {
      bool is_block = is_block_axis(kind);
      axis = {Var(kAxisNames[which]), is_block ? n->extent : Expr(threads_of(*n)),
              is_block ? n->annotations : Annotations{}};
    } else if (is_block_axis(n->for_kind)) {
      throw LoweringError(fmt::format("loop '{}' is the second one over {} in a kernel",
                                      n->var.name(), name_of(n->for_kind)));
    } else {
      axis.extent = std::max(*as_int(axis.extent), threads_of(*n));
    }
  });
  return axes;
}

// The accumulators of matrix instructions.
BufferSet sums_of_mma(const Stmt& kernel) {
  BufferSet sums;
  for_each_stmt(kernel, [&](const Stmt& s) {
    auto* loop = s.as<ForNode>();
    if (!loop || mma_mark(*loop).empty()) return;
    for_each_stmt(loop->body, [&](const Stmt& inner) {
      auto* store = inner.as<StoreNode>();
      if (store && is_private(store->buffer)) sums.insert(store->buffer.get());
    });
  });
  return sums;
}

class Hoister : public Mutator {
 public:
  explicit Hoister(const Stmt& kernel) : axes_(axes_of(kernel)), sums_(sums_of_mma(kernel)) {}

  Stmt hoist(const Stmt& kernel) {
    Stmt body = mutate(kernel);
    for (size_t a = kAxes.size(); a-- > 0;) {
      // The innermost block axis: around the threads.
      if (kAxes[a] == ForKind::BlockZ) body = with_buffers(shared_, body);
      auto it = axes_.find(kAxes[a]);
      if (it == axes_.end()) continue;
      const Axis& axis = it->second;
      body = make_for(axis.var, 0, axis.extent, kAxes[a], body, axis.notes);
    }
    return body;
  }

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    auto it = values_.find(&n);
    return it == values_.end() ? e : it->second;
  }

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (!mma_mark(n).empty()) return with_own_elements(n, s);
    if (is_marked(n, kShuffle)) return with_own_term(n);
    if (is_tensor_copy(n)) {  // one thread issues all of it
      const bool outer = std::exchange(in_copy_, true);
      Stmt copy = Mutator::mutate_for(n, s);
      in_copy_ = outer;
      return copy;
    }
    if (!is_axis(n.for_kind)) return Mutator::mutate_for(n, s);
    const ForKind kind = axis_kind(n);
    const Axis& axis = axes_.at(kind);
    const int64_t team = team_of(n);
    Expr place = n.for_kind == ForKind::Warp ? floordiv(axis.var, Expr(team)) : Expr(axis.var);
    values_[n.var.get()] = simplify(place + mutate(n.min));
    bound_.push_back(kind);
    const int64_t outer_team = std::exchange(team_, team);
    Stmt body = mutate(n.body);
    team_ = outer_team;
    bound_.pop_back();
    bool all = is_block_axis(kind) || threads_of(n) == *as_int(axis.extent);
    return all ? body : make_if(axis.var < Expr(threads_of(n)), body);
  }

  Stmt mutate_allocate(const AllocateNode& n, const Stmt& s) override {
    if (n.buffer->scope == Scope::Global) {
      throw LoweringError(
          fmt::format("buffer '{}' lives inside a kernel; its scope must be shared, "
                      "local or register, not global",
                      n.buffer->name));
    }
    if (is_private(n.buffer)) return Mutator::mutate_allocate(n, s);
    shared_.push_back(n.buffer);
    return mutate(n.body);
  }

  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    Expr result = Mutator::mutate_load(n, e);
    if (sums_.count(n.buffer.get()) == 0) return result;
    auto* own = result.as<LoadNode>();
    return load(n.buffer, in_own_lane(own->indices), own->predicate);
  }

  // Along axes that the statement is not bound to, only the first thread stores to memory.
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    Stmt store = Mutator::mutate_store(n, s);
    if (sums_.count(n.buffer.get()) != 0) {
      auto* own = store.as<StoreNode>();
      store = make_store(n.buffer, in_own_lane(own->indices), own->value, own->predicate);
    }
    if (is_private(n.buffer) || in_copy_) return store;
    // One lane of a team stores what all of them hold.
    if (team_ > 1 && team_ < kWarp && !in_lanes_) {
      store = make_if(eq(floormod(axes_.at(ForKind::ThreadX).var, Expr(team_)), 0), store);
    }
    for (const auto& [kind, axis] : axes_) {
      if (!is_thread_axis(kind) || is_int(axis.extent, 1)) continue;
      if (std::find(bound_.begin(), bound_.end(), kind) != bound_.end()) continue;
      store = make_if(eq(axis.var, 0), store);
    }
    return store;
  }

 private:
  Stmt with_own_elements(const ForNode& n, const Stmt& s) {
    auto it = axes_.find(ForKind::ThreadX);
    if (it == axes_.end() ||
        std::find(bound_.begin(), bound_.end(), ForKind::ThreadX) == bound_.end()) {
      throw LoweringError(
          fmt::format("loop '{}' is marked as mma '{}', but stands in no loop over "
                      "warps",
                      n.var.name(), mma_mark(n)));
    }
    Stmt own = OwnElements(floormod(it->second.var, Expr(kWarp)))(s);
    return Mutator::mutate_for(*own.as<ForNode>(), own);
  }

  // A reduction over lanes, of the values that the lanes hold.
  Stmt with_own_term(const ForNode& n) {
    Stmt update = n.body;
    // The initial value of the reduction, where it is here, is no term.
    auto* seq = update.as<SeqNode>();
    if (seq) update = seq->stmts.back();
    bool in_team = std::find(bound_.begin(), bound_.end(), ForKind::ThreadX) != bound_.end() &&
                   team_ > 1 && is_int(n.extent, team_);
    auto step = step_under(update);
    auto start = step ? start_of(step->op, step->store->value.type()) : std::nullopt;
    const bool begins_here = seq && !update.as<StoreNode>();
    if (!in_team || !start || begins_here) {
      throw LoweringError(
          fmt::format("loop '{}' is marked as one over lanes; it must have {} iterations of one "
                      "reduction, in a "
                      "loop over warps or teams, by a sum, a maximum or a minimum",
                      n.var.name(), team_ > 1 ? team_ : kWarp));
    }
    values_[n.var.get()] = floormod(axes_.at(ForKind::ThreadX).var, Expr(team_));
    auto exchanged = [&](const Stmt& s) {
      return make_for(n.var, 0, n.extent, n.for_kind, s, n.annotations);
    };
    if (seq && update.as<StoreNode>()) {
      in_lanes_ = true;  // the printer of the exchange decides who stores
      Stmt own = mutate(update);
      in_lanes_ = false;
      return exchanged(own);
    }
    return with_own_terms(*step, *start, update, n.var.name(), exchanged);
  }

  // Reduces the lane's own terms first, in a register. The result of all lanes is combined with the
  // old value.
  Stmt with_own_terms(const ReductionStep& step, const Expr& start, const Stmt& update,
                      const std::string& name, const std::function<Stmt(const Stmt&)>& exchanged) {
    const StoreNode& store = *step.store;
    const std::vector<Expr> at = {Expr(0)};
    auto in_register = [&](const char* suffix) {
      return make_buffer(name + suffix, store.buffer->elem, {Expr(1)}, Scope::Register);
    };
    const Buffer own = in_register("_own"), all = in_register("_all");
    const Stmt own_step = make_store(own, at, binary(step.op, load(own, at), step.term));
    const Stmt terms = map_stores(
        update, [&](const StoreNode& n, const Stmt& s) { return &n == &store ? own_step : s; });
    const Expr total = binary(step.op, load(store.buffer, store.indices), load(all, at));
    in_lanes_ = true;
    Stmt result = mutate(make_store(store.buffer, store.indices, total));
    in_lanes_ = false;
    // Memory that others see is stored once.
    if (!is_private(store.buffer)) {
      result = make_if(eq(floormod(axes_.at(ForKind::ThreadX).var, Expr(team_)), 0), result);
    }
    Stmt steps = make_seq(
        {make_store(own, at, start), mutate(terms),
         exchanged(make_store(all, at, binary(step.op, load(all, at), load(own, at)))), result});
    return make_allocate(own, make_allocate(all, steps));
  }

  // Accumulators are private to the lane that holds them. The index of the lane is therefore this
  // lane. Knowledge of the stored elements may have simplified the lane away from that index.
  std::vector<Expr> in_own_lane(std::vector<Expr> indices) const {
    auto it = axes_.find(ForKind::ThreadX);
    if (it != axes_.end() && indices.size() >= 2) {
      indices[indices.size() - 2] = floormod(it->second.var, Expr(kWarp));
    }
    return indices;
  }

  std::map<ForKind, Axis> axes_;
  BufferSet sums_;
  std::vector<ForKind> bound_;  // axes of the loops around
  int64_t team_ = 1;            // threads per iteration of the innermost of these
  VarMap values_;
  std::vector<Buffer> shared_;
  bool in_copy_ = false;   // in loops that are a tensor copy
  bool in_lanes_ = false;  // in a loop over lanes
};

void require_global(const Stmt& body) {
  if (auto* a = body.as<AllocateNode>()) {
    if (a->buffer->scope != Scope::Global) {
      throw LoweringError(
          fmt::format("buffer '{}' of scope {} passes from one kernel to another; "
                      "its scope must be global",
                      a->buffer->name, name_of(a->buffer->scope)));
    }
    require_global(a->body);
  }
}

}  // namespace

Program hoist_threads(const Program& program) {
  if (program.body.as<AllocateNode>()) require_global(program.body);
  auto in_kernel = [](const Stmt& kernel) { return Hoister(kernel).hoist(kernel); };
  return with_body(program, map_kernels(program.body, in_kernel));
}

}  // namespace tilewright
