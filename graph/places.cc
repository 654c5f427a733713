#include "graph/places.h"

#include <fmt/format.h>

#include "graph/sizes.h"

namespace tilewright::graph {
namespace {

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw GraphError(fmt::format("'{}': {}", node.label, why));
}

class Placer {
 public:
  explicit Placer(const Graph& graph) : graph_(graph), made_(graph.values.size(), false) {
    for (size_t i = 0; i < graph.values.size(); ++i) places_.push_back({i, 0});
  }

  std::vector<Place> place() {
    for (const Node& node : graph_.nodes) {
      made_[node.output] = true;
      for (size_t more : node.more) made_[more] = true;
      if (node.is_write()) places_[node.output] = {node.operands.at("X"), 0};
      if (!node.is_view()) continue;
      const std::vector<size_t> parts = node.parts();
      if (parts.size() > 1) {
        join(node, parts);
      } else {
        places_[node.output] = {parts[0], skipped_bytes(node, parts[0])};
      }
    }
    for (size_t i = 0; i < places_.size(); ++i) places_[i] = resolved(i);
    return std::move(places_);
  }

 private:
  Place resolved(size_t value) const {
    Place at{value, 0};
    while (places_[at.root].root != at.root) {
      const Place& next = places_[at.root];
      at = {next.root, at.bytes + next.bytes};
    }
    return at;
  }

  int64_t skipped_bytes(const Node& node, size_t from) const {
    if (node.first == 0) return 0;
    const Value& v = graph_.values[from];
    if (graph_.values[resolved(from).root].constant) refuse(node, "it is a part of a constant");
    return aligned(node, v.elem, node.first);
  }

  int64_t aligned(const Node& node, ElemType elem, int64_t elements) const {
    const int64_t bits = elements * bits_of(elem);
    if (!size_of(graph_, elements).fixed())
      refuse(node, "a part begins where the sizes of a run say");
    if (bits % (kValueAlignment * 8) != 0) {
      refuse(node,
             fmt::format("a part begins behind {} elements of {}; expected a multiple of {} bytes",
                         elements, to_string(elem), kValueAlignment));
    }
    return bits / 8;
  }

  void join(const Node& node, const std::vector<size_t>& parts) {
    int64_t elements = 0;
    for (size_t part : parts) {
      const Place at = resolved(part);
      const Value &v = graph_.values[part], &root = graph_.values[at.root];
      if (at.root == node.output) refuse(node, fmt::format("it joins '{}' twice", v.name));
      if (!made_[at.root]) {
        refuse(node,
               fmt::format("'{}' is given, so that it lies elsewhere; expected one that a node "
                           "makes",
                           v.name));
      }
      if (at.bytes != 0 || root.bytes() != v.bytes()) {
        refuse(node, fmt::format("'{}' is a part of another value", v.name));
      }
      places_[at.root] = {node.output, aligned(node, v.elem, elements)};
      elements += v.count();
    }
  }

  const Graph& graph_;
  std::vector<bool> made_;
  std::vector<Place> places_;
};

}  // namespace

std::vector<Place> places_of(const Graph& graph) { return Placer(graph).place(); }

}  // namespace tilewright::graph
