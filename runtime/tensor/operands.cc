#include "runtime/tensor/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "ir/weight_formats.h"

namespace tilewright {
namespace {

std::vector<int64_t> shape_at(const Buffer& buffer, const VarMap& dims) {
  std::vector<int64_t> shape;
  for (const Expr& extent : buffer->shape) {
    std::optional<int64_t> value = as_int(extent);
    if (!value) value = as_int(simplify(substitute(extent, dims)));
    if (!value) {
      throw Error(
          fmt::format("operand '{}': an extent of its shape is not a number", buffer->name));
    }
    shape.push_back(*value);
  }
  return shape;
}

// Inputs that some stage reads as a subscript, with the rows that the subscripted axis has.
std::map<const BufferNode*, int64_t> subscript_limits(const Workload& workload,
                                                      const VarMap& dims) {
  std::map<const BufferNode*, int64_t> limits;
  auto visit = [&](const Expr& e) {
    const auto* outer = e.as<LoadNode>();
    if (outer == nullptr) return;
    std::vector<int64_t> shape = shape_at(outer->buffer, dims);
    for (size_t d = 0; d < outer->indices.size(); ++d) {
      for_each_expr(outer->indices[d], [&](const Expr& part) {
        const auto* inner = part.as<LoadNode>();
        if (inner == nullptr) return;
        auto [place, added] = limits.try_emplace(inner->buffer.get(), shape[d]);
        if (!added) place->second = std::min(place->second, shape[d]);
      });
    }
  };
  for (const Stage& stage : workload.stages) for_each_expr(stage.value, visit);
  return limits;
}

// Loads of `e` outside of subscripts and of comparisons.
void collect_loads(const Expr& e, std::vector<const LoadNode*>& loads) {
  if (const auto* n = e.as<LoadNode>()) return loads.push_back(n);
  if (const auto* n = e.as<CastNode>()) return collect_loads(n->value, loads);
  if (const auto* n = e.as<SelectNode>()) {
    collect_loads(n->on_true, loads);
    return collect_loads(n->on_false, loads);
  }
  const auto* n = e.as<BinaryNode>();
  if (n == nullptr || e.type().elem == ElemType::boolean) return;
  collect_loads(n->a, loads);
  collect_loads(n->b, loads);
}

// Inputs that some stage compares one of its axes with, which makes lengths along that axis of them,
// with the extent of the axis.
std::map<const BufferNode*, int64_t> length_limits(const Workload& workload, const VarMap& dims) {
  std::map<const BufferNode*, int64_t> limits;
  for (const Stage& stage : workload.stages) {
    std::map<const ExprNode*, int64_t> axes;
    const std::vector<int64_t> shape = shape_at(stage.output, dims);
    for (size_t d = 0; d < shape.size(); ++d) axes[stage.axes[d].get()] = shape[d];
    for_each_expr(stage.value, [&](const Expr& e) {
      const auto* n = e.as<BinaryNode>();
      if (n == nullptr || e.type().elem != ElemType::boolean) return;
      for (const auto& [axis, other] : {std::pair{n->a, n->b}, {n->b, n->a}}) {
        auto found = axes.find(axis.get());
        if (found == axes.end()) continue;
        std::vector<const LoadNode*> loads;
        collect_loads(other, loads);
        for (const LoadNode* read : loads) {
          auto [place, added] = limits.try_emplace(read->buffer.get(), found->second);
          if (!added) place->second = std::min(place->second, found->second);
        }
      }
    });
  }
  return limits;
}

VarMap bind_dims(const Workload& workload, const std::map<std::string, int64_t>& dims) {
  std::vector<int64_t> values = dim_values(workload, dims);
  VarMap map;
  for (size_t i = 0; i < values.size(); ++i) map[workload.dims[i].var.get()] = Expr(values[i]);
  return map;
}

SeededValues seeded(const OperandInfo& info, uint64_t seed, ValueKind kind) {
  return SeededValues(seed, info.name, info.elem, info.range,
                      kind == ValueKind::Hard ? std::optional(info.hard) : std::nullopt);
}

// Whether infinities and NaNs have one meaning in all kernels of a workload: they only pass through
// arithmetic. Maxima and comparisons may drop a NaN, and masks, zeros that are left out and zero
// points taken off sums may keep one away from a term.
bool passes_specials(const Workload& workload) {
  bool passes = true;
  for (const Stage& stage : workload.stages) {
    passes &= stage.reducer == Reducer::None || stage.reducer == Reducer::Sum;
    for_each_expr(stage.value, [&](const Expr& e) {
      const auto* n = e.as<BinaryNode>();
      const bool arithmetic = n == nullptr || n->op == BinaryOp::Add || n->op == BinaryOp::Sub ||
                              n->op == BinaryOp::Mul;
      passes &= e.type().elem == ElemType::index || arithmetic;
      passes &= e.as<SelectNode>() == nullptr && e.as<UnaryNode>() == nullptr;
      const auto* cast = e.as<CastNode>();
      passes &= cast == nullptr || is_float(e.type().elem);
    });
  }
  return passes;
}

// Whether ordinary integers times some constant are beyond f32, as where a model multiplies a mask of 0 and 1
// with the least float: nothing would be known of infinite scores.
bool has_vast_constant(const Workload& workload) {
  constexpr double kVast = 0x1p120;  // times 2^7
  bool has = false;
  for (const Stage& stage : workload.stages) {
    for_each_expr(stage.value, [&](const Expr& e) {
      const auto* n = e.as<FloatImmNode>();
      has |= n != nullptr && std::isfinite(n->value) && std::abs(n->value) > kVast;
    });
  }
  return has;
}

int64_t product_of(const std::vector<int64_t>& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t d = begin; d < end; ++d) product *= shape[d];
  return product;
}

// Eight lines one behind the other: whatever neighbours are compared, some windows lie in one line.
void set_slabs(OperandInfo* info) {
  const int64_t count = product_of(info->shape, 0, info->shape.size());
  info->hard.line_length = std::max<int64_t>((count + 7) / 8, 1);
  info->hard.line_stride = 1;
}

// The line that the stage compares in one of its inputs: along the last dimension whose index is a
// reduced axis, and the reduced dimensions right before it. Windows have other indices.
void set_line(const Stage& stage, const LoadNode& load, OperandInfo* info) {
  std::set<const ExprNode*> reduced;
  for (const ReduceAxis& axis : stage.reduce_axes) reduced.insert(axis.var.get());
  auto is_reduced = [&](size_t d) { return reduced.count(load.indices[d].get()) != 0; };
  size_t end = info->shape.size();
  while (end > 0 && !is_reduced(end - 1)) --end;
  if (end == 0) return set_slabs(info);
  size_t begin = end - 1;
  while (begin > 0 && is_reduced(begin - 1)) --begin;
  info->hard.line_length = product_of(info->shape, begin, end);
  info->hard.line_stride = product_of(info->shape, end, info->shape.size());
  info->hard.line_high = stage.reducer == Reducer::Max;
}

bool compares(const Stage& stage) {
  return stage.reducer == Reducer::Max || stage.reducer == Reducer::Min;
}

// Lines that a maximum or minimum compares as they are read, and large rows of the first activation
// whose products a maximum compares.
void describe_compared(const Workload& workload, std::vector<OperandInfo>* infos) {
  auto input = [&](const Buffer& buffer) -> OperandInfo* {
    for (size_t i = 0; i < workload.inputs.size(); ++i) {
      if (workload.inputs[i].buffer == buffer) return &(*infos)[i];
    }
    return nullptr;
  };
  // The buffers that maxima compare, through the stages that compute them, and those of them that are
  // terms of sums: a maximum compares none of their elements by itself.
  std::set<const BufferNode*> compared, terms;
  for (size_t i = workload.stages.size(); i-- > 0;) {
    const Stage& stage = workload.stages[i];
    const bool direct = compares(stage), through = compared.count(stage.output.get()) != 0;
    if (!direct && !through) continue;
    const bool is_term = stage.reducer == Reducer::Sum || terms.count(stage.output.get()) != 0;
    OperandInfo* first = nullptr;
    for_each_expr(stage.value, [&](const Expr& e) {
      const auto* load = e.as<LoadNode>();
      if (load == nullptr) return;
      OperandInfo* info = input(load->buffer);
      if (info == nullptr) {
        compared.insert(load->buffer.get());
        if (is_term) terms.insert(load->buffer.get());
      } else if (direct && !info->shape.empty()) {
        set_line(stage, *load, info);
      } else if (stage.reducer == Reducer::None && info->hard.line_length == 0) {
        if (!is_term) set_slabs(info);
      } else if (info->role == ParamRole::Input && info->shape.size() > 1 && first == nullptr) {
        first = info;
      }
    });
    if (first != nullptr && stage.reducer == Reducer::Sum) {
      first->hard.large_rows = first->shape.back();
    }
  }
}

// About so many elements per infinity or NaN: each spoils a row of the results, so that an operand has
// four at most, and one of few rows hardly any.
int64_t special_every(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = 4, kRowsPerSpecial = 8;
  const int64_t count = product_of(shape, 0, shape.size());
  const int64_t rows = shape.size() > 1 ? product_of(shape, 0, shape.size() - 1) : count;
  const int64_t specials_times_8 = std::min(kMost * kRowsPerSpecial, rows);
  return specials_times_8 == 0 ? 0 : count * kRowsPerSpecial / specials_times_8;
}

// Scales that bring the weight's values to about 1, and zero points among its codes.
std::optional<ValueRange> weight_range(const WeightFormat& format, const OperandInfo& info,
                                       ElemType weight) {
  const bool integer = is_integer(weight);
  const int magnitude_bits =
      bits_of(weight) - (tilewright::info(weight).kind == ElemKind::Int ? 1 : 0);
  if (info.name == format.zero) return ValueRange{0, std::ldexp(1.0, magnitude_bits) - 1};
  if (info.name != format.scale) return std::nullopt;
  double most = integer ? std::ldexp(1.0, -magnitude_bits) : weight == ElemType::f4e2m1 ? 0.25 : 1;
  return ValueRange{most / 2, most};
}

}  // namespace

