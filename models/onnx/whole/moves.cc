// Expressions of whole models: what moves elements.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// "i + 3", "i - 3", "i".
std::string shifted(const std::string& index, int64_t by) {
  if (by == 0) return index;
  return by > 0 ? fmt::format("{} + {}", index, by) : fmt::format("{} - {}", index, -by);
}

Draft copied(const IndexExpr& e, const std::string& value) {
  return e.finish(fmt::format("{} = {}", e.left(), value));
}

Mapped express_transpose(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const size_t rank = sizes_of_value(m, node.inputs.at(0)).size();
  Sizes order;
  for (size_t d = rank; d-- > 0;) order.push_back(static_cast<int64_t>(d));
  order = node.integers("perm").value_or(order);
  if (order.size() != rank) throw NotMapped("its order has not as many axes as the input");
  std::vector<std::string> at(rank);
  for (size_t d = 0; d < rank; ++d) at[checked_axis(order[d], rank)] = e.indices().at(d);
  return {copied(e, e.at(node.inputs[0], at))};
}

// A stretch of an axis: where it begins and its step.
struct Stretch {
  int64_t start = 0, step = 1;
};

Draft slice(const Mapping& m, const Node& node, size_t output, const std::vector<Stretch>& axes) {
  IndexExpr e(m, node, output);
  std::vector<std::string> at;
  for (size_t d = 0; d < axes.size(); ++d) {
    const auto& [start, step] = axes[d];
    const std::string& i = e.indices().at(d);
    if (step < 0) {
      at.push_back(step == -1 ? fmt::format("{} - {}", start, i)
                              : fmt::format("{} - {} * {}", start, i, -step));
    } else {
      at.push_back(shifted(step == 1 ? i : fmt::format("{} * {}", i, step), start));
    }
  }
  // A ranged stretch of a fixed axis lies within it, as its shape was inferred: an expression has to say so.
  const Sizes from = sizes_of_value(m, node.inputs.at(0));
  std::string value = e.at(node.inputs[0], at);
  for (size_t d = 0; d < axes.size(); ++d) {
    if (has_stand_in(from[d]) || !has_stand_in(e.sizes().at(d))) continue;
    if (axes[d].start != 0 || axes[d].step != 1)
      throw NotMapped("it takes a ranged stretch that begins later");
    value = fmt::format("select({} < {}, {}, 0)", e.indices()[d], from[d], value);
  }
  return copied(e, value);
}

// Places that are counted from the end of an axis are numbers of the program.
void require_known(int64_t size) {
  if (has_stand_in(size))
    throw NotMapped("it counts from the end of a ranged axis; give it one size");
}

// A slice of which a run calculates stretches: their elements' places are values of their own.
std::optional<Draft> slice_at_places(const Mapping& m, const Node& node) {
  const Shape& shape = m.shape(node.outputs.at(0));
  const Values& values = m.graph.values();
  const auto is_calculated = [&](size_t d) {
    const CalculatedSize* size = values.calculated(shape[d]);
    return size != nullptr && !size->sliced.empty() && shape[d] != m.shape(node, 0).at(d);
  };
  std::vector<size_t> calculated;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (is_calculated(d)) calculated.push_back(d);
  }
  if (calculated.empty()) return std::nullopt;
  IndexExpr e(m, node);
  std::vector<std::string> at = e.indices();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::ranges::count(calculated, d) > 0) {
      at[d] =
          e.made_at(values.calculated(shape[d])->places(), {e.sizes()[d]}, ElemType::i64, {at[d]});
    } else if (shape[d] != m.shape(node, 0).at(d)) {
      throw NotMapped("a run calculates a part of its bounds; expected them of all axes or none");
    }
  }
  return copied(e, e.at(node.inputs[0], at));
}

Mapped express_slice(const Mapping& m, const Node& node) {
  if (auto calculated = slice_at_places(m, node)) return {*calculated};
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  auto starts = known_numbers(m, node, "starts", 1);
  auto axes = known_numbers(m, node, "axes", 3);
  const Sizes steps =
      known_numbers(m, node, "steps", 4).value_or(Sizes(starts ? starts->size() : 0, 1));
  if (!starts) throw NotMapped("it has no starts");
  std::vector<Stretch> stretches(sizes.size());
  for (size_t i = 0; i < starts->size(); ++i) {
    const size_t d = checked_axis(axes ? axes->at(i) : static_cast<int64_t>(i), sizes.size());
    const int64_t step = steps.at(i), size = sizes[d];
    if (step == 0) throw NotMapped("a step is 0");
    if (step < 0 || (*starts)[i] < 0) require_known(size);
    int64_t start = (*starts)[i] < 0 ? (*starts)[i] + size : (*starts)[i];
    start = std::clamp<int64_t>(start, 0, step > 0 ? size : size - 1);
    stretches[d] = {start, step};
  }
  return {slice(m, node, 0, stretches)};
}

