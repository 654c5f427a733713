#include "schedule/primitives/weight/pad_groups.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The dimension whose index is the variable, if no other index uses it; otherwise -1.
int dimension_of(const LoadNode& n, const Var& var) {
  int found = -1;
  for (size_t d = 0; d < n.indices.size(); ++d) {
    if (!uses_var(n.indices[d], var)) continue;
    if (found >= 0 || !n.indices[d].same_as(var)) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

// A block alone in its nest, with the iterator of its reduction.
struct Nest {
  Path path;
  std::vector<Stmt> loops;
  const BlockNode* block = nullptr;
  const IterVar* k = nullptr;
};

class GroupPadder {
 public:
  GroupPadder(const Tree& tree, const PadGroups& args, const Module& module)
      : tree_(tree), args_(args), names_(module.main), sum_(nest_of(args.block)),
        value_(nest_of(args.value)) {
    require_arguments();
    require_sum();
    require_value();
  }

  Applied padded(const Module& module) {
    Path root = {module.main.body};
    known_ = tree_.analyzer_at(root);
    Buffer first = grown(first_->buffer, first_dim_, "_groups");
    Buffer stored = grown(stored_->buffer, stored_dim_, "_groups");
    const Buffer& old_value = second_->buffer;
    Buffer value = grown(old_value, second_dim_, "");
    Stmt sum = make_seq({fill(first_->buffer, first, first_dim_, true), longer(sum_, first)});
    Stmt worth =
        make_seq({fill(stored_->buffer, stored, stored_dim_, false), longer(value_, stored)});
    Stmt body = replace_stmt(module.main.body, sum_.loops[0].get(), sum);
    body = replace_stmt(body, value_.loops[0].get(), worth);
    body = replace_buffers(body, {{old_value.get(), value}});
    const BlockNode& outer = *body.as<BlockNode>();
    std::vector<Buffer> allocs = outer.allocs;
    std::replace(allocs.begin(), allocs.end(), old_value, value);
    allocs.insert(allocs.end(), {first, stored});
    Module result = module;
    result.main.body = with_allocs(outer, allocs);
    return {std::move(result), {first->name, stored->name}};
  }

 private:
  Nest nest_of(const std::string& name) const {
    Nest nest;
    nest.path = tree_.block(name);
    nest.loops = require_lowered(tree_, nest.path, "pad its groups");
    nest.block = nest.path.back().as<BlockNode>();
    tree_.require(scope_of(nest.path).same_as(tree_.program().body), RefusalKind::BadStructure,
                  fmt::format("block '{}' does not stand in the outermost block", name),
                  {nest.path.back()});
    return nest;
  }

  void require_arguments() const {
    if (args_.group < 1) {
      tree_.bad_argument("group", "a number of elements", std::to_string(args_.group));
    }
    if (args_.to < args_.group && args_.to < extent_of_k()) {
      tree_.bad_argument("to", fmt::format("at least the {} elements of a group", args_.group),
                         std::to_string(args_.to));
    }
  }

  int64_t extent_of_k() const {
    for (const IterVar& iter : sum_.block->iters) {
      if (iter.kind == IterKind::Reduce) return as_int(iter.extent).value_or(0);
    }
    return 0;
  }

  // C[…] += first[…, k, …] * second[…, k, …].
  void require_sum() {
    const BlockNode& block = *sum_.block;
    Reduction reduction = match_reduction(block);
    auto reduces = [](const IterVar& iter) { return iter.kind == IterKind::Reduce; };
    auto* product = reduction.value.defined() ? reduction.value.as<BinaryNode>() : nullptr;
    bool sums = product && product->op == BinaryOp::Mul && reduction.reducer == Reducer::Sum &&
                std::count_if(block.iters.begin(), block.iters.end(), reduces) == 1;
    if (sums) sum_.k = &*std::find_if(block.iters.begin(), block.iters.end(), reduces);
    tree_.require(sums && as_int(sum_.k->extent), RefusalKind::Unsupported,
                  fmt::format("block '{}' sums no products over one reduction of a constant extent",
                              block.name),
                  {sum_.path.back()});
    length_ = *as_int(sum_.k->extent);
    const Buffer& made =
        value_.block->body.as<StoreNode>() ? value_.block->body.as<StoreNode>()->buffer : Buffer();
    for (const Expr& factor : {product->a, product->b}) {
      const LoadNode* load = element_of(factor);
      if (load) (load->buffer == made ? second_ : first_) = load;
    }
    tree_.require(first_ && second_, RefusalKind::Unsupported,
                  fmt::format("block '{}' does not multiply what block '{}' writes by an element",
                              block.name, args_.value),
                  {sum_.path.back(), value_.path.back()});
    first_dim_ = dimension_of(*first_, sum_.k->var);
    second_dim_ = dimension_of(*second_, sum_.k->var);
    tree_.require(first_dim_ >= 0 && second_dim_ >= 0, RefusalKind::Unsupported,
                  fmt::format("block '{}' does not read both factors at iterator '{}' itself",
                              block.name, sum_.k->var.name()),
                  {sum_.path.back()});
  }

  // second[…, k, …] = f(stored[…, k, …], shared[…, k/group, …], …), read only by our block.
  void require_value() {
    const BlockNode& block = *value_.block;
    const StoreNode& store = *block.body.as<StoreNode>();
    const Expr& place = store.indices[static_cast<size_t>(second_dim_)];
    for (const IterVar& iter : block.iters) {
      if (place.same_as(iter.var)) value_.k = &iter;
    }
    bool whole = value_.k && !block.init.defined() && is_int(value_.k->extent, length_);
    for (const Stmt& leaf : leaf_blocks(tree_.program().body)) {
      std::vector<Buffer> read = buffers_read(*leaf.as<BlockNode>());
      bool reads = std::find(read.begin(), read.end(), store.buffer) != read.end();
      whole &= !reads || leaf.same_as(sum_.path.back());
    }
    tree_.require(whole, RefusalKind::Unsupported,
                  fmt::format("block '{}' does not write all of '{}' for block '{}' alone",
                              block.name, store.buffer->name, args_.block),
                  {value_.path.back()});
    for_each_expr(store.value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && !is_shared(*load)) take_stored(*load);
    });
    tree_.require(stored_ != nullptr, RefusalKind::Unsupported,
                  fmt::format("block '{}' reads no weight at iterator '{}'", block.name,
                              value_.k->var.name()),
                  {value_.path.back()});
  }

  Expr group_of(const Expr& k) const { return floordiv(k, Expr(args_.group)); }

  // True when all elements of a group read the same element of it.
  bool is_shared(const LoadNode& n) const {
    return std::all_of(n.indices.begin(), n.indices.end(), [&](const Expr& index) {
      return !uses_var(index, value_.k->var) || equal(index, group_of(value_.k->var));
    });
  }

  void take_stored(const LoadNode& n) {
    const int d = dimension_of(n, value_.k->var);
    const std::vector<Param>& params = tree_.program().params;
    bool weight = std::any_of(params.begin(), params.end(), [&](const Param& p) {
      return p.buffer == n.buffer && p.role == ParamRole::Weight;
    });
    bool first = !stored_ || (stored_->buffer == n.buffer && stored_dim_ == d);
    tree_.require(
        d >= 0 && weight && first && !n.predicate.defined(), RefusalKind::Unsupported,
        fmt::format("block '{}' reads '{}' neither as its one weight at iterator '{}' nor "
                    "at its groups of {}",
                    args_.value, n.buffer->name, value_.k->var.name(), args_.group),
        {value_.path.back()});
    stored_ = &n;
    stored_dim_ = d;
  }

  int64_t groups() const { return ceil_div(length_, args_.group); }

  // The buffer with its dimension `d` enlarged to padded groups.
  Buffer grown(const Buffer& b, int d, const std::string& suffix) {
    std::vector<Expr> shape = b->shape;
    shape[static_cast<size_t>(d)] = Expr(groups() * args_.to);
    std::string name = suffix.empty() ? b->name : names_.fresh(b->name + suffix);
    return make_buffer(name, b->elem, shape, b->scope);
  }

  // Fills `to` from `from`. With `apart`, groups and their elements are separate iterators, so that
  // vectors run along the elements.
  Stmt fill(const Buffer& from, const Buffer& to, int dim, bool apart) {
    std::vector<IterVar> iters;
    std::vector<Expr> read, written;
    known_.push();
    auto add = [&](const std::string& name, const Expr& extent) {
      Var var(name);
      iters.push_back({var, extent, IterKind::Spatial, Expr(0)});
      known_.bind(var, 0, extent);
      return var;
    };
    Expr group, element;
    for (int d = 0; d < from->rank(); ++d) {
      const auto at = static_cast<size_t>(d);
      std::string name = fmt::format("v{}", d);
      if (d != dim) {
        Var var = add(name, from->shape[at]);
        read.push_back(var);
        written.push_back(var);
        continue;
      }
      if (apart) {
        group = add(name, groups());
        element = add(name + "_e", args_.to);
        written.push_back(group * Expr(args_.to) + element);
      } else {
        Var var = add(name, groups() * args_.to);
        group = floordiv(var, Expr(args_.to));
        element = floormod(var, Expr(args_.to));
        written.push_back(var);
      }
      read.push_back(known_.simplify(group * Expr(args_.group) + element));
    }
    const Expr& place = read[static_cast<size_t>(dim)];
    Expr inside = known_.simplify(element < Expr(args_.group) && place < Expr(length_));
    known_.pop();
    Expr value = load(from, read);
    if (!is_int(inside, 1)) value = select(inside, value, make_const(Type(to->elem), 0));
    Stmt block = make_block(to->name, iters, make_store(to, written, value));
    const BlockNode& node = *block.as<BlockNode>();
    return make_nest(node, full_ranges(node), known_, names_);
  }

  // The nest over padded groups, reading `grown` instead of the buffer that it was made from.
  Stmt longer(const Nest& nest, const Buffer& grown) const {
    class Redirect : public Mutator {
     public:
      Redirect(const GroupPadder& padder, const Nest& nest, Buffer grown)
          : padder_(padder), nest_(nest), grown_(std::move(grown)) {}

     protected:
      Expr mutate_load(const LoadNode& n, const Expr& e) override {
        const Buffer& old = (&nest_ == &padder_.sum_ ? padder_.first_ : padder_.stored_)->buffer;
        if (n.buffer == old) return load(grown_, n.indices);
        if (&nest_ == &padder_.sum_) return e;
        std::vector<Expr> indices = n.indices;
        for (Expr& index : indices) {
          if (!uses_var(index, nest_.k->var)) continue;
          index = floordiv(Expr(nest_.k->var), Expr(padder_.args_.to));
        }
        return load(n.buffer, indices, n.predicate);
      }

     private:
      const GroupPadder& padder_;
      const Nest& nest_;
      Buffer grown_;
    };
    const Expr extent(groups() * args_.to);
    std::vector<IterVar> iters = nest.block->iters;
    for (IterVar& iter : iters) {
      if (iter.var.same_as(nest.k->var)) iter.extent = extent;
    }
    Redirect redirect(*this, nest, grown);
    Stmt result = make_block(nest.block->name, std::move(iters), redirect(nest.block->body),
                             nest.block->init, {}, nest.block->allocs, nest.block->annotations);
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const ForNode& loop = *nest.loops[i].as<ForNode>();
      bool ours = nest.k->binding.same_as(loop.var);
      result = make_for(loop.var, loop.min, ours ? extent : loop.extent, loop.for_kind, result,
                        loop.annotations);
    }
    return result;
  }

  const Tree& tree_;
  const PadGroups& args_;
  Names names_;
  Analyzer known_;
  Nest sum_, value_;
  int64_t length_ = 0;  // length of the reduction
  const LoadNode *first_ = nullptr, *second_ = nullptr, *stored_ = nullptr;
  int first_dim_ = -1, second_dim_ = -1, stored_dim_ = -1;
};

}  // namespace

Applied PadGroups::apply(const Module& module) const {
  Tree tree(kName, module.main);
  return GroupPadder(tree, *this, module).padded(module);
}

std::vector<PrimitiveEntry> pad_groups_primitives() { return {primitive_entry<PadGroups>()}; }

}  // namespace tilewright
