// The table of what a legal program is.
#pragma once

#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct Violation {
  std::string message;
  const StmtNode* where;
};

// The rules that `program` breaks, empty for a legal one. What the constructors of nodes check (types,
// ranks, index types) is not checked again.
//  - Names: variables are used only where they are bound, and the body of a block with iterators
//    uses no loop between it and the block around; names of dimensions, of parameters and, in a
//    program with blocks, of loops and of blocks are unique.
//  - Buffers: each is a parameter or allocated around its use, once; inputs and weights are not
//    stored to.
//  - Bounds: an index that surely takes a value outside of its buffer is reported; what depends on a
//    condition or is no sum of independent loops is not decided.
//  - Bindings: without a condition, a binding stays inside its iterator's extent; a reduce iterator
//    takes each value of its extent once and shares no part of a loop with another iterator; no
//    unbound loop inside a reduction repeats it. Bindings that are not made of +, *, floordiv and
//    floormod by constants are not decided.
//  - Loops: a parallel loop (also of CUDA blocks) carries no reduction; block, thread and warp axes
//    do not nest in themselves.
//  - Stages: let and allocate, which belong to lowered programs, do not stand beside blocks.
std::vector<Violation> verify(const Program& program);
// Throws InternalError that prints the program with the place marked.
void verify_or_throw(const Program& program, const std::string& after);

}  // namespace tilewright
