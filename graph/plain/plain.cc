#include "graph/plain/plain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace tilewright::graph {

// A row of the table of operators.
struct PlainOperator {
  enum class Type : uint8_t { Any, Index, Real, Truth, Number };
  struct Operand {
    std::string_view name;
    Type type = Type::Any;
  };

  std::string_view name, options;
  std::array<Operand, 5> operands;
  size_t required = 1;  // operands; the others may be left out
  // The shapes of the outputs at a size. Throws GraphError that says what is wrong with those of the operands.
  std::vector<Shape> (*shapes)(const Plain& plain, const std::vector<Shape>& in, int64_t size);
  bool keeps_type =
      false;  // the first output has the type of the first operand; all others are i64
  int64_t (*scratch)(const std::vector<Shape>& in);
  int64_t (*run)(const PlainCall& call);
};

namespace {

using Type = PlainOperator::Type;

[[noreturn]] void refuse_plain(const std::string& label, const std::string& why) {
  throw GraphError(fmt::format("'{}': {}", label, why));
}

Shape along_axis(const Plain& plain, const Shape& shape, int64_t size) {
  if (plain.axis < 0) return {size};
  if (plain.axis >= static_cast<int64_t>(shape.size())) {
    throw GraphError(
        fmt::format("X has {} axes; expected one more than {}", shape.size(), plain.axis));
  }
  Shape made = shape;
  made[static_cast<size_t>(plain.axis)] = size;
  return made;
}

std::vector<Shape> nonzero_shapes(const Plain& /*plain*/, const std::vector<Shape>& in,
                                  int64_t size) {
  if (in[0].empty()) throw GraphError("X has no axis; expected one or more");
  return {{static_cast<int64_t>(in[0].size()), size}};
}

std::vector<Shape> compress_shapes(const Plain& plain, const std::vector<Shape>& in, int64_t size) {
  return {along_axis(plain, in[0], size)};
}

std::vector<Shape> unique_shapes(const Plain& plain, const std::vector<Shape>& in, int64_t size) {
  const Shape made = along_axis(plain, in[0], size);
  const int64_t rows =
      plain.axis < 0 ? element_count(in[0]).value() : in[0][static_cast<size_t>(plain.axis)];
  return {made, {size}, {rows}, {size}};
}

std::vector<Shape> suppression_shapes(const Plain& /*plain*/, const std::vector<Shape>& in,
                                      int64_t size) {
  const Shape &boxes = in[0], &scores = in[1];
  if (boxes.size() != 3 || scores.size() != 3 || boxes[0] != scores[0] || boxes[1] != scores[2] ||
      boxes[2] != 4) {
    throw GraphError("expected boxes [batches, boxes, 4] and scores [batches, classes, boxes]");
  }
  return {{size, 3}};
}

std::vector<Shape> range_shapes(const Plain& /*plain*/, const std::vector<Shape>& in,
                                int64_t size) {
  for (const Shape& each : in) {
    if (element_count(each) != 1) throw GraphError("expected operands of one number each");
  }
  return {{size}};
}

std::vector<Shape> slice_shapes(const Plain& plain, const std::vector<Shape>& in, int64_t size) {
  along_axis(plain, in[0], size);  // throws where there is no such axis
  return {{size}};
}

int64_t no_scratch(const std::vector<Shape>& /*in*/) { return 0; }
int64_t unique_scratch(const std::vector<Shape>& in) {
  return 2 * element_count(in[0]).value() * static_cast<int64_t>(sizeof(int64_t));
}
int64_t suppression_scratch(const std::vector<Shape>& in) {
  return in[0][1] * static_cast<int64_t>(sizeof(int64_t));
}

constexpr std::array<PlainOperator, 6> kOperators = {{
    {"NonZero", "", {{{"X"}}}, 1, nonzero_shapes, false, no_scratch, plain_nonzero},
    {"Compress",
     "axis",
     {{{"X"}, {"C", Type::Truth}}},
     2,
     compress_shapes,
     true,
     no_scratch,
     plain_compress},
    {"Unique", "axis,sorted", {{{"X"}}}, 1, unique_shapes, true, unique_scratch, plain_unique},
    {"NonMaxSuppression",
     "centers",
     {{{"boxes", Type::Real},
       {"scores", Type::Real},
       {"most", Type::Index},
       {"iou", Type::Real},
       {"least", Type::Real}}},
     2,
     suppression_shapes,
     false,
     suppression_scratch,
     plain_suppression},
    {"Range",
     "size",
     {{{"limit", Type::Number}, {"start", Type::Number}, {"delta", Type::Number}}},
     1,
     range_shapes,
     true,
     no_scratch,
     plain_range},
    {"Slice",
     "axis",
     {{{"X"}, {"start", Type::Index}, {"limit", Type::Index}, {"delta", Type::Index}}},
     1,
     slice_shapes,
     false,
     no_scratch,
     plain_slice},
}};

bool fits_type(Type wanted, ElemType elem) {
  switch (wanted) {
    case Type::Any: return bits_of(elem) % 8 == 0;
    case Type::Index: return elem == ElemType::i64;
    case Type::Real: return elem == ElemType::f32;
    case Type::Truth: return elem == ElemType::u8;
    case Type::Number:
      return elem == ElemType::i64 || elem == ElemType::i32 || elem == ElemType::i16 ||
             elem == ElemType::f32 || elem == ElemType::f64;
  }
  return false;
}

const PlainOperator& operator_named(std::string_view name) {
  const auto found = std::ranges::find(kOperators, name, &PlainOperator::name);
  if (found != kOperators.end()) return *found;
  std::string names;
  for (const PlainOperator& op : kOperators)
    names += (names.empty() ? "" : ", ") + std::string(op.name);
  throw GraphError(fmt::format("there is no plain operator '{}'; expected one of {}", name, names));
}

bool is_among(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (names.substr(0, comma) == name) return true;
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return false;
}

}  // namespace

