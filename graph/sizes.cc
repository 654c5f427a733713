#include "graph/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>

#include "graph/loops/loops.h"
#include "ir/ops/spec.h"
#include "models/onnx/extent.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

static_assert(onnx::kStandIns.size() == kMostDims);

// The spec with other sizes. Throws GraphError where one of its other numbers stands for a size.
Spec with_sizes(const Node& node, const std::function<DimSize(int64_t)>& size) {
  Spec spec = parse_spec(node.spec);
  for (auto& [key, value] : spec.params) {
    const auto* number = std::get_if<int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    if ((number != nullptr && onnx::has_stand_in(*number)) ||
        (text != nullptr && holds_stand_in(*text))) {
      throw GraphError(
          fmt::format("'{}': its {} depends on a size that each run gives", node.label, key));
    }
    if (auto* own = std::get_if<DimSize>(&value)) *own = size(own->min);
    if (auto* shape = std::get_if<std::vector<DimSize>>(&value)) {
      for (DimSize& own : *shape) own = size(own.min);
    }
  }
  return spec;
}

// The size of each dynamic dimension, read off an operand that has it as an axis.
std::map<std::string, Size> sizes_of_dims(const Graph& graph, const Workload& ranged,
                                          const std::vector<OperandInfo>& numbers) {
  std::map<std::string, Size> sizes;
  for (size_t o = 0; o < numbers.size(); ++o) {
    const bool last = o + 1 == numbers.size();
    const Buffer& buffer = last ? ranged.output() : ranged.inputs[o].buffer;
    for (size_t axis = 0; axis < buffer->shape.size(); ++axis) {
      if (buffer->shape[axis].as<VarNode>() == nullptr) continue;
      for (const DimVar& dim : ranged.dims) {
        if (!dim.var.same_as(buffer->shape[axis])) continue;
        sizes.emplace(dim.var.name(), size_of(graph, numbers[o].shape[axis]));
      }
    }
  }
  return sizes;
}

// The operands' shapes where all dimensions have their least sizes, or their largest.
void check_shapes(const Graph& graph, const Node& node, const Workload& workload,
                  const std::map<std::string, Size>& sizes, const std::vector<OperandInfo>& numbers,
                  bool largest) {
  std::vector<int64_t> own;
  for (const Dim& d : graph.dims) own.push_back(largest ? d.range.max : d.range.min);
  std::map<std::string, int64_t> dims;
  for (const DimVar& dim : workload.dims) {
    const auto size = sizes.find(dim.var.name());
    if (size == sizes.end()) {
      throw GraphError(
          fmt::format("'{}': no operand tells its size {}", node.label, dim.var.name()));
    }
    dims[dim.var.name()] = size->second.at(own.data());
  }
  const std::vector<OperandInfo> operands = operands_of(workload, dims);
  for (size_t o = 0; o < operands.size(); ++o) {
    for (size_t axis = 0; axis < operands[o].shape.size(); ++axis) {
      const int64_t wanted = size_of(graph, numbers[o].shape[axis]).at(own.data());
      if (operands[o].shape[axis] == wanted) continue;
      throw GraphError(
          fmt::format("'{}': axis {} of operand {} has {} elements at the {} sizes; its "
                      "kernel takes {}",
                      node.label, axis, operands[o].name, wanted, largest ? "largest" : "least",
                      operands[o].shape[axis]));
    }
  }
}

// The graph with other numbers in the places of its dimensions.
Graph renumbered(const Graph& graph, const std::vector<int64_t>& dims) {
  const auto at = [&](int64_t number) { return size_of(graph, number).at(dims.data()); };
  Graph made = graph;
  for (Value& v : made.values) {
    for (int64_t& s : v.shape) s = at(s);
  }
  change_bodies(&made, [&](Loop* loop) {
    loop->rounds = at(loop->rounds);
    loop->body = renumbered(loop->body, dims);
    loop->body.dims.clear();
  });
  for (Node& node : made.nodes) {
    if (!node.is_workload()) continue;
    node.spec = spec_to_inline(with_sizes(node, [&](int64_t n) { return DimSize{at(n), at(n)}; }));
  }
  return made;
}

}  // namespace

void share_dims(Graph* graph) {
  change_bodies(graph, [&](Loop* loop) {
    loop->body.dims = graph->dims;
    share_dims(&loop->body);
  });
}

bool holds_stand_in(const std::string& expression) {
  auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  const char* const end = expression.data() + expression.size();
  for (const char* at = expression.data(); at != end;) {
    const char* const begin = at;
    at = std::find_if_not(at, end, in_word);
    int64_t number = 0;
    if (std::from_chars(begin, at, number).ec == std::errc() && onnx::has_stand_in(number))
      return true;
    if (at == begin) ++at;
  }
  return false;
}

int64_t Size::at(const int64_t* dims) const {
  int64_t size = number;
  for (size_t d = 0; d < kMostDims; ++d) {
    for (int p = 0; p < powers[d]; ++p) size *= dims[d];
  }
  return size;
}

