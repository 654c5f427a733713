#include "graph/layouts/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "graph/layouts/minimum_cut.h"
#include "graph/layouts/rewrite.h"
#include "graph/share_workloads.h"
#include "graph/statements.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;
using Kind = LayoutRole::Kind;

// Estimates, in nanoseconds, of one core.
constexpr double kOperation = 0.01;   // of a product that channels share
constexpr double kLone = 0.1;         // of a sum within a channel
constexpr double kSaved = 0.2;        // of a sum's time, with the channels last
constexpr double kTransformed = 0.5;  // the same of sums that `use_winograd` may take
constexpr double kByte = 0.1;         // read or written by a copy
constexpr double kShared = 0.25;      // of a copy's time, for a product that reads the other layout

constexpr int64_t kNever = int64_t{1} << 50;

double copy_cost(const Value& v) { return 2 * kByte * static_cast<double>(v.bytes()); }

// Costs of a node in nanoseconds, by the layouts of its output and of what it reads.
struct NodeCosts {
  double first = 0, last = 0;  // all in this layout
  // By value: that one alone last, and that one alone first.
  std::map<size_t, std::pair<double, double>> across;
};

// Costs by rules of thumb.
class Estimates {
 public:
  explicit Estimates(const Graph& graph) : graph_(graph) {}