Plain Plain::parse(const std::string& text) {
  Plain plain;
  std::string_view rest = text;
  const size_t colon = std::min(rest.find(':'), rest.size());
  plain.op = &operator_named(rest.substr(0, colon));
  rest.remove_prefix(std::min(colon + 1, rest.size()));
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, std::min(rest.find(','), rest.size()));
    rest.remove_prefix(std::min(option.size() + 1, rest.size()));
    const size_t equals = std::min(option.find('='), option.size());
    const std::string_view name = option.substr(0, equals);
    int64_t value = -1;
    if (equals < option.size()) {
      std::from_chars(option.data() + equals + 1, option.data() + option.size(), value);
    }
    if (!is_among(plain.op->options, name) || value < 0 || value > 31 ||
        (name != "axis" && value > 1)) {
      throw GraphError(fmt::format("'{}' is no option of {}; expected {}", option, plain.op->name,
                                   plain.op->options.empty() ? "none" : plain.op->options));
    }
    if (name == "axis") plain.axis = value;
    if (name == "sorted") plain.sorted = value != 0;
    if (name == "centers") plain.centers = value != 0;
    if (name == "size") plain.size = value != 0;
  }
  return plain;
}

PlainRoutine::PlainRoutine(const Graph& graph, const Node& node) : label_(node.label) {
  try {
    plain_ = Plain::parse(node.plain);
  } catch (const GraphError& e) {
    refuse_plain(label_, e.what());
  }
  const PlainOperator& op = *plain_.op;
  std::vector<Shape> shapes, largest;
  size_t known = 0;
  for (size_t i = 0; i < op.operands.size() && !op.operands[i].name.empty(); ++i) {
    const auto& [name, type] = op.operands[i];
    const auto bound = node.operands.find(std::string(name));
    inputs_.push_back(bound == node.operands.end() ? kNone : bound->second);
    in_.emplace_back();
    sizes_.emplace_back();
    shapes.emplace_back();
    largest.emplace_back();
    if (bound == node.operands.end()) {
      if (i < op.required) refuse_plain(label_, fmt::format("operand {} is missing", name));
      continue;
    }
    ++known;
    const Value& v = graph.values[bound->second];
    if (!fits_type(type, v.elem) || (i >= op.required && v.count() != 1)) {
      refuse_plain(label_, fmt::format("operand {} is '{}' of {}, which {} does not take", name,
                                       v.name, type_text(v), op.name));
    }
    in_.back().elem = v.elem;
    shapes.back() = v.shape;
    for (int64_t number : v.shape) {
      sizes_.back().push_back(size_of(graph, number));
      largest.back().push_back(range_of(graph, sizes_.back().back()).max);
    }
    in_.back().shape = largest.back();
  }
  if (known != node.operands.size()) {
    refuse_plain(label_, fmt::format("it has operands that {} does not take", op.name));
  }
  find_dim(graph, node, shapes);
  scratch_bytes_ = static_cast<size_t>(op.scratch(largest));
}

void PlainRoutine::find_dim(const Graph& graph, const Node& node,
                            const std::vector<Shape>& shapes) {
  outputs_ = node.outputs();
  const auto wanted = [&](size_t d) {
    try {
      return plain_.op->shapes(plain_, shapes, graph.dims[d].stand_in);
    } catch (const GraphError& e) {
      refuse_plain(label_, e.what());
    }
  };
  const Value& first = graph.values[node.output];
  for (dim_ = 0; dim_ < graph.dims.size(); ++dim_) {
    if (graph.dims[dim_].by_value && first.shape == wanted(dim_)[0]) break;
  }
  if (dim_ == graph.dims.size()) {
    refuse_plain(label_,
                 fmt::format("'{}' is {}; {} gives another shape, with a size that is a dim "
                             "\"NAME\": at most N",
                             first.name, type_text(first), plain_.op->name));
  }
  most_ = graph.dims[dim_].range.max;
  const std::vector<Shape> made = wanted(dim_);
  if (made.size() != outputs_.size()) {
    refuse_plain(label_,
                 fmt::format("it has {} outputs; expected {}", outputs_.size(), made.size()));
  }
  for (size_t o = 0; o < made.size(); ++o) {
    const Value& v = graph.values[outputs_[o]];
    const ElemType elem = o == 0 && plain_.op->keeps_type ? in_[0].elem : ElemType::i64;
    if (v.shape != made[o] || v.elem != elem) {
      refuse_plain(label_, fmt::format("'{}' is {}; expected {}[{}]", v.name, type_text(v),
                                       to_string(elem), fmt::join(made[o], ", ")));
    }
    out_.push_back({elem, {}, nullptr});
  }
}

int64_t PlainRoutine::run(const int64_t* dims) {
  for (size_t i = 0; i < in_.size(); ++i) {
    for (size_t axis = 0; axis < sizes_[i].size(); ++axis) {
      in_[i].shape[axis] = sizes_[i][axis].at(dims);
    }
  }
  try {
    return plain_.op->run({plain_, in_, out_, most_, scratch_.get()});
  } catch (const GraphError& e) {
    refuse_plain(label_, e.what());
  }
}

void require_room(const PlainCall& call, int64_t size) {
  if (size <= call.most) return;
  throw GraphError(
      fmt::format("it gives more than {} elements, the most that the program says", call.most));
}

}  // namespace tilewright::graph
