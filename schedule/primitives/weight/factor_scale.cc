#include "schedule/primitives/weight/factor_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/affine.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/nest.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// A decomposed product: the terms of the partial sums, and the values applied to the sums. With all
// of them it is the product of `others` and `scales` and ((shifted - zeros) * own + offset).
struct ScaledProduct {
  Expr shifted;              // the varying factor from which or to which something is taken
  std::vector<Expr> others;  // the other varying factors
  std::vector<Expr> zeros;   // the values subtracted from `shifted`
  std::vector<Expr> own;     // factors of `shifted` that do not vary, where there is an offset
  Expr offset;               // the value added behind them
  std::vector<Expr> scales;  // factors that do not vary

  bool needs_sum() const { return !zeros.empty() || offset.defined(); }
};

// The largest magnitude of an integer type's values.
double most_of(ElemType elem) {
  bool is_unsigned = info(elem).kind == ElemKind::UInt;
  return std::ldexp(1.0, is_unsigned ? bits_of(elem) : bits_of(elem) - 1);
}

// A factor before it is widened: an element, or a rounded value.
Expr narrow_of(const Expr& factor) {
  auto* widened = factor.as<CastNode>();
  return widened ? widened->value : factor;
}

const LoadNode* rounded_element_of(const Expr& factor) {
  const Expr narrow = narrow_of(factor);
  auto* rounded = narrow.as<CastNode>();
  const bool is_rounded = rounded && is_float(rounded->type.elem);
  auto* load = (is_rounded ? rounded->value : narrow).as<LoadNode>();
  return load && !load->predicate.defined() ? load : nullptr;
}

class Factorer {
 public:
  Factorer(const Tree& tree, const FactorScale& args, const Module& module)
      : tree_(tree), args_(args), names_(module.main), path_(tree.block(args.block)),
        at_(tree.loop(args.loop)), block_(*path_.back().as<BlockNode>()) {
    find_loops();
    require_update();
    known_ = tree.analyzer_at(path_);
    for (const IterVar& iter : block_.iters) known_.bind(iter.var, 0, iter.extent);
    take_apart(update_, false);
    type_ = require_type();
    require_product();
  }

  Applied factored(const Module& module) {
    std::string name = names_.fresh(block_.name + "_partial");
    partial_ = make_buffer(name, type_, store_->buffer->shape);
    std::string init_name = names_.fresh(name + "_init");
    std::vector<std::string> results = {name, init_name};
    if (product_.needs_sum()) results.push_back(make_sum());
    take_constant_zeros();
    Stmt init = copied("_zero", init_name, IterKind::Spatial, [&](const VarMap& renamed) {
      Expr start = make_const(type_, 0);
      if (start_ != 0) start = load(sum_, sum_place(renamed)) * make_int(type_, -start_);
      return make_store(partial_, at(renamed), start);
    });
    Stmt scaled = copied("_scale", block_.name, IterKind::Reduce, [&](const VarMap& renamed) {
      return make_store(store_->buffer, at(renamed),
                        load(store_->buffer, at(renamed)) + scaled_value(renamed));
    });
    Stmt partial = replace_stmt(at_.back(), &block_, partial_block(name));
    Stmt nest = replace_stmt(loops_[0], at_.back().get(), make_seq({init, partial, scaled}));
    if (sum_nest_.defined()) nest = make_seq({sum_nest_, nest});
    Module result = module;
    result.main = tree_.replaced(path_to(module.main.body, loops_[0].get()), nest);
    const std::string& scope = scope_of(path_).as<BlockNode>()->name;
    result.main = add_alloc(result.main, scope, partial_);
    if (sum_) result.main = add_alloc(result.main, scope, sum_);
    return {std::move(result), results};
  }

