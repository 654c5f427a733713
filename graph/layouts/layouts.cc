#include "graph/layouts/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "graph/interpret.h"
#include "graph/layouts/minimum_cut.h"
#include "graph/statements.h"
#include "ir/ops/spec.h"
#include "ir/oracle/oracle_shape.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

// Estimates, in nanoseconds. Only their proportions count.
constexpr double kOperation = 0.01;   // of a product that channels share
constexpr double kLone = 0.1;         // of a sum within a channel
constexpr double kSaved = 0.2;        // of a sum's time, with the channels last
constexpr double kTransformed = 0.5;  // the same of sums that `use_winograd` may take
constexpr double kByte = 0.1;         // read or written by a copy
constexpr double kShared = 0.25;      // of a copy's time, for a product that reads the other layout

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

// How a node takes and makes the layouts.
struct Role {
  enum class Kind {
    Fixed,    // reads and makes values with the channels first
    Text,     // takes each of its values in any layout
    Mean,     // a `reduce` over h and w
    Channels  // a view that joins values along their channels, or slices one
  };
  Kind kind = Kind::Fixed;
  std::optional<graph::Text> text = {};
};

class ChannelsLast {
 public:
  explicit ChannelsLast(Graph* graph) : graph_(*graph) {}

  // Nothing where no value changes, or where a node cannot be said in the layouts that were chosen.
  std::optional<int> run() {
    for (size_t v = 0; v < graph_.values.size(); ++v) maps_.push_back(is_map(graph_.values[v]));
    for (const Node& node : graph_.nodes) roles_.push_back(role_of(node));
    choose();
    if (std::ranges::count(last_, true) == 0) return std::nullopt;
    const std::vector<Node> before = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (size_t n = 0; n < before.size(); ++n) {
      if (!rewrite(before[n], roles_[n])) return std::nullopt;
    }
    for (size_t v = 0; v < last_.size(); ++v) {
      if (last_[v]) put_channels_last(&graph_.values[v].shape);
    }
    if (!restore_outputs()) return std::nullopt;
    drop_unused(&graph_);
    return static_cast<int>(std::ranges::count(last_, true));
  }

 private:
  // Whether the two layouts of a value differ.
  static bool is_map(const Value& v) {
    return v.shape.size() == 4 && !v.constant && v.shape[1] > 1 && v.shape[2] * v.shape[3] > 1;
  }

  // Whether the node reads the value in the shape that it has, or its rows and columns as one axis.
  bool is_map_of(const TextInput& input) const {
    if (!maps_[input.value]) return false;
    const Shape& own = graph_.values[input.value].shape;
    return input.shape == own || input.shape == Shape{own[0], own[1], own[2] * own[3]};
  }

  Role role_of(const Node& node) const {
    if (node.is_view()) return {slices_channels(node) ? Role::Kind::Channels : Role::Kind::Fixed};
    if (!node.is_workload()) return {Role::Kind::Fixed};
    if (auto text = typed_text_of(node)) {
      bool all = true;
      for (const TextInput& i : text->inputs) all &= !maps_[i.value] || is_map_of(i);
      if (maps_[node.output]) {
        all &= sizes_of(text->stages.back().axes()) == graph_.values[node.output].shape;
      }
      if (all) return {Role::Kind::Text, std::move(text)};
    }
    const Spec spec = parse_spec(node.spec);
    const bool mean = spec.op == "reduce" && maps_[node.operands.at("X")] &&
                      spec.get<std::vector<DimSize>>("shape").size() == 4 &&
                      spec.get<std::vector<int64_t>>("axes") == std::vector<int64_t>{2, 3};
    return {mean ? Role::Kind::Mean : Role::Kind::Fixed};
  }

  // Whether a view has all rows and columns of whole channels of its parts, which have one batch.
  bool slices_channels(const Node& node) const {
    const Shape& made = graph_.values[node.output].shape;
    if (!maps_[node.output] || made[0] != 1) return false;
    return std::ranges::all_of(node.parts(), [&](size_t part) {
      const Shape& from = graph_.values[part].shape;
      return maps_[part] && from[0] == 1 && from[2] == made[2] && from[3] == made[3] &&
             node.first % (made[2] * made[3]) == 0;
    });
  }

  int64_t copy_cost(size_t value) const {
    return std::llround(2 * kByte * static_cast<double>(graph_.values[value].bytes()));
  }

  // The value whose element this is; nothing for what the text makes, and for all else.
  static std::optional<size_t> value_read(const Text& text, const Syntax& s) {
    const auto input = std::ranges::find(text.inputs, s.text, &TextInput::name);
    if (!is_read(s) || input == text.inputs.end()) return std::nullopt;
    return input->value;
  }

