#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/buffer.h"
#include "ir/oracle/evaluate.h"
#include "ir/oracle/oracle_code.h"
#include "ir/visitor.h"

namespace tilewright::oracle {
namespace {

constexpr int kInlineNodes = 64;  // larger expressions are evaluated as stages of their own

uint64_t bit(int slot) { return slot < 64 ? uint64_t{1} << slot : ~uint64_t{0}; }

using DimValues = std::map<const ExprNode*, int64_t>;

// Replaces reads of inlined stages by their expressions.
class Inliner : public Mutator {
 public:
  std::map<const BufferNode*, const Stage*> stages;

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    Expr same = Mutator::mutate_load(n, e);
    auto it = stages.find(n.buffer.get());
    if (it == stages.end()) return same;
    VarMap map;
    const auto& indices = same.as<LoadNode>()->indices;
    for (size_t d = 0; d < indices.size(); ++d) map[it->second->axes[d].get()] = indices[d];
    return substitute(it->second->value, map);
  }
};

class StageCompiler {
 public:
  StageCompiler(StageCode& out, const DimValues& dims,
                const std::map<const BufferNode*, int>& inputs,
                const std::map<const BufferNode*, int>& stages)
      : out_(out), dims_(dims), inputs_(inputs), stages_(stages) {}

  void add_slot(const Var& var) {
    int slot = static_cast<int>(slots_.size());
    slots_[var.get()] = slot;
  }
  int value(const Expr& e);

 private:
  int index(const Expr& e);
  int cond(const Expr& e);
  int flat_index(const LoadNode& n);
  int combine_linear(IndexCode::Op op, int a, int b);

  int push(IndexCode code) {
    out_.indices.push_back(std::move(code));
    return static_cast<int>(out_.indices.size()) - 1;
  }
  int push(CondCode code) {
    out_.conds.push_back(code);
    return static_cast<int>(out_.conds.size()) - 1;
  }
  int push(ValueCode code) {
    code.roundoff = unit_roundoff(code.type);
    out_.values.push_back(code);
    return static_cast<int>(out_.values.size()) - 1;
  }
  int constant_index(int64_t value) { return push(IndexCode{.constant = value}); }

