#include "ir/ops/workload_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"
#include "ir/visitor.h"
#include "ir/weight_formats.h"

namespace tilewright::ops {
namespace {

// The product of the extents, or nothing when it exceeds `limit`.
std::optional<int64_t> bounded_product(const std::vector<Expr>& extents,
                                       const std::vector<DimVar>& dims, int64_t limit) {
  __int128 product = 1;
  for (const Expr& e : extents) {
    product *= max_extent(e, dims);
    if (product > limit) return std::nullopt;
  }
  return static_cast<int64_t>(product);
}

void check_buffer(const Buffer& buffer, const std::vector<DimVar>& dims) {
  if (bounded_product(buffer->shape, dims, kMaxSize)) return;
  std::vector<std::string> sizes;
  for (const Expr& e : buffer->shape) sizes.push_back(std::to_string(max_extent(e, dims)));
  throw KeyError("", fmt::format("the tensor {}[{}] has more than 2^40 elements", buffer->name,
                                 fmt::join(sizes, ", ")));
}

}  // namespace

Expr plus(const Expr& a, const Expr& b) {
  auto x = as_int(a), y = as_int(b);
  if (x && y) return *x + *y;
  if (x && *x == 0) return b;
  if (y && *y == 0) return a;
  if (y && *y < 0) return a - Expr(-*y);
  return a + b;
}

Expr minus(const Expr& a, const Expr& b) {
  auto x = as_int(a), y = as_int(b);
  if (x && y) return *x - *y;
  if (y) return plus(a, Expr(-*y));
  return a - b;
}

Expr times(const Expr& a, int64_t b) {
  if (auto x = as_int(a)) return *x * b;
  return b == 1 ? a : a * Expr(b);
}

Expr quotient(const Expr& a, int64_t b) {
  if (auto x = as_int(a)) return *x / b - (*x % b < 0);
  return b == 1 ? a : floordiv(a, Expr(b));
}

Expr both(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  return b.defined() ? a && b : a;
}

std::vector<Expr> extents_of(const std::vector<Axis>& axes) {
  std::vector<Expr> extents;
  for (const Axis& a : axes) extents.push_back(a.extent);
  return extents;
}

WorkloadBuilder::WorkloadBuilder(const Spec& spec) : spec_(spec) {
  auto read = [&](const char* key, ElemType fallback) {
    return spec.has(key) ? *parse_elem_type(spec.get<std::string>(key)) : fallback;
  };
  dtype = read("dtype", ElemType::f32);
  acc = read("acc", dtype);
  out = read("out", dtype);
}

Expr WorkloadBuilder::dim(const std::string& name, const DimSize& size) {
  if (!size.is_dynamic()) return size.min;
  for (const DimVar& d : workload_.dims) {
    if (d.var.name() == name) return d.var;
  }
  workload_.dims.push_back({Var(name), size.min, size.max});
  return workload_.dims.back().var;
}

Buffer WorkloadBuilder::input(const std::string& name, ElemType elem, std::vector<Expr> shape,
                              ParamRole role) {
  for (const Expr& e : shape) {
    if (!as_int(e)) role = ParamRole::Input;
  }
  Buffer buffer = make_buffer(name, elem, std::move(shape));
  workload_.inputs.push_back({buffer, role});
  return buffer;
}

Buffer WorkloadBuilder::compute(const std::string& name, ElemType elem,
                                const std::vector<Axis>& axes, const PointFn& value) {
  return reduce(name, elem, axes, {}, Reducer::None,
                [&](const Point& p, const Point&) { return value(p); });
}

Buffer WorkloadBuilder::reduce(const std::string& name, ElemType elem,
                               const std::vector<Axis>& axes, const std::vector<Axis>& reduce_axes,
                               Reducer reducer, const ReduceFn& value) {
  Stage stage;
  Point p, r;
  for (const Axis& a : axes) {
    stage.axes.emplace_back(a.name);
    p.push_back(stage.axes.back());
  }
  for (const Axis& a : reduce_axes) {
    stage.reduce_axes.push_back({Var(a.name), a.extent});
    r.push_back(stage.reduce_axes.back().var);
  }
  stage.output = make_buffer(name, elem, extents_of(axes));
  stage.reducer = reducer;
  stage.value = cast(elem, value(p, r));
  workload_.stages.push_back(std::move(stage));
  return workload_.stages.back().output;
}

void WorkloadBuilder::accumulate(const std::string& name, const std::vector<Axis>& axes,
                                 const std::vector<Axis>& reduce_axes, const ReduceFn& value,
                                 int channel, const PointFn& scale) {
  std::vector<std::string> steps;
  if (spec_.has("epilogue")) steps = spec_.get<std::vector<std::string>>("epilogue");
  if (steps.empty() && out == acc && !scale) {
    reduce(name, acc, axes, reduce_axes, Reducer::Sum, value);
    return;
  }
  Buffer sum = reduce(name + "_acc", acc, axes, reduce_axes, Reducer::Sum, value);
  auto has = [&](const char* step) { return std::count(steps.begin(), steps.end(), step) > 0; };
  // A bias over integers is as wide as the accumulators; over floats it is stored like the output.
  bool floats = is_float(acc) || is_float(out);
  Buffer bias, added;
  if (has("bias"))
    bias = input("bias", floats ? out : acc, {axes[channel].extent}, ParamRole::Weight);
  if (has("add")) added = input("D", out, extents_of(axes));
  compute(name, out, axes, [&](const Point& p) {
    Expr value = load(sum, p);
    if (scale) value = value * scale(p);
    return apply_epilogue(steps, value, p, axes, channel, bias, added);
  });
}

// Steps run in the accumulator's type, or in the output's type where an integer accumulator becomes
// a float output.
Expr WorkloadBuilder::apply_epilogue(const std::vector<std::string>& steps, Expr value,
                                     const Point& p, const std::vector<Axis>& axes, int channel,
                                     const Buffer& bias, const Buffer& added) {
  ElemType type = !is_float(acc) && is_float(out) ? out : acc;
  value = cast(type, value);
  for (const std::string& step : steps) {
    if (step == "bias") {
      value = value + cast(type, load(bias, {p[channel]}));
    } else if (step == "add") {
      value = value + cast(type, load(added, p));
    } else {
      value = apply_function(step, value);
    }
  }
  return value;
}

Workload WorkloadBuilder::finish() {
  for (const Param& p : workload_.inputs) check_buffer(p.buffer, workload_.dims);
  for (const Stage& s : workload_.stages) {
    check_buffer(s.output, workload_.dims);
    std::vector<Expr> extents = s.output->shape;
    for (const ReduceAxis& r : s.reduce_axes) extents.push_back(r.extent);
    if (!bounded_product(extents, workload_.dims, kMaxPoints)) {
      throw KeyError("", fmt::format("computing {} takes more than 2^62 steps", s.output->name));
    }
  }
  workload_.flops = count_flops(workload_, work_);
  return std::move(workload_);
}

namespace {

bool counts(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::Min:
    case BinaryOp::Max: return true;
    default: return false;
  }
}

// Operations in one evaluation of `e`.
double operations(const Expr& e) {
  if (auto* n = e.as<CastNode>()) return operations(n->value);
  if (auto* n = e.as<UnaryNode>()) return operations(n->a);
  if (auto* n = e.as<SelectNode>()) {
    return std::max(operations(n->on_true), operations(n->on_false));
  }
  auto* n = e.as<BinaryNode>();
  if (n == nullptr || n->type.elem == ElemType::index) return 0;
  return operations(n->a) + operations(n->b) + counts(n->op);
}

// True when the stage computes only the dequantized value of a stored weight.
bool is_weight_value(const Stage& stage, const WeightFormat& format) {
  bool only = true;
  for_each_expr(stage.value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (n == nullptr) return;
    only &= format.has(n->buffer->name);
  });
  return only;
}

}  // namespace

