#include "graph/layouts/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/layouts/minimum_cut.h"
#include "graph/layouts/rewrite.h"
#include "graph/statements.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;
using Kind = LayoutRole::Kind;

// Estimates, in nanoseconds. Only their proportions count.
constexpr double kOperation = 0.01;   // of a product that channels share
constexpr double kLone = 0.1;         // of a sum within a channel
constexpr double kSaved = 0.2;        // of a sum's time, with the channels last
constexpr double kTransformed = 0.5;  // the same of sums that `use_winograd` may take
constexpr double kByte = 0.1;         // read or written by a copy
constexpr double kShared = 0.25;      // of a copy's time, for a product that reads the other layout

constexpr int64_t kNever = int64_t{1} << 50;

double copy_cost(const Value& v) { return 2 * kByte * static_cast<double>(v.bytes()); }

// Costs of a node, in nanoseconds.
struct NodeCosts {
  double first = 0, last = 0;  // with all values in this layout
  // What reading a value in the other layout adds, by value: for an output with its channels first, and last.
  std::map<size_t, std::pair<double, double>> apart;
};

// Costs by rules of thumb.
class Estimates {
 public:
  Estimates(const Graph& graph, const std::vector<bool>& maps) : graph_(graph), maps_(maps) {}

  NodeCosts of(const Node& node, const Text& text) const {
    NodeCosts costs;
    costs.first = saved(text);
    for (const auto& [name, value] : node.operands) {
      if (!maps_[value]) continue;
      const double apart = apart_cost(text, value);
      costs.apart[value] = {apart, apart};
    }
    return costs;
  }

  // A view of whole channels is a copy with its channels last.
  NodeCosts of_channels(const Node& node) const {
    NodeCosts costs;
    costs.last = copy_cost(graph_.values[node.output]);
    for (size_t part : node.parts()) {
      const double apart = copy_cost(graph_.values[part]);
      costs.apart[part] = {apart, apart};
    }
    return costs;
  }

 private:
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
  double apart_cost(const Text& text, size_t value) const {
    const auto other = [&](const Stage& stage) {
      bool reads = false;
      walk(&stage.statement.value,
           [&](const Syntax* s) { reads = reads || value_read(text, *s) == value; });
      return reads && !is_shared(stage);
    };
    const bool shared = std::ranges::none_of(text.stages, other);
    return (shared ? kShared : 1) * copy_cost(graph_.values[value]);
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

  const Graph& graph_;
  const std::vector<bool>& maps_;
};

// Costs by the seconds of graphs of one node each.
class Times {
 public:
  Times(const Graph& graph, const GraphSeconds& seconds) : graph_(graph), seconds_(seconds) {}

  // Asks for the node in each layout alone.
  void ask(const Node& node, const std::vector<bool>& maps) {
    nanoseconds(node, maps, false, {});
    nanoseconds(node, maps, true, {});
  }

  // Puts what is known in the place of estimates: the costs of both layouts, and then those of reads across them.
  // Returns whether the first are known.
  bool improve(const Node& node, const std::vector<bool>& maps, NodeCosts* costs) {
    const auto first = nanoseconds(node, maps, false, {}), last = nanoseconds(node, maps, true, {});
    const bool known = first && last;
    if (known) std::tie(costs->first, costs->last) = std::tie(*first, *last);
    for (auto& [value, apart] : costs->apart) {
      if (!maps[node.output] && costs->apart.size() == 1) break;  // the other layout is across it
      const auto of_first = nanoseconds(node, maps, false, value);
      const auto of_last = nanoseconds(node, maps, true, value);
      // A cut takes no cost under 0.
      if (known && of_first) apart.first = std::max(0.0, *of_first - *first);
      if (known && of_last) apart.second = std::max(0.0, *of_last - *last);
    }
    return known;
  }

 private:
  // Of the node alone, with all values in one layout but the one that is `apart`.
  std::optional<double> nanoseconds(const Node& node, const std::vector<bool>& maps, bool last,
                                    std::optional<size_t> apart) {
    const std::string key = key_of(node, last, apart);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    Graph alone;
    Node copy = node;
    std::map<size_t, size_t> places;
    std::vector<bool> chosen;
    const auto place_of = [&](size_t value) {
      const auto [place, fresh] = places.emplace(value, alone.values.size());
      if (fresh) {
        alone.add(graph_.values[value]);
        chosen.push_back(maps[value] && last != (value == apart));
      }
      return place->second;
    };
    for (auto& [name, value] : copy.operands) value = place_of(value);
    for (size_t v = 0; v < alone.values.size(); ++v) {
      if (!alone.values[v].constant) alone.inputs.push_back(v);
    }
    const size_t output = copy.output = place_of(node.output);
    alone.nodes.push_back(std::move(copy));
    std::optional<double> seconds;
    if (store_channels_last(&alone, layout_roles(alone), chosen)) {
      alone.outputs = {output};
      seconds = seconds_(std::move(alone));
    }
    return known_[key] = seconds ? std::optional(*seconds * 1e9) : std::nullopt;
  }

