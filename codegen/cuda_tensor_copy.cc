#include "codegen/cuda_tensor_copy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/cuda_bulk_copy.h"
#include "codegen/lowering.h"
#include "codegen/tensor_map.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

class CopyMatcher {
 public:
  CopyMatcher(const ForNode& loop, Analyzer& known) : loop_(loop), known_(known), scope_(known) {}

  TensorCopy match() {
    take_loops();
    const Expr value = take_conditions(store_->value);
    auto* read = value.as<LoadNode>();
    const bool is_load = read && store_->buffer->scope == Scope::Shared;
    const bool is_store = read && read->buffer->scope == Scope::Shared;
    if (is_load == is_store || read->buffer->elem != store_->buffer->elem) {
      fail("it must copy elements as they are between global and shared memory");
    }
    copy_.is_store = is_store;
    copy_.operand = is_store ? store_->buffer : read->buffer;
    copy_.shared = is_store ? read->buffer : store_->buffer;
    if (copy_.operand->scope != Scope::Global) {
      fail(fmt::format("'{}' does not lie in global memory", copy_.operand->name));
    }
    const std::vector<Expr>& at = is_store ? store_->indices : read->indices;
    const std::vector<Expr>& start = is_store ? read->indices : store_->indices;
    const Stretch bytes = is_load ? bytes_of(*read, start) : Stretch{};
    // A box of several rows may have to lie swizzled.
    if (is_row(bytes, at)) return in_bytes(bytes, at, start);
    try {
      return in_boxes(at, start);
    } catch (const NoMap& no) {
      if (bytes.elements > 0) return in_bytes(bytes, at, start);
      fail(no.reason + (is_load ? "; nor do bytes lie side by side: " + bytes.problem : ""));
    }
  }

 private:
  // What no map describes.
  struct NoMap {
    std::string reason;
  };

  TensorCopy in_boxes(const std::vector<Expr>& at, const std::vector<Expr>& start) {
    take_box(at);
    take_start(start);
    require_conditions(at);
    require_map();
    return copy_;
  }

  Stretch bytes_of(const LoadNode& read, const std::vector<Expr>& start) {
    const Expr to = load(store_->buffer, start);
    Stretch found = find_stretch(loops_, read, *to.as<LoadNode>(), known_);
    if (conditions_.empty()) return found;
    return {0, {}, {}, "zeros where a condition does not hold are not copied"};
  }

  static bool is_row(const Stretch& bytes, const std::vector<Expr>& at) {
    return bytes.elements > 0 && bytes.repeats.empty() &&
           std::all_of(bytes.along.begin(), bytes.along.end(),
                       [&](const ForNode* loop) { return uses_var(at.back(), loop->var); });
  }

  TensorCopy in_bytes(const Stretch& bytes, const std::vector<Expr>& at,
                      const std::vector<Expr>& start) {
    along_ = bytes.along;
    TensorCopy copy;
    copy.operand = copy_.operand;
    copy.shared = copy_.shared;
    copy.stretch = bytes.elements;
    copy.repeats = bytes.repeats;
    for (const Expr& e : at) copy.box.at.push_back(first_of(e));
    for (const Expr& e : start) copy.start.push_back(first_of(e));
    return copy;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw LoweringError(
        fmt::format("loop '{}' is to be a tensor copy, which no tensor map describes: {}",
                    loop_.var.name(), reason));
  }

  void take_loops() {
    Stmt at;
    const ForNode* loop = &loop_;
    while (loop) {
      if (!as_int(loop->extent) || !is_int(loop->min, 0)) {
        fail(fmt::format("loop '{}' has no constant extent", loop->var.name()));
      }
      known_.bind(loop->var, loop->min, loop->extent);
      loops_.push_back(loop);
      at = loop->body;
      loop = at.as<ForNode>();
    }
    while (auto* branch = at.as<IfNode>()) {
      if (branch->else_case.defined()) break;
      take_conjuncts(branch->cond);
      at = branch->then_case;
    }
    store_ = at.as<StoreNode>();
    if (!store_ || store_->predicate.defined()) fail("it must be loops around one store");
  }

