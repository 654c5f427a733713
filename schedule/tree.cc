#include "schedule/tree.h"

#include <algorithm>
#include <functional>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// The statements directly under `s`; a block's init is not part of the loop structure.
std::vector<Stmt> children(const Stmt& s) {
  switch (s.kind()) {
    case StmtKind::For: return {s.as<ForNode>()->body};
    case StmtKind::Block: return {s.as<BlockNode>()->body};
    case StmtKind::If: {
      auto* n = s.as<IfNode>();
      if (n->else_case.defined()) return {n->then_case, n->else_case};
      return {n->then_case};
    }
    case StmtKind::Seq: return s.as<SeqNode>()->stmts;
    case StmtKind::Let: return {s.as<LetNode>()->body};
    case StmtKind::Allocate: return {s.as<AllocateNode>()->body};
    case StmtKind::Store:
    case StmtKind::Evaluate: return {};
  }
  return {};
}

bool descend(const Stmt& s, const std::function<bool(const Stmt&)>& is_target, Path& path) {
  path.push_back(s);
  if (is_target(s)) return true;
  for (const Stmt& child : children(s)) {
    if (descend(child, is_target, path)) return true;
  }
  path.pop_back();
  return false;
}

Path find(const Stmt& root, const std::function<bool(const Stmt&)>& is_target) {
  Path path;
  if (root.defined()) descend(root, is_target, path);
  return path;
}

std::string list_or_none(const std::vector<std::string>& names) {
  return names.empty() ? "there is none" : fmt::format("there are: {}", fmt::join(names, ", "));
}

class Replacer : public Mutator {
 public:
  Replacer(const StmtNode* old, const Stmt& with) : old_(old), with_(with) {}

 protected:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }
  Stmt mutate(const Stmt& s) override {
    if (!s.defined() || done_) return s;
    if (s.get() == old_) {
      done_ = true;
      return with_;
    }
    return Mutator::mutate(s);
  }

 private:
  const StmtNode* old_;
  const Stmt& with_;
  bool done_ = false;
};

}  // namespace

Path path_to(const Stmt& root, const StmtNode* target) {
  return find(root, [&](const Stmt& s) { return s.get() == target; });
}
Path path_to_loop(const Stmt& root, std::string_view name) {
  return find(root, [&](const Stmt& s) {
    auto* loop = s.as<ForNode>();
    return loop && loop->var.name() == name;
  });
}
Path path_to_block(const Stmt& root, std::string_view name) {
  return find(root, [&](const Stmt& s) {
    auto* block = s.as<BlockNode>();
    return block && block->name == name;
  });
}

Path Tree::loop(const std::string& name) const {
  Path path = path_to_loop(program_.body, name);
  if (!path.empty()) return path;
  std::vector<std::string> names;
  for_each_stmt(program_.body, [&](const Stmt& s) {
    if (auto* loop = s.as<ForNode>()) names.push_back(loop->var.name());
  });
  refuse(RefusalKind::NotFound, fmt::format("no loop '{}'; {}", name, list_or_none(names)));
}

Path Tree::block(const std::string& name) const {
  Path path = path_to_block(program_.body, name);
  if (!path.empty()) return path;
  std::vector<std::string> names;
  for_each_stmt(program_.body, [&](const Stmt& s) {
    if (auto* block = s.as<BlockNode>()) names.push_back(block->name);
  });
  refuse(RefusalKind::NotFound, fmt::format("no block '{}'; {}", name, list_or_none(names)));
}

Buffer Tree::buffer(const std::string& name) const {
  std::vector<Buffer> all;
  for (const Param& param : program_.params) all.push_back(param.buffer);
  for_each_stmt(program_.body, [&](const Stmt& s) {
    if (auto* block = s.as<BlockNode>()) {
      all.insert(all.end(), block->allocs.begin(), block->allocs.end());
    }
  });
  std::vector<std::string> names;
  for (const Buffer& buffer : all) {
    if (buffer->name == name) return buffer;
    names.push_back(buffer->name);
  }
  refuse(RefusalKind::NotFound, fmt::format("no buffer '{}'; {}", name, list_or_none(names)));
}

void Tree::refuse(RefusalKind kind, const std::string& message, std::vector<Stmt> where) const {
  throw ScheduleError(kind, std::string(primitive_), message, program_, std::move(where));
}

void Tree::bad_argument(std::string_view argument, std::string_view expected,
                        const std::string& got, std::vector<Stmt> where) const {
  refuse(
      RefusalKind::BadArgument,
      fmt::format("argument '{}' of {}: expected {}, got {}", argument, primitive_, expected, got),
      std::move(where));
}

