#include "schedule/tensor_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "ir/compare.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Unifies sums, products and casts of an intrinsic with those of a program. A load of an
// intrinsic's operand matches a load of any buffer of its type.
class Unifier {
 public:
  struct Access {
    Buffer buffer;
    std::vector<Expr> indices;
  };
  std::map<const BufferNode*, Access> found;
  std::string difference;

  // With `exchanged`, the sides of sums and products are matched crosswise first. Where both
  // operands have one type, only the strides of the loops tell which is which.
  explicit Unifier(bool exchanged) : exchanged_(exchanged) {}

  bool unify(const Expr& want, const Expr& have) {
    if (auto* operand = want.as<LoadNode>()) return bind(*operand, have);
    bool same_node = want.kind() == have.kind() && want.type() == have.type();
    if (auto* a = want.as<CastNode>(); a && same_node) {
      return unify(a->value, have.as<CastNode>()->value);
    }
    if (auto* a = want.as<BinaryNode>(); a && same_node) {
      auto* b = have.as<BinaryNode>();
      if (a->op == b->op) return unify_sides(*a, *b);
    }
    if (auto value = as_int(want); value && same_node && is_int(have, *value)) return true;
    difference =
        fmt::format("{} stands where the intrinsic has {}", to_string(have), to_string(want));
    return false;
  }

 private:
  // Matches the sides in their order, or exchanged.
  bool unify_sides(const BinaryNode& want, const BinaryNode& have) {
    bool commutes = want.op == BinaryOp::Add || want.op == BinaryOp::Mul;
    auto before = found;
    bool cross = commutes && exchanged_;
    if (unify_sides(want, have, cross)) return true;
    if (!commutes) return false;
    std::string first = difference;
    found = before;
    if (unify_sides(want, have, !cross)) return true;
    difference = first;
    return false;
  }
  bool unify_sides(const BinaryNode& want, const BinaryNode& have, bool cross) {
    return unify(want.a, cross ? have.b : have.a) && unify(want.b, cross ? have.a : have.b);
  }

  bool bind(const LoadNode& operand, const Expr& have) {
    auto* load = have.as<LoadNode>();
    const std::string& name = operand.buffer->name;
    if (!load || load->predicate.defined()) {
      difference = fmt::format("operand '{}' is {}; the intrinsic loads it", name, to_string(have));
      return false;
    }
    if (load->buffer->elem != operand.buffer->elem) {
      difference = fmt::format("operand '{}' is of type {}; '{}' holds {}", name,
                               to_string(operand.buffer->elem), load->buffer->name,
                               to_string(load->buffer->elem));
      return false;
    }
    auto [it, added] = found.try_emplace(operand.buffer.get(), Access{load->buffer, load->indices});
    bool same = added || it->second.buffer == load->buffer;
    for (size_t d = 0; same && !added && d < load->indices.size(); ++d) {
      same = equal(it->second.indices[d], load->indices[d]);
    }
    if (!same) difference = fmt::format("operand '{}' would be two different elements", name);
    return same;
  }

  bool exchanged_;
};

// The value that the nest combines with its output; undefined when it is no such reduction.
Expr combined(const TensorNest& nest, Reducer reducer) {
  auto* n = nest.value.as<BinaryNode>();
  if (!n || reducer != Reducer::Sum || n->op != BinaryOp::Add) return {};
  auto is_output = [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (!load || load->buffer != nest.buffer || load->predicate.defined()) return false;
    return std::equal(load->indices.begin(), load->indices.end(), nest.indices.begin(),
                      [](const Expr& x, const Expr& y) { return equal(x, y); });
  };
  if (is_output(n->a)) return n->b;
  return is_output(n->b) ? n->a : Expr();
}

// An operand of the program as one row-major index.
struct FlatOperand {
  std::string name;  // name in the intrinsic
  Buffer buffer;
  Expr index;
  std::vector<int64_t> wanted;  // strides along the intrinsic's iterators
};

Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices, Analyzer& known) {
  Expr sum = 0;
  for (size_t d = 0; d < indices.size(); ++d) sum = sum * buffer->shape[d] + indices[d];
  return known.simplify(sum);
}

// The stride of an index along a loop, where it is constant.
std::optional<int64_t> step(const Expr& index, const ForNode& loop, Analyzer& known) {
  VarMap next{{loop.var.get(), loop.var + 1}};
  return as_int(known.simplify(substitute(index, next) - index));
}

// Finds the loop that has the strides of iterator `n` in every operand, or the reason why none has.
class LoopFinder {
 public:
  LoopFinder(const std::vector<FlatOperand>& operands, const std::vector<const ForNode*>& loops,
             Analyzer& known)
      : operands_(operands), loops_(loops), known_(known) {}

  const ForNode* find(size_t n, const Var& iterator, int64_t extent, std::string* reason) {
    std::string others;
    for (const ForNode* loop : loops_) {
      if (as_int(loop->extent) != extent) {
        others +=
            fmt::format("; loop '{}' has {} iterations", loop->var.name(), to_string(loop->extent));
        continue;
      }
      std::string wrong = wrong_step(n, *loop);
      if (wrong.empty()) return loop;
      others += "; " + wrong;
    }
    std::string steps;
    for (const FlatOperand& o : operands_) {
      steps += fmt::format("{}{} in '{}'", steps.empty() ? "" : ", ", o.wanted[n], o.name);
    }
    *reason = fmt::format("no loop is iterator '{}' of {} iterations that steps by {}{}",
                          iterator.name(), extent, steps, others);
    return nullptr;
  }