  // Without the selects that are zero where conditions do not hold.
  Expr take_conditions(const Expr& value) {
    auto* n = value.as<SelectNode>();
    if (!n || !is_zero(n->on_false)) return value;
    take_conjuncts(n->cond);
    return take_conditions(n->on_true);
  }

  void take_conjuncts(const Expr& cond) {
    for (const Expr& e : conjuncts(cond)) conditions_.push_back(e);
  }

  Expr with(const Expr& e, const ForNode* loop, int64_t value) const {
    return substitute(e, VarMap{{loop->var.get(), Expr(value)}});
  }

  [[noreturn]] static void no_map(std::string reason) { throw NoMap{std::move(reason)}; }

  // By how much an index grows with a loop.
  int64_t step_of(const Expr& index, const ForNode* loop) {
    if (!uses_var(index, loop->var)) return 0;
    const int64_t last = *as_int(loop->extent) - 1;
    auto one = as_int(known_.simplify(with(index, loop, 1) - with(index, loop, 0)));
    auto all = as_int(known_.simplify(with(index, loop, last) - with(index, loop, 0)));
    if (last > 0 && (!one || !all || *all != last * *one)) {
      no_map(fmt::format("'{}' does not run in equal steps along '{}'", copy_.operand->name,
                         loop->var.name()));
    }
    return last > 0 ? *one : 0;
  }

  // Which loop runs along which dimension.
  void take_box(const std::vector<Expr>& at) {
    along_.assign(at.size(), nullptr);
    for (const ForNode* loop : loops_) {
      std::vector<size_t> moved;
      bool is_unit = true;
      for (size_t d = 0; d < at.size(); ++d) {
        const int64_t step = step_of(at[d], loop);
        if (step == 0) continue;
        moved.push_back(d);
        is_unit &= step == 1;
      }
      if (moved.size() == 1 && is_unit && !along_[moved[0]]) {
        along_[moved[0]] = loop;
      } else {
        copy_.repeats.push_back(loop);
      }
    }
    for (size_t d = 0; d < at.size(); ++d) {
      copy_.box.box.push_back(along_[d] ? *as_int(along_[d]->extent) : 1);
      copy_.box.at.push_back(first_of(at[d]));
    }
    copy_.box.dims = copy_.operand->shape;
  }

  // Of the loops along dimensions the first iteration.
  Expr first_of(const Expr& index) {
    VarMap first;
    for (const ForNode* loop : along_) {
      if (loop) first[loop->var.get()] = 0;
    }
    return known_.simplify(substitute(index, first));
  }

  // A box fills shared memory in the order of the operand's dimensions.
  void take_start(const std::vector<Expr>& start) {
    int64_t dense = 1;
    for (size_t d = along_.size(); d-- > 0;) {
      if (!along_[d]) continue;
      Expr flat = 0;
      for (size_t x = 0; x < start.size(); ++x) flat = flat * copy_.shared->shape[x] + start[x];
      if (step_of(flat, along_[d]) != dense) {
        no_map(
            fmt::format("in '{}' a box must lie dense and in the order of the dimensions of '{}', "
                        "as it does not along '{}'",
                        copy_.shared->name, copy_.operand->name, along_[d]->var.name()));
      }
      dense *= copy_.box.box[d];
    }
    take_places(start);
    for (const Expr& e : start) copy_.start.push_back(first_of(e));
  }

  void take_places(const std::vector<Expr>& start) {
    copy_.places.assign(along_.size(), -1);
    for (size_t d = 0; d < along_.size(); ++d) {
      std::vector<size_t> moved;
      for (size_t x = 0; along_[d] && x < start.size(); ++x) {
        if (uses_var(start[x], along_[d]->var)) moved.push_back(x);
      }
      if (moved.size() == 1 && step_of(start[moved[0]], along_[d]) == 1) {
        copy_.places[d] = static_cast<int>(moved[0]);
      }
    }
  }