Analyzer Tree::analyzer_at(const Path& path) const {
  Analyzer known;
  for (const DimVar& dim : program_.dims) known.bind(dim.var, Interval{dim.min, dim.max});
  for (const Stmt& s : all_loops_above(path)) {
    auto* loop = s.as<ForNode>();
    known.bind(loop->var, loop->min, loop->extent);
  }
  return known;
}

Program Tree::replaced(const Path& path, const Stmt& with) const {
  Analyzer known = analyzer_at(path);
  return replace_stmt(program_, path.back().get(), simplify_bindings(with, known));
}

std::vector<Stmt> loops_above(const Path& path) {
  std::vector<Stmt> loops;
  for (size_t i = path.size() - 1; i-- > 0;) {
    if (path[i].as<BlockNode>()) break;
    if (path[i].as<ForNode>()) loops.push_back(path[i]);
  }
  std::reverse(loops.begin(), loops.end());
  return loops;
}

std::vector<Stmt> all_loops_above(const Path& path) {
  std::vector<Stmt> loops;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (path[i].as<ForNode>()) loops.push_back(path[i]);
  }
  return loops;
}

Path scope_path(const Path& path) {
  size_t size = path.empty() ? 0 : path.size() - 1;
  while (size > 0 && !path[size - 1].as<BlockNode>()) --size;
  return Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(size));
}

Stmt scope_of(const Path& path) {
  Path scope = scope_path(path);
  return scope.empty() ? Stmt() : scope.back();
}

std::vector<Stmt> child_blocks(const Stmt& s) {
  std::vector<Stmt> found;
  std::function<void(const Stmt&)> walk = [&](const Stmt& parent) {
    for (const Stmt& child : children(parent)) {
      if (child.as<BlockNode>()) {
        found.push_back(child);
      } else {
        walk(child);
      }
    }
  };
  walk(s);
  return found;
}

std::vector<Stmt> leaf_blocks(const Stmt& s) {
  std::vector<Stmt> found;
  std::function<void(const Stmt&)> walk = [&](const Stmt& parent) {
    if (parent.as<BlockNode>() && child_blocks(parent).empty()) found.push_back(parent);
    for (const Stmt& child : children(parent)) walk(child);
  };
  walk(s);
  return found;
}

Stmt replace_stmt(const Stmt& root, const StmtNode* old, const Stmt& with) {
  return Replacer(old, with)(root);
}

Program replace_stmt(const Program& program, const StmtNode* old, const Stmt& with) {
  Program result = program;
  result.body = replace_stmt(program.body, old, with);
  TW_ASSERT(result.body.defined(), "the whole program was removed");
  return result;
}

Stmt simplify_bindings(const Stmt& s, Analyzer& known) {
  class Simplifier : public Mutator {
   public:
    explicit Simplifier(Analyzer& known) : known_(known) {}

   protected:
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e.defined() ? known_.simplify(e) : e; }
    Stmt mutate_for(const ForNode& n, const Stmt& s) override {
      Expr min = mutate(n.min), extent = mutate(n.extent);
      known_.push();
      known_.bind(n.var, min, extent);
      Stmt body = mutate(n.body);
      known_.pop();
      bool same = min.same_as(n.min) && extent.same_as(n.extent) && body.same_as(n.body);
      return same ? s : make_for(n.var, min, extent, n.for_kind, body, n.annotations);
    }
    Stmt mutate_block(const BlockNode& n, const Stmt& s) override {
      std::vector<IterVar> iters = n.iters;
      bool changed = false;
      for (IterVar& iter : iters) {
        Expr binding = mutate(iter.binding);
        changed |= !binding.same_as(iter.binding);
        iter.binding = binding;
      }
      Expr predicate = mutate(n.predicate);
      if (auto value = as_int(predicate); value && *value) predicate = Expr();
      changed |= !predicate.same_as(n.predicate);
      Stmt body = mutate_nested(n);
      if (!changed && body.same_as(n.body)) return s;
      return make_block(n.name, std::move(iters), body, n.init, predicate, n.allocs, n.annotations);
    }

   private:
    // Simplifies the body of a scope; a leaf's body stays.
    Stmt mutate_nested(const BlockNode& n) {
      if (!contains_block(n.body)) return n.body;
      known_.push();
      for (const IterVar& iter : n.iters) known_.bind(iter.var, Expr(0), iter.extent);
      Stmt body = mutate(n.body);
      known_.pop();
      return body;
    }
    static bool contains_block(const Stmt& s) {
      return s.as<BlockNode>() || !child_blocks(s).empty();
    }

    Analyzer& known_;
  };
  return Simplifier(known)(s);
}

}  // namespace tilewright