int64_t max_extent(const Expr& extent, const std::vector<DimVar>& dims) {
  if (auto value = as_int(extent)) return *value;
  if (extent.as<VarNode>() != nullptr) {
    for (const DimVar& d : dims) {
      if (d.var.same_as(extent)) return d.max;
    }
  }
  auto* n = extent.as<BinaryNode>();
  TW_ASSERT(n != nullptr, "an extent is made of constants and dimensions");
  // Extents grow with their dimensions, so both sides are taken at their maximum; only constants
  // are ever subtracted.
  int64_t a = max_extent(n->a, dims), b = max_extent(n->b, dims);
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

double count_flops(const Workload& workload, const std::map<std::string, double>& shares) {
  const std::vector<WeightFormat> formats = weight_formats(workload);
  double total = 0;
  for (const Stage& s : workload.stages) {
    auto says = [&](const WeightFormat& format) { return is_weight_value(s, format); };
    if (std::ranges::any_of(formats, says)) continue;
    auto share = shares.find(s.output->name);
    double points = share == shares.end() ? 1 : share->second;
    for (const Expr& e : s.output->shape) points *= max_extent(e, workload.dims);
    for (const ReduceAxis& r : s.reduce_axes) points *= max_extent(r.extent, workload.dims);
    total += points * (operations(s.value) + (s.reducer != Reducer::None));
  }
  return total;
}

}  // namespace tilewright::ops