Mapped express_split(const Mapping& m, const Node& node) {
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  const size_t axis = checked_axis(node.integer("axis", 0), sizes.size());
  Mapped drafts;
  int64_t start = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (std::ranges::count(m.shape(node.outputs[i]), Extent(0)) > 0) continue;
    std::vector<Stretch> stretches(sizes.size());
    stretches[axis].start = start;
    const Sizes own = sizes_of_value(m, node.outputs[i]);
    if (!node.outputs[i].empty()) drafts.push_back(slice(m, node, i, stretches));
    start += own.at(axis);
  }
  return drafts;
}

Mapped express_concat(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const size_t axis = checked_axis(node.integer("axis", 0), e.sizes().size());
  std::vector<std::string> inputs;  // that have elements
  for (const std::string& input : node.inputs) {
    const Shape& shape = m.shape(input);
    if (std::ranges::count(shape, Extent(0)) == 0) inputs.push_back(input);
  }
  if (inputs.empty() || inputs.size() > 40)
    throw NotMapped("it joins none or more than 40 tensors");
  std::vector<int64_t> starts = {0};
  for (const std::string& input : inputs) {
    starts.push_back(starts.back() + sizes_of_value(m, input).at(axis));
  }
  std::string text;
  for (size_t i = inputs.size(); i-- > 0;) {
    std::vector<std::string> at = e.indices();
    at[axis] = shifted(at[axis], -starts[i]);
    const std::string own = e.at(inputs[i], at);
    text = text.empty() ? own
                        : fmt::format("select({} < {}, {}, {})", e.indices()[axis], starts[i + 1],
                                      own, text);
  }
  return {copied(e, text)};
}

Mapped express_expand(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  return {copied(e, e.element(node.inputs.at(0)))};
}

Mapped express_tile(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  std::vector<std::string> at;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const std::string& i = e.indices().at(d);
    at.push_back(sizes[d] == e.sizes()[d] ? i : fmt::format("{} % {}", i, sizes[d]));
  }
  return {copied(e, e.at(node.inputs[0], at))};
}

// Whether the elements are those that a node finds: places from 0 on, perhaps moved about.
bool are_found(const Graph& graph, std::string value) {
  static const std::set<std::string> kFinds = {"NonZero", "NonMaxSuppression", "ArgMax", "ArgMin"},
                                     kMoves = {"Transpose", "Slice",   "Squeeze", "Unsqueeze",
                                               "Reshape",   "Flatten", "Gather",  "Identity",
                                               "Split",     "Cast"};
  for (size_t steps = 0; steps < graph.model().nodes.size(); ++steps) {
    const Node* node = graph.producer(value);
    if (node == nullptr || kFinds.contains(node->full_op())) return node != nullptr;
    if (!kMoves.contains(node->full_op()) || !node->has_input(0)) return false;
    value = node->inputs[0];
  }
  return false;
}

// Whether an index may count from the end. Those that a model is given may.
bool has_negatives(const Mapping& m, const std::string& indices) {
  if (are_found(m.graph, indices)) return false;
  const Tensor* known = m.graph.value(indices).tensor;
  if (known == nullptr || !known->readable()) return true;
  for (int64_t i = 0; i < known->count; ++i) {
    if (known->whole_at(i) < 0) return true;
  }
  return false;
}

// An element whose indices from `axis` on are those that `positions` hold, which count from the end where they are
// negative.
std::string picked(IndexExpr& e, const std::string& table,
                   const std::vector<std::string>& positions, const Sizes& sizes,
                   std::vector<std::string> at, size_t axis, bool may_be_negative) {
  if (positions.empty()) return e.at(table, at);
  const std::vector<std::string> rest(positions.begin() + 1, positions.end());
  at[axis] = positions[0];
  std::string plain = picked(e, table, rest, sizes, at, axis + 1, may_be_negative);
  if (!may_be_negative) return plain;
  at[axis] = fmt::format("{} + {}", positions[0], sizes[axis]);
  return fmt::format("select({} < 0, {}, {})", positions[0],
                     picked(e, table, rest, sizes, at, axis + 1, true), plain);
}

