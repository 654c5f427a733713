// Statements compiled for fast repeated execution. Internal to the interpreter.
#pragma once

#include <memory>
#include <vector>

#include "ir/interpreter/interpreter_expr.h"
#include "ir/interpreter/interpreter_steps.h"

namespace tilewright::interp {

class StmtCode {
 public:
  explicit StmtCode(bool has_barrier) : has_barrier_(has_barrier) {}
  virtual ~StmtCode() = default;
  bool has_barrier() const { return has_barrier_; }

  // Runs the whole statement; barriers outside thread loops do nothing. Throws Fault.
  virtual void run(Frame& f) const = 0;
  // Like run(), but stops at each barrier.
  virtual Steps steps(Frame& f) const;

 private:
  bool has_barrier_;
};

using StmtPtr = std::unique_ptr<const StmtCode>;

// A loop whose variable lives in `slot`. `n` must outlive it.
StmtPtr make_loop(const ForNode& n, int slot, ExprPtr min, ExprPtr extent, StmtPtr body);

// Compiles a program's body; assigns slots to its variables and buffers.
class Compiler {
 public:
  explicit Compiler(State& state) : state_(state) {}

  int define(const Expr& var);
  int define(const Buffer& buffer);
  // Throws Fault with State::at on the statement that does not compile.
  StmtPtr compile(const Stmt& s);
  ExprPtr compile(const Expr& e) { return interp::compile(e, slots_); }
  // A frame with room for every variable and buffer that was defined.
  Frame frame() const;
  // Every slot that a variable ever had.
  const std::map<const ExprNode*, int>& var_slots() const { return all_vars_; }

 private:
  StmtPtr compile_for(const ForNode& n);
  StmtPtr compile_block(const BlockNode& n);
  StmtPtr compile_store(const StoreNode& n);
  StmtPtr compile_evaluate(const EvaluateNode& n);
  std::vector<ExprPtr> compile_all(const std::vector<Expr>& list);

  State& state_;
  Slots slots_;
  std::map<const ExprNode*, int> all_vars_;
  int num_vars_ = 0;
  int num_buffers_ = 0;
};

}  // namespace tilewright::interp