 private:
  // Loops ----------------------------------------------------------------------------------------
  void find_loops() {
    loops_ = loops_above(path_);
    auto found = std::find_if(loops_.begin(), loops_.end(),
                              [&](const Stmt& s) { return s.same_as(at_.back()); });
    tree_.require(
        found != loops_.end(), RefusalKind::BadStructure,
        fmt::format("loop '{}' does not stand around block '{}'", args_.loop, args_.block),
        {at_.back(), path_.back()});
    inner_ = static_cast<size_t>(found - loops_.begin());
    for (size_t i = at_.size(); i < path_.size(); ++i) {
      tree_.require(!path_[i].as<IfNode>(), RefusalKind::Unsupported,
                    fmt::format("block '{}' stands under a condition", args_.block), {path_[i]});
    }
    bool sums = false;
    for (size_t i = 0; i < loops_.size(); ++i) {
      const ForNode& loop = loop_of(loops_[i]);
      uses_.push_back(use_of(block_, loop.var));
      tree_.require(!uses_[i].spatial || !uses_[i].reduce, RefusalKind::Unsupported,
                    fmt::format("loop '{}' takes part in spatial and reduce iterators of block "
                                "'{}'",
                                loop.var.name(), args_.block),
                    {loops_[i], path_.back()});
      if (i < inner_ && !uses_[i].reduce) continue;
      bool plain = is_int(loop.min, 0) && as_int(loop.extent);
      tree_.require(plain && (i < inner_ || loop.for_kind == ForKind::Serial),
                    RefusalKind::Unsupported,
                    fmt::format("loop '{}' is not serial, from 0 to a constant", loop.var.name()),
                    {loops_[i]});
      sums |= i >= inner_ && uses_[i].reduce;
    }
    tree_.require(sums, RefusalKind::BadStructure,
                  fmt::format("no loop at or under '{}' takes part in the reduction of block '{}'",
                              args_.loop, args_.block),
                  {at_.back()});
    require_distinct();
  }

  // The copies around init and scaling must run once per element of the partial sums.
  void require_distinct() const {
    std::vector<IndexForm> bindings;
    for (const IterVar& iter : block_.iters) bindings.push_back({iter.binding, 0});
    std::vector<Stmt> inner(loops_.begin() + static_cast<std::ptrdiff_t>(inner_), loops_.end());
    Analyzer known = tree_.analyzer_at(path_);
    std::set<const ExprNode*> told = recoverable(bindings, inner, known);
    for (const Stmt& s : inner) {
      tree_.require(told.count(loop_of(s).var.get()) > 0, RefusalKind::Dependence,
                    fmt::format("loop '{}' may repeat iterations of block '{}'",
                                loop_of(s).var.name(), args_.block),
                    {s, path_.back()});
    }
  }

  bool sums_over(const Expr& e, size_t first) const {
    for (size_t i = first; i < loops_.size(); ++i) {
      if (uses_[i].reduce && uses_var(e, loop_of(loops_[i]).var)) return true;
    }
    return false;
  }

  // The product ----------------------------------------------------------------------------------
  void require_update() {
    tree_.require(!block_.init.defined(), RefusalKind::BadStructure,
                  fmt::format("block '{}' has an init; decompose its reduction first", args_.block),
                  {path_.back()});
    store_ = block_.body.as<StoreNode>();
    auto* sum = store_ && !store_->predicate.defined() ? store_->value.as<BinaryNode>() : nullptr;
    auto own = [&](const Expr& e) {
      auto* n = e.as<LoadNode>();
      return n && n->buffer == store_->buffer &&
             std::equal(n->indices.begin(), n->indices.end(), store_->indices.begin(),
                        [](const Expr& a, const Expr& b) { return equal(a, b); });
    };
    if (sum && sum->op == BinaryOp::Add)
      update_ = own(sum->a) ? sum->b : own(sum->b) ? sum->a : update_;
    tree_.require(update_.defined(), RefusalKind::BadStructure,
                  fmt::format("block '{}' does not add to what it stores", args_.block),
                  {path_.back()});
    tree_.require(
        !block_.predicate.defined() || !sums_over(block_.predicate, 0), RefusalKind::Unsupported,
        fmt::format("loops of its reduction decide the predicate of block '{}'", args_.block),
        {path_.back()});
  }

