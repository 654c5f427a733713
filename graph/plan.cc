#include "graph/plan.h"

#include <algorithm>

#include "graph/loops/loops.h"
#include "graph/sizes.h"

namespace tilewright::graph {
namespace {

// When a value is needed: from the step that makes it to the last that reads it.
struct Life {
  size_t value = 0;
  int64_t bytes = 0;
  size_t first = 0, last = 0;

  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

int64_t rounded(int64_t bytes) {
  return (bytes + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
}

std::vector<Life> lives_of(const Graph& graph, const std::vector<Place>& places) {
  const size_t end = graph.nodes.size() + 1;
  std::vector<Life> lives(graph.values.size());
  for (size_t i : graph.inputs) lives[i] = {i, rounded(most_bytes(graph, graph.values[i])), 0, 0};
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (const auto& [name, value] : node.operands) lives[places[value].root].last = n + 1;
    if (node.is_view() || node.is_write()) continue;
    // The first of several parts begins the life of what holds them.
    const size_t root = places[node.output].root;
    if (lives[root].bytes == 0)
      lives[root] = {root, rounded(most_bytes(graph, graph.values[root])), n + 1, n + 1};
    lives[root].last = n + 1;
    for (size_t more : node.more) {
      const size_t own = places[more].root;
      if (lives[own].bytes == 0)
        lives[own] = {own, rounded(most_bytes(graph, graph.values[own])), n + 1, n + 1};
      lives[own].last = std::max(lives[own].last, n + 1);
    }
  }
  for (size_t i : graph.outputs) lives[places[i].root].last = end;
  std::erase_if(lives, [](const Life& life) { return life.bytes == 0; });
  return lives;
}

int64_t most_alive(const std::vector<Life>& lives, size_t steps) {
  std::vector<int64_t> alive(steps + 2, 0);
  for (const Life& life : lives) {
    for (size_t s = life.first; s <= life.last; ++s) alive[s] += life.bytes;
  }
  return *std::max_element(alive.begin(), alive.end());
}

Plan plan_of(const Graph& graph, const Loop* loop) {
  Plan plan;
  plan.places = places_of(graph);
  // The blocks of bodies follow the values.
  plan.offsets.assign(graph.values.size() + graph.nodes.size(), -1);
  std::vector<Life> lives = lives_of(graph, plan.places);
  for (size_t i = 0; loop != nullptr && i < loop->inputs.size(); ++i) {
    const size_t value = graph.inputs[i];
    const bool outside = loop->inputs[i].kind == Loop::In::Whole;
    if (outside) std::erase_if(lives, [&](const Life& life) { return life.value == value; });
    // The next round needs its place.
    for (Life& life : lives) {
      if (life.value == value) life.last = graph.nodes.size() + 1;
    }
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].is_loop()) continue;
    Plan body = plan_of(graph.nodes[n].loop->body, graph.nodes[n].loop.get());
    lives.push_back(
        {graph.values.size() + n, rounded(std::max<int64_t>(body.bytes, 1)), n + 1, n + 1});
    plan.bodies.emplace(n, std::pair(int64_t{0}, std::move(body)));
  }
  plan.least_bytes = most_alive(lives, graph.nodes.size());
  // The largest first, each in the smallest gap between those that are there at the same time.
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::vector<Life> placed;  // by their offsets
  for (const Life& life : lives) {
    int64_t best = -1, best_gap = 0, at = 0;
    for (const Life& other : placed) {
      if (!other.meets(life)) continue;
      const int64_t start = plan.offsets[other.value], gap = start - at;
      if (gap >= life.bytes && (best < 0 || gap < best_gap)) {
        best = at;
        best_gap = gap;
      }
      at = std::max(at, start + other.bytes);
    }
    plan.offsets[life.value] = best < 0 ? at : best;
    plan.bytes = std::max(plan.bytes, plan.offsets[life.value] + life.bytes);
    auto before = [&](const Life& a, const Life& b) {
      return plan.offsets[a.value] < plan.offsets[b.value];
    };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), life, before), life);
  }
  for (auto& [n, body] : plan.bodies) body.first = plan.offsets[graph.values.size() + n];
  plan.offsets.resize(graph.values.size());
  return plan;
}

}  // namespace

Plan plan_memory(const Graph& graph) { return plan_of(graph, nullptr); }

}  // namespace tilewright::graph
