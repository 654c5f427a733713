#include "graph/fuse.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "graph/interpret.h"
#include "graph/moves.h"
#include "graph/statements.h"
#include "ir/ops/spec.h"

namespace tilewright::graph {
namespace {

using ops::Syntax;

// The consumer's statement over the axes of what is read, of which it has as many elements: the axes of
// one element go away or come. False where the two do not agree.
bool move_to_axes(Stage* stage, const Indices& axes, const std::set<std::string>& read) {
  std::map<std::string, Syntax> places;
  std::vector<Syntax> left;
  Indices indices;
  size_t own = 0;
  auto skip = [&] {
    while (own < stage->indices.size() && stage->indices[own].second == 1) {
      places[stage->indices[own++].first] = number_syntax(0);
    }
  };
  for (const auto& [axis, size] : axes) {
    indices.emplace_back("a_" + axis, size);
    left.push_back(name_syntax("a_" + axis));
    if (size == 1) continue;
    skip();
    if (own == stage->indices.size() || stage->indices[own].second != size) return false;
    places[stage->indices[own++].first] = name_syntax("a_" + axis);
  }
  skip();
  if (own != stage->indices.size()) return false;
  // Reads of what is made are of the same element.
  bool same = true;
  std::vector<std::string> order;
  for (const Syntax& index : stage->statement.indices) order.push_back(index.text);
  walk(&stage->statement.value, [&](Syntax* s) {
    if (!is_read(*s) || !read.contains(s->text)) return;
    same = same && s->args.size() == order.size();
    for (size_t d = 0; same && d < order.size(); ++d) {
      const bool zero = s->args[d].kind == Syntax::Kind::Number && stage->indices[d].second == 1;
      same = zero || is_name(s->args[d], order[d]);
    }
  });
  if (!same) return false;
  walk(&stage->statement.value, [&](Syntax* s) {
    if (is_read(*s) && read.contains(s->text)) {
      s->args = left;
      return;
    }
    auto it = s->kind == Syntax::Kind::Name ? places.find(s->text) : places.end();
    if (it != places.end()) *s = it->second;
  });
  stage->statement.indices = left;
  stage->indices = indices;
  return true;
}

// The statements of a consumer that read the producer's elements in another order: each of them once. The
// contiguous axis stays where the producer is a reduction, whose results are stored as vectors. False
// where they do not.
bool reorder_reads(Text* consumer, const std::string& read, const Shape& shape,
                   const Text& producer) {
  const Stage& made = producer.stages.back();
  const bool functions = std::ranges::all_of(producer.stages, &Stage::is_function);
  const Shape sizes = sizes_of(made.axes());
  bool fits = true;
  for (Stage& stage : consumer->stages) {
    const Indices& own = stage.indices;
    walk(&stage.statement.value, [&](Syntax* s) {
      if (!is_read(*s) || s->text != read) return;
      auto at = reshaped(s->args, shape, sizes);
      std::set<std::string> taken;
      std::string last;
      for (size_t d = 0; at && d < sizes.size(); ++d) {
        if (sizes[d] == 1) continue;
        const auto index = std::ranges::find(own, (*at)[d].text, &Indices::value_type::first);
        fits = fits && (*at)[d].kind == Syntax::Kind::Name && index != own.end() &&
               index->second == sizes[d] && taken.insert(index->first).second;
        last = (*at)[d].text;
      }
      std::string innermost;
      for (const auto& [name, size] : own) {
        if (size == 1) continue;
        fits = fits && taken.contains(name);
        innermost = name;
      }
      fits = fits && at && (functions || last == innermost);
      if (fits) s->args = std::move(*at);
    });
  }
  return fits;
}

// The consumer's statements over the producer's axes, or over their own ones in another order.
bool follow(Text* consumer, std::set<std::string> read, const Text& producer) {
  const Stage& made = producer.stages.back();
  Text same = *consumer;
  const std::set<std::string> outputs = read;
  bool moves = true;
  for (Stage& stage : same.stages) {
    moves = moves && move_to_axes(&stage, made.axes(), read);
    read.insert(stage.statement.target);
  }
  if (moves) {
    *consumer = std::move(same);
    return true;
  }
  return std::ranges::all_of(consumer->inputs, [&](const TextInput& input) {
    return !outputs.contains(input.name) ||
           reorder_reads(consumer, input.name, input.shape, producer);
  });
}

// The producer with the type that its only reader converts its output to; nothing for other readers, and
// operators whose output has one type alone.
std::optional<Node> converted(const Node& producer, const Node& consumer) {
  const auto reader = typed_text_of(consumer);
  if (!reader || reader->stages.size() != 1 || reader->inputs.size() != 1) return std::nullopt;
  const ops::Statement& s = reader->stages[0].statement;
  if (s.assignment != "=" || !is_read(s.value)) return std::nullopt;
  if (!std::ranges::equal(s.value.args, s.indices, {}, &Syntax::text, &Syntax::text))
    return std::nullopt;
  Node node = producer;
  node.output = consumer.output;
  try {
    Spec spec = parse_spec(producer.spec);
    spec.params["out"] = std::string(to_string(reader->stages[0].elem));
    node.spec = spec_to_inline(spec);
    const Workload made = parse_workload(node.spec);
    if (made.output()->elem != reader->stages[0].elem) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  return node;
}

// One node of a producer and the only node that reads it; nothing where they do not make one.
std::optional<Node> fused(const Node& producer, const Node& consumer) {
  auto second = typed_text_of(consumer);
  if (!second || !std::ranges::all_of(second->stages, &Stage::is_function)) return std::nullopt;
  auto first = typed_text_of(producer);
  if (!first) return converted(producer, consumer);
  prefix(&*second, "c_");
  prefix(&*first, "p_");
  std::set<std::string> read;  // tensors of which each statement reads the element that it makes
  for (const TextInput& input : second->inputs) {
    if (input.value == producer.output) read.insert(input.name);
  }
  const Stage& made = first->stages.back();
  std::map<std::string, std::string> names;
  for (const std::string& name : read) names[name] = made.statement.target;
  if (!follow(&*second, read, *first)) return std::nullopt;
  Text both = std::move(*first);
  for (const TextInput& input : second->inputs) {
    if (names.contains(input.name)) continue;
    auto known = std::ranges::find_if(both.inputs, [&](const TextInput& i) {
      return i.value == input.value && i.shape == input.shape;
    });
    if (known == both.inputs.end()) {
      both.inputs.push_back(input);
    } else {
      names[input.name] = known->name;
    }
  }
  for (Stage& stage : second->stages) {
    rename_tensors(&stage, names);
    both.stages.push_back(std::move(stage));
  }
  return node_of(std::move(both), producer.label, consumer.output);
}

class Fuser {
 public:
  explicit Fuser(Graph* graph) : graph_(*graph) {}

  // One pass; the number of nodes that went away.
  int run() {
    const std::vector<std::vector<size_t>> users = users_of();
    std::vector<bool> gone(graph_.nodes.size(), false);
    int count = 0;
    for (size_t p = 0; p < graph_.nodes.size(); ++p) {
      const Node& producer = graph_.nodes[p];
      const std::vector<size_t>& readers = users[producer.output];
      if (gone[p] || !producer.is_workload() || readers.size() != 1 || gone[readers[0]]) continue;
      const size_t c = readers[0];
      if (!graph_.nodes[c].is_workload() || widens_for_reader(c, users)) continue;
      auto node = fused(producer, graph_.nodes[c]);
      if (!node) continue;
      graph_.nodes[c] = std::move(*node);  // there, since its other operands were made before
      gone[p] = true;
      ++count;
    }
    std::vector<Node> rest;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!gone[n]) rest.push_back(std::move(graph_.nodes[n]));
    }
    graph_.nodes = std::move(rest);
    return count;
  }

