#include "runtime/operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/simplify.h"
#include "ir/visitor.h"

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

VarMap bind_dims(const Workload& workload, const std::map<std::string, int64_t>& dims) {
  std::vector<int64_t> values = dim_values(workload, dims);
  VarMap map;
  for (size_t i = 0; i < values.size(); ++i) map[workload.dims[i].var.get()] = Expr(values[i]);
  return map;
}

SeededValues values_of(const OperandInfo& info, uint64_t seed) {
  return SeededValues(seed, info.name, info.elem, info.range);
}

}  // namespace

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
  std::vector<OperandInfo> operands;
  for (const Param& p : workload.inputs) {
    OperandInfo info{p.buffer->name, p.buffer->elem, shape_at(p.buffer, map), p.role, {}};
    auto limit = limits.find(p.buffer.get());
    if (limit != limits.end()) info.range = ValueRange{0, limit->second - 1};
    operands.push_back(std::move(info));
  }
  const Buffer& out = workload.output();
  operands.push_back({out->name, out->elem, shape_at(out, map), ParamRole::Output, {}});
  return operands;
}

std::map<std::string, ElementReader> seeded_readers(const std::vector<OperandInfo>& operands,
                                                    uint64_t seed) {
  std::map<std::string, ElementReader> readers;
  for (const OperandInfo& info : operands) {
    if (info.role == ParamRole::Output) continue;
    readers[info.name] = [values = values_of(info, seed)](int64_t i) { return values.at(i); };
  }
  return readers;
}

OperandSet::OperandSet(std::vector<OperandInfo> operands, uint64_t seed)
    : infos_(std::move(operands)), seed_(seed) {
  operands_.reserve(infos_.size());
  for (const OperandInfo& info : infos_) {
    bool input = info.role != ParamRole::Output;
    operands_.push_back({HostArray(info.name, info.elem, info.shape), input});
    if (input) {
      fill(&operands_.back(), info);
    } else {
      TW_ASSERT(output_ == nullptr, "a workload has one output");
      output_ = &operands_.back().array;
    }
  }
  TW_ASSERT(output_ != nullptr, "a workload has an output");
}

void OperandSet::fill(Operand* operand, const OperandInfo& info) {
  operand->array.fill(values_of(info, seed_));
  operand->hash = operand->array.hash();
}

HostArray* OperandSet::find(const std::string& name) {
  for (Operand& o : operands_) {
    if (o.array.name() == name) return &o.array;
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
    if (o.input && o.array.hash() != o.hash) return o.array.name();
  }
  return std::nullopt;
}

std::optional<HostArray::GuardFault> OperandSet::guard_fault() const {
  for (const Operand& o : operands_) {
    if (auto fault = o.array.guard_fault()) return fault;
  }
  return std::nullopt;
}

void OperandSet::restore() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    operands_[i].array.restore_guards();
    if (operands_[i].input) fill(&operands_[i], infos_[i]);
  }
}

}  // namespace tilewright
