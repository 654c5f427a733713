// Values that depend on the weights exp(x - maximum) of a softmax.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/primitives/loops/reduction.h"
#include "schedule/tree.h"

namespace tilewright {

// A leaf block alone under serial loops.
struct LoneNest {
  Stmt top;
  std::vector<Stmt> loops;  // outermost first
  Stmt stmt;                // the block

  const BlockNode& block() const { return *stmt.as<BlockNode>(); }
  // The loop that is the binding of an iterator. It starts at 0, and no other binding and no
  // predicate uses it. Null where there is none.
  const ForNode* loop_of(const IterVar& iter) const;
};
std::optional<LoneNest> lone_nest(const Stmt& top);

// A block that only takes a maximum over one axis.
struct RowMaximum {
  LoneNest nest;
  const StoreNode* store = nullptr;
  Expr value;    // the value that the maximum is taken over
  IterVar key;   // the maximum's reduce iterator
  Expr visible;  // `value` is -inf unless this holds; undefined: no such condition is known
};

// A block whose values are homogeneous of degree 1 in the weights: when all weights are multiplied
// by c, so are the values.
struct Weighed {
  LoneNest nest;
  IterVar key;             // the iterator along the axis of the maximum
  std::vector<Expr> rows;  // indices of the maximum that the weights use
  bool sums = false;       // sums over the key; else it stores one value per key
};

// Finds such blocks, in program order, by an algebra of degrees. Weights have degree 1, values that
// do not depend on the maximum have degree 0, and the degrees of factors add up.
class WeightAlgebra {
 public:
  WeightAlgebra(const Program& program, RowMaximum maximum)
      : program_(program), maximum_(std::move(maximum)) {}

  // True when the block reads weights that are stored for each key.
  bool reads_weights(const BlockNode& block) const;
  bool reads_maximum(const BlockNode& block) const;
  // Records and returns what it finds. Returns nothing for other blocks; refusal() gives the
  // reason.
  std::optional<Weighed> weigh(const LoneNest& nest);
  const std::string& refusal() const { return refusal_; }
  // True when all weights so far are 0 where the maximum's value is known to be -inf.
  bool hides_the_invisible() const { return hides_; }

 private:
  enum class Degree { Any, Zero, One };  // Any: the value 0, which has every degree
  // Weights in memory: the row as a function of the indices `dims`, which are variables or 0.
  struct Stored {
    std::vector<Expr> dims, rows;
    size_t key = 0;  // dimension of the key
  };

  std::optional<Degree> degree(const Expr& e);
  std::optional<Degree> degree_of_exp(const UnaryNode& e);
  std::optional<Degree> degree_of_load(const LoadNode& e);
  std::optional<Degree> degree_of_binary(const BinaryNode& e);
  std::optional<Degree> fail(std::string why);
  std::optional<Degree> meet(Degree a, Degree b);
  bool take(const Expr& key, std::vector<Expr> rows);
  bool depends(const Expr& e) const;
  bool is_hidden(const Expr& value);
  // The maximum's value (or condition) at these rows and the key `key`.
  Expr of_maximum(const Expr& e, const std::vector<Expr>& rows, const Expr& key) const;
  bool finish(Weighed& found, const StoreNode& store);

  const Program& program_;
  RowMaximum maximum_;
  std::map<const BufferNode*, Stored> stored_;
  std::set<const BufferNode*> sums_;
  bool hides_ = true;
  std::string refusal_;
  // State of the block under analysis:
  const BlockNode* block_ = nullptr;
  Analyzer known_;
  Expr key_;
  std::vector<Expr> rows_;
};

}  // namespace tilewright
