#include "models/onnx/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/utf8.h"
#include "ir/ops/spec.h"
#include "models/onnx/mapping.h"
#include "models/onnx/patterns.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// A whole model takes products of integers and attention node by node.
MapFn find_mapping(const std::string& op, bool whole) {
  for (const MapFns* mappings :
       {&product_mappings(), &quantized_mappings(), &convolution_mappings(), &row_mappings(),
        &elementwise_mappings(), &attention_mappings()}) {
    if (whole && (mappings == &quantized_mappings() || mappings == &attention_mappings())) continue;
    auto it = mappings->find(op);
    if (it != mappings->end()) return it->second;
  }
  return nullptr;
}

const std::set<std::string>& views() {
  static const std::set<std::string> kOps = {"Constant", "Identity", "Reshape",
                                             "Flatten",  "Squeeze",  "Unsqueeze",
                                             "Shape",    "Size",     "Dropout"};
  return kOps;
}

const std::set<std::string>& moves() {
  static const std::set<std::string> kOps = {"Transpose", "Concat",          "Split",
                                             "Slice",     "Expand",          "Tile",
                                             "Pad",       "DepthToSpace",    "GatherND",
                                             "ScatterND", "SpaceToDepth",    "GatherElements",
                                             "Range",     "ScatterElements", "ConstantOfShape"};
  return kOps;
}

// Whether the node does nothing when the model runs: all that comes out is constant or part of the
// calculation of shapes, or other names for the same elements.
bool is_free(const Graph& graph, const Node& node, bool whole) {
  if (node.domain.empty() && views().contains(node.op)) return true;
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) {
    const Value& v = graph.value(name);
    if (whole) return name.empty() || v.contents || v.real;
    return name.empty() || v.constant || v.contents;
  });
}

class Finder {
 public:
  Finder(const Graph& graph, const LayerOptions& options)
      : graph_(graph), options_(options), mapping_(graph, options, taken_) {}

  Layers find() {
    for (const Node& node : graph_.model().nodes) {
      if (taken_.contains(&node) || is_free(graph_, node, options_.whole)) continue;
      try {
        Mapped drafts = options_.whole ? map_whole(node) : map(node);
        for (Draft& d : drafts) check(&d);  // all of them, before any is taken
        for (Draft& d : drafts) add(std::move(d));
      } catch (const NotMapped& e) {
        out_.left_out.push_back({&node, to_utf8(e.what())});
      } catch (const std::out_of_range&) {
        out_.left_out.push_back({&node, "it lacks an input, or an input lacks an axis"});
      }
    }
    // Nodes that a later node has taken in.
    std::erase_if(out_.left_out, [&](const LeftOut& l) { return taken_.contains(l.node); });
    if (options_.whole) say_sizes();
    return std::move(out_);
  }

 private:
  std::vector<Draft> map(const Node& node) const;
  std::vector<Draft> map_whole(const Node& node) const;
  std::vector<Draft> map_pattern(const Node& node) const;
  bool exceeds_spec(const Node& node) const;
  static void check(Draft* d);
  void say_sizes();
  void add(Draft d);

  const Graph& graph_;
  const LayerOptions& options_;
  std::set<const Node*> taken_;
  Mapping mapping_;
  Layers out_;
};

// Functions that are written out in several nodes, the first of which this is; else nothing.
std::vector<Draft> Finder::map_pattern(const Node& node) const {
  if (auto norm = written_out_norm(mapping_, node)) return {*norm};
  for (const std::string& input : node.inputs) {
    auto fn = match_function(graph_, input);
    if (!fn || fn->nodes.size() == 1) continue;
    const bool part = std::find(fn->nodes.begin(), fn->nodes.end(), &node) != fn->nodes.end();
    if (part) return {written_out_function(mapping_, node, input, *fn)};
  }
  return {};
}

// Whether the node calculates what the spec of its operator takes for constant, or gives more than that does.
bool Finder::exceeds_spec(const Node& node) const {
  static const std::set<std::string> kOps = {"Conv", "ConvTranspose", "LayerNormalization",
                                             "RMSNormalization", "SimplifiedLayerNormalization"};
  if (!kOps.contains(node.full_op())) return false;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.has_input(i) && !graph_.value(node.inputs[i]).constant) return true;
  }
  return std::any_of(node.outputs.begin() + 1, node.outputs.end(),
                     [](const std::string& name) { return !name.empty(); });
}