 private:
  std::string wrong_step(size_t n, const ForNode& loop) {
    for (const FlatOperand& o : operands_) {
      std::optional<int64_t> made = step(o.index, loop, known_);
      if (made == o.wanted[n]) continue;
      return fmt::format("loop '{}' steps {} in '{}', which is the intrinsic's '{}'",
                         loop.var.name(), made ? fmt::format("by {}", *made) : "unevenly",
                         o.buffer->name, o.name);
    }
    return "";
  }

  const std::vector<FlatOperand>& operands_;
  const std::vector<const ForNode*>& loops_;
  Analyzer& known_;
};

std::variant<TensorMatch, std::string> match_loops(const TensorSemantics& semantics,
                                                   const TensorNest& nest,
                                                   const std::vector<FlatOperand>& operands,
                                                   Analyzer& known) {
  TensorMatch match;
  std::vector<Var> iterators = semantics.iterators();
  LoopFinder finder(operands, nest.loops, known);
  for (size_t n = 0; n < iterators.size(); ++n) {
    if (semantics.extents[n] == 1) continue;  // a single iteration has no stride
    std::string reason;
    const ForNode* loop = finder.find(n, iterators[n], semantics.extents[n], &reason);
    if (!loop) return reason;
    match.loops.push_back(loop);
  }
  for (const ForNode* loop : nest.loops) {
    if (is_int(loop->extent, 1)) continue;
    if (std::count(match.loops.begin(), match.loops.end(), loop) != 1) {
      return fmt::format("loop '{}' is no iterator of the intrinsic", loop->var.name());
    }
  }
  VarMap first;
  for (const ForNode* loop : nest.loops) first[loop->var.get()] = loop->min;
  for (const FlatOperand& o : operands) {
    match.operands.push_back({o.buffer, known.simplify(substitute(o.index, first))});
  }
  return match;
}

}  // namespace

std::vector<Var> TensorSemantics::iterators() const {
  std::vector<Var> list = stage.axes;
  for (const ReduceAxis& axis : stage.reduce_axes) list.push_back(axis.var);
  return list;
}

std::vector<Buffer> TensorSemantics::operands() const {
  std::vector<Buffer> list = {stage.output};
  for_each_expr(stage.value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load && std::find(list.begin(), list.end(), load->buffer) == list.end()) {
      list.push_back(load->buffer);
    }
  });
  return list;
}

std::vector<int64_t> TensorSemantics::strides(const Buffer& operand) const {
  std::vector<Expr> indices(stage.axes.begin(), stage.axes.end());
  if (operand != stage.output) {
    for_each_expr(stage.value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && load->buffer == operand) indices = load->indices;
    });
  }
  Analyzer known;
  Expr index = flat_index(operand, indices, known);
  std::vector<int64_t> list;
  for (const Var& v : iterators()) {
    VarMap next{{v.get(), v + 1}};
    auto stride = as_int(simplify(substitute(index, next) - index));
    if (!stride) {
      throw IrError(fmt::format("operand '{}' of an intrinsic is not affine in '{}'", operand->name,
                                v.name()));
    }
    list.push_back(*stride);
  }
  return list;
}

TensorSemantics TensorSemantics::parse(const std::string& text) {
  Workload workload = parse_workload(text);
  if (workload.stages.size() != 1 || workload.stages[0].reducer != Reducer::Sum) {
    throw IrError(fmt::format("'{}' is no single sum of products", text));
  }
  TensorSemantics result{workload.stages[0], {}};
  for (const Expr& extent : result.stage.output->shape) {
    result.extents.push_back(as_int(extent).value_or(0));
  }
  for (const ReduceAxis& axis : result.stage.reduce_axes) {
    result.extents.push_back(as_int(axis.extent).value_or(0));
  }
  if (std::count(result.extents.begin(), result.extents.end(), 0) != 0) {
    throw IrError(fmt::format("'{}' has a dimension that is no constant", text));
  }
  return result;
}

std::variant<TensorMatch, std::string> match_tensor(const TensorSemantics& semantics,
                                                    const TensorNest& nest, Analyzer& known) {
  const Stage& stage = semantics.stage;
  if (nest.buffer->elem != stage.output->elem) {
    return fmt::format("operand '{}' is of type {}; '{}' holds {}", stage.output->name,
                       to_string(stage.output->elem), nest.buffer->name,
                       to_string(nest.buffer->elem));
  }
  Expr value = combined(nest, stage.reducer);
  if (!value.defined()) return "the nest does not add to the element that it stores";
  KnowledgeScope scope(known);
  for (const ForNode* loop : nest.loops) known.bind(loop->var, loop->min, loop->extent);
  std::variant<TensorMatch, std::string> first;
  for (bool exchanged : {false, true}) {
    Unifier unifier(exchanged);
    if (!unifier.unify(stage.value, value)) return unifier.difference;
    std::vector<FlatOperand> operands;
    for (const Buffer& operand : semantics.operands()) {
      Unifier::Access access{nest.buffer, nest.indices};
      if (operand != stage.output) access = unifier.found.at(operand.get());
      operands.push_back({operand->name, access.buffer,
                          flat_index(access.buffer, access.indices, known),
                          semantics.strides(operand)});
    }
    auto result = match_loops(semantics, nest, operands, known);
    if (std::holds_alternative<TensorMatch>(result)) return result;
    if (!exchanged) first = std::move(result);
  }
  return first;
}

}  // namespace tilewright