  StageCode& out_;
  const DimValues& dims_;
  const std::map<const BufferNode*, int>& inputs_;
  const std::map<const BufferNode*, int>& stages_;
  std::map<const ExprNode*, int> slots_;
};

// The sum, difference or product of two codes; linear where both sides allow it.
int StageCompiler::combine_linear(IndexCode::Op op, int a, int b) {
  const IndexCode x = out_.indices[a], y = out_.indices[b];
  const bool linear = x.op == IndexCode::Op::Linear && y.op == IndexCode::Op::Linear;
  const bool product = op == IndexCode::Op::Mul;
  if (!linear || (product && !x.terms.empty() && !y.terms.empty())) {
    return push(IndexCode{.op = op, .a = a, .b = b, .uses = x.uses | y.uses});
  }
  IndexCode sum{.uses = x.uses | y.uses};
  if (product) {
    const IndexCode& scaled = x.terms.empty() ? y : x;
    int64_t factor = x.terms.empty() ? x.constant : y.constant;
    sum.constant = scaled.constant * factor;
    for (auto [slot, coefficient] : scaled.terms)
      sum.terms.emplace_back(slot, coefficient * factor);
    return push(std::move(sum));
  }
  int64_t sign = op == IndexCode::Op::Sub ? -1 : 1;
  sum.constant = x.constant + sign * y.constant;
  sum.terms = x.terms;
  for (auto [slot, coefficient] : y.terms) {
    auto it = std::find_if(sum.terms.begin(), sum.terms.end(),
                           [slot = slot](const auto& t) { return t.first == slot; });
    if (it == sum.terms.end()) {
      sum.terms.emplace_back(slot, sign * coefficient);
    } else {
      it->second += sign * coefficient;
    }
  }
  return push(std::move(sum));
}

int StageCompiler::index(const Expr& e) {
  using Op = IndexCode::Op;
  if (auto v = as_int(e)) return constant_index(*v);
  if (e.as<VarNode>() != nullptr) {
    if (auto it = dims_.find(e.get()); it != dims_.end()) return constant_index(it->second);
    auto it = slots_.find(e.get());
    TW_ASSERT(it != slots_.end(), "a variable that no axis binds: " + e.as<VarNode>()->name);
    return push(IndexCode{.terms = {{it->second, 1}}, .uses = bit(it->second)});
  }
  if (auto* n = e.as<CastNode>()) {
    if (n->value.type().elem == ElemType::index) return index(n->value);
    int a = value(n->value);
    return push(IndexCode{.op = Op::OfValue, .a = a, .uses = out_.values[a].uses});
  }
  if (auto* n = e.as<SelectNode>()) {
    int c = cond(n->cond), a = index(n->on_true), b = index(n->on_false);
    uint64_t uses = out_.conds[c].uses | out_.indices[a].uses | out_.indices[b].uses;
    return push(IndexCode{.op = Op::Select, .a = c, .b = a, .c = b, .uses = uses});
  }
  if (auto* n = e.as<UnaryNode>(); n != nullptr && n->op == UnaryOp::Neg) {
    return combine_linear(Op::Sub, constant_index(0), index(n->a));
  }
  auto* n = e.as<BinaryNode>();
  TW_ASSERT(n != nullptr, "an index of an unexpected form");
  int a = index(n->a), b = index(n->b);
  auto plain = [&](Op op) {
    uint64_t uses = out_.indices[a].uses | out_.indices[b].uses;
    return push(IndexCode{.op = op, .a = a, .b = b, .uses = uses});
  };
  switch (n->op) {
    case BinaryOp::Add: return combine_linear(Op::Add, a, b);
    case BinaryOp::Sub: return combine_linear(Op::Sub, a, b);
    case BinaryOp::Mul: return combine_linear(Op::Mul, a, b);
    case BinaryOp::FloorDiv: return plain(Op::FloorDiv);
    case BinaryOp::FloorMod: return plain(Op::FloorMod);
    case BinaryOp::Min: return plain(Op::Min);
    case BinaryOp::Max: return plain(Op::Max);
    default: break;
  }
  TW_ASSERT(false, "an index operation of an unexpected form");
  return -1;
}

int StageCompiler::cond(const Expr& e) {
  using Op = CondCode::Op;
  if (auto v = as_int(e)) return push(CondCode{.value = *v != 0});
  if (auto* n = e.as<UnaryNode>(); n != nullptr && n->op == UnaryOp::Not) {
    int a = cond(n->a);
    return push(CondCode{.op = Op::Not, .a = a, .uses = out_.conds[a].uses});
  }
  auto* n = e.as<BinaryNode>();
  if (n == nullptr) {
    int a = value(e);
    return push(CondCode{.op = Op::OfValue, .a = a, .uses = out_.values[a].uses});
  }
  if (n->op == BinaryOp::And || n->op == BinaryOp::Or) {
    int a = cond(n->a), b = cond(n->b);
    Op op = n->op == BinaryOp::And ? Op::And : Op::Or;
    return push(
        CondCode{.op = op, .a = a, .b = b, .uses = out_.conds[a].uses | out_.conds[b].uses});
  }
  if (n->a.type().elem == ElemType::index) {
    int a = index(n->a), b = index(n->b);
    return push(CondCode{.op = Op::CompareIndices,
                         .comparison = n->op,
                         .a = a,
                         .b = b,
                         .uses = out_.indices[a].uses | out_.indices[b].uses});
  }
  int a = value(n->a), b = value(n->b);
  return push(CondCode{.op = Op::CompareValues,
                       .comparison = n->op,
                       .a = a,
                       .b = b,
                       .uses = out_.values[a].uses | out_.values[b].uses});
}

int StageCompiler::flat_index(const LoadNode& n) {
  int flat = constant_index(0);
  for (size_t d = 0; d < n.indices.size(); ++d) {
    int extent = index(n.buffer->shape[d]);
    flat = combine_linear(IndexCode::Op::Mul, flat, extent);
    flat = combine_linear(IndexCode::Op::Add, flat, index(n.indices[d]));
  }
  return flat;
}

int StageCompiler::value(const Expr& e) {
  using Op = ValueCode::Op;
  ElemType type = e.type().elem;
  if (auto* n = e.as<FloatImmNode>()) return push(ValueCode{.type = type, .constant = n->value});
  if (auto v = as_int(e)) {
    return push(ValueCode{.type = type, .constant = static_cast<double>(*v)});
  }
  if (type == ElemType::index) {
    int a = index(e);
    return push(ValueCode{.op = Op::OfIndex, .type = type, .a = a, .uses = out_.indices[a].uses});
  }
  if (auto* n = e.as<LoadNode>()) {
    int flat = flat_index(*n);
    auto input = inputs_.find(n->buffer.get());
    bool is_input = input != inputs_.end();
    int source = is_input ? input->second : stages_.at(n->buffer.get());
    return push(ValueCode{.op = is_input ? Op::Input : Op::Stage,
                          .type = type,
                          .a = flat,
                          .source = source,
                          .uses = out_.indices[flat].uses});
  }
  if (type == ElemType::boolean) {
    int a = cond(e);
    return push(ValueCode{.op = Op::OfCond, .type = type, .a = a, .uses = out_.conds[a].uses});
  }
  if (auto* n = e.as<CastNode>()) {
    int a = value(n->value);
    return push(ValueCode{.op = Op::Cast,
                          .type = type,
                          .from = n->value.type().elem,
                          .a = a,
                          .uses = out_.values[a].uses});
  }
  if (auto* n = e.as<UnaryNode>()) {
    int a = value(n->a);
    return push(ValueCode{
        .op = Op::Unary, .unary = n->op, .type = type, .a = a, .uses = out_.values[a].uses});
  }
  if (auto* n = e.as<SelectNode>()) {
    int c = cond(n->cond), a = value(n->on_true), b = value(n->on_false);
    return push(ValueCode{.op = Op::Select,
                          .type = type,
                          .a = c,
                          .b = a,
                          .c = b,
                          .uses = out_.conds[c].uses | out_.values[a].uses | out_.values[b].uses});
  }
  auto* n = e.as<BinaryNode>();
  TW_ASSERT(n != nullptr, "a value of an unexpected form");
  int a = value(n->a), b = value(n->b);
  return push(ValueCode{.op = Op::Binary,
                        .binary = n->op,
                        .type = type,
                        .a = a,
                        .b = b,
                        .uses = out_.values[a].uses | out_.values[b].uses});
}

int64_t extent_value(const Expr& e, const DimValues& dims) {
  if (auto v = as_int(e)) return *v;
  if (auto it = dims.find(e.get()); it != dims.end()) return it->second;
  auto* n = e.as<BinaryNode>();
  TW_ASSERT(n != nullptr, "an extent is made of constants and dimensions");
  int64_t a = extent_value(n->a, dims), b = extent_value(n->b, dims);
  switch (n->op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::FloorDiv: return a / b - (a % b < 0);
    default: break;
  }
  TW_ASSERT(false, "an extent of an unexpected form");
  return 0;
}

int count_nodes(const Expr& e) {
  int count = 0;
  for_each_expr(e, [&](const Expr&) { ++count; });
  return count;
}

// Reads of other stages in `e`, each time it occurs.
int count_stage_reads(const Expr& e, const std::map<const BufferNode*, int>& stages) {
  int count = 0;
  for_each_expr(e, [&](const Expr& x) {
    auto* n = x.as<LoadNode>();
    if (n != nullptr && stages.count(n->buffer.get())) ++count;
  });
  return count;
}

// The longest reduction that reaches `e` through other stages.
int64_t longest_reduction(const Expr& e, const std::map<const BufferNode*, int>& stages,
                          const Code& code) {
  int64_t terms = 1;
  for_each_expr(e, [&](const Expr& x) {
    auto* n = x.as<LoadNode>();
    if (n == nullptr) return;
    auto it = stages.find(n->buffer.get());
    if (it != stages.end()) terms = std::max(terms, code.stages[it->second].terms);
  });
  return terms;
}

DimValues check_dims(const Workload& workload, const std::map<std::string, int64_t>& dims) {
  DimValues values;
  for (const DimVar& d : workload.dims) {
    auto it = dims.find(d.var.name());
    if (it == dims.end()) {
      throw Error(fmt::format("the dimension {} of {} needs a value", d.var.name(), workload.op));
    }
    if (it->second < d.min || it->second > d.max) {
      throw Error(fmt::format("the dimension {} of {} is {}, outside {}..{}", d.var.name(),
                              workload.op, it->second, d.min, d.max));
    }
    values[d.var.get()] = it->second;
  }
  return values;
}

ElemType arithmetic_type(const Expr& value) {
  auto* n = value.as<CastNode>();
  return n != nullptr && is_float(n->value.type().elem) ? n->value.type().elem : value.type().elem;
}

// An 8-bit float as it is, or zero.
bool is_small_float(const Expr& e) {
  if (auto* n = e.as<CastNode>()) return is_small_float(n->value);
  if (auto* n = e.as<SelectNode>()) return is_small_float(n->on_true);
  const ElemType elem = e.type().elem;
  return e.as<LoadNode>() != nullptr && is_float(elem) && bits_of(elem) == 8;
}

// Whether some element that `e` reads has 8 bits or fewer.
bool reads_few_bits(const Expr& e) {
  bool reads = false;
  for_each_expr(e, [&](const Expr& x) {
    reads |= x.as<LoadNode>() != nullptr && bits_of(x.type().elem) <= 8;
  });
  return reads;
}

// Whether a term is one that NarrowSums speaks of.
bool is_narrow_product(const Expr& term) {
  if (auto* n = term.as<SelectNode>()) return is_narrow_product(n->on_true);
  auto* product = term.as<BinaryNode>();
  if (product == nullptr || product->op != BinaryOp::Mul) return false;
  return (is_small_float(product->a) && reads_few_bits(product->b)) ||
         (is_small_float(product->b) && reads_few_bits(product->a));
}

}  // namespace