 private:
  // Whether the node makes wider elements of codes, for one function that reads them: it goes into that one, so
  // that codes are what is stored.
  bool widens_for_reader(size_t n, const std::vector<std::vector<size_t>>& users) const {
    const Value& made = graph_.values[graph_.nodes[n].output];
    const std::vector<size_t>& readers = users[graph_.nodes[n].output];
    const bool narrow = std::ranges::any_of(graph_.nodes[n].operands, [&](const auto& operand) {
      const Value& from = graph_.values[operand.second];
      return from.count() == made.count() && bits_of(from.elem) < bits_of(made.elem) &&
             bits_of(from.elem) == 8;
    });
    if (!narrow || readers.size() != 1 || !graph_.nodes[readers[0]].is_workload()) return false;
    const auto text = typed_text_of(graph_.nodes[n]);
    return text && std::ranges::all_of(text->stages, &Stage::is_function) &&
           fused(graph_.nodes[n], graph_.nodes[readers[0]]);
  }

  // The nodes that read each value, once each; one that is none for an output of the graph.
  std::vector<std::vector<size_t>> users_of() const {
    std::vector<std::set<size_t>> sets(graph_.values.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const auto& [name, value] : graph_.nodes[n].operands) sets[value].insert(n);
    }
    std::vector<std::vector<size_t>> users;
    for (const auto& set : sets) users.emplace_back(set.begin(), set.end());
    for (size_t i : graph_.outputs) users[i].clear();
    return users;
  }

  Graph& graph_;
};

// Lets workloads read what a view shows in another shape, so that none stands between producer and reader.
void look_through_views(Graph* graph) {
  std::vector<size_t> shown(graph->values.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  for (Node& node : graph->nodes) {
    if (node.is_plain()) continue;  // the shapes of its operands count
    if (!node.is_view()) {
      for (auto& [name, value] : node.operands) value = shown[value];
      continue;
    }
    const size_t from = node.parts()[0];
    const bool all = graph->values[from].count() == graph->values[node.output].count();
    if (all) shown[node.output] = shown[from];
  }
}

}  // namespace

int fuse(Graph* graph) {
  look_through_views(graph);
  drop_unused(graph);
  int count = 0;
  while (const int more = Fuser(graph).run()) count += more;
  drop_unused(graph);
  return count;
}

}  // namespace tilewright::graph
