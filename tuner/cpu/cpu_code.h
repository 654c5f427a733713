// Counts the instructions of straight-line code as the C compiler makes them: each value once, loads
// as operands of arithmetic, and what no loop changes before the loop.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/stmt.h"
#include "kernel/target.h"
#include "tuner/cpu/cpu_core.h"
#include "tuner/cpu/value_facts.h"
#include "tuner/index_value.h"

namespace tilewright {

// Passes through a core's pipes. `instructions` counts what the front end issues.
struct CpuPasses {
  double multiply = 0, floats = 0, shuffle = 0, vector = 0, load = 0, store = 0, instructions = 0;

  // Cycles of the busiest pipe.
  double cycles(const CpuCore& core) const;
  // Adds `times` as many passes.
  void add(const CpuPasses& other, double times);
};

// The cost of a run of stores without loops between them.
struct CpuCode {
  CpuPasses passes;
  double chain = 0;   // cycles of the longest chain from one iteration of the loop to the next
  double spills = 0;  // registers that do not fit
};

class CpuCodeCounter {
 public:
  // `loop`: the bit in `values` of the loop whose whole body this is; -1 if there is none. `registers` are
  // the buffers that live in registers. Draws are the iterations in which the code runs.
  CpuCodeCounter(const CpuCore& core, const Target& target, ValueTable& values,
                 const std::set<const BufferNode*>& registers,
                 std::vector<const IndexValues*> draws, int loop);

  void add(const StoreNode& n);
  void add(const Expr& evaluated) { visit(evaluated); }
  // enter(): code from now on runs where the condition holds, or not, in this share of the executions so
  // far. leave() ends that.
  void enter(const Expr& cond, bool holds, double share);
  void leave();
  // Sums that stay in registers while the loop runs.
  struct Sum {
    uint64_t loops;  // that change its place
    double registers, passes;
    int updates = 0;
  };
  const std::unordered_map<uint64_t, Sum>& sums() const { return sums_; }
  CpuCode finish();

 private:
  // A value that several instructions use.
  struct Value {
    int first = 0, last = 0, uses = 0;
    double registers = 0;
    bool is_load = false, varies = true;
    double share = 1;   // of the executions that make it
    size_t number = 0;  // in the order in which values are made
  };

  void visit(const Expr& e);
  void visit_binary(const BinaryNode& n);
  void visit_product(const BinaryNode& n);
  void visit_cast(const CastNode& n);
  void visit_codes(const LoadNode& n, const Type& to);
  void visit_byte_codes(const LoadNode& n, const Type& to);
  void visit_load(const LoadNode& n, const Expr& e);
  void visit_broadcast(const BroadcastNode& n);
  void visit_call(const CallNode& n);
  void visit_select(const SelectNode& n);
  void visit_dot(const CallNode& n);
  void visit_lane_reduction(const CallNode& n);
  void visit_unary(const UnaryNode& n);
  void visit_index(const Expr& index);
  void memory(double CpuPasses::*port, const Expr& index, const Buffer& buffer, const Type& type);
  // Adds instructions that work on vectors of the type.
  void arithmetic(double CpuPasses::*pipe, const Type& type, double count = 1);
  double registers_of(const Type& type) const;
  double passes_of(const Type& type) const;
  double splits(const Buffer& buffer, const Expr& index, const Type& type);
  double latency(const Expr& e, uint64_t from, bool* found);
  bool stores_nothing(const StoreNode& n);
  static Expr zero_elsewhere(const Expr& factor);
  Expr condition_of_term(const Expr& value);
  double share_of_term(const Expr& cond);
  double share_of(const Expr& cond) const;
  uint64_t outcomes_of(const Expr& cond) const;
  uint64_t scope_under(const Expr& cond, bool holds) const;
  uint64_t name_of(const ValueFacts& f) const;
  void add_pressure(CpuCode& code);
  bool varies(const ValueFacts& f) const { return loop_ < 0 || (f.loops >> loop_ & 1) != 0; }
  bool in_registers(const Buffer& b) const { return registers_.count(b.get()) != 0; }

  const CpuCore& core_;
  const Target& target_;
  ValueTable& table_;
  const std::set<const BufferNode*>& registers_;
  std::vector<const IndexValues*> draws_;
  const int loop_;
  CpuPasses passes_;
  double share_ = 1, most_share_ = 0;  // of the executions
  uint64_t scope_ = 0;                 // the conditions around the code at hand; 0: none
  std::vector<std::pair<uint64_t, double>> outer_;
  std::set<uint64_t> conditions_;      // so far
  std::map<uint64_t, size_t> groups_;  // of conditions, in their order
  int statements_ = 0, time_ = 0;
  double operations_ = 0;  // arithmetic that may take an operand from memory
  std::unordered_map<uint64_t, Value> values_;
  std::unordered_map<uint64_t, double> chains_;  // cycles by place
  std::unordered_map<uint64_t, Sum> sums_;
  std::unordered_map<uint64_t, std::vector<int64_t>> addresses_;
  // Vectors of words of codes that are loaded: buffer, index without its constant, condition, word.
  std::set<std::tuple<const BufferNode*, uint64_t, uint64_t, int64_t>> words_;
};

}  // namespace tilewright
