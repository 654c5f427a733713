#include "ir/stmt.h"

#include <fmt/core.h>

#include <bit>

#include "ir/require.h"

namespace tilewright {
namespace {

template <class What>
void require_index(const Expr& e, const What& what) {
  require(e.defined() && e.type() == Type(ElemType::index),
          [&] { return what() + " must be an index scalar"; });
}

template <class What>
void require_bool(const Expr& e, const What& what) {
  require(e.type().elem == ElemType::boolean,
          [&] { return fmt::format("{} has type {}, not bool", what(), to_string(e.type())); });
}

}  // namespace

Buffer make_buffer(std::string name, ElemType elem, std::vector<Expr> shape, Scope scope,
                   int64_t swizzled_row) {
  require(!name.empty(), "a buffer needs a name");
  for (const Expr& extent : shape) {
    require_index(extent, [&] { return fmt::format("buffer '{}': an extent", name); });
    auto value = as_int(extent);
    require(!value || *value >= 1, [&] {
      return fmt::format("buffer '{}': an extent is {}, and must be at least 1", name,
                         value.value_or(0));
    });
  }
  constexpr int64_t kLeastBits = 256;  // two pieces of 16 bytes
  const bool is_row = swizzled_row > 0 &&
                      std::has_single_bit(static_cast<uint64_t>(swizzled_row)) &&
                      bits_of(elem) >= 8 && swizzled_row * bits_of(elem) >= kLeastBits;
  require(swizzled_row == 0 || (is_row && scope == Scope::Shared), [&] {
    return fmt::format(
        "buffer '{}': rows of {} elements are swizzled; they must be a power of two long, of 32 "
        "bytes or more, in shared memory",
        name, swizzled_row);
  });
  return std::make_shared<BufferNode>(
      BufferNode{std::move(name), elem, std::move(shape), scope, swizzled_row});
}

Buffer with_shape(const Buffer& b, std::vector<Expr> shape) {
  return make_buffer(b->name, b->elem, std::move(shape), b->scope, b->swizzled_row);
}

std::optional<int64_t> num_elements(const Buffer& buffer) {
  int64_t count = 1;
  for (const Expr& extent : buffer->shape) {
    auto value = as_int(extent);
    if (!value) return std::nullopt;
    count *= *value;
  }
  return count;
}

std::vector<int64_t> const_shape(const Buffer& buffer) {
  std::vector<int64_t> shape;
  for (const Expr& extent : buffer->shape) {
    auto value = as_int(extent);
    require(value.has_value(), [&] {
      return fmt::format("buffer '{}' has a dynamic extent where constants are needed",
                         buffer->name);
    });
    shape.push_back(*value);
  }
  return shape;
}

Stmt make_for(Var var, Expr min, Expr extent, ForKind kind, Stmt body, Annotations notes) {
  require(var.defined() && body.defined(), "for: the variable or the body is undefined");
  require_index(min, [&] { return fmt::format("for {}: the first value", var.name()); });
  require_index(extent, [&] { return fmt::format("for {}: the extent", var.name()); });
  return Stmt(std::make_shared<ForNode>(std::move(var), std::move(min), std::move(extent), kind,
                                        std::move(notes), std::move(body)));
}

Stmt make_block(std::string name, std::vector<IterVar> iters, Stmt body, Stmt init, Expr predicate,
                std::vector<Buffer> allocs, Annotations notes) {
  require(!name.empty(), "a block needs a name");
  require(body.defined(), [&] { return fmt::format("block '{}': the body is undefined", name); });
  for (const IterVar& iter : iters) {
    require_index(iter.extent, [&] {
      return fmt::format("block '{}': the extent of '{}'", name, iter.var.name());
    });
    require_index(iter.binding, [&] {
      return fmt::format("block '{}': the binding of '{}'", name, iter.var.name());
    });
  }
  if (predicate.defined())
    require_bool(predicate, [&] { return fmt::format("block '{}': the predicate", name); });
  return Stmt(std::make_shared<BlockNode>(std::move(name), std::move(iters), std::move(predicate),
                                          std::move(allocs), std::move(notes), std::move(init),
                                          std::move(body)));
}

Stmt make_store(Buffer buffer, std::vector<Expr> indices, Expr value, Expr predicate,
                bool is_async) {
  require(buffer != nullptr && value.defined(), "store: the buffer or the value is undefined");
  require(static_cast<int>(indices.size()) == buffer->rank(), [&] {
    return fmt::format("store: '{}' has {} dimensions, got {} indices", buffer->name,
                       buffer->rank(), indices.size());
  });
  require(value.type().elem == buffer->elem, [&] {
    return fmt::format("store: '{}' holds {}, the value is {}", buffer->name,
                       to_string(buffer->elem), to_string(value.type()));
  });
  for (const Expr& i : indices) {
    require(i.defined() && i.type().elem == ElemType::index, [&] {
      return fmt::format("store: an index of '{}' is not of type index", buffer->name);
    });
  }
  if (predicate.defined())
    require_bool(predicate, [] { return std::string("store: the predicate"); });
  return Stmt(std::make_shared<StoreNode>(std::move(buffer), std::move(indices), std::move(value),
                                          std::move(predicate), is_async));
}

Stmt make_if(Expr cond, Stmt then_case, Stmt else_case) {
  require(cond.defined() && then_case.defined(), "if: the condition or the body is undefined");
  require_bool(cond, [] { return std::string("if: the condition"); });
  return Stmt(
      std::make_shared<IfNode>(std::move(cond), std::move(then_case), std::move(else_case)));
}

Stmt make_seq(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  for (Stmt& s : stmts) {
    if (!s.defined()) continue;
    if (auto* seq = s.as<SeqNode>()) {
      flat.insert(flat.end(), seq->stmts.begin(), seq->stmts.end());
    } else {
      flat.push_back(std::move(s));
    }
  }
  if (flat.empty()) return {};
  if (flat.size() == 1) return flat[0];
  return Stmt(std::make_shared<SeqNode>(std::move(flat)));
}

Stmt make_evaluate(Expr value) {
  require(value.defined() && value.as<CallNode>(), "evaluate: a call was expected");
  return Stmt(std::make_shared<EvaluateNode>(std::move(value)));
}

Stmt make_let(Var var, Expr value, Stmt body) {
  require(var.defined() && value.defined() && body.defined(), "let: a part is undefined");
  require(var.type() == value.type(), [&] {
    return fmt::format("let {}: the variable is {}, the value {}", var.name(),
                       to_string(var.type()), to_string(value.type()));
  });
  return Stmt(std::make_shared<LetNode>(std::move(var), std::move(value), std::move(body)));
}

Stmt make_allocate(Buffer buffer, Stmt body) {
  require(buffer != nullptr && body.defined(), "allocate: a part is undefined");
  return Stmt(std::make_shared<AllocateNode>(std::move(buffer), std::move(body)));
}

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::Global: return "global";
    case Scope::Shared: return "shared";
    case Scope::Local: return "local";
    case Scope::Register: return "register";
    case Scope::FragmentA: return "fragment_a";
    case Scope::FragmentB: return "fragment_b";
    case Scope::FragmentC: return "fragment_c";
  }
  return "";
}