OperandValues::OperandValues(const OperandInfo& info, const std::vector<OperandInfo>& operands,
                             uint64_t seed, ValueKind kind)
    : values_(seeded(info, seed, kind)), kind_(kind), pattern_(info.pattern) {
  if (!pattern_) return;
  for (const OperandInfo& other : operands) {
    if (other.name == pattern_->format().zero) zero_ = seeded(other, seed, kind);
  }
}

bool OperandValues::keeps(int64_t flat_index) const {
  constexpr int64_t kEmptyEvery = 7;  // groups
  if (kind_ == ValueKind::Hard && pattern_->group_of(flat_index) % kEmptyEvery == 0) return false;
  return pattern_->keeps_seeded(flat_index);
}

double OperandValues::at(int64_t flat_index) const {
  if (!pattern_ || keeps(flat_index)) return values_.at(flat_index);
  return zero_ ? zero_->at(pattern_->scale_index(flat_index)) : 0;
}

void OperandValues::fill(HostArray* array) const {
  array->fill(values_);
  if (!pattern_) return;
  for (int64_t i = 0; i < array->count(); ++i) {
    if (!keeps(i)) array->set(i, at(i));
  }
}

namespace {

// Takes from the form of a weight what it says about this operand.
void describe_weight(const Workload& workload, const WeightFormat& format, const VarMap& dims,
                     OperandInfo* info) {
  for (const Param& p : workload.inputs) {
    if (p.buffer->name != format.weight) continue;
    if (auto range = weight_range(format, *info, p.buffer->elem)) info->range = range;
    if (info->name == format.weight && format.sparse()) {
      info->pattern = WeightPattern(format, shape_at(p.buffer, dims));
    }
  }
}

}  // namespace

