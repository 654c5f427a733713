// Finds which loops and iterators an index expression determines.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// An index expression, or the first of `slack` + 1 consecutive values that it stands for.
struct IndexForm {
  Expr value;
  int64_t slack = 0;
};

// The loops among `loops` whose value follows from the values of `forms`, while every variable
// except those of `loops` is held fixed. When all of `loops` are returned, the map from loop values
// to index values is one-to-one. When one loop is returned, different values of that loop give
// different index values, whatever the other loops are.
//
// The analysis decides sums of `coefficient * digit`. Each digit is a loop, or a floordiv or
// floormod of a loop or of such a sum. A digit is known when its coefficient exceeds the largest
// sum of the smaller terms. A loop is known when its known digits make up its whole range.
// Everything else counts as unknown, so the result may omit a loop but never includes a wrong one.
// `known` holds the ranges of all variables. A loop of one iteration is always returned.
std::set<const ExprNode*> recoverable(const std::vector<IndexForm>& forms,
                                      const std::vector<Stmt>& loops, Analyzer& known);

// Positions of the block's iterators that an index depends on, in order.
std::vector<int> iterators_in(const BlockNode& block, const Expr& index);

}  // namespace tilewright
