#include "schedule/primitives/weight/unscale.h"

#include <fmt/core.h>

#include <cmath>

#include "ir/bits.h"
#include "ir/predicates.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {
namespace {

constexpr int kMostBits = 8;

// The load that a value is, possibly converted.

// A decomposed value: select(cond, (code - zero) * scale, 0), of which only the code is required.
struct Value {
  Expr cond, scale;
  const LoadNode* code = nullptr;
  const LoadNode* zero = nullptr;
  std::optional<ElemType> rounded;  // type to which the code is rounded first
};

// Matches cast(type, cast(rounded, code)), or one of these conversions, or none.
void read_code(const Expr& e, Value& value) {
  value.code = element_of(e);
  auto* outer = value.code ? nullptr : e.as<CastNode>();
  auto* inner = outer ? outer->value.as<CastNode>() : nullptr;
  if (!inner) return;
  value.code = element_of(outer->value);
  value.rounded = inner->type.elem;
}

bool read_difference(const Expr& e, Value& value) {
  auto* n = e.as<BinaryNode>();
  bool shifted = n && n->op == BinaryOp::Sub;
  read_code(shifted ? n->a : e, value);
  if (shifted) value.zero = element_of(n->b);
  return value.code && (!shifted || value.zero);
}

Value take_apart(const Expr& e) {
  Value value;
  Expr inside = e;
  if (auto* guarded = e.as<SelectNode>(); guarded && is_zero(guarded->on_false)) {
    value.cond = guarded->cond;
    inside = guarded->on_true;
  }
  auto* product = inside.as<BinaryNode>();
  if (product && product->op == BinaryOp::Mul) {
    value.scale = product->b;
    inside = product->a;
  }
  return read_difference(inside, value) ? value : Value{};
}

// Clamps the indices of loads to the shapes of their buffers.
class WithinBounds : public Mutator {
 protected:
  Expr mutate_load(const LoadNode& n, const Expr&) override {
    std::vector<Expr> indices;
    for (size_t d = 0; d < n.indices.size(); ++d) {
      indices.push_back(min(n.indices[d], n.buffer->shape[d] - Expr(1)));
    }
    return load(n.buffer, std::move(indices));
  }
};

// Rewrites the block's store, and every read of what it stores.
class UnscaledStores : public Mutator {
 public:
  UnscaledStores(const Pointwise& of, Buffer to, Expr stored, Value value, std::vector<int> dims)
      : of_(of), to_(std::move(to)), stored_(std::move(stored)), value_(std::move(value)),
        dims_(std::move(dims)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer != of_.store->buffer) return Mutator::mutate_load(n, e);
    bool changed = false;
    std::vector<Expr> at = mutate_all(n.indices, &changed);
    Expr element = cast(n.type, load(to_, at, n.predicate));
    if (!value_.scale.defined()) return element;
    Expr scale = value_.cond.defined() ? WithinBounds()(value_.scale) : value_.scale;
    return element * substitute(scale, iterators_at(*of_.block, dims_, at));
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (n.buffer != of_.store->buffer) return Mutator::mutate_store(n, s);
    return make_store(to_, n.indices, stored_);
  }

 private:
  const Pointwise& of_;
  Buffer to_;
  Expr stored_;
  Value value_;
  std::vector<int> dims_;
};

Expr stored_value(const Value& value, ElemType type) {
  auto as_type = [&](const LoadNode* n) { return cast(type, load(n->buffer, n->indices)); };
  Expr stored = as_type(value.code);
  if (value.rounded) {
    stored = cast(type, cast(*value.rounded, load(value.code->buffer, value.code->indices)));
  }
  if (value.zero) stored = stored - as_type(value.zero);
  return value.cond.defined() ? select(value.cond, stored, make_const(type, 0)) : stored;
}

}  // namespace

bool holds_differences(ElemType codes, std::optional<ElemType> zeros, ElemType type,
                       std::optional<ElemType> rounded) {
  const int bits = bits_of(codes), zero_bits = zeros ? bits_of(*zeros) : 0;
  if (bits > kMostBits || zero_bits > kMostBits) return false;
  for (uint64_t z = 0; z < uint64_t{1} << zero_bits; ++z) {
    double zero = zeros ? from_bits(*zeros, z) : 0;
    for (uint64_t q = 0; q < uint64_t{1} << bits; ++q) {
      const double code = from_bits(codes, q);
      const double value = (rounded ? round_to(*rounded, code) : code) - zero;
      if (std::isfinite(value) && round_to(type, value) != value) return false;
      if (!std::isfinite(value) && !is_float(type)) return false;
    }
  }
  return true;
}

std::optional<ElemType> rounding_of(const Expr& value) { return take_apart(value).rounded; }

Applied Unscale::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Pointwise of = Pointwise::find(tree, block);
  const Buffer& from = of.store->buffer;
  require_intermediate(tree, from, "its values are needed outside", {of.stmt()});
  auto dims = iterators_of(*of.block, of.store->indices, from->shape);
  tree.require(
      dims.has_value(), RefusalKind::Unsupported,
      fmt::format("block '{}' writes '{}' at indices that are not its iterators, each once", block,
                  from->name),
      {of.stmt()});
  require_only_writer(tree, of.stmt(), from);
  Value value = take_apart(of.store->value);
  tree.require(
      value.code != nullptr, RefusalKind::Unsupported,
      fmt::format("the value of block '{}' is no element, less a zero point, times a factor",
                  block),
      {of.stmt()});
  auto to_type = parse_elem_type(type);
  auto zeros = value.zero ? std::optional(value.zero->type.elem) : std::nullopt;
  // Requires a type in which the differences stay exact.
  const ElemType codes = value.code->type.elem;
  if (!to_type ||
      (*to_type != from->elem && !holds_differences(codes, zeros, *to_type, value.rounded))) {
    tree.bad_argument("type",
                      fmt::format("{}, or a type that holds every {}{}{} exactly",
                                  to_string(from->elem), to_string(codes),
                                  value.rounded ? " rounded to " + to_string(*value.rounded) : "",
                                  zeros ? " less every " + to_string(*zeros) : ""),
                      type, {of.stmt()});
  }
  Buffer to = make_buffer(from->name, *to_type, from->shape, from->scope);
  Module result = module;
  std::string scope = scope_of(of.path).as<BlockNode>()->name;
  result.main.body =
      UnscaledStores(of, to, stored_value(value, *to_type), value, *dims)(module.main.body);
  result.main = add_alloc(without_buffer(result.main, from), scope, to);
  return {std::move(result), {}};
}

std::vector<PrimitiveEntry> unscale_primitives() { return {primitive_entry<Unscale>()}; }

}  // namespace tilewright