// The specs of operators where they say all, else an expression of the node alone.
std::vector<Draft> Finder::map_whole(const Node& node) const {
  if (node.outputs.empty()) throw NotMapped("it gives nothing");
  if (auto codes = product_of_codes(mapping_, node)) return *codes;
  std::string reason;
  const MapFns& plain = whole_mappings();
  auto own = plain.find(node.full_op());
  if (own != plain.end() && exceeds_spec(node)) return own->second(mapping_, node);
  try {
    std::vector<Draft> drafts = node.inputs.empty() ? std::vector<Draft>() : map_pattern(node);
    MapFn mapping = find_mapping(node.full_op(), options_.whole);
    if (drafts.empty() && mapping != nullptr && !prefers_expression(mapping_, node)) {
      drafts = mapping(mapping_, node);
    }
    for (const Draft& d : drafts) {
      if (reason.empty()) reason = d.layer.note;
    }
    if (reason.empty() && !drafts.empty()) return drafts;
  } catch (const NotMapped& e) {
    reason = e.what();
  }
  if (own != plain.end()) return own->second(mapping_, node);
  throw NotMapped(reason.empty() ? "there is no kernel for this operator" : reason);
}

std::vector<Draft> Finder::map(const Node& node) const {
  if (node.holds_graphs) {
    throw NotMapped(node.op == "If"
                        ? "it runs one of its branches, whose nodes count for themselves"
                        : "it repeats its body, whose nodes count once each");
  }
  if (node.inputs.empty() || node.outputs.empty()) throw NotMapped("it takes or gives nothing");
  if (node.domain.empty() && moves().contains(node.op)) {
    throw NotMapped("it moves elements and computes nothing");
  }
  if (std::vector<Draft> pattern = map_pattern(node); !pattern.empty()) return pattern;
  MapFn mapping = find_mapping(node.full_op(), options_.whole);
  if (mapping == nullptr) throw NotMapped("there is no spec for this operator");
  return mapping(mapping_, node);
}

// Writes the spec. Throws NotMapped where it is none.
void Finder::check(Draft* d) {
  if (d->layer.loop != nullptr || !d->layer.plain.empty()) return;
  d->layer.spec = d->spec.json();
  try {
    parse_spec(d->layer.spec);
  } catch (const SpecError& e) {
    const std::string what = e.what();
    throw NotMapped(what.substr(0, what.find('\n')));
  }
}

// Behind all nodes, which have the sizes that values say by then.
void Finder::say_sizes() {
  for (const CalculatedSize& size : graph_.values().calculated()) {
    try {
      Mapped drafts = size_drafts(mapping_, size);
      for (Draft& d : drafts) check(&d);
      for (Draft& d : drafts) add(std::move(d));
    } catch (const NotMapped& e) {
      out_.left_out.push_back({size.node, to_utf8(e.what())});
    }
  }
}

void Finder::add(Draft d) {
  if (const std::string& within = d.layer.nodes[0]->within; !within.empty()) {
    d.layer.note += (d.layer.note.empty() ? "" : "; ") + within;
  }
  const std::vector<std::string>& around = d.layer.nodes[0]->bodies;
  d.layer.bodies.insert(d.layer.bodies.begin(), around.begin(), around.end());
  taken_.insert(d.layer.nodes.begin(), d.layer.nodes.end());
  out_.layers.push_back(std::move(d.layer));
}

}  // namespace

std::optional<std::string> shown_value(const Graph& graph, const Node& node,
                                       const std::string& output) {
  static const std::set<std::string> kOps = {"Identity", "Reshape",   "Flatten",
                                             "Squeeze",  "Unsqueeze", "Dropout"};
  const auto place = std::ranges::find(node.outputs, output) - node.outputs.begin();
  if (node.domain.empty() && kOps.contains(node.op) && node.has_input(0) && place == 0) {
    return node.inputs[0];
  }
  const Value& condition = graph.value(node.has_input(0) ? node.inputs[0] : "");
  const auto taken = taken_input(node, condition, static_cast<size_t>(place));
  return taken ? std::optional(node.inputs[*taken]) : std::nullopt;
}

Layers find_layers(const Graph& graph, const LayerOptions& options) {
  return Finder(graph, options).find();
}

}  // namespace tilewright::onnx
