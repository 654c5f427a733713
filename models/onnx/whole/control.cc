// Nodes of whole models that run graphs of their own, as loops.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

constexpr int64_t kMostRounds = std::numeric_limits<int32_t>::max();

Draft loop_draft(const Mapping& m, const Node& node, LayerLoop loop) {
  Draft d = m.draft("expr", node);
  if (loop.outputs.empty()) throw NotMapped("it gives nothing");
  d.layer.output = loop.outputs[0].name;
  d.layer.loop = std::make_shared<LayerLoop>(std::move(loop));
  return d;
}

const Node::Body& body_of(const Node& node, size_t which = 0) {
  if (which >= node.held.size()) throw NotMapped("it has no body");
  return node.held[which];
}

LayerLoop::Input carried(const Mapping& m, const std::string& name, const std::string& from,
                         const std::string& next) {
  if (m.shape(name) != m.shape(next) || m.elem(name) != m.elem(next)) {
    throw NotMapped(fmt::format("'{}' has another type or shape in later rounds", name));
  }
  return {name, m.elem(name), sizes_of_value(m, name), LayerLoop::In::Carried, from, next};
}

bool is_given(const Node& node, size_t output) {
  return output < node.outputs.size() && !node.outputs[output].empty();
}

// The value that has the axis in front: `x` itself, or a copy.
std::string rounds_first(const Mapping& m, const Node& node, const std::string& x, size_t axis,
                         Mapped* drafts) {
  if (axis == 0) return x;
  const Sizes from = sizes_of_value(m, x);
  std::vector<size_t> order = {axis};
  for (size_t d = 0; d < from.size(); ++d) {
    if (d != axis) order.push_back(d);
  }
  std::string name = fmt::format("{}/{}/rounds", node.outputs.at(0), x);
  drafts->push_back(reordered(m, node, x, from, m.elem(x), order, name));
  return name;
}

// The name of an output of the node with the axis of rounds in front, from which a copy with that axis in its place
// is made.
std::string rounds_at(const Mapping& m, const Node& node, size_t output, int64_t given,
                      Mapped* drafts) {
  const std::string& y = node.outputs[output];
  const Sizes to = sizes_of_value(m, y);
  const size_t axis = checked_axis(given, to.size());
  if (axis == 0) return y;
  Sizes rows = to;
  rows.erase(rows.begin() + static_cast<int64_t>(axis));
  rows.insert(rows.begin(), to[axis]);
  std::vector<size_t> order;
  for (size_t d = 0; d < to.size(); ++d) order.push_back(d == axis ? 0 : d < axis ? d + 1 : d);
  std::string name = y + "/rounds";
  drafts->push_back(reordered(m, node, name, rows, m.elem(y), order, y));
  return name;
}

Mapped express_scan(const Mapping& m, const Node& node) {
  const Node::Body& body = body_of(node);
  const auto scanned = static_cast<size_t>(node.integer("num_scan_inputs", 0));
  if (m.graph.opset(node) < 9) throw NotMapped("it scans batches, as before version 9");
  if (scanned < 1 || body.inputs.size() < scanned || node.inputs.size() < body.inputs.size()) {
    throw NotMapped("it scans nothing");
  }
  const size_t states = body.inputs.size() - scanned;
  const auto in = node.integers("scan_input_directions").value_or(std::vector<int64_t>(scanned, 0));
  const auto out = node.integers("scan_output_directions")
                       .value_or(std::vector<int64_t>(body.outputs.size() - states, 0));
  const auto in_axes = node.integers("scan_input_axes").value_or(std::vector<int64_t>(scanned, 0));
  const auto out_axes = node.integers("scan_output_axes")
                            .value_or(std::vector<int64_t>(body.outputs.size() - states, 0));
  LayerLoop loop;
  Mapped before, behind;  // copies with the axis of rounds in front, and back
  loop.body = body.name;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const std::string& name = body.inputs[i];
    if (i < states) {
      loop.inputs.push_back(carried(m, name, node.inputs[i], body.outputs.at(i)));
    } else {
      const bool back = in.at(i - states) != 0;
      const Sizes sizes = sizes_of_value(m, node.inputs[i]);
      const size_t axis = checked_axis(in_axes.at(i - states), sizes.size());
      loop.rounds = sizes[axis];
      loop.inputs.push_back({name, m.elem(name), sizes_of_value(m, name),
                             back ? LayerLoop::In::RowsBack : LayerLoop::In::Rows,
                             rounds_first(m, node, node.inputs[i], axis, &before), ""});
    }
  }
  for (size_t o = 0; o < body.outputs.size(); ++o) {
    if (!is_given(node, o)) continue;
    const bool rows = o >= states;
    const std::string name =
        rows ? rounds_at(m, node, o, out_axes.at(o - states), &behind) : node.outputs[o];
    loop.outputs.push_back({body.outputs[o], name, rows, rows && out.at(o - states) != 0});
  }
  Mapped drafts = std::move(before);
  drafts.push_back(loop_draft(m, node, std::move(loop)));
  drafts.insert(drafts.end(), behind.begin(), behind.end());
  return drafts;
}

// Whether the value is known to be that one, through nodes that only rename.
bool is_same(const Mapping& m, std::string value, const std::string& other) {
  for (int steps = 0; steps < 64 && value != other; ++steps) {
    const Node* maker = m.graph.producer(value);
    const auto shown = maker == nullptr ? std::nullopt : shown_value(m.graph, *maker, value);
    if (!shown) return false;
    value = *shown;
  }
  return value == other;
}