  // `fixed`: what is read with its channels first in any case.
  NodeCosts of(const Text& text, const std::set<size_t>& reads,
               const std::set<size_t>& fixed) const {
    NodeCosts costs;
    costs.first = saved(text);
    for (size_t value : fixed) costs.last += across_cost(text, value);
    for (size_t value : reads) {
      const double more = across_cost(text, value);
      costs.across[value] = {costs.first + more, costs.last + more};
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
  double across_cost(const Text& text, size_t value) const {
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
};

// Costs by the seconds of graphs of one node each.
class Times {
 public:
  Times(const Graph& graph, const std::vector<bool>& maps, const GraphSeconds& seconds)
      : graph_(graph), maps_(maps), seconds_(seconds) {}

  // The nanoseconds of the node alone, with these values last.
  std::optional<double> of(const Node& node, const std::set<size_t>& last) {
    return remembered(key_of(node, last), [&]() -> std::optional<Graph> {
      Graph alone;
      Node copy = node;
      std::map<size_t, size_t> places;
      std::vector<bool> chosen;
      const auto place_of = [&](size_t value) {
        const auto [place, fresh] = places.emplace(value, alone.values.size());
        if (fresh) {
          alone.add(graph_.values[value]);
          chosen.push_back(maps_[value] && last.contains(value));
        }
        return place->second;
      };
      for (auto& [name, value] : copy.operands) value = place_of(value);
      for (size_t v = 0; v < alone.values.size(); ++v) {
        if (!alone.values[v].constant) alone.inputs.push_back(v);
      }
      const size_t output = copy.output = place_of(node.output);
      alone.nodes.push_back(std::move(copy));
      if (!store_channels_last(&alone, layout_roles(alone), chosen)) return std::nullopt;
      alone.outputs = {output};
      return alone;
    });
  }

  // The nanoseconds of a copy with its channels first of a value that has them last.
  std::optional<double> of_copy(size_t value) {
    return remembered("copy " + text_of_value(value), [&]() -> std::optional<Graph> {
      Graph alone;
      alone.inputs = alone.outputs = {alone.add(graph_.values[value])};
      if (!store_channels_last(&alone, layout_roles(alone), {true})) return std::nullopt;
      return alone;
    });
  }

 private:
  // The nanoseconds of the graph that `make` gives, asked for once for each key.
  template <class Make>
  std::optional<double> remembered(const std::string& key, const Make& make) {
    if (!seconds_) return std::nullopt;
    const auto [known, fresh] = known_.try_emplace(key);
    if (!fresh) return known->second;
    std::optional<Graph> graph = make();
    const auto seconds = graph ? seconds_(std::move(*graph)) : std::nullopt;
    if (seconds) known->second = *seconds * 1e9;
    return known->second;
  }

  std::string text_of_value(size_t value) const {
    const Value& v = graph_.values[value];
    return fmt::format("{}[{}]{}", to_string(v.elem), fmt::join(v.shape, ","),
                       v.constant ? "c" : "");
  }

  // Nodes that differ in the names of values and in constants alone take as long.
  std::string key_of(const Node& node, const std::set<size_t>& last) const {
    std::string key = fmt::format("{} {} {} {}", node.spec, node.first, text_of_value(node.output),
                                  last.contains(node.output));
    std::map<size_t, size_t> places;
    for (const auto& [name, value] : node.operands) {
      key += fmt::format(" {}={}{}{}", name, places.emplace(value, places.size()).first->second,
                         text_of_value(value), last.contains(value) ? "l" : "");
    }
    return key;
  }

  const Graph& graph_;
  const std::vector<bool>& maps_;
  const GraphSeconds& seconds_;
  std::map<std::string, std::optional<double>> known_;
};

class LayoutChooser {
 public:
  LayoutChooser(const Graph& graph, const LayoutRoles& roles, const GraphSeconds& seconds)
      : graph_(graph), roles_(roles), estimates_(graph), times_(graph, roles.maps, seconds),
        is_timed_(seconds != nullptr), free_(roles.maps.size(), false),
        copied_(roles.maps.size(), false), copies_(roles.maps.size(), 0),
        sides_(roles.maps.size()) {
    for (size_t n = 0; n < roles.nodes.size(); ++n) note_values(n);
    for (size_t v : graph.outputs) copied_[v] = true;
    for (size_t v = 0; v < copies_.size(); ++v) copies_[v] += copied_[v] ? 1 : 0;
    if (is_timed_) find_shared();
  }

  std::vector<bool> run() {
    // Both layouts of each node are asked for first: they tell the most, and the time for answers may end.
    for (size_t n = 0; n < roles_.nodes.size(); ++n) ask(n);
    for (size_t n = 0; n < roles_.nodes.size(); ++n) add_node(n);
    for (size_t v = 0; v < free_.size(); ++v) {
      if (!free_[v]) {
        sides_.add(v, 0, kNever);
      } else if (copied_[v]) {
        add_last(v, copy_cost_of(v));
      }
    }
    std::vector<bool> last = sides_.choose();
    for (size_t v = 0; v < free_.size(); ++v) last[v] = last[v] && free_[v];
    return last;
  }

 private:
  void note_values(size_t n) {
    const Node& node = graph_.nodes[n];
    const Kind kind = roles_.nodes[n].kind;
    if (kind == Kind::Text || kind == Kind::Channels) free_[node.output] = roles_.maps[node.output];
    for (const auto& [name, value] : node.operands) {
      if (kind == Kind::Fixed) copied_[value] = true;
      if (is_join(n)) ++copies_[value];
    }
  }

  void find_shared() {
    std::map<std::string, std::set<std::string>> specs;
    for (const Node& node : graph_.nodes) specs[spec_without_numbers(node)].insert(node.spec);
    for (const auto& [blank, own] : specs) {
      if (own.size() > 1) shared_.insert(own.begin(), own.end());
    }
  }

  bool is_join(size_t n) const {
    return roles_.nodes[n].kind == Kind::Channels && graph_.nodes[n].parts().size() > 1;
  }

  // Functions of elements take as long in either layout. A node whose numbers will be those of a workload that it
  // shares with others (share_workloads.h) has another spec then.
  bool is_timed(size_t n) const {
    const LayoutRole& role = roles_.nodes[n];
    if (!is_timed_ || shared_.contains(graph_.nodes[n].spec)) return false;
    return role.kind == Kind::Channels ||
           (role.text && !std::ranges::all_of(role.text->stages, &Stage::is_function));
  }

  // Feature maps that the node reads: those that have either layout, or the others.
  std::set<size_t> reads_of(size_t n, bool free) const {
    std::set<size_t> reads;
    for (const auto& [name, value] : graph_.nodes[n].operands) {
      if (roles_.maps[value] && free_[value] == free) reads.insert(value);
    }
    return reads;
  }

  std::set<size_t> all_last(size_t n) const {
    std::set<size_t> last = reads_of(n, true);
    if (free_[graph_.nodes[n].output]) last.insert(graph_.nodes[n].output);
    return last;
  }

  void ask(size_t n) {
    const std::set<size_t> last = all_last(n);
    if (!is_timed(n) || last.empty()) return;
    times_.of(graph_.nodes[n], {});
    times_.of(graph_.nodes[n], last);
  }

  // A value that several nodes may want copied is copied once.
  double copy_cost_of(size_t value) {
    const double once = times_.of_copy(value).value_or(copy_cost(graph_.values[value]));
    return once / std::max(1, copies_[value]);
  }

  void add_node(size_t n) {
    const Node& node = graph_.nodes[n];
    const LayoutRole& role = roles_.nodes[n];
    const std::set<size_t> reads = reads_of(n, true);
    if (role.kind != Kind::Text && role.kind != Kind::Channels) return;
    if (reads.empty() && !free_[node.output]) return;
    NodeCosts estimated;
    if (role.text) {
      estimated = estimates_.of(*role.text, reads, reads_of(n, false));
    } else {
      estimated.last = copy_cost(graph_.values[node.output]);
      for (size_t part : reads) {
        const double copy = is_join(n) ? copy_cost_of(part) : copy_cost(graph_.values[part]);
        estimated.across[part] = {copy, estimated.last + copy};
      }
    }
    const auto timed = timed_costs(n, estimated);
    // By estimates, nodes that make no map read either layout.
    if (timed || free_[node.output]) add(node.output, timed.value_or(estimated));
  }

  // Costs by times, with the estimates of reads across layouts that are not known. Nothing where the times of both
  // layouts are not.
  std::optional<NodeCosts> timed_costs(size_t n, const NodeCosts& estimated) {
    if (!is_timed(n)) return std::nullopt;
    const Node& node = graph_.nodes[n];
    const std::set<size_t> last = all_last(n);
    const auto first_time = times_.of(node, {}), last_time = times_.of(node, last);
    NodeCosts costs{first_time.value_or(0), last_time.value_or(0), {}};
    for (const auto& [value, across] : estimated.across) {
      std::optional<double> one_last, one_first;
      if (!is_join(n)) {
        std::set<size_t> others = last;
        others.erase(value);
        one_last = times_.of(node, {value});
        one_first = times_.of(node, others);
      }
      costs.across[value] = {one_last.value_or(across.first - estimated.first + costs.first),
                             one_first.value_or(across.second - estimated.last + costs.last)};
    }
    return first_time && last_time ? std::optional(std::move(costs)) : std::nullopt;
  }

  // With one value x that is read, and y made, by which are last: c() + (c(x) - c())[x] + (c(x, y) - c(x))[y] +
  // (c(y) + c(x) - c() - c(x, y))[y, not x]. A cut takes no last term under 0; values that are read add up.
  void add(size_t output, const NodeCosts& costs) {
    double reads = 0;
    for (const auto& [value, across] : costs.across) {
      const double more = across.first - costs.first;
      reads += more;
      add_last(value, more);
      if (!free_[output]) continue;
      const double apart = across.second + across.first - costs.first - costs.last;
      sides_.add_apart(value, output, std::llround(std::max(0.0, apart)), 0);
    }
    if (free_[output]) add_last(output, costs.last - costs.first - reads);
  }

  // Costs of a value with its channels last beside first.
  void add_last(size_t value, double more) {
    sides_.add(value, std::llround(std::max(0.0, -more)), std::llround(std::max(0.0, more)));
  }

  const Graph& graph_;
  const LayoutRoles& roles_;
  const Estimates estimates_;
  Times times_;
  const bool is_timed_;
  std::vector<bool> free_;        // by value: whether either layout is possible
  std::vector<bool> copied_;      // by value: whether something always reads its channels first
  std::vector<int> copies_;       // by value: the readers that may want a copy
  std::set<std::string> shared_;  // specs that are not the program's
  TwoSides sides_;                // channels first, and last
};

}  // namespace

std::vector<bool> choose_layouts(const Graph& graph, const LayoutRoles& roles,
                                 const GraphSeconds& seconds) {
  return LayoutChooser(graph, roles, seconds).run();
}

}  // namespace tilewright::graph
