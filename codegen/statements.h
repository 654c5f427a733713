// Statements as the list that they run as, and the buffers that they use.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

/// The statements of a body, in order, inside its allocations, the outermost first.
struct Body {
  std::vector<Buffer> buffers;
  std::vector<Stmt> stmts;
};
Body body_of(const Stmt& s);
/// `s` inside allocations of these buffers, the outermost first.
Stmt with_buffers(const std::vector<Buffer>& buffers, Stmt s);

/// The program with another body.
Program with_body(const Program& program, Stmt body);

/// `s` with each store replaced by what `fn` makes of it.
Stmt map_stores(const Stmt& s, const std::function<Stmt(const StoreNode&, const Stmt&)>& fn);

using BufferSet = std::set<const BufferNode*>;
/// The buffers of a statement's loads, and of its stores.
BufferSet read_by(const Stmt& s);
BufferSet stored_by(const Stmt& s);
/// Whether a buffer is in both.
bool meet(const BufferSet& a, const BufferSet& b);
/// Whether one of two statements stores to what the other one reads or stores to.
bool depends(const Stmt& a, const Stmt& b);

}  // namespace tilewright
