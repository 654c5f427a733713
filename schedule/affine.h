// Which loops and iterators appear in index expressions, and can be told apart by them.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

// An index expression, or the first of `slack` + 1 consecutive values that it stands for.
struct IndexForm {
  Expr value;
  int64_t slack = 0;
};

// The loops among `loops` whose value follows from the values of `forms` while every variable but
// those of `loops` is held fixed. So when all of `loops` are returned, the map from loop values to
// index values is one-to-one, and when one loop is returned, different values of that loop give
// different index values whatever the others are.
//
// Decided for sums of `coefficient * digit` where each digit is a loop, or a floordiv or floormod
// of a loop or of such a sum: a digit is known when its coefficient exceeds all that the smaller
// terms can add up to, and a loop when its known digits make up its whole range. Anything else is
// taken as unknown, so a loop may be missing from the result, but none is wrongly in it.
// `known` holds the ranges of all variables. A loop of one iteration is always returned.
std::set<const ExprNode*> recoverable(const std::vector<IndexForm>& forms,
                                      const std::vector<Stmt>& loops, Analyzer& known);

// Positions among the block's iterators of those that an index depends on, in their order.
std::vector<int> iterators_in(const BlockNode& block, const Expr& index);

}  // namespace tilewright