std::string sizes_text(const std::map<std::string, int64_t>& dims) {
  std::string text;
  for (const auto& [name, size] : dims) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, size);
  }
  return text;
}

std::vector<int64_t> dim_values(const Workload& workload,
                                const std::map<std::string, int64_t>& dims) {
  std::vector<int64_t> values;
  std::string known;
  for (const DimVar& d : workload.dims) {
    const std::string& name = d.var.name();
    known += (known.empty() ? "" : ", ") + name;
    auto found = dims.find(name);
    if (found == dims.end()) {
      throw Error(fmt::format("dynamic dimension '{}' has no value; expected {} to {}", name, d.min,
                              d.max));
    }
    if (found->second < d.min || found->second > d.max) {
      throw Error(fmt::format("dynamic dimension '{}' is {}; expected {} to {}", name,
                              found->second, d.min, d.max));
    }
    values.push_back(found->second);
  }
  for (const auto& [name, value] : dims) {
    bool exists = std::any_of(workload.dims.begin(), workload.dims.end(),
                              [&n = name](const DimVar& d) { return d.var.name() == n; });
    if (!exists) {
      throw Error(fmt::format("'{}' is no dynamic dimension; there are: {}", name,
                              known.empty() ? "none" : known));
    }
  }
  return values;
}