  // Nodes that differ in the names of values and in constants alone take as long.
  std::string key_of(const Node& node, bool last, std::optional<size_t> apart) const {
    std::string key =
        fmt::format("{} [{}] {} {}", node.spec, fmt::join(graph_.values[node.output].shape, ","),
                    node.first, last);
    std::map<size_t, size_t> places;
    for (const auto& [name, value] : node.operands) {
      const Value& v = graph_.values[value];
      key += fmt::format(" {}={}[{}]{}{}", name, places.emplace(value, places.size()).first->second,
                         fmt::join(v.shape, ","), v.constant ? "c" : "", value == apart ? "a" : "");
    }
    return key;
  }

  const Graph& graph_;
  const GraphSeconds& seconds_;
  std::map<std::string, std::optional<double>> known_;
};

class Chooser {
 public:
  Chooser(const Graph& graph, const LayoutRoles& roles, const GraphSeconds& seconds)
      : graph_(graph), roles_(roles), estimates_(graph, roles.maps), times_(graph, seconds),
        is_timed_(seconds != nullptr), sides_(graph.values.size()) {}

  std::vector<bool> run() {
    const std::vector<bool>& maps = roles_.maps;
    std::vector<bool> made(maps.size(), false), copied(maps.size(), false);
    // What tells the most is asked for first: the time for answers may end.
    for (size_t n = 0; is_timed_ && n < roles_.nodes.size(); ++n) {
      if (takes_time(roles_.nodes[n])) times_.ask(graph_.nodes[n], maps);
    }
    for (size_t n = 0; n < roles_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const LayoutRole& role = roles_.nodes[n];
      made[node.output] = role.kind == Kind::Text || role.kind == Kind::Channels;
      if (made[node.output]) add_node(node, role);
      for (const auto& [name, value] : node.operands) {
        if (role.kind == Kind::Fixed) copied[value] = true;
      }
    }
    for (size_t v : graph_.outputs) copied[v] = true;
    for (size_t v = 0; v < maps.size(); ++v) {
      if (maps[v] && !made[v]) sides_.add(v, 0, kNever);
      if (maps[v] && copied[v]) sides_.add(v, 0, std::llround(copy_cost(graph_.values[v])));
    }
    std::vector<bool> last = sides_.choose();
    for (size_t v = 0; v < maps.size(); ++v) last[v] = last[v] && maps[v];
    return last;
  }

 private:
  // Functions of elements take as long in either layout.
  static bool takes_time(const LayoutRole& role) {
    return role.kind == Kind::Channels ||
           (role.text && !std::ranges::all_of(role.text->stages, &Stage::is_function));
  }

  void add_node(const Node& node, const LayoutRole& role) {
    NodeCosts costs = role.text ? estimates_.of(node, *role.text) : estimates_.of_channels(node);
    const bool known = is_timed_ && takes_time(role) && times_.improve(node, roles_.maps, &costs);
    if (roles_.maps[node.output]) {
      add(node.output, costs);
    } else if (known && costs.apart.size() == 1) {
      sides_.add(costs.apart.begin()->first, std::llround(costs.first), std::llround(costs.last));
    }
  }

  void add(size_t output, const NodeCosts& costs) {
    sides_.add(output, std::llround(costs.first), std::llround(costs.last));
    for (const auto& [value, apart] : costs.apart) {
      sides_.add_apart(value, output, std::llround(apart.second), std::llround(apart.first));
    }
  }

  const Graph& graph_;
  const LayoutRoles& roles_;
  const Estimates estimates_;
  Times times_;
  const bool is_timed_;
  TwoSides sides_;  // channels first, and last
};

}  // namespace

std::vector<bool> choose_layouts(const Graph& graph, const LayoutRoles& roles,
                                 const GraphSeconds& seconds) {
  return Chooser(graph, roles, seconds).run();
}

}  // namespace tilewright::graph