Size size_of(const Graph& graph, int64_t number) {
  Size size;
  for (size_t d = 0; number != 0 && d < graph.dims.size(); ++d) {
    for (; number % graph.dims[d].stand_in == 0; number /= graph.dims[d].stand_in) ++size.powers[d];
  }
  size.number = number;
  return size;
}

std::string to_string(const Graph& graph, const Size& size) {
  std::string text = size.number == 1 && !size.fixed() ? "" : std::to_string(size.number);
  for (size_t d = 0; d < graph.dims.size(); ++d) {
    for (int p = 0; p < size.powers[d]; ++p) text += (text.empty() ? "" : "*") + graph.dims[d].name;
  }
  return text;
}

DimSize range_of(const Graph& graph, const Size& size) {
  std::vector<int64_t> least, most;
  for (const Dim& d : graph.dims) {
    least.push_back(d.range.min);
    most.push_back(d.range.max);
  }
  return {size.at(least.data()), size.at(most.data())};
}

bool is_ranged(const Graph& graph, const Value& value) {
  return !size_of(graph, value.count()).fixed();
}

bool depends_on_values(const Graph& graph, const Size& size) {
  for (size_t d = 0; d < graph.dims.size(); ++d) {
    if (graph.dims[d].by_value && size.powers[d] > 0) return true;
  }
  return false;
}

bool depends_on_values(const Graph& graph, const Value& value) {
  return depends_on_values(graph, size_of(graph, value.count()));
}

Shape shape_at(const Graph& graph, const Value& value, const int64_t* dims) {
  Shape shape;
  for (int64_t number : value.shape) shape.push_back(size_of(graph, number).at(dims));
  return shape;
}

int64_t most_bytes(const Graph& graph, const Value& value) {
  return bytes_for(value.elem, range_of(graph, size_of(graph, value.count())).max);
}

RangedSpec ranged(const Graph& graph, const Node& node) {
  if (graph.dims.empty()) return {node.spec, {}};
  const Spec spec = with_sizes(node, [&](int64_t n) { return range_of(graph, size_of(graph, n)); });
  RangedSpec made{spec_to_inline(spec), {}};
  const Workload workload = parse_workload(made.spec);
  const std::vector<OperandInfo> numbers = operands_of(parse_workload(node.spec), {});
  made.sizes = sizes_of_dims(graph, workload, numbers);
  check_shapes(graph, node, workload, made.sizes, numbers, false);
  check_shapes(graph, node, workload, made.sizes, numbers, true);
  return made;
}

void require_same(const Graph& graph, const Graph& other) {
  const auto refuse = [](const std::string& what) {
    throw GraphError(
        fmt::format("'{}': it depends on a ranged dimension in another way than by its size; give "
                    "the dimensions of the model one size each",
                    what));
  };
  const auto same = [&](int64_t a, int64_t b) { return size_of(graph, a) == size_of(other, b); };
  for (size_t v = 0; v < graph.values.size() && v < other.values.size(); ++v) {
    const Value &a = graph.values[v], &b = other.values[v];
    const bool equal = std::ranges::equal(a.shape, b.shape, same);
    const bool data =
        !a.constant || !b.constant || a.data == b.data || (a.data && b.data && *a.data == *b.data);
    if (a.name != b.name || !equal || !data) refuse(a.name);
  }
  for (size_t n = 0; n < graph.nodes.size() && n < other.nodes.size(); ++n) {
    const Node &a = graph.nodes[n], &b = other.nodes[n];
    const bool equal = a.is_workload() == b.is_workload() && a.operands == b.operands &&
                       a.first == b.first && a.plain == b.plain &&
                       (!a.is_workload() || ranged(graph, a).spec == ranged(other, b).spec);
    if (!equal || a.is_loop() != b.is_loop()) refuse(a.label);
    if (!a.is_loop()) continue;
    if (!same(a.loop->rounds, b.loop->rounds)) refuse(a.label);
    require_same(a.loop->body, b.loop->body);
  }
  if (graph.values.size() != other.values.size()) refuse(graph.values.back().name);
  if (graph.nodes.size() != other.nodes.size()) refuse(graph.nodes.back().label);
}

Graph at_sizes(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  std::vector<int64_t> dims;
  for (const Dim& d : graph.dims) {
    if (d.by_value) {
      dims.push_back(d.stand_in);
      continue;
    }
    const auto given = sizes.find(d.name);
    if (given == sizes.end() || given->second < d.range.min || given->second > d.range.max) {
      throw GraphError(fmt::format("the size of '{}' is {}; expected {} to {}", d.name,
                                   given == sizes.end() ? "missing" : std::to_string(given->second),
                                   d.range.min, d.range.max));
    }
    dims.push_back(given->second);
  }
  Graph fixed = renumbered(graph, dims);
  std::erase_if(fixed.dims, [](const Dim& d) { return !d.by_value; });
  share_dims(&fixed);
  return fixed;
}

Graph with_stand_ins(const Graph& graph, const std::array<int64_t, kMostDims>& stand_ins) {
  Graph made = renumbered(graph, {stand_ins.begin(), stand_ins.end()});
  for (size_t d = 0; d < made.dims.size(); ++d) made.dims[d].stand_in = stand_ins.at(d);
  share_dims(&made);
  return made;
}

}  // namespace tilewright::graph