std::vector<OperandInfo> operands_of(const Workload& workload,
                                     const std::map<std::string, int64_t>& dims) {
  VarMap map = bind_dims(workload, dims);
  std::map<const BufferNode*, int64_t> limits = subscript_limits(workload, map);
  std::map<const BufferNode*, int64_t> lengths = length_limits(workload, map);
  const std::vector<WeightFormat> formats = weight_formats(workload);
  const bool masks = has_vast_constant(workload);
  const bool specials = formats.empty() && passes_specials(workload);
  std::vector<OperandInfo> operands;
  for (const Param& p : workload.inputs) {
    OperandInfo info{p.buffer->name, p.buffer->elem, shape_at(p.buffer, map), p.role};
    auto limit = limits.find(p.buffer.get());
    if (limit != limits.end()) info.range = ValueRange{0, static_cast<double>(limit->second - 1)};
    auto length = lengths.find(p.buffer.get());
    if (limit == limits.end() && length != lengths.end() && is_integer(p.buffer->elem)) {
      info.range = ValueRange{0, static_cast<double>(length->second)};
      info.hard.lengths = true;
    }
    if (masks && !info.range && is_integer(p.buffer->elem)) info.range = ValueRange{0, 1};
    for (const WeightFormat& format : formats) describe_weight(workload, format, map, &info);
    if (specials && p.role == ParamRole::Input) info.hard.special_every = special_every(info.shape);
    operands.push_back(std::move(info));
  }
  describe_compared(workload, &operands);
  const Buffer& out = workload.output();
  operands.push_back({out->name, out->elem, shape_at(out, map), ParamRole::Output});
  return operands;
}

std::map<std::string, ElementReader> seeded_readers(const std::vector<OperandInfo>& operands,
                                                    uint64_t seed, ValueKind kind) {
  std::map<std::string, ElementReader> readers;
  for (const OperandInfo& info : operands) {
    if (info.role == ParamRole::Output) continue;
    readers[info.name] = [values = OperandValues(info, operands, seed, kind)](int64_t i) {
      return values.at(i);
    };
  }
  return readers;
}

OperandSet::OperandSet(std::vector<OperandInfo> operands, uint64_t seed, ValueKind kind,
                       HostArray::Place place)
    : infos_(std::move(operands)), seed_(seed), kind_(kind), place_(place) {
  for (const OperandInfo& info : infos_) add(info);
  TW_ASSERT(output_ != nullptr, "a workload has an output");
}

