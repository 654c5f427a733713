#include "graph/precision/choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "graph/interpret.h"
#include "graph/sizes.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

constexpr double kMargin =
    0.9;  // of the tolerance: kernels round in another order than the interpreter

// A graph at the sizes of a sample.
Graph fixed_at(const Graph& graph, const Sample& sample) {
  return graph.dims.empty() ? graph : at_sizes(graph, sample.sizes);
}

// The elements of these values of a graph.
std::vector<Bytes> computed(Graph graph, std::vector<size_t> values,
                            const std::map<std::string, Bytes>& inputs,
                            const Oracle::ParallelFn& parallel) {
  graph.outputs = std::move(values);
  drop_unused(&graph);
  return interpret(graph, inputs, parallel);
}

// A graph in which each of these nodes finds the elements that the others would have made in f32: their outputs
// are inputs, and the values that they make are the outputs.
Graph apart(Graph graph, const std::vector<std::string>& names) {
  graph.outputs.clear();
  for (const std::string& name : names) {
    const size_t value = graph.find(name);
    Value own = graph.values[value];
    own.name += "/own";
    const size_t made = graph.add(std::move(own));
    std::ranges::find(graph.nodes, value, &Node::output)->output = made;
    graph.inputs.push_back(value);
    graph.outputs.push_back(made);
  }
  return graph;
}

// One sample with the outputs that the program in f32 has on it.
struct Wanted {
  Sample sample;
  Graph graph;  // at its sizes
  std::vector<Bytes> outputs;
  std::map<std::string, Bytes> made;  // by the nodes that can change
};

class Chooser {
 public:
  Chooser(const Graph& graph, const Precision& precision, const Ranges* ranges,
          const Oracle::ParallelFn& parallel)
      : graph_(graph), precision_(precision), ranges_(ranges), parallel_(parallel) {}

  Choice choose(const std::vector<Sample>& samples, double tolerance) {
    Graph all = graph_;
    const Changed changed = apply(&all, precision_, ranges_, {}, parallel_);
    for (const Sample& sample : samples) add_wanted(sample, changed.outputs);
    Choice choice;
    choice.others = changed.others;
    choice.errors = errors_apart(all, changed.outputs);
    choice.error_of_all = choice.error = error_of(all, &choice.output);
    if (choice.error <= tolerance) return choice;
    size_t fails = 0,
           holds = choice.errors.size();  // that stay f32; with all of them nothing is off
    double error = 0;
    while (fails + 1 < holds) {
      const size_t middle = (fails + holds) / 2;
      Graph some = graph_;
      apply(&some, precision_, ranges_, worst(choice.errors, middle), parallel_);
      const double off = error_of(some, nullptr);
      (off <= kMargin * tolerance ? holds : fails) = middle;
      if (holds == middle) error = off;
    }
    choice.kept = worst(choice.errors, holds);
    choice.error = error;
    return choice;
  }

 private:
  void add_wanted(const Sample& sample, const std::vector<std::string>& changed) {
    Wanted wanted{sample, fixed_at(graph_, sample), {}, {}};
    std::vector<size_t> values = wanted.graph.outputs;
    for (const std::string& name : changed) values.push_back(wanted.graph.find(name));
    std::vector<Bytes> data = computed(wanted.graph, values, sample.inputs, parallel_);
    const auto outputs = static_cast<int64_t>(wanted.graph.outputs.size());
    for (size_t i = 0; i < changed.size(); ++i) {
      wanted.made[changed[i]] = data[i + static_cast<size_t>(outputs)];
    }
    wanted.outputs.assign(data.begin(), data.begin() + outputs);
    wanted_.push_back(std::move(wanted));
  }

  std::vector<ProductError> errors_apart(const Graph& all,
                                         const std::vector<std::string>& names) const {
    std::vector<ProductError> errors;
    for (const std::string& name : names) {
      const auto node = std::ranges::find(all.nodes, all.find(name), &Node::output);
      errors.push_back({name, node->label, 0});
    }
    for (const Wanted& wanted : wanted_) {
      const Graph probe = apart(fixed_at(all, wanted.sample), names);
      std::map<std::string, Bytes> inputs = wanted.sample.inputs;
      inputs.insert(wanted.made.begin(), wanted.made.end());
      const std::vector<Bytes> got = computed(probe, probe.outputs, inputs, parallel_);
      for (size_t i = 0; i < names.size(); ++i) {
        const Value& v = probe.values[probe.outputs[i]];
        const double off = share_off(v.elem, *got[i], *wanted.made.at(names[i]));
        errors[i].error = std::max(errors[i].error, off);
      }
    }
    std::ranges::stable_sort(errors, std::greater(), &ProductError::error);
    return errors;
  }

  // The largest error of the outputs, and the name of that output.
  double error_of(const Graph& graph, std::string* output) const {
    double worst = 0;
    for (const Wanted& wanted : wanted_) {
      const Graph fixed = fixed_at(graph, wanted.sample);
      const std::vector<Bytes> got = interpret(fixed, wanted.sample.inputs, parallel_);
      for (size_t i = 0; i < got.size(); ++i) {
        const Value& v = fixed.values[fixed.outputs[i]];
        const double off = share_off(v.elem, *got[i], *wanted.outputs[i]);
        if (output != nullptr && (output->empty() || off > worst)) *output = v.name;
        worst = std::max(worst, off);
      }
    }
    return worst;
  }

  static Kept worst(const std::vector<ProductError>& errors, size_t count) {
    Kept kept;
    for (size_t i = 0; i < count; ++i) kept.insert(errors[i].output);
    return kept;
  }

  const Graph& graph_;
  const Precision& precision_;
  const Ranges* ranges_;
  const Oracle::ParallelFn& parallel_;
  std::vector<Wanted> wanted_;
};

}  // namespace

Ranges ranges_of(const Graph& graph, const std::vector<Sample>& samples,
                 const Oracle::ParallelFn& parallel) {
  Ranges ranges;
  for (const Sample& sample : samples) {
    const Graph fixed = fixed_at(graph, sample);
    std::vector<size_t> values = fixed.inputs;
    for (const Node& node : fixed.nodes) values.push_back(node.output);
    std::erase_if(values, [&](size_t v) { return fixed.values[v].elem != ElemType::f32; });
    const std::vector<Bytes> data = computed(fixed, values, sample.inputs, parallel);
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& v = fixed.values[values[i]];
      Extremes& range = ranges[v.name];
      const auto count = static_cast<int64_t>(data[i]->size() / sizeof(float));
      for (int64_t e = 0; e < count; ++e) {
        const double x = load_element(v.elem, data[i]->data(), e);
        if (!std::isfinite(x)) continue;
        range.least = std::min(range.least, x);
        range.most = std::max(range.most, x);
      }
    }
  }
  return ranges;
}

double share_off(ElemType elem, std::string_view got, std::string_view want) {
  double most = 0, largest = 0;
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  const int64_t count = static_cast<int64_t>(got.size()) * 8 / bits_of(elem);
  for (int64_t i = 0; i < count; ++i) {
    const double g = load_element(elem, got.data(), i), w = load_element(elem, want.data(), i);
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!std::isfinite(g - w)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(g - w));
  }
  return most == 0 ? 0 : most / std::max(largest, std::numeric_limits<double>::min());
}

Choice choose_products(const Graph& graph, const Precision& precision, const Ranges* ranges,
                       const std::vector<Sample>& samples, double tolerance,
                       const Oracle::ParallelFn& parallel) {
  return Chooser(graph, precision, ranges, parallel).choose(samples, tolerance);
}

}  // namespace tilewright::graph