Code compile(const Workload& workload, const std::map<std::string, int64_t>& dims) {
  const DimValues dim_values = check_dims(workload, dims);
  Code code;
  std::map<const BufferNode*, int> inputs, stages;
  std::vector<bool> is_weight;
  for (const Param& p : workload.inputs) {
    int64_t elements = 1;
    for (const Expr& e : p.buffer->shape) elements *= extent_value(e, dim_values);
    inputs[p.buffer.get()] = static_cast<int>(code.inputs.size());
    is_weight.push_back(p.role == ParamRole::Weight);
    code.inputs.push_back(p.buffer->name);
    code.input_elements.push_back(elements);
  }
  Inliner inliner;
  std::vector<Stage> rewritten;  // with what they read inlined
  rewritten.reserve(workload.stages.size());
  for (const Stage& original : workload.stages) {
    rewritten.push_back(original);
    Stage& stage = rewritten.back();
    stage.value = inliner(stage.value);
    StageCode out;
    out.reducer = stage.reducer;
    out.type = stage.output->elem;
    out.roundoff = unit_roundoff(arithmetic_type(stage.value));
    out.is_narrow = stage.reducer == Reducer::Sum && is_narrow_product(stage.value);
    StageCompiler compiler(out, dim_values, inputs, stages);
    for (const Expr& e : stage.output->shape) out.extents.push_back(extent_value(e, dim_values));
    for (const Var& v : stage.axes) compiler.add_slot(v);
    for (const ReduceAxis& r : stage.reduce_axes) {
      out.reduce_extents.push_back(extent_value(r.extent, dim_values));
      compiler.add_slot(r.var);
    }
    out.value = compiler.value(stage.value);
    mark_apart(out, is_weight);
    int64_t own = 1;
    for (int64_t n : out.reduce_extents) own *= n;
    out.terms = std::max(own, longest_reduction(stage.value, stages, code));
    int reads = count_stage_reads(stage.value, stages);
    const bool last = &original == &workload.stages.back();
    out.inlined = !last && stage.reducer == Reducer::None && reads <= 1 &&
                  count_nodes(stage.value) <= kInlineNodes;
    out.remembered = !last && !out.inlined;
    stages[original.output.get()] = static_cast<int>(code.stages.size());
    if (out.inlined) inliner.stages[original.output.get()] = &stage;
    code.stages.push_back(std::move(out));
  }
  return code;
}

}  // namespace tilewright::oracle