OperandSet::OperandSet(std::vector<OperandInfo> operands, const OperandSet& weights)
    : OperandSet(std::move(operands), weights, weights.place_) {}

OperandSet::OperandSet(std::vector<OperandInfo> operands, const OperandSet& weights,
                       HostArray::Place place)
    : infos_(std::move(operands)), seed_(weights.seed_), kind_(weights.kind_), place_(place) {
  for (const OperandInfo& info : infos_) {
    auto shared =
        std::find_if(weights.operands_.begin(), weights.operands_.end(), [&](const Operand& o) {
          return info.role == ParamRole::Weight && o.array->name() == info.name &&
                 o.array->shape() == info.shape;
        });
    if (shared != weights.operands_.end()) {
      operands_.push_back(*shared);
    } else {
      add(info);
    }
  }
  TW_ASSERT(output_ != nullptr, "a workload has an output");
}

void OperandSet::add(const OperandInfo& info) {
  bool input = info.role != ParamRole::Output;
  operands_.push_back(
      {std::make_shared<HostArray>(info.name, info.elem, info.shape, place_), input});
  if (input) return fill(&operands_.back(), info);
  TW_ASSERT(output_ == nullptr, "a workload has one output");
  output_ = operands_.back().array.get();
}

void OperandSet::fill(Operand* operand, const OperandInfo& info) {
  OperandValues(info, infos_, seed_, kind_).fill(operand->array.get());
  operand->hash = operand->array->hash();
}

int64_t OperandSet::bytes() const {
  int64_t sum = 0;
  for (const Operand& o : operands_) sum += o.array->bytes();
  return sum;
}

HostArray* OperandSet::find(const std::string& name) {
  for (Operand& o : operands_) {
    if (o.array->name() == name) return o.array.get();
  }
  return nullptr;
}

HostArray& OperandSet::at(const std::string& name) {
  if (HostArray* array = find(name)) return *array;
  std::string known;
  for (const OperandInfo& info : infos_) known += (known.empty() ? "" : ", ") + info.name;
  throw Error(fmt::format("no operand '{}'; there are: {}", name, known));
}

std::optional<std::string> OperandSet::changed_input() const {
  for (const Operand& o : operands_) {
    // Pages that are read-only were not written.
    if (o.input && !o.array->is_protected() && o.array->hash() != o.hash) return o.array->name();
  }
  return std::nullopt;
}

std::optional<HostArray::GuardFault> OperandSet::guard_fault() const {
  for (const Operand& o : operands_) {
    if (auto fault = o.array->guard_fault()) return fault;
  }
  return std::nullopt;
}

void OperandSet::restore() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    operands_[i].array->protect(false);
    operands_[i].array->restore_guards();
    if (operands_[i].lent) {
      operands_[i].array->protect(true);
    } else if (operands_[i].input) {
      fill(&operands_[i], infos_[i]);
    }
  }
}

void OperandSet::protect_inputs(bool read_only) {
  for (Operand& o : operands_) {
    if (o.input) o.array->protect(read_only);
  }
}

OperandSet OperandSet::with_weights_of(const OperandSet& other) const {
  OperandSet mixed(*this);
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (infos_[i].role != ParamRole::Weight) continue;
    mixed.operands_[i] = other.operands_[i];
    mixed.operands_[i].lent = true;
  }
  return mixed;
}

void OperandSet::copy_activations(const OperandSet& other) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (infos_[i].role != ParamRole::Input) continue;
    HostArray& array = *operands_[i].array;
    array.protect(false);
    std::memcpy(array.data(), other.operands_[i].array->data(), static_cast<size_t>(array.bytes()));
    operands_[i].hash = array.hash();
  }
}

void OperandSet::refill_activations() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (infos_[i].role != ParamRole::Input) continue;
    operands_[i].array->protect(false);
    fill(&operands_[i], infos_[i]);
  }
}

}  // namespace tilewright