  // Whether the terms of a sum are products of several calculated values, as those of attention are: their
  // axes are none of a feature map.
  bool mixes_values(const Text& text, const Stage& stage) const {
    std::set<std::string> calculated;
    walk(&stage.statement.value, [&](const Syntax* s) {
      const auto value = value_read(text, *s);
      if (is_read(*s) && !(value && graph_.values[*value].constant)) calculated.insert(s->text);
    });
    return calculated.size() > 1;
  }

  // Whether the channels of a product share what it reads: it has reduce axes of rows, columns and channels,
  // where a window of one channel has less.
  static bool is_shared(const Stage& stage) {
    return stage.indices.size() == 7 &&
           stage.indices[4].second * stage.indices[5].second * stage.indices[6].second > 16;
  }

  // Whether the windows of a sum are of three by three with stride 1.
  static bool has_small_windows(const Stage& stage) {
    bool strided = false;
    walk(&stage.statement.value, [&](const Syntax* s) {
      if (!is_read(*s)) return;
      for (const Syntax& index : s->args) {
        walk(&index, [&](const Syntax* i) { strided = strided || i->text == "*"; });
      }
    });
    return !strided && stage.indices[5].second == 3 && stage.indices[6].second == 3;
  }

  // The cost of reading an operand in the other layout.
  int64_t apart_cost(const Role& role, size_t value) const {
    const auto other = [&](const Stage& stage) {
      bool reads = false;
      walk(&stage.statement.value,
           [&](const Syntax* s) { reads = reads || value_read(*role.text, *s) == value; });
      return reads && !is_shared(stage);
    };
    const bool shared = role.text && std::ranges::none_of(role.text->stages, other);
    return std::llround((shared ? kShared : 1) * static_cast<double>(copy_cost(value)));
  }

  // The nanoseconds that the channels last save of a text.
  double saved(const Text& text) const {
    double most = 0;
    for (const Stage& stage : text.stages) {
      if (stage.is_function() || stage.statement.indices.size() != 4) continue;
      if (mixes_values(text, stage)) continue;
      double terms = 1;
      for (const auto& [name, size] : stage.indices) terms *= static_cast<double>(size);
      const bool shared = is_shared(stage);
      const double share = shared && has_small_windows(stage) ? kTransformed : kSaved;
      most = std::max(most, share * terms * (shared ? kOperation : kLone));
    }
    return most;
  }

  void choose() {
    constexpr int64_t kNever = int64_t{1} << 50;
    TwoSides sides(maps_.size());
    std::vector<bool> made(maps_.size(), false), copied(maps_.size(), false);
    for (size_t n = 0; n < roles_.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const size_t out = node.output;
      made[out] = roles_[n].kind == Role::Kind::Text || roles_[n].kind == Role::Kind::Channels;
      for (const auto& [name, value] : node.operands) {
        if (!maps_[value]) continue;
        if (roles_[n].kind == Role::Kind::Fixed) copied[value] = true;
        if (made[out] && maps_[out]) sides.add_apart(value, out, apart_cost(roles_[n], value));
      }
      if (!maps_[out]) continue;
      if (roles_[n].text) sides.add(out, std::llround(saved(*roles_[n].text)), 0);
      if (roles_[n].kind == Role::Kind::Channels) sides.add(out, 0, copy_cost(out));
    }
    for (size_t v : graph_.outputs) copied[v] = true;
    for (size_t v = 0; v < maps_.size(); ++v) {
      if (maps_[v] && !made[v]) sides.add(v, 0, kNever);
      if (maps_[v] && copied[v]) sides.add(v, 0, copy_cost(v));
    }
    last_ = sides.choose();
    for (size_t v = 0; v < maps_.size(); ++v) last_[v] = last_[v] && maps_[v];
  }

  bool rewrite(const Node& node, const Role& role) {
    const bool moved = last_[node.output] || std::ranges::any_of(node.operands, [&](const auto& o) {
                         return last_[o.second];
                       });
    if (!moved) return push(node);
    switch (role.kind) {
      case Role::Kind::Text: return add_text(node, *role.text);
      case Role::Kind::Mean: return add_mean(node);
      case Role::Kind::Channels: return add_channels(node);
      case Role::Kind::Fixed: break;
    }
    Node copy = node;
    for (auto& [name, value] : copy.operands) {
      if (!last_[value]) continue;
      const auto found = first_.find(value);
      if (found == first_.end() && !add_first(value)) return false;
      value = first_.at(value);
    }
    graph_.nodes.push_back(std::move(copy));
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
  std::vector<bool> maps_;            // by value of the graph as it was
  std::vector<bool> last_;            // by value
  std::vector<Role> roles_;           // by node of the graph as it was
  std::map<size_t, size_t> first_;    // copies with the channels first, by value
  std::map<size_t, size_t> weights_;  // constants with the channels last, by value
};

}  // namespace

int use_channels_last(Graph* graph) {
  Graph changed = *graph;
  const std::optional<int> count = ChannelsLast(&changed).run();
  if (count) *graph = std::move(changed);
  return count.value_or(0);
}

}  // namespace tilewright::graph