Mapped express_gather(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string &table = node.inputs.at(0), &indices = node.inputs.at(1);
  const Sizes sizes = sizes_of_value(m, table), chosen = sizes_of_value(m, indices);
  const size_t axis = checked_axis(node.integer("axis", 0), sizes.size());
  std::vector<std::string> at, where;
  for (size_t d = 0; d < axis; ++d) at.push_back(e.indices().at(d));
  for (size_t d = 0; d < chosen.size(); ++d) where.push_back(e.indices().at(axis + d));
  at.emplace_back();
  for (size_t d = axis + 1; d < sizes.size(); ++d) {
    at.push_back(e.indices().at(d - 1 + chosen.size()));
  }
  const std::optional<Shape>& known = m.graph.value(indices).contents;
  if (chosen.empty() && known && known->size() == 1 && (*known)[0].fixed()) {
    const int64_t index = (*known)[0].number();
    if (index < 0) require_known(sizes[axis]);
    at[axis] = std::to_string(index < 0 ? index + sizes[axis] : index);
    return {copied(e, e.at(table, at))};
  }
  const std::string position = e.at(indices, where);
  return {copied(e, picked(e, table, {position}, sizes, at, axis, has_negatives(m, indices)))};
}

Mapped express_gather_elements(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string &table = node.inputs.at(0), &indices = node.inputs.at(1);
  const Sizes sizes = sizes_of_value(m, table);
  const size_t axis = checked_axis(node.integer("axis", 0), sizes.size());
  const std::string position = e.at(indices, e.indices());
  return {
      copied(e, picked(e, table, {position}, sizes, e.indices(), axis, has_negatives(m, indices)))};
}

// The last axis of the indices has the places along some axes, behind those that both have in common.
Mapped express_gather_nd(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string &table = node.inputs.at(0), &indices = node.inputs.at(1);
  const Sizes sizes = sizes_of_value(m, table), chosen = sizes_of_value(m, indices);
  const size_t common = static_cast<size_t>(node.integer("batch_dims", 0));
  const auto places = static_cast<size_t>(chosen.empty() ? 0 : chosen.back());
  constexpr size_t kMostPlaces = 4;
  if (places < 1 || places > kMostPlaces || common + places > sizes.size() ||
      common + 1 > chosen.size()) {
    throw NotMapped("its indices name other axes than the tensor has");
  }
  const std::vector<std::string>& i = e.indices();
  std::vector<std::string> where(i.begin(), i.begin() + static_cast<int64_t>(chosen.size()) - 1),
      positions;
  where.emplace_back();
  for (size_t p = 0; p < places; ++p) {
    where.back() = std::to_string(p);
    positions.push_back(e.at(indices, where));
  }
  std::vector<std::string> at(i.begin(), i.begin() + static_cast<int64_t>(common));
  at.resize(common + places);
  for (size_t d = common + places; d < sizes.size(); ++d) {
    at.push_back(i.at(d - common - places + chosen.size() - 1));
  }
  return {copied(e, picked(e, table, positions, sizes, at, common, has_negatives(m, indices)))};
}

// For each element of a scatter's output, where along the axis its update stands, and -1 where it has none. Nothing where the indices or a size are not known, or where so long a
// table saves nothing.
std::optional<std::vector<double>> written_from(const Mapping& m, const std::string& indices,
                                                const Sizes& sizes, const Sizes& given,
                                                size_t axis) {
  constexpr int64_t kMostElements = 1 << 22, kFewUpdates = 4;
  const Tensor* known = m.graph.value(indices).tensor;
  if (known == nullptr || !known->readable() || given[axis] <= kFewUpdates) return std::nullopt;
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 0;) {
    if (has_stand_in(sizes[d])) return std::nullopt;
    if (d + 1 < sizes.size()) strides[d] = strides[d + 1] * sizes[d + 1];
  }
  const int64_t count = strides[0] * sizes[0];
  if (count > kMostElements) return std::nullopt;
  std::vector<double> from(static_cast<size_t>(count), -1);
  for (int64_t i = 0; i < known->count; ++i) {
    int64_t rest = i, place = 0, along = 0;
    for (size_t d = given.size(); d-- > 0; rest /= given[d]) {
      int64_t at = rest % given[d];
      if (d == axis) {
        along = at;
        at = known->whole_at(i);
        if (at < 0) at += sizes[d];
        if (at < 0 || at >= sizes[d]) throw NotMapped("an index is outside of its axis");
      }
      place += at * strides[d];
    }
    from[static_cast<size_t>(place)] = static_cast<double>(along);
  }
  return from;
}

