#include "graph/layouts/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "graph/interpret.h"
#include "graph/statements.h"
#include "ir/ops/spec.h"
#include "ir/oracle/oracle_shape.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;
using Kind = LayoutRole::Kind;

// The axes of [h, w, ci, co] in [co, ci, h, w].
constexpr std::array<size_t, 4> kWeight = {2, 3, 1, 0};

// [n, c, h, w] as [n, h, w, c], and [n, c, h * w] as [n, h * w, c].
template <class T>
void put_channels_last(std::vector<T>* list) {
  std::rotate(list->begin() + 1, list->begin() + 2, list->end());
}

template <class T>
void permute(std::vector<T>* list, const std::array<size_t, 4>& axes) {
  const std::vector<T> before = *list;
  for (size_t d = 0; d < axes.size(); ++d) (*list)[d] = before[axes[d]];
}

class Rewriter {
 public:
  Rewriter(Graph* graph, const std::vector<bool>& last) : graph_(*graph), last_(last) {}

  bool run(const LayoutRoles& roles) {
    const std::vector<Node> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t n = 0; n < before.size(); ++n) {
      if (!rewrite(before[n], roles.nodes[n])) return false;
    }
    for (size_t v = 0; v < last_.size(); ++v) {
      if (last_[v]) put_channels_last(&graph_.values[v].shape);
    }
    return restore_outputs();
  }

 private:
  bool rewrite(const Node& node, const LayoutRole& role) {
    const bool moved = last_[node.output] || std::ranges::any_of(node.operands, [&](const auto& o) {
                         return last_[o.second];
                       });
    if (!moved) return push(node);
    switch (role.kind) {
      case Kind::Text: return add_text(node, *role.text);
      case Kind::Mean: return add_mean(node);
      case Kind::Channels: return add_channels(node);
      case Kind::Fixed: break;
    }
    return add_with_copies(node);
  }

  // The node reads copies of the values that have their channels last.
  bool add_with_copies(Node node) {
    for (auto& [name, value] : node.operands) {
      if (!last_[value]) continue;
      const auto found = first_.find(value);
      if (found == first_.end() && !add_first(value)) return false;
      value = first_.at(value);
    }
    graph_.nodes.push_back(std::move(node));
    return true;
  }

  // A copy of the value with the channels first.
  bool add_first(size_t value) {
    Value copy = graph_.values[value];
    copy.name += "/first";
    // Shapes change at the end: both still have the model's.
    first_[value] = graph_.add(copy);
    last_.push_back(false);
    return add_copy(value, first_[value]);
  }

  // A node that copies a value with the channels last to one with the channels first.
  bool add_copy(size_t from, size_t to) {
    const Value& v = graph_.values[to];
    Shape shape = v.shape;
    put_channels_last(&shape);
    const Indices axes = indices_over(v.shape);
    Syntax element = element_at("X", axes);
    put_channels_last(&element.args);
    Text text;
    Stage stage = stage_over(axes, {}, "Y", "=", std::move(element));
    stage.elem = v.elem;
    text.stages.push_back(std::move(stage));
    text.inputs.push_back({"X", from, shape, v.elem, false});
    return push(node_of(std::move(text), v.name, to));
  }

  bool push(std::optional<Node> node) {
    if (!node) return false;
    graph_.nodes.push_back(std::move(*node));
    return true;
  }

  bool add_text(const Node& node, Text text) {
    std::set<std::string> moved;  // tensors
    const bool last = last_[node.output];
    for (Stage& stage : text.stages) {
      const bool is_output = &stage == &text.stages.back();
      if (!last || stage.statement.indices.size() != 4) continue;
      if (!is_output) moved.insert(stage.statement.target);
      move_weights(&text, stage);
      put_channels_last(&stage.statement.indices);
      Indices left = stage.axes();
      put_channels_last(&left);
      std::ranges::copy(left, stage.indices.begin());
    }
    for (TextInput& input : text.inputs) {
      if (!last_[input.value]) continue;
      moved.insert(input.name);
      put_channels_last(&input.shape);
    }
    for (Stage& stage : text.stages) {
      walk(&stage.statement.value, [&](Syntax* s) {
        if (is_read(*s) && moved.contains(s->text)) put_channels_last(&s->args);
      });
    }
    return push(node_of(std::move(text), node.label, node.output));
  }

  // Constants that a stage reads at the channel of its result get that axis last.
  void move_weights(Text* text, Stage& stage) {
    const std::string& channel = stage.indices[1].first;
    walk(&stage.statement.value, [&](Syntax* s) {
      if (!is_read(*s) || s->args.size() != 4 || !is_name(s->args[0], channel)) return;
      TextInput* input = input_of(text, s->text);
      if (input == nullptr) return;
      const Value& v = graph_.values[input->value];
      if (!v.constant || !v.data || input->shape != v.shape) return;
      // Read once: elsewhere the name would still be of the constant as it was.
      if (reads_of(*text, s->text) != 1) return;
      input->value = weight_last(input->value);
      permute(&input->shape, kWeight);
      permute(&s->args, kWeight);
    });
  }

  // The constant [co, ci, h, w] as [h, w, ci, co].
  size_t weight_last(size_t value) {
    const auto found = weights_.find(value);
    if (found != weights_.end()) return found->second;
    Value moved = graph_.values[value];
    moved.name += "/last";
    const Shape from = moved.shape;
    permute(&moved.shape, kWeight);
    std::vector<int64_t> strides = oracle::strides_of(from);
    permute(&strides, kWeight);
    const std::string& data = *graph_.values[value].data;
    const auto size = static_cast<int64_t>(data.size()) / moved.count();
    std::string out(data.size(), '\0');
    int64_t to = 0;
    for (int64_t h = 0; h < moved.shape[0]; ++h) {
      for (int64_t w = 0; w < moved.shape[1]; ++w) {
        for (int64_t i = 0; i < moved.shape[2]; ++i) {
          for (int64_t o = 0; o < moved.shape[3]; ++o, to += size) {
            const int64_t at = h * strides[0] + w * strides[1] + i * strides[2] + o * strides[3];
            std::memcpy(out.data() + to, data.data() + at * size, static_cast<size_t>(size));
          }
        }
      }
    }
    moved.data = std::make_shared<const std::string>(std::move(out));
    const size_t added = graph_.add(std::move(moved));
    last_.push_back(false);
    return weights_[value] = added;
  }

  bool add_mean(const Node& node) {
    Node copy = node;
    Spec spec = parse_spec(node.spec);
    auto shape = spec.get<std::vector<DimSize>>("shape");
    put_channels_last(&shape);
    spec.params["shape"] = shape;
    spec.params["axes"] = std::vector<int64_t>{1, 2};
    copy.spec = spec_to_inline(spec);
    return push(std::move(copy));
  }

  bool add_channels(const Node& node) {
    const std::vector<size_t> parts = node.parts();
    // Only parts in the other layout are copied: the join stays a view.
    if (parts.size() > 1 && !last_[node.output]) return add_with_copies(node);
    const Shape& made = graph_.values[node.output].shape;
    Text text;
    Stage stage = stage_over(indices_over(made), {}, "Y", "=", {});
    stage.elem = graph_.values[node.output].elem;
    const std::vector<Syntax> at = stage.statement.indices;
    // The last part, behind the parts in front of it.
    int64_t begin = made[1];
    for (size_t p = parts.size(); p-- > 0;) {
      const int64_t channels = graph_.values[parts[p]].shape[1];
      begin = parts.size() > 1 ? begin - channels : -(node.first / (made[2] * made[3]));
      std::vector<Syntax> read = at;
      if (begin != 0) {
        read[1] = binary_syntax(begin > 0 ? "-" : "+", at[1], number_syntax(std::abs(begin)));
      }
      Shape shape = graph_.values[parts[p]].shape;
      if (last_[parts[p]]) {
        put_channels_last(&read);
        put_channels_last(&shape);
      }
      const std::string name = fmt::format("X{}", p);
      text.inputs.push_back({name, parts[p], shape, graph_.values[parts[p]].elem, false});
      Syntax value = read_syntax(name, std::move(read));
      stage.statement.value =
          p + 1 == parts.size() ? value
                                : select_syntax("<", at[1], number_syntax(begin + channels),
                                                std::move(value), std::move(stage.statement.value));
    }
    if (last_[node.output]) {
      put_channels_last(&stage.statement.indices);
      put_channels_last(&stage.indices);
    }
    text.stages.push_back(std::move(stage));
    return push(node_of(std::move(text), node.label, node.output));
  }

  // Outputs of the graph are copies with the channels first.
  bool restore_outputs() {
    for (size_t& output : graph_.outputs) {
      if (!last_[output]) continue;
      Value copy = graph_.values[output];
      graph_.values[output].name += "/last";
      copy.shape = {copy.shape[0], copy.shape[3], copy.shape[1], copy.shape[2]};
      const size_t last = std::exchange(output, graph_.add(copy));
      if (!add_copy(last, output)) return false;
    }
    return true;
  }

  Graph& graph_;
  std::vector<bool> last_;            // by value
  std::map<size_t, size_t> first_;    // copies with the channels first, by value
  std::map<size_t, size_t> weights_;  // constants with the channels last, by value
};

}  // namespace

bool store_channels_last(Graph* graph, const LayoutRoles& roles, const std::vector<bool>& last) {
  return Rewriter(graph, last).run(roles);
}

}  // namespace tilewright::graph
