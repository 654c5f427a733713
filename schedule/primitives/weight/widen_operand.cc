#include "schedule/primitives/weight/widen_operand.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ir/bits.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/nest.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// True for types in which the difference of a widened element and an offset is exact.
bool is_wide(ElemType elem) {
  return elem == ElemType::f32 || elem == ElemType::f64 || elem == ElemType::i32;
}

Buffer require_operand(const Tree& tree, const std::string& name) {
  const std::vector<Param>& params = tree.program().params;
  auto at = std::find_if(params.begin(), params.end(),
                         [&](const Param& p) { return p.buffer->name == name; });
  tree.require(at != params.end() && at->role != ParamRole::Output, RefusalKind::NotFound,
               fmt::format("no input or weight is called '{}'", name));
  return at->buffer;
}

// The load of the buffer that `e` converts; null for other expressions.
const LoadNode* converted_read(const Expr& e, const Buffer& buffer) {
  auto* converted = e.as<CastNode>();
  auto* load = converted ? converted->value.as<LoadNode>() : nullptr;
  bool plain =
      load && load->buffer == buffer && !load->predicate.defined() && load->type.is_scalar();
  return plain ? load : nullptr;
}

// True when the buffer is read, and all its reads are converted to `type`.
bool rounds_reads(const Tree& tree, const Buffer& buffer, ElemType type) {
  int reads = 0, rounded = 0;
  for_each_expr(tree.program().body, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    reads += load && load->buffer == buffer ? 1 : 0;
    rounded += converted_read(e, buffer) && e.type().elem == type ? 1 : 0;
  });
  return reads > 0 && reads == rounded;
}

ElemType require_type(const Tree& tree, const Buffer& buffer, const WidenOperand& args) {
  auto type = parse_elem_type(args.type);
  const bool rounds = type && args.offset == 0 && rounds_reads(tree, buffer, *type);
  if (!type || (!rounds && !holds_codes(buffer->elem, *type, args.offset))) {
    tree.bad_argument("type",
                      fmt::format("a type that holds the value of every code of {} plus {}",
                                  to_string(buffer->elem), args.offset),
                      args.type);
  }
  return *type;
}

// Refuses when a leaf reads the buffer in a way that widened elements cannot replace.
void require_cast_reads(const Tree& tree, const Buffer& buffer, ElemType type) {
  if (rounds_reads(tree, buffer, type)) return;
  for (const Stmt& leaf : leaf_blocks(tree.program().body)) {
    int reads = 0, cast_reads = 0;
    for_each_expr(leaf, [&](const Expr& e) {
      if (auto* load = e.as<LoadNode>(); load && load->buffer == buffer) ++reads;
      cast_reads += converted_read(e, buffer) && is_wide(e.type().elem) ? 1 : 0;
    });
    tree.require(reads == cast_reads, RefusalKind::Unsupported,
                 fmt::format("block '{}' reads '{}' other than cast to f32, f64 or i32",
                             leaf.as<BlockNode>()->name, buffer->name),
                 {leaf});
  }
}

// Replaces reads of the buffer by reads of the widened one minus the offset.
class ReadWidened : public Mutator {
 public:
  ReadWidened(Buffer from, Buffer to, int64_t offset)
      : from_(std::move(from)), to_(std::move(to)), offset_(offset) {}

 protected:
  Expr mutate_cast(const CastNode& n, const Expr& e) override {
    auto* read = n.value.as<LoadNode>();
    if (!read || read->buffer != from_) return Mutator::mutate_cast(n, e);
    Expr value = cast(n.type, load(to_, read->indices));
    return offset_ == 0 ? value : value - make_const(n.type, static_cast<double>(offset_));
  }

 private:
  Buffer from_, to_;
  int64_t offset_;
};

// to[v0, …] = cast(from[v0, …]) + offset. Integers wrap around, so the sum may be formed in the
// type of `to`.
Stmt conversion(const Buffer& from, const Buffer& to, int64_t offset, Analyzer& known,
                Names& names) {
  Stmt block = make_map_block(to->name, from, to, [&](const Expr& element) {
    Expr value = cast(to->elem, element);
    return offset == 0 ? value : value + make_int(to->elem, offset);
  });
  const BlockNode& node = *block.as<BlockNode>();
  return make_nest(node, full_ranges(node), known, names);
}

}  // namespace

bool holds_codes(ElemType from, ElemType to, int64_t offset) {
  const int bits = bits_of(from);
  if (from == ElemType::f16 || from == ElemType::bf16)
    return is_wide(to) && is_float(to) && !offset;
  if (bits > 8 || from == ElemType::boolean || (offset != 0 && !is_integer(to))) return false;
  if (!is_integer(to) && !is_float(to)) return false;
  for (uint64_t code = 0; code < uint64_t{1} << bits; ++code) {
    double value = from_bits(from, code) + static_cast<double>(offset);
    if (std::isfinite(value) ? round_to(to, value) != value : is_integer(to)) return false;
  }
  return true;
}

Applied WidenOperand::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Buffer from = require_operand(tree, buffer);
  ElemType to_type = require_type(tree, from, *this);
  require_cast_reads(tree, from, to_type);
  Names names(module.main);
  Buffer to = make_buffer(names.fresh(fmt::format("{}_{}", buffer, type)), to_type, from->shape);
  Path root = {module.main.body};
  Analyzer known = tree.analyzer_at(root);
  Stmt first = conversion(from, to, offset, known, names);
  Stmt body = ReadWidened(from, to, offset)(module.main.body);
  const BlockNode& outer = *body.as<BlockNode>();
  Module result = module;
  result.main.body = with_body(outer, make_seq({first, outer.body}));
  result.main = add_alloc(result.main, outer.name, to);
  return {std::move(result), {to->name}};
}

std::vector<PrimitiveEntry> widen_operand_primitives() { return {primitive_entry<WidenOperand>()}; }

}  // namespace tilewright
