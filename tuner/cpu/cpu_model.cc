#include "tuner/cpu/cpu_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "codegen/lowering.h"
#include "ir/visitor.h"
#include "tuner/cpu/cpu_code.h"
#include "tuner/cpu/iterations.h"

namespace tilewright {
namespace {

constexpr double kLearntTrips = 24;       // iterations of a loop whose end branch prediction learns
constexpr double kEntry = 4;              // cycles of entering a loop
constexpr double kIteration = 1;          // of a loop that holds loops
constexpr double kCall = 60;              // cycles of starting a parallel loop on one thread
constexpr double kIndices = 20;           // and of an iteration's indices, which divisions separate
constexpr int kMostCopies = 6000;         // stores, as for LoweringOptions::max_statements
constexpr double kTranslation = 2;        // cycles for the address of a page from the second table
constexpr double kFork = 1.5e-6;          // seconds until other threads have begun and ended
constexpr double kCpuOverlapLoss = 0.15;  // of what is not the bottleneck
constexpr double kPrefetched = 0.5;       // share of the traffic from L2 that instructions wait for
// A loop that the cache of decoded instructions does not hold is decoded each time.
constexpr double kDecoded = 3000, kDecoding = 1.6;

// Buffers of the program's own of which every access has a constant place: the compiler keeps them in registers.
class RegisterFinder : public Visitor {
 public:
  std::set<const BufferNode*> found;
  void operator()(const Stmt& s) {
    Visitor::operator()(s);
    for (const BufferNode* b : elsewhere_) found.erase(b);
  }

 protected:
  void visit_for(const ForNode& n) override {
    if (n.for_kind == ForKind::Unrolled) unrolled_.insert(n.var.get());
    Visitor::visit_for(n);
  }
  void visit_allocate(const AllocateNode& n) override {
    found.insert(n.buffer.get());
    Visitor::visit_allocate(n);
  }
  void visit_store(const StoreNode& n) override {
    look(n.buffer, n.indices);
    Visitor::visit_store(n);
  }
  void visit_load(const LoadNode& n) override {
    look(n.buffer, n.indices);
    Visitor::visit_load(n);
  }

 private:
  // A place is constant where only the copies of unrolled loops differ.
  void look(const Buffer& b, const std::vector<Expr>& indices) {
    if (b->scope == Scope::Register) return;
    for (const Expr& i : indices) {
      for_each_expr(i, [&](const Expr& e) {
        const bool varies = (e.as<VarNode>() && unrolled_.count(e.get()) == 0) || e.as<LoadNode>();
        if (varies) elsewhere_.insert(b.get());
      });
    }
  }
  std::set<const BufferNode*> elsewhere_;
  std::set<const ExprNode*> unrolled_;
};

class CycleCounter {
 public:
  CycleCounter(const Program& lowered, const Target& target, const CpuCore& core, int threads)
      : core_(core), target_(target), threads_(threads), iterations_(lowered) {
    RegisterFinder finder;
    finder(lowered.body);
    registers_ = std::move(finder.found);
    for (const BufferNode* b : registers_) table_.keep_apart(b);
  }

  CpuCycles count(const Stmt& body) { return of(body, iterations_.all()); }
  double forks = 0;  // parallel loops per run
  int stores() const { return copies_; }

 private:
  using Draws = Iterations::Draws;
  struct Loop {
    int bit;
    double extent;
    bool parallel;
  };

  // Code that the compiler sees as one run of instructions, with branches that it predicts.
  static bool is_straight(const Stmt& s) {
    if (!s.defined() || s.as<StoreNode>() || s.as<EvaluateNode>()) return true;
    if (auto* n = s.as<SeqNode>()) {
      return std::all_of(n->stmts.begin(), n->stmts.end(), is_straight);
    }
    if (auto* n = s.as<LetNode>()) return is_straight(n->body);
    if (auto* n = s.as<AllocateNode>()) return is_straight(n->body);
    if (auto* n = s.as<IfNode>()) return is_straight(n->then_case) && is_straight(n->else_case);
    auto* n = s.as<ForNode>();
    return n && n->for_kind == ForKind::Unrolled && is_straight(n->body);
  }

  void add(CpuCodeCounter& code, const Stmt& s, const Draws& draws) {
    if (auto* n = s.as<StoreNode>()) {
      if (++copies_ > kMostCopies) throw LoweringError("too much of it is unrolled");
      code.add(*n);
    } else if (auto* n = s.as<EvaluateNode>()) {
      code.add(n->value);
    } else if (auto* n = s.as<SeqNode>()) {
      for (const Stmt& child : n->stmts) add(code, child, draws);
    } else if (auto* n = s.as<LetNode>()) {
      define(*n);
      add(code, n->body, draws);
    } else if (auto* n = s.as<AllocateNode>()) {
      add(code, n->body, draws);
    } else if (auto* n = s.as<IfNode>()) {
      add_branch(code, *n, draws);
    } else if (auto* n = s.as<ForNode>()) {
      for (int64_t i = 0; i < as_int(n->extent).value_or(1); ++i) {
        iterations_.set(*n, i);
        table_.set(n->var, as_int(n->min).value_or(0) + i);
        add(code, n->body, draws);
      }
    }
  }

