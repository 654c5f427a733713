// Values that follow the weights exp(x - maximum) of a softmax.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/primitives/reduction.h"
#include "schedule/tree.h"

namespace tilewright {

// A leaf block alone under serial loops.
struct LoneNest {
  Stmt top;
  std::vector<Stmt> loops;  // outermost first
  Stmt stmt;                // the block

  const BlockNode& block() const { return *stmt.as<BlockNode>(); }
  // The loop that is the binding of an iterator, which starts at 0 and that no other binding and no
  // predicate uses; null where there is none.
  const ForNode* loop_of(const IterVar& iter) const;
};
std::optional<LoneNest> lone_nest(const Stmt& top);

// A block that takes a maximum over one axis, and nothing else.
struct RowMaximum {
  LoneNest nest;
  const StoreNode* store = nullptr;
  Expr value;    // what the maximum is of
  IterVar key;   // its reduce iterator
  Expr visible;  // where `value` is -inf unless this holds; undefined: nothing is known to be
};

// A block whose values are homogeneous of degree 1 in the weights: with weights that are all c times
// as large they are, too.
struct Weighed {
  LoneNest nest;
  IterVar key;             // the iterator along the axis of the maximum
  std::vector<Expr> rows;  // indices of the maximum that the weights are taken from
  bool sums = false;       // over the key; else it stores a value for each
};

// Finds such blocks, in program order, by an algebra of degrees: weights have degree 1, what does not
// depend on the maximum 0, factors add up.
class WeightAlgebra {
 public:
  WeightAlgebra(const Program& program, RowMaximum maximum)
      : program_(program), maximum_(std::move(maximum)) {}

  // Whether the block reads weights that are stored for each key.
  bool reads_weights(const BlockNode& block) const;
  bool reads_maximum(const BlockNode& block) const;
  // Remembers what it finds. Nothing, and refusal() says why, for other blocks.
  std::optional<Weighed> weigh(const LoneNest& nest);
  const std::string& refusal() const { return refusal_; }
  // Whether all weights so far are 0 where the maximum's value is known to be -inf.
  bool hides_the_invisible() const { return hides_; }

 private:
  enum class Degree { Any, Zero, One };  // Any: 0, which has every degree
  // Weights in memory: the row in terms of the indices `dims`, variables or 0.
  struct Stored {
    std::vector<Expr> dims, rows;
    size_t key = 0;  // a dimension
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
  // The maximum's value (or condition) at these rows, for the key `key`.
  Expr of_maximum(const Expr& e, const std::vector<Expr>& rows, const Expr& key) const;
  bool finish(Weighed& found, const StoreNode& store);

  const Program& program_;
  RowMaximum maximum_;
  std::map<const BufferNode*, Stored> stored_;
  std::set<const BufferNode*> sums_;
  bool hides_ = true;
  std::string refusal_;
  // Of the block that is looked at:
  const BlockNode* block_ = nullptr;
  Analyzer known_;
  Expr key_;
  std::vector<Expr> rows_;
};

}  // namespace tilewright