  // `e` with reduce iterators replaced by their bindings.
  Expr in_loops(const Expr& e) {
    VarMap map;
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Reduce) map[iter.var.get()] = iter.binding;
    }
    return known_.simplify(substitute(e, map));
  }

  // Splits the product `e` into its factors. With `inside`, `e` is a factor, or a side of a factor
  // that is a difference.
  void take_apart(const Expr& e, bool inside) {
    Expr fixed = in_loops(e);
    if (!sums_over(fixed, inner_)) {
      product_.scales.push_back(fixed);
      return;
    }
    auto* n = e.as<BinaryNode>();
    if (n && n->op == BinaryOp::Mul && !inside) {
      take_apart(n->a, false);
      take_apart(n->b, false);
      return;
    }
    Expr zero = n && n->op == BinaryOp::Sub ? in_loops(n->b) : Expr();
    if (zero.defined() && !sums_over(zero, inner_)) {
      product_.zeros.push_back(zero);
      return take_apart(n->a, true);
    }
    Expr offset = n && n->op == BinaryOp::Add && !inside ? in_loops(n->b) : Expr();
    if (offset.defined() && !sums_over(offset, inner_) && !product_.needs_sum()) {
      product_.offset = offset;
      return take_apart(without_own(n->a), true);
    }
    tree_.require(rounded_element_of(e) != nullptr, RefusalKind::Unsupported,
                  fmt::format("a factor of block '{}' that varies in loop '{}' is no element of a "
                              "buffer",
                              args_.block, args_.loop),
                  {path_.back()});
    if (!inside) return product_.others.push_back(e);
    tree_.require(
        !product_.shifted.defined(), RefusalKind::Unsupported,
        fmt::format("something is subtracted from two factors of block '{}'", args_.block),
        {path_.back()});
    product_.shifted = e;
  }

  // The factor to which an offset is added, without factors of its own that do not vary.
  Expr without_own(const Expr& e) {
    auto* n = e.as<BinaryNode>();
    if (!n || n->op != BinaryOp::Mul) return e;
    for (const auto& [own, rest] : {std::pair(n->b, n->a), std::pair(n->a, n->b)}) {
      const Expr fixed = in_loops(own);
      if (sums_over(fixed, inner_)) continue;
      product_.own.push_back(fixed);
      return without_own(rest);
    }
    return e;
  }

  void require_product() const {
    // Separate partial sums pay off without scales, too, when they have a type of their own. So do
    // those of products of 8-bit floats, which matrix instructions accumulate with few bits.
    bool apart = !product_.scales.empty() || product_.needs_sum();
    const std::vector<Expr> factors = terms();
    const bool narrow = std::all_of(factors.begin(), factors.end(), [](const Expr& e) {
      const ElemType elem = rounded_element_of(e)->buffer->elem;
      return is_float(elem) && bits_of(elem) == 8;
    });
    tree_.require(
        apart || narrow || type_ != store_->buffer->elem, RefusalKind::BadStructure,
        fmt::format("no factor of block '{}' stays the same in loop '{}'", args_.block, args_.loop),
        {path_.back()});
    tree_.require(!product_.needs_sum() || !product_.others.empty(), RefusalKind::Unsupported,
                  fmt::format("block '{}' has one factor that varies in loop '{}' alone",
                              args_.block, args_.loop),
                  {path_.back()});
    for (const Expr& x : product_.others) {
      const Buffer& read = rounded_element_of(x)->buffer;
      for (const Stmt& leaf : leaf_blocks(loops_[0])) {
        std::vector<Buffer> written = buffers_written(*leaf.as<BlockNode>());
        bool ours = std::find(written.begin(), written.end(), read) != written.end();
        tree_.require(
            !product_.needs_sum() || !ours, RefusalKind::Dependence,
            fmt::format("'{}', whose sums are needed, is written in the same loops", read->name),
            {leaf});
      }
    }
  }

  std::vector<Expr> terms() const {
    std::vector<Expr> list = product_.others;
    if (product_.shifted.defined()) list.push_back(product_.shifted);
    return list;
  }

  ElemType require_type() const {
    ElemType sum = store_->buffer->elem;
    auto type = parse_elem_type(args_.type);
    if (type == sum) return sum;
    double most = 1;
    bool integers = true;
    for (const Expr& e : terms()) {
      ElemType elem = rounded_element_of(e)->buffer->elem;
      integers &= is_integer(elem);
      if (integers) most *= most_of(elem);
    }
    for (size_t i = inner_; i < loops_.size(); ++i) {
      if (uses_[i].reduce) most *= static_cast<double>(*as_int(loop_of(loops_[i]).extent));
    }
    bool exact = type && integers && *type == ElemType::i32 && most < std::ldexp(1.0, 31);
    if (!exact) {
      tree_.bad_argument(
          "type",
          fmt::format("{}, or i32 for sums of products of integers below 2^31", to_string(sum)),
          args_.type, {path_.back()});
    }
    return *type;
  }

  // Construction of the new blocks
  // -----------------------------------------------------------------
  std::vector<Expr> at(const VarMap& renamed) const {
    std::vector<Expr> indices;
    for (const Expr& e : store_->indices) indices.push_back(substitute(e, renamed));
    return indices;
  }

  Expr product_of(const std::vector<Expr>& factors) const {
    Expr value;
    for (const Expr& e : factors) {
      Expr factor = cast(type_, narrow_of(e));
      value = value.defined() ? value * factor : factor;
    }
    return value;
  }

  // The block's iterators are the old spatial ones and the reduction loops. Reduction loops outside
  // the partial sums are spatial here, so that the sums need not outlive one of their iterations.
  Stmt partial_block(const std::string& name) const {
    VarMap renamed, loops;
    std::vector<IterVar> iters;
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Spatial) iters.push_back(iter);
    }
    for (size_t i = 0; i < loops_.size(); ++i) {
      if (!uses_[i].reduce) continue;
      const ForNode& loop = loop_of(loops_[i]);
      Var var("v" + loop.var.name());
      loops[loop.var.get()] = var;
      iters.push_back(
          {var, loop.extent, i < inner_ ? IterKind::Spatial : IterKind::Reduce, loop.var});
    }
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Reduce) renamed[iter.var.get()] = substitute(iter.binding, loops);
    }
    Expr sum = load(partial_, store_->indices) + substitute(product_of(terms()), renamed);
    return make_block(name, std::move(iters), make_store(partial_, store_->indices, sum), {},
                      block_.predicate, block_.allocs, block_.annotations);
  }

  // Subtracts whole numbers where integer sums start, instead of in floats after the sums.
  void take_constant_zeros() {
    if (!is_integer(type_)) return;
    std::erase_if(product_.zeros, [&](const Expr& zero) {
      auto* number = zero.as<FloatImmNode>();
      auto integer = as_int(zero);
      const double value = number ? number->value : static_cast<double>(integer.value_or(0));
      bool whole = (number || integer) && value == std::floor(value) &&
                   std::abs(value) <= most_of(ElemType::i16);
      if (whole) start_ += static_cast<int64_t>(value);
      return whole;
    });
  }

  // A block over the elements of the partial sums, in copies of their loops. Its iterators are the
  // old spatial ones, and the outer reduction loops as kind `outer`.
  Stmt copied(const std::string& suffix, const std::string& name, IterKind outer,
              const std::function<Stmt(const VarMap&)>& body) {
    VarMap loops, renamed;
    std::vector<Var> copies(loops_.size());
    for (size_t i = inner_; i < loops_.size(); ++i) {
      if (!uses_[i].spatial) continue;
      copies[i] = Var(names_.fresh(loop_of(loops_[i]).var.name() + suffix));
      loops[loop_of(loops_[i]).var.get()] = copies[i];
    }
    std::vector<IterVar> iters;
    for (const IterVar& iter : block_.iters) {
      if (iter.kind != IterKind::Spatial) continue;
      Var var(iter.var.name());
      renamed[iter.var.get()] = var;
      iters.push_back({var, iter.extent, IterKind::Spatial, substitute(iter.binding, loops)});
    }
    for (size_t i = 0; i < inner_; ++i) {
      if (!uses_[i].reduce) continue;
      const ForNode& loop = loop_of(loops_[i]);
      Var var("v" + loop.var.name());
      renamed[loop.var.get()] = var;
      iters.push_back({var, loop.extent, outer, loop.var});
    }
    Expr predicate = block_.predicate.defined() ? substitute(block_.predicate, loops) : Expr();
    Stmt nest = make_block(name, std::move(iters), body(renamed), {}, predicate);
    for (size_t i = loops_.size(); i-- > inner_;) {
      if (!uses_[i].spatial) continue;
      nest = make_for(copies[i], 0, loop_of(loops_[i]).extent, ForKind::Serial, nest);
    }
    return nest;
  }

  Expr scaled_value(const VarMap& renamed) const {
    ElemType wide = store_->buffer->elem;
    Expr value = cast(wide, load(partial_, at(renamed)));
    Expr zero;
    for (const Expr& z : product_.zeros) zero = zero.defined() ? zero + z : z;
    if (zero.defined()) {
      Expr sum = cast(wide, load(sum_, sum_place(renamed)));
      value = value - substitute(zero, renamed) * sum;
    }
    for (const Expr& own : product_.own) value = value * substitute(own, renamed);
    if (product_.offset.defined()) {
      Expr sum = cast(wide, load(sum_, sum_place(renamed)));
      value = value + substitute(product_.offset, renamed) * sum;
    }
    for (const Expr& scale : product_.scales) value = value * substitute(scale, renamed);
    return value;
  }

  std::vector<Expr> sum_place(const VarMap& renamed) const {
    std::vector<Expr> place;
    for (const Expr& axis : sum_axes_) place.push_back(substitute(axis, renamed));
    return place;
  }

  // The sums of the other factors, per combination of the spatial iterators that these depend on
  // and of the outer reduction loops.
  std::string make_sum() {
    Expr term = product_of(product_.others);
    VarMap renamed, loops;
    std::vector<IterVar> iters;
    std::vector<Expr> shape, place;
    auto add = [&](const Expr& old, const std::string& name, const Expr& extent, IterKind kind,
                   VarMap& map) {
      Var var(name);
      map[old.get()] = var;
      iters.push_back({var, extent, kind, Expr(0)});
      if (kind == IterKind::Reduce) return;
      sum_axes_.push_back(old);
      shape.push_back(extent);
      place.push_back(var);
    };
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Spatial && uses_var(term, iter.var)) {
        add(iter.var, iter.var.name(), iter.extent, IterKind::Spatial, renamed);
      }
    }
    for (size_t i = 0; i < loops_.size(); ++i) {
      const ForNode& loop = loop_of(loops_[i]);
      IterKind kind = i < inner_ ? IterKind::Spatial : IterKind::Reduce;
      if (uses_[i].reduce) add(loop.var, "v" + loop.var.name(), loop.extent, kind, loops);
    }
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Reduce) renamed[iter.var.get()] = substitute(iter.binding, loops);
    }
    std::string name = names_.fresh(block_.name + "_sum");
    if (shape.empty()) {  // a single sum
      shape.emplace_back(1);
      place.emplace_back(0);
      sum_axes_.emplace_back(0);
    }
    sum_ = make_buffer(name, type_, shape);
    Stmt body = make_store(sum_, place, load(sum_, place) + substitute(term, renamed));
    Stmt init = make_store(sum_, place, make_const(type_, 0));
    Stmt block = make_block(name, iters, body, init);
    const BlockNode& node = *block.as<BlockNode>();
    Analyzer known = tree_.analyzer_at(path_to(tree_.program().body, loops_[0].get()));
    sum_nest_ = make_nest(node, full_ranges(node), known, names_);
    return name;
  }

  const Tree& tree_;
  const FactorScale& args_;
  Names names_;
  Path path_, at_;
  const BlockNode& block_;
  Analyzer known_;
  std::vector<Stmt> loops_;    // loops around the block
  std::vector<LoopUse> uses_;  // uses of these loops
  size_t inner_ = 0;           // index of the first loop that a partial sum runs over
  const StoreNode* store_ = nullptr;
  Expr update_;  // the value added to the stored element
  ScaledProduct product_;
  ElemType type_ = ElemType::f32;
  Buffer partial_, sum_;
  int64_t start_ = 0;           // value subtracted from `shifted` where the sums start
  std::vector<Expr> sum_axes_;  // the old iterators and loops that are dimensions of `sum_`
  Stmt sum_nest_;
};

}  // namespace

Applied FactorScale::apply(const Module& module) const {
  Tree tree(kName, module.main);
  return Factorer(tree, *this, module).factored(module);
}

std::vector<PrimitiveEntry> factor_scale_primitives() { return {primitive_entry<FactorScale>()}; }

}  // namespace tilewright