  void add_branch(CpuCodeCounter& code, const IfNode& n, const Draws& draws) {
    const auto [yes, no] = iterations_.parted(n.cond, draws);
    const double share = static_cast<double>(yes.size()) / static_cast<double>(draws.size());
    if (!yes.empty()) {
      code.enter(n.cond, true, share);
      add(code, n.then_case, yes);
      code.leave();
    }
    if (!no.empty() && n.else_case.defined()) {
      code.enter(n.cond, false, 1 - share);
      add(code, n.else_case, no);
      code.leave();
    }
  }

  void define(const LetNode& n) {
    iterations_.define(n);
    table_.define(n.var, n.value);
  }

  CpuCodeCounter counter(const Draws& draws, int loop) {
    std::vector<const IndexValues*> values;
    for (int d : draws) values.push_back(&iterations_.at(d));
    return {core_, target_, table_, registers_, std::move(values), loop};
  }

  CpuCycles of_straight(const std::vector<Stmt>& stmts, const Draws& draws) {
    CpuCodeCounter counter = this->counter(draws, -1);
    for (const Stmt& s : stmts) add(counter, s, draws);
    const CpuCode code = counter.finish();
    return {.total = code.passes.cycles(core_), .passes = code.passes, .spills = code.spills};
  }

  // One execution, on average over the draws.
  CpuCycles of(const Stmt& s, const Draws& draws) {
    if (is_straight(s)) return of_straight({s}, draws);
    if (auto* n = s.as<ForNode>()) return of_loop(*n, draws);
    if (auto* n = s.as<IfNode>()) return of_branch(*n, draws);
    if (auto* n = s.as<AllocateNode>()) return of(n->body, draws);
    if (auto* n = s.as<LetNode>()) {
      define(*n);
      return of(n->body, draws);
    }
    CpuCycles cycles;
    std::vector<Stmt> straight;
    auto flush = [&] {
      if (!straight.empty()) cycles.add(of_straight(straight, draws));
      straight.clear();
    };
    if (auto* n = s.as<SeqNode>()) {
      for (const Stmt& child : n->stmts) {
        if (is_straight(child)) {
          straight.push_back(child);
          continue;
        }
        flush();
        cycles.add(of(child, draws));
      }
      flush();
    }
    return cycles;
  }

  CpuCycles of_branch(const IfNode& n, const Draws& draws) {
    const auto [yes, no] = iterations_.parted(n.cond, draws);
    const double share = static_cast<double>(yes.size()) / static_cast<double>(draws.size());
    CpuCycles cycles;
    cycles.add_control(1 + core_.mispredict * std::min(share, 1 - share) / 2);
    if (!yes.empty()) cycles.add(of(n.then_case, yes), share);
    if (!no.empty() && n.else_case.defined()) cycles.add(of(n.else_case, no), 1 - share);
    return cycles;
  }

  CpuCycles of_loop(const ForNode& n, const Draws& draws) {
    if (n.for_kind == ForKind::Unrolled) return of_unrolled(n, draws);
    const double extent = iterations_.draw(n, draws);
    CpuCycles cycles;
    cycles.add_control(extent <= 0 ? 1 : kEntry + (extent > kLearntTrips ? core_.mispredict : 0));
    if (extent <= 0) return cycles;
    const bool parallel = n.for_kind == ForKind::Parallel;
    loops_.push_back({static_cast<int>(loops_.size()), extent, parallel});
    table_.loop(n.var, loops_.back().bit);
    if (!parallel && is_straight(n.body)) {
      cycles.add(of_innermost(n, draws, extent));
    } else {
      const double rounds = parallel ? std::ceil(extent / threads_) : extent;
      if (parallel) ++forks;
      cycles.add(of(n.body, draws), rounds);
      cycles.add_control(parallel ? rounds * kIndices + kCall : rounds * kIteration);
    }
    loops_.pop_back();
    return cycles;
  }

  // Copies of a loop that holds loops.
  CpuCycles of_unrolled(const ForNode& n, const Draws& draws) {
    CpuCycles cycles;
    for (int64_t i = 0; i < as_int(n.extent).value_or(1); ++i) {
      iterations_.set(n, i);
      table_.set(n.var, as_int(n.min).value_or(0) + i);
      cycles.add(of(n.body, draws));
    }
    return cycles;
  }

