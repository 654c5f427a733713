// The table of rules for legal programs.
#pragma once

#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct Violation {
  std::string message;
  const StmtNode* where;
};

// The rules that `program` breaks; empty for a legal one. The checks of the node constructors
// (types, ranks, index types) are not repeated.
//
//  - Names: variables are used only where they are bound. The body of a block with iterators uses
//    no loop between it and the enclosing block. Names of dimensions and of parameters are unique,
//    and so are those of loops and of blocks in a program with blocks.
//  - Buffers: each is a parameter or allocated around its use, once. Inputs and weights are not
//    stored to.
//  - Bounds: an index that certainly leaves its buffer is reported. An index that depends on a
//    condition, or is no sum of independent loops, is not decided.
//
//  - Bindings: without a condition, a binding stays inside its iterator's extent. A reduce iterator
//    takes each value of its extent once and shares no part of a loop with another iterator. No
//    unbound loop inside a reduction repeats it. Bindings that are not made of +, *, floordiv and
//    floormod by constants are not decided.
//  - Loops: a parallel loop (also of CUDA blocks) carries no reduction. Block, thread and warp axes
//    do not nest in themselves.
//  - Stages: let and allocate, which belong to lowered programs, do not stand beside blocks.
std::vector<Violation> verify(const Program& program);
// Throws InternalError that prints the program with the places marked.
void verify_or_throw(const Program& program, const std::string& after);

}  // namespace tilewright