// The test whether an index that `position` holds is this place of an axis.
std::string names_place(const Mapping& m, const std::string& indices, const std::string& position,
                        const std::string& place, int64_t size) {
  if (!has_negatives(m, indices)) return fmt::format("{} == {}", position, place);
  return fmt::format("({0} == {1} || {0} + {2} == {1})", position, place, size);
}

// The first operand of a scatter behind its updates; `test` says for each `update` whether it is for this element.
Mapped scattered(IndexExpr& e, const Node& node, const std::string& test,
                 const std::string& update) {
  const std::string kind = node.text("reduction", "none"), y = e.left();
  const std::string before = e.element(node.inputs.at(0));
  const std::string s = e.left("S");
  if (kind == "add") {
    return {e.finish(
        fmt::format("{} += select({}, {}, 0); {} = {} + {}", s, test, update, y, before, s))};
  }
  if (kind == "max" || kind == "min") {
    return {e.finish(fmt::format("{0} {1}= select({2}, {3}, {4}); {5} = {1}({4}, {0})", s, kind,
                                 test, update, before, y))};
  }
  if (kind != "none") throw NotMapped(fmt::format("it combines by {}", kind));
  const std::string c = e.left("C");
  return {e.finish(
      fmt::format("{0} += select({1}, {2}, 0); {3} max= select({1}, 1, 0); {4} = select({3} > 0, "
                  "{0}, {5})",
                  s, test, update, c, y, before))};
}

// An element that an update names is that update, or is combined with all that name it.
Mapped express_scatter_elements(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string &data = node.inputs.at(0), &indices = node.inputs.at(1);
  const Sizes sizes = sizes_of_value(m, data), given = sizes_of_value(m, indices);
  const size_t axis = checked_axis(node.integer("axis", 0), sizes.size());
  if (sizes[axis] > (1 << 24)) throw NotMapped("its axis is too long");
  std::vector<std::string> at = e.indices();
  std::string test;  // whether there are updates for the other axes' indices
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d != axis && given.at(d) != sizes[d]) test += fmt::format("{} < {} && ", at[d], given[d]);
  }
  const std::string kind = node.text("reduction", "none"), y = e.left();
  if (kind == "none") {
    if (const auto from = written_from(m, indices, sizes, given, axis)) {
      std::string place = e.indices()[0];
      for (size_t d = 1; d < sizes.size(); ++d) {
        place = fmt::format("({}) * {} + {}", place, sizes[d], e.indices()[d]);
      }
      at[axis] = e.table("from", ElemType::i32, *from, place);
      return {e.finish(fmt::format("{} = select({}{} >= 0, {}, {})", y, test, at[axis],
                                   e.at(node.inputs.at(2), at), e.element(data)))};
    }
  }
  const std::string r = e.reduced(given.at(axis));
  at[axis] = r;
  const std::string position = e.at(indices, at), own = e.indices()[axis];
  test += names_place(m, indices, position, own, sizes[axis]);
  return scattered(e, node, test, e.at(node.inputs.at(2), at));
}

// An element whose place a row of the indices names is that update, or is combined with all that name it.
Mapped express_scatter_nd(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string &data = node.inputs.at(0), &indices = node.inputs.at(1);
  const Sizes sizes = sizes_of_value(m, data), given = sizes_of_value(m, indices);
  const size_t places = static_cast<size_t>(given.empty() ? 0 : given.back());
  if (places < 1 || places > sizes.size())
    throw NotMapped("its indices name other axes than the tensor has");
  std::vector<std::string> rows;
  for (size_t d = 0; d + 1 < given.size(); ++d) rows.push_back(e.reduced(given[d]));
  if (rows.empty()) rows.push_back(e.reduced(1));
  std::vector<std::string> where(rows.begin(),
                                 rows.begin() + static_cast<int64_t>(given.size()) - 1),
      tests;
  std::vector<std::string> update = where;
  where.emplace_back();
  for (size_t p = 0; p < places; ++p) {
    where.back() = std::to_string(p);
    const std::string position = e.at(indices, where), &own = e.indices()[p];
    tests.push_back(names_place(m, indices, position, own, sizes[p]));
  }
  update.insert(update.end(), e.indices().begin() + static_cast<int64_t>(places),
                e.indices().end());
  return scattered(e, node, fmt::format("{}", fmt::join(tests, " && ")),
                   e.at(node.inputs.at(2), update));
}

