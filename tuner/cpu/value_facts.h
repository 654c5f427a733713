// Tells which expressions of a program are one value, without simplifying them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/expr.h"

namespace tilewright {

// Index expressions have the hash of their linear form: the hash of a sum is the sum of hashes, modulo
// 2^64, so that equal sums in different order are equal. Constants stand apart.
struct ValueFacts {
  uint64_t hash = 0;
  int64_t constant = 0;
  uint64_t loops = 0;     // a bit for each loop that changes the value
  bool unrolled = false;  // it differs between the copies of an unrolled loop

  uint64_t identity() const;
};

class ValueTable {
 public:
  // The facts of an expression under the definitions so far.
  ValueFacts of(const Expr& e);
  // The place of an element in memory.
  uint64_t place(const Buffer& buffer, const Expr& index);

  // A variable of a loop with that bit, a let, and the variable of an unrolled loop in one copy.
  void loop(const Var& var, int bit) {
    variables_[var.get()] = {mixed(var.get()), 0, uint64_t{1} << bit, false};
    forget();
  }
  void define(const Var& var, const Expr& value) {
    variables_[var.get()] = of(value);
    forget();
  }
  void set(const Var& var, int64_t value) { variables_[var.get()] = {0, value, 0, true}; }
  // Values in such a buffer change with the code itself.
  void keep_apart(const BufferNode* buffer) { apart_.insert(buffer); }

 private:
  static uint64_t mixed(const void* p);
  ValueFacts of_index(const Expr& e);
  ValueFacts of_node(const Expr& e);
  ValueFacts joined(uint64_t tag, std::initializer_list<Expr> parts);
  void forget() { known_.clear(); }

  std::unordered_map<const ExprNode*, ValueFacts> variables_;
  std::unordered_map<const ExprNode*, std::pair<Expr, ValueFacts>>
      known_;  // kept, so that no other takes its place
  std::unordered_set<const BufferNode*> apart_;
};

}  // namespace tilewright
