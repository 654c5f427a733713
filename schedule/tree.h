// Queries on a program that is being rewritten, and replacement of statements in it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/stmt.h"
#include "schedule/error.h"

namespace tilewright {

// The statements from a program's body down to one of them: the body first, the statement last. A
// path refers to the program that it was found in and is invalid in the rewritten one.
using Path = std::vector<Stmt>;

// The node of a statement that is known to be a loop (a block).
inline const ForNode& loop_of(const Stmt& s) { return *s.as<ForNode>(); }
inline const BlockNode& block_of(const Stmt& s) { return *s.as<BlockNode>(); }

// The view of a primitive: the program, lookups in it, and refusals. Every refusal is a
// ScheduleError that holds the program and the places.
class Tree {
 public:
  // Both must outlive the tree.
  Tree(std::string_view primitive, const Program& program)
      : primitive_(primitive), program_(program) {}

  const Program& program() const { return program_; }

  // The path to the loop (block) of that name. Refuses with NotFound and lists the existing names.
  Path loop(const std::string& name) const;
  Path block(const std::string& name) const;
  // A buffer by name: a parameter, or allocated in a block. Refuses with NotFound.
  Buffer buffer(const std::string& name) const;

  [[noreturn]] void refuse(RefusalKind kind, const std::string& message,
                           std::vector<Stmt> where = {}) const;
  void require(bool ok, RefusalKind kind, const std::string& message,
               std::vector<Stmt> where = {}) const {
    if (!ok) refuse(kind, message, std::move(where));
  }
  // "argument 'factors' of split: expected <expected>, got <got>".
  [[noreturn]] void bad_argument(std::string_view argument, std::string_view expected,
                                 const std::string& got, std::vector<Stmt> where = {}) const;

  // The facts at a statement: ranges of the dynamic dimensions and of the loops above it.
  Analyzer analyzer_at(const Path& path) const;
  // The program with `with` in place of the last statement of `path`, its bindings simplified.
  Program replaced(const Path& path, const Stmt& with) const;

 private:
  std::string_view primitive_;
  const Program& program_;
};

// The path from `root` to the statement, empty when it is not there.
Path path_to(const Stmt& root, const StmtNode* target);
Path path_to_loop(const Stmt& root, std::string_view name);
Path path_to_block(const Stmt& root, std::string_view name);

// The loops around the last statement of `path` up to the block that encloses it, outermost first.
std::vector<Stmt> loops_above(const Path& path);
// All loops above the last statement, through enclosing blocks, outermost first.
std::vector<Stmt> all_loops_above(const Path& path);
// The innermost block that encloses the last statement of `path`: its scope. Undefined for the
// program's body.
Stmt scope_of(const Path& path);
// The path to scope_of(path).
Path scope_path(const Path& path);

// The blocks under `s` (not `s` itself) that no other block under `s` encloses, in program order.
std::vector<Stmt> child_blocks(const Stmt& s);
// The blocks under `s`, itself included, that hold no blocks, in program order.
std::vector<Stmt> leaf_blocks(const Stmt& s);

// `root` with the node `old` replaced. An undefined `with` removes it and any statement that
// becomes empty. Nodes off the path stay the same nodes.
Stmt replace_stmt(const Stmt& root, const StmtNode* old, const Stmt& with);
Program replace_stmt(const Program& program, const StmtNode* old, const Stmt& with);

// Copies of nodes with one part changed.
Stmt with_body(const ForNode& loop, const Stmt& body);
Stmt with_body(const BlockNode& block, const Stmt& body);
Stmt with_kind(const ForNode& loop, ForKind kind);
Stmt with_bindings(const BlockNode& block, std::vector<IterVar> iters, const Expr& predicate);
Stmt with_allocs(const BlockNode& block, std::vector<Buffer> allocs);
// `program` with `buffer` allocated in its block `scope`.
Program add_alloc(const Program& program, std::string_view scope, const Buffer& buffer);
// `loops` (outermost first) rebuilt around `body`.
Stmt wrap_loops(const std::vector<Stmt>& loops, Stmt body);

// The names in use in a program: those of loops, iterators, blocks, buffers, parameters and
// dimensions. Finds unused ones: "i_0", or "i_0_1" when that is taken. Equal programs give equal
// names.
class Names {
 public:
  explicit Names(const Program& program);
  // Also records the name that it returns.
  std::string fresh(const std::string& base);

 private:
  std::set<std::string> used_;
};
std::string fresh_name(const Program& program, const std::string& base);

// Whether a loop takes part in the bindings of a block's spatial (reduce) iterators.
struct LoopUse {
  bool spatial = false;
  bool reduce = false;
};
LoopUse use_of(const BlockNode& block, const Expr& loop_var);

// Buffers that the block loads from (stores to) in its body and init, each once, in order of first
// use.
std::vector<Buffer> buffers_read(const BlockNode& block);
std::vector<Buffer> buffers_written(const BlockNode& block);
bool contains(const std::vector<Buffer>& list, const Buffer& buffer);
// Child blocks of `scope` that write what `block` reads (read what it writes); not itself.
std::vector<Stmt> producers_of(const Stmt& scope, const BlockNode& block);
std::vector<Stmt> consumers_of(const Stmt& scope, const BlockNode& block);

// Simplifies bindings, predicates and loop extents under `s`, with the facts in `known` about the
// variables above it. Bodies of leaf blocks stay as they are.
Stmt simplify_bindings(const Stmt& s, Analyzer& known);

}  // namespace tilewright