  CpuCycles of_innermost(const ForNode& n, const Draws& draws, double extent) {
    CpuCodeCounter counter = this->counter(draws, loops_.back().bit);
    add(counter, n.body, draws);
    CpuCode code = counter.finish();
    code.passes.instructions += 2;
    double pass = code.passes.cycles(core_);
    if (code.passes.instructions > kDecoded) {
      pass = std::max(pass, kDecoding * code.passes.instructions / core_.issue);
    }
    const double run = extent * std::max(pass, 1.0);
    const double chain =
        (extent + 1) * code.chain / runs_at_once(counter, extent * code.passes.instructions);
    CpuCycles cycles{.total = std::max(run, chain), .waiting = std::max(0.0, chain - run)};
    cycles.passes.add(code.passes, extent);
    cycles.spills = extent * code.spills;
    cycles.add_control(moving_sums(counter));
    return cycles;
  }

  // Runs of a loop that the core has in flight together, so that a chain of one overlaps those of others.
  double runs_at_once(const CpuCodeCounter& counter, double instructions) const {
    if (loops_.size() < 2) return 1;
    const int around = loops_[loops_.size() - 2].bit;
    for (const auto& [place, sum] : counter.sums()) {
      if ((sum.loops >> around & 1) == 0 && !loops_[loops_.size() - 2].parallel) return 1;
    }
    return std::max(1.0, core_.window / instructions);
  }

  // Sums come into registers before the outermost loop that does not change their place, and go back
  // behind it.
  double moving_sums(const CpuCodeCounter& counter) const {
    double cycles = 0;
    for (const auto& [place, sum] : counter.sums()) {
      double executions = 1;
      for (size_t l = loops_.size() - 1; l-- > 0;) {
        if (loops_[l].parallel || (sum.loops >> loops_[l].bit & 1) != 0) break;
        executions *= loops_[l].extent;
      }
      cycles += sum.passes * (1 / core_.load + 1 / core_.store) / executions;
    }
    return cycles;
  }

  const CpuCore& core_;
  const Target& target_;
  int threads_;
  Iterations iterations_;
  std::set<const BufferNode*> registers_;
  ValueTable table_;
  std::vector<Loop> loops_;  // around the code at hand
  int copies_ = 0;           // stores so far
};

}  // namespace

void CpuPasses::add(const CpuPasses& other, double times) {
  for (double CpuPasses::*pipe :
       {&CpuPasses::multiply, &CpuPasses::floats, &CpuPasses::shuffle, &CpuPasses::vector,
        &CpuPasses::load, &CpuPasses::store, &CpuPasses::instructions}) {
    this->*pipe += times * other.*pipe;
  }
}

void CpuCycles::add(const CpuCycles& other, double times) {
  passes.add(other.passes, times);
  for (double CpuCycles::*part :
       {&CpuCycles::total, &CpuCycles::waiting, &CpuCycles::control, &CpuCycles::spills}) {
    this->*part += times * other.*part;
  }
}

CpuFacts CpuFacts::of(const Machine& machine, const Target& target, int threads) {
  CpuFacts f;
  f.core = core_of(machine.signature, target);
  const MachineRates rates = machine.rates(threads);
  // The peak was measured with the widest vectors of the machine.
  f.clock = rates.f32_flops / std::max(1, threads) /
            core_of(machine.signature, Target::widest(cpu_features())).f32_per_cycle();
  const double share = 1.0 / std::max(1, threads);
  f.bandwidth = {share * rates.l2_bytes, share * rates.l3_bytes, share * rates.read_bytes};
  return f;
}

CpuEstimate estimate_cpu(const Program& scheduled, const Target& target, int threads,
                         const CpuFacts& facts, Program* nest) {
  CpuEstimate e;
  Program before, lowered;
  LoweringOptions options;
  options.observe = [&](const std::string& pass, const Program& program, double) {
    if (pass == "simplify_loops") before = program;
  };
  options.last = "vectorize_loops";
  double forks = 0;
  try {
    lowered = lower_for_cpu(scheduled, target, options);
    CycleCounter counter(lowered, target, facts.core, threads);
    e.cycles = counter.count(lowered.body);
    e.compute = e.cycles.total / facts.clock;
    e.stores = counter.stores();
    forks = counter.forks;
  } catch (const LoweringError& error) {
    e.refusal = error.what();
  }
  if (nest != nullptr) *nest = before;
  if (!e.refusal.empty()) return e;
  const CpuTraffic traffic = traffic_of(before, target, threads);
  // The translations of independent loads overlap each other and everything else.
  e.translation = traffic.pages * kTranslation / facts.clock;
  double most = std::max(e.compute, e.translation), sum = e.compute + e.translation;
  for (size_t level = 0; level < traffic.bytes.size(); ++level) {
    e.memory[level] =
        (level == 0 ? kPrefetched : 1) * traffic.bytes[level] / facts.bandwidth[level];
    most = std::max(most, e.memory[level]);
    sum += e.memory[level];
  }
  e.seconds = most + kCpuOverlapLoss * (sum - most);
  if (threads > 1) e.seconds += forks * kFork;
  return e;
}

}  // namespace tilewright
