// A model file's index: what opening needs of its specs and kernels, so that nothing is parsed and no record is
// searched. It says nothing that the file's program and rows do not; a file without one gets it when it is opened.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/sizes.h"
#include "serving/choice.h"
#include "serving/table.h"

namespace tilewright::serving {

// The part of a model file that is its index.
inline constexpr const char* kIndexPart = "index";

// A spec as nodes of the program have it.
struct NodeSpec {
  SpecFacts facts;                           // with ranges in place of stand-ins
  std::map<std::string, graph::Size> sizes;  // of its dynamic dimensions
};

struct ModelIndex {
  std::vector<NodeSpec> specs;  // in the order in which the program has them first
  StoredWorkloads workloads;

  // Each spec once, though several texts of the program may become one.
  std::vector<SpecFacts> facts() const;
};

// Which of the specs each workload has, also those of bodies.
std::map<const graph::Node*, size_t> specs_of_nodes(const graph::Graph& graph);

// Throws GraphError for specs that do not parse.
ModelIndex make_index(const graph::Graph& graph, StoredWorkloads workloads);

// The index as JSON, with the kernels of these hashes alone. `program` is the text that it belongs to.
std::string to_text(const ModelIndex& index, const graph::Graph& graph, const std::string& program,
                    const std::set<std::string>& kernels);
// Throws Error that says what is wrong with the text, or that it belongs to another program.
ModelIndex parse_index(const std::string& text, const std::string& program,
                       const graph::Graph& graph);

}  // namespace tilewright::serving