  // Each condition must be that an index is within its dimension.
  void require_conditions(const std::vector<Expr>& at) {
    for (const Expr& cond : conditions_) {
      auto* n = cond.as<BinaryNode>();
      bool is_bound = false;
      for (size_t d = 0; n && n->op == BinaryOp::LT && d < at.size(); ++d) {
        const Expr distance = at[d] - copy_.box.dims[d];
        is_bound |= is_int(known_.simplify(n->a - n->b - distance), 0) ||
                    equal(known_.simplify(at[d] < copy_.box.dims[d]), known_.simplify(cond));
      }
      if (!is_bound) {
        no_map(
            fmt::format("it depends on a condition that is no bound of '{}'", copy_.operand->name));
      }
    }
  }

  // What the driver would refuse, whatever the dynamic dimensions.
  void require_map() {
    TensorMapValues map;
    map.elem = copy_.operand->elem;
    map.rank = static_cast<int>(copy_.box.dims.size());
    if (map.rank > kMaxTensorRank) {
      no_map(fmt::format("'{}' has {} dimensions; there may be {}", copy_.operand->name, map.rank,
                         kMaxTensorRank));
    }
    int64_t stride = map.element_bytes();
    for (size_t d = 0; d < copy_.box.dims.size(); ++d) {
      const size_t from = copy_.box.dims.size() - 1 - d;  // innermost first
      map.dims[d] = known_.bounds(copy_.box.dims[from]).max;
      map.box[d] = copy_.box.box[from];
      map.strides[d] = stride;
      auto extent = as_int(copy_.box.dims[from]);
      if (!extent && from > 0) {
        no_map(fmt::format("rows of '{}' have a dynamic length", copy_.operand->name));
      }
      stride *= extent.value_or(1);
    }
    const std::string problem = tensor_map_problem(map, 0);
    if (!problem.empty()) no_map(fmt::format("of '{}' {}", copy_.operand->name, problem));
  }

  const ForNode& loop_;
  Analyzer& known_;
  KnowledgeScope scope_;
  std::vector<const ForNode*> loops_;
  const StoreNode* store_ = nullptr;
  std::vector<Expr> conditions_;
  std::vector<const ForNode*> along_;  // a dimension of the operand each, of boxes
  TensorCopy copy_;
};

}  // namespace

bool is_tensor_copy(const ForNode& loop) { return loop.annotations.count(kTensorCopyKey) != 0; }

int64_t TensorCopy::bytes_each() const {
  return bytes_for(operand->elem, stretch > 0 ? stretch : box.elements());
}

int64_t TensorCopy::bytes() const {
  int64_t copies = 1;
  for (const ForNode* loop : repeats) copies *= *as_int(loop->extent);
  return bytes_each() * copies;
}

Stmt TensorCopy::repeated(Stmt copy) const {
  for (size_t i = repeats.size(); i-- > 0;) {
    copy = make_for(repeats[i]->var, repeats[i]->min, repeats[i]->extent, ForKind::Unrolled, copy);
  }
  return copy;
}

TensorCopy TensorCopy::part(const Expr& rank, int64_t parts) const {
  constexpr int64_t kPatternBytes = 1024;  // of the widest swizzle
  const auto outermost =
      std::find_if(box.box.begin(), box.box.end(), [](int64_t n) { return n > 1; });
  const auto d = static_cast<size_t>(outermost - box.box.begin());
  const bool is_cut = outermost != box.box.end() && *outermost % parts == 0 && places[d] >= 0 &&
                      bytes_for(operand->elem, box.elements() / parts) % kPatternBytes == 0;
  if (!is_cut) {
    throw LoweringError(fmt::format(
        "boxes of '{}' of {} elements are to be copied by {} blocks, a part each; parts must be "
        "multiples of {} bytes along one dimension",
        operand->name, fmt::join(box.box, " x "), parts, kPatternBytes));
  }
  TensorCopy result = *this;
  const Expr shift = rank * Expr(*outermost / parts);
  const auto place = static_cast<size_t>(places[d]);
  result.box.box[d] /= parts;
  result.box.at[d] = simplify(box.at[d] + shift);
  result.start[place] = simplify(start[place] + shift);
  return result;
}

TensorCopy match_tensor_copy(const ForNode& loop, Analyzer& known) {
  return CopyMatcher(loop, known).match();
}

}  // namespace tilewright
