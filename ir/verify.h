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

// The rules that `program` breaks, empty for a legal one:
//  - variables are used only where they are bound; loop variables and block names are unique;
//  - buffers are parameters or allocated around their use; indices match ranks and have index type;
//  - constant accesses stay inside (proved from ranges and predicates; what cannot be decided is
//    not reported);
//  - spatial iterators are not bound to reduce loops' partial ranges twice: every block's bindings
//    cover its iteration domain exactly once (checked where they are quasi-affine);
//  - a Parallel loop carries no reduction; thread and block axes do not nest in themselves;
//  - lowered-only statements do not stand beside blocks.
std::vector<Violation> verify(const Program& program);
// Throws InternalError that prints the program with the place marked.
void verify_or_throw(const Program& program, const std::string& after);

}  // namespace tilewright