std::optional<Scope> parse_scope(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Scope::FragmentC); ++i) {
    if (name_of(static_cast<Scope>(i)) == name) return static_cast<Scope>(i);
  }
  return std::nullopt;
}

std::string_view name_of(ForKind kind) {
  switch (kind) {
    case ForKind::Serial: return "serial";
    case ForKind::Parallel: return "parallel";
    case ForKind::Vectorized: return "vectorized";
    case ForKind::Unrolled: return "unrolled";
    case ForKind::BlockX: return "block_x";
    case ForKind::BlockY: return "block_y";
    case ForKind::BlockZ: return "block_z";
    case ForKind::ThreadX: return "thread_x";
    case ForKind::ThreadY: return "thread_y";
    case ForKind::ThreadZ: return "thread_z";
    case ForKind::Warp: return "warp";
  }
  return "";
}

std::optional<ForKind> parse_for_kind(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ForKind::Warp); ++i) {
    if (name_of(static_cast<ForKind>(i)) == name) return static_cast<ForKind>(i);
  }
  return std::nullopt;
}

std::string_view name_of(ParamRole role) {
  switch (role) {
    case ParamRole::Input: return "input";
    case ParamRole::Weight: return "weight";
    case ParamRole::Output: return "output";
  }
  return "";
}

}  // namespace tilewright
