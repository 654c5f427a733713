// Random well-formed programs of every node kind, for property tests of the text form.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright::test {

// Programs are well-typed and well-scoped, but meaningless. Names are unusual and repeat, except
// those of buffers, which are unique. The same seed gives the same program.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}
  Program make();

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  std::string name();
  ElemType any_type();
  Annotations notes();
  Buffer buffer(Scope scope);

  Expr index(int depth);  // a scalar index
  Expr value(Type type, int depth);
  Expr condition(int lanes, int depth);
  Expr leaf(Type type);
  Expr constant(Type type);
  Expr load_of(Type type, int depth);
  Expr ramp_index(int lanes);
  Expr arithmetic(Type type, int depth);

  Stmt stmt(int depth);
  Stmt body(int depth);
  Stmt store(int depth);
  Stmt for_loop(int depth);
  Stmt block(int depth);
  Stmt evaluate();

  std::mt19937_64 random_;
  std::vector<Var> vars_;
  Expr dim_;  // a dynamic dimension for shapes, when there is one
  std::vector<Buffer> buffers_;
  int num_buffers_ = 0;
};

}  // namespace tilewright::test