Mapped express_depth_to_space(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const int64_t b = node.integer("blocksize", 1);
  if (e.sizes().size() != 4 || b < 1) throw NotMapped("it takes images and a size of blocks");
  const auto& i = e.indices();
  const bool to_space = node.op == "DepthToSpace";
  const int64_t channels = e.sizes()[1];
  std::string channel;
  if (!to_space) {
    // The channel of the output names the place in the block, then the channel of the input.
    const int64_t c = sizes_of_value(m, node.inputs.at(0)).at(1);
    if (node.text("mode", "DCR") != "DCR") {
      return {copied(
          e, e.at(node.inputs[0], {i[0], fmt::format("{} // {}", i[1], b * b),
                                   fmt::format("{} * {} + {} // {} % {}", i[2], b, i[1], b, b),
                                   fmt::format("{} * {} + {} % {}", i[3], b, i[1], b)}))};
    }
    return {copied(
        e, e.at(node.inputs[0], {i[0], fmt::format("{} % {}", i[1], c),
                                 fmt::format("{} * {} + {} // {}", i[2], b, i[1], c * b),
                                 fmt::format("{} * {} + {} // {} % {}", i[3], b, i[1], c, b)}))};
  }
  if (node.text("mode", "DCR") == "CRD") {
    channel = fmt::format("{} * {} + {} % {} * {} + {} % {}", i[1], b * b, i[2], b, b, i[3], b);
  } else {
    channel = fmt::format("{} % {} * {} + {} % {} * {} + {}", i[2], b, b * channels, i[3], b,
                          channels, i[1]);
  }
  return {copied(e, e.at(node.inputs.at(0), {i[0], channel, fmt::format("{} // {}", i[2], b),
                                             fmt::format("{} // {}", i[3], b)}))};
}

Mapped express_constant_of_shape(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Attribute* value = node.find("value");
  double number = 0;
  if (value != nullptr && value->t && value->t->readable() && value->t->count == 1) {
    number = value->t->at(0);
  }
  return {copied(e, literal(number))};
}

// One where the index is that of the axis.
Mapped express_one_hot(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const size_t axis = checked_axis(node.integer("axis", -1), e.sizes().size());
  std::vector<std::string> where = e.indices();
  where.erase(where.begin() + static_cast<int64_t>(axis));
  const std::string index = e.at(node.inputs.at(0), where), own = e.indices()[axis];
  const std::string off = e.at(node.inputs.at(2), {"0"}), on = e.at(node.inputs.at(2), {"1"});
  return {copied(e, fmt::format("select({} == {} || {} + {} == {}, {}, {})", index, own, index,
                                e.sizes()[axis], own, on, off))};
}

// The part on one side of a diagonal.
Mapped express_triangle(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  int64_t k = 0;
  if (auto given = known_numbers(m, node, "k", 1); given && given->size() == 1) k = (*given)[0];
  const size_t rank = e.sizes().size();
  if (rank < 2) throw NotMapped("it takes matrices");
  const std::string &row = e.indices()[rank - 2], &column = e.indices()[rank - 1];
  const char* test = node.integer("upper", 1) != 0 ? ">=" : "<=";
  return {copied(e, fmt::format("select({} {} {} + {}, {}, 0)", column, test, row,
                                literal(static_cast<double>(k)), e.element(node.inputs.at(0))))};
}

// Ones along a diagonal.
Mapped express_eye(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  if (e.sizes().size() != 2) throw NotMapped("it takes a matrix");
  return {copied(e, fmt::format("select(i1 - i0 == {}, 1, 0)",
                                literal(static_cast<double>(node.integer("k", 0)))))};
}

}  // namespace

const MapFns& whole_move_mappings() {
  static const MapFns kMappings = {{"Transpose", express_transpose},
                                   {"Slice", express_slice},
                                   {"Split", express_split},
                                   {"Concat", express_concat},
                                   {"Expand", express_expand},
                                   {"Tile", express_tile},
                                   {"Gather", express_gather},
                                   {"GatherElements", express_gather_elements},
                                   {"GatherND", express_gather_nd},
                                   {"ScatterND", express_scatter_nd},
                                   {"ScatterElements", express_scatter_elements},
                                   {"Scatter", express_scatter_elements},
                                   {"DepthToSpace", express_depth_to_space},
                                   {"SpaceToDepth", express_depth_to_space},
                                   {"ConstantOfShape", express_constant_of_shape},
                                   {"EyeLike", express_eye},
                                   {"OneHot", express_one_hot},
                                   {"Trilu", express_triangle}};
  return kMappings;
}

}  // namespace tilewright::onnx
