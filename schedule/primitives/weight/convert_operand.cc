#include "schedule/primitives/weight/convert_operand.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/region.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The range of an integer type of up to 32 bits.
Interval values_of(ElemType type) {
  int bits = bits_of(type);
  if (info(type).kind == ElemKind::UInt) return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

class Converter {
 public:
  Converter(const Tree& tree, const ConvertOperand& args, const Module& module)
      : tree_(tree), args_(args), names_(module.main), path_(tree.block(args.block)),
        block_(*path_.back().as<BlockNode>()),
        loops_(require_lowered(tree, path_, "convert its operands")) {
    find_factor();
    check_type();
    check_elements();
  }

  Applied converted(const Module& module) {
    Buffer to = make_buffer(names_.fresh(fmt::format("{}_{}", args_.buffer, args_.type)), type_,
                            factor_->buffer->shape);
    std::vector<Stmt> stmts = {conversion(to)};
    std::vector<Buffer> made = {to};
    Stmt init = block_.init;
    if (args_.offset != 0) {
      Buffer start = start_buffer();
      made.push_back(start);
      stmts.push_back(start_sums(start));
      init = make_store(reduction_.store->buffer, reduction_.store->indices,
                        load(start, axes_of_rest()));
    }
    Expr value = cast(sum_type(), load(to, factor_->indices)) * rest_;
    const StoreNode& store = *reduction_.store;
    Stmt body = make_store(store.buffer, store.indices, load(store.buffer, store.indices) + value);
    stmts.push_back(wrap_loops(loops_, make_block(block_.name, block_.iters, body, init, {},
                                                  block_.allocs, block_.annotations)));
    Module result = module;
    result.main = tree_.replaced(path_to(module.main.body, loops_[0].get()), make_seq(stmts));
    const std::string& scope = scope_of(path_).as<BlockNode>()->name;
    std::vector<std::string> results;
    for (const Buffer& b : made) {
      result.main = add_alloc(result.main, scope, b);
      results.push_back(b->name);
    }
    return {std::move(result), results};
  }

 private:
  Type sum_type() const { return reduction_.value.type(); }

  // Matches the block as a sum of cast(load of the buffer) * rest.
  void find_factor() {
    reduction_ = match_reduction(block_);
    auto* product = reduction_.value.defined() ? reduction_.value.as<BinaryNode>() : nullptr;
    bool sums = product && product->op == BinaryOp::Mul && reduction_.reducer == Reducer::Sum &&
                is_integer(product->type.elem);
    tree_.require(sums, RefusalKind::Unsupported,
                  fmt::format("block '{}' does not sum a product of integers", block_.name),
                  {path_.back()});
    for (bool first : {true, false}) {
      auto* widened = (first ? product->a : product->b).as<CastNode>();
      auto* load = widened ? widened->value.as<LoadNode>() : nullptr;
      if (!load || load->buffer->name != args_.buffer || load->predicate.defined()) continue;
      factor_ = load;
      rest_ = first ? product->b : product->a;
      return;
    }
    tree_.refuse(RefusalKind::NotFound,
                 fmt::format("no factor of the product in block '{}' is '{}', cast to {}",
                             block_.name, args_.buffer, to_string(sum_type())),
                 {path_.back()});
  }

  void check_type() {
    ElemType from = factor_->buffer->elem;
    auto type = parse_elem_type(args_.type);
    bool narrow = type && is_integer(*type) && bits_of(*type) <= 32 && is_integer(from) &&
                  bits_of(from) <= 32;
    Interval need = narrow ? values_of(from) : Interval{};
    bool holds = narrow && values_of(*type).min <= need.min + args_.offset &&
                 values_of(*type).max >= need.max + args_.offset;
    if (!holds) {
      tree_.bad_argument("type",
                         fmt::format("an integer type that holds all values of {} plus {}",
                                     to_string(from), args_.offset),
                         args_.type, {path_.back()});
    }
    type_ = *type;
  }

  // The conversion reads all elements, even those that no product reads.
  void check_elements() const {
    tree_.require(has_every_element(tree_, factor_->buffer), RefusalKind::Unsupported,
                  fmt::format("the layout of '{}' has padding that no block writes; convert it "
                              "before its layout changes",
                              args_.buffer),
                  {path_.back()});
  }

  // Builds the block that converts the whole buffer.
  Stmt conversion(const Buffer& to) {
    // Unsigned integers wrap around, so the offset may be added in the narrow type.
    ElemType in = info(type_).kind == ElemKind::UInt ? type_ : sum_type().elem;
    Stmt block = make_map_block(to->name, factor_->buffer, to, [&](const Expr& element) {
      Expr value = cast(in, element);
      return cast(type_, args_.offset == 0 ? value : value + make_int(in, args_.offset));
    });
    return nest(*block.as<BlockNode>());
  }

  // The block's spatial iterators that the other factors depend on.
  std::vector<IterVar> iters_of_rest() const {
    std::vector<IterVar> list;
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Spatial && uses_var(rest_, iter.var)) list.push_back(iter);
    }
    return list;
  }

  std::vector<Expr> axes_of_rest() const {
    std::vector<Expr> list;
    for (const IterVar& iter : iters_of_rest()) list.push_back(iter.var);
    return list;
  }

  Buffer start_buffer() {
    std::vector<Expr> shape;
    for (const IterVar& iter : iters_of_rest()) shape.push_back(iter.extent);
    return make_buffer(names_.fresh(block_.name + "_offset"), sum_type().elem, shape);
  }

  // The surplus that the offset causes, negated, per combination of the iterators that it depends
  // on.
  Stmt start_sums(const Buffer& start) {
    std::vector<IterVar> iters = iters_of_rest();
    for (const IterVar& iter : block_.iters) {
      if (iter.kind == IterKind::Reduce) iters.push_back(iter);
    }
    VarMap fresh;
    for (IterVar& iter : iters) {
      Var v(iter.var.name());
      fresh[iter.var.get()] = v;
      iter.var = v;
    }
    std::vector<Expr> at;
    for (const Expr& axis : axes_of_rest()) at.push_back(fresh.at(axis.get()));
    Expr term = substitute(rest_, fresh) * make_int(sum_type(), -args_.offset);
    Stmt body = make_store(start, at, load(start, at) + term);
    Stmt init = make_store(start, at, make_int(sum_type(), 0));
    return nest(*make_block(start->name, iters, body, init).as<BlockNode>());
  }

  Stmt nest(const BlockNode& block) {
    Analyzer known = tree_.analyzer_at(path_to(tree_.program().body, loops_[0].get()));
    return make_nest(block, full_ranges(block), known, names_);
  }

  const Tree& tree_;
  const ConvertOperand& args_;
  Names names_;
  Path path_;
  const BlockNode& block_;
  std::vector<Stmt> loops_;
  Reduction reduction_;
  const LoadNode* factor_ = nullptr;
  Expr rest_;
  ElemType type_ = ElemType::i32;
};

}  // namespace

Applied ConvertOperand::apply(const Module& module) const {
  Tree tree(kName, module.main);
  return Converter(tree, *this, module).converted(module);
}

std::vector<PrimitiveEntry> convert_operand_primitives() {
  return {primitive_entry<ConvertOperand>()};
}

}  // namespace tilewright