// The number that the model knows of a value.
std::optional<int64_t> known_number(const Mapping& m, const std::string& value) {
  const auto& known = m.graph.value(value).contents;
  if (!known || known->size() != 1 || !(*known)[0].fixed()) return std::nullopt;
  return (*known)[0].number();
}

Mapped express_loop(const Mapping& m, const Node& node) {
  const Node::Body& body = body_of(node);
  if (body.inputs.size() < 2 || body.outputs.size() < body.inputs.size() - 1) {
    throw NotMapped("its body takes or gives too little");
  }
  const size_t states = body.inputs.size() - 2;
  LayerLoop loop;
  loop.body = body.name;
  loop.rounds = kMostRounds;
  Mapped drafts;
  const std::string most = node.has_input(0) ? node.inputs[0] : "";
  const std::string open = node.has_input(1) ? node.inputs[1] : "";
  const bool begins = open.empty() || known_number(m, open).value_or(0) != 0;
  const bool goes_on = known_number(m, body.outputs[0]).value_or(0) != 0 ||
                       (begins && !open.empty() && is_same(m, body.outputs[0], body.inputs[1]));
  if (!most.empty()) {
    const auto& size = m.graph.value(most).contents;
    if (size && size->size() == 1) {
      loop.rounds = m.number((*size)[0]);
    } else {
      loop.count = most;
    }
  }
  if (!begins) {
    // None where the condition is false.
    loop.count = node.outputs.at(0) + "/rounds";
    IndexExpr e(m, node, loop.count, {1}, ElemType::i64);
    const std::string all = most.empty() ? std::to_string(kMostRounds) : e.at(most, {"0"});
    drafts.push_back(
        e.finish(fmt::format("{} = select({} != 0, {}, 0)", e.left(), e.at(open, {"0"}), all)));
  }
  bool counts = false, conditional = false;  // whether the body reads these
  for (const Node& inner : m.graph.model().nodes) {
    for (const std::string& input : inner.inputs) {
      counts = counts || input == body.inputs[0];
      conditional = conditional || input == body.inputs[1];
    }
  }
  if (counts)
    loop.inputs.push_back({body.inputs[0], ElemType::i64, {1}, LayerLoop::In::Number, "", ""});
  if (conditional && !open.empty()) {
    loop.inputs.push_back(
        {body.inputs[1], ElemType::u8, {1}, LayerLoop::In::Carried, open, body.outputs[0]});
  } else if (conditional && !goes_on) {
    throw NotMapped("its body reads a condition that it is not given");
  }
  if (!goes_on) loop.go_on = body.outputs[0];
  for (size_t i = 0; i < states; ++i) {
    loop.inputs.push_back(
        carried(m, body.inputs[i + 2], node.inputs.at(i + 2), body.outputs.at(i + 1)));
  }
  for (size_t o = 0; o + 1 < body.outputs.size(); ++o) {
    if (!is_given(node, o)) continue;
    const bool rows = o >= states;
    if (rows && (!goes_on || !loop.count.empty())) {
      throw NotMapped("a run says how many rows it gives");
    }
    loop.outputs.push_back({body.outputs[o + 1], node.outputs[o], rows, false});
  }
  drafts.push_back(loop_draft(m, node, std::move(loop)));
  return drafts;
}

// A loop of one round or none for each branch, and what was made by the one that ran.
Mapped express_if(const Mapping& m, const Node& node) {
  const std::string& condition = node.inputs.at(0);
  if (taken_input(node, m.graph.value(condition), 0)) throw NotMapped("its condition is known");
  const std::string other = node.outputs.at(0) + "/other";
  Mapped drafts;
  IndexExpr no(m, node, other, {1}, ElemType::u8);
  drafts.push_back(
      no.finish(fmt::format("{} = select({} == 0, 1, 0)", no.left(), no.at(condition, {"0"}))));
  if (node.held.size() != 2) throw NotMapped("it has no two branches");
  for (size_t which = 0; which < 2; ++which) {
    const Node::Body& body = body_of(node, which);
    LayerLoop loop;
    loop.body = body.name;
    loop.count = body.name.ends_with("then_branch") ? condition : other;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (!is_given(node, o)) continue;
      if (m.shape(body.outputs.at(o)) != m.shape(node.outputs[o])) {
        throw NotMapped("its branches give values of other shapes");
      }
      loop.outputs.push_back(
          {body.outputs[o], fmt::format("{}/{}", node.outputs[o], which), true, false});
    }
    drafts.push_back(loop_draft(m, node, std::move(loop)));
  }
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (!is_given(node, o)) continue;
    IndexExpr e(m, node, o);
    const auto of = [&](size_t which) {
      return e.made_at(fmt::format("{}/{}", node.outputs[o], which), e.sizes(),
                       m.elem(node.outputs[o]), e.indices());
    };
    const size_t then = body_of(node, 0).name.ends_with("then_branch") ? 0 : 1;
    const std::string yes = of(then), otherwise = of(1 - then);
    drafts.push_back(e.finish(fmt::format("{} = select({} != 0, {}, {})", e.left(),
                                          e.at(condition, {"0"}), yes, otherwise)));
  }
  return drafts;
}

}  // namespace

const MapFns& whole_control_mappings() {
  static const MapFns kMappings = {
      {"Scan", express_scan}, {"Loop", express_loop}, {"If", express_if}};
  return kMappings;
}

}  // namespace tilewright::onnx
