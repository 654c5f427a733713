// Whole models: a program of kernels out of one file, over one block of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/places.h"
#include "runtime/load/kernel.h"
#include "serving/library.h"

namespace tilewright::serving {

class Model;

struct ModelOptions {
  int threads = 0;                   // that kernels were tuned for; 0: any number
  const Model* states_of = nullptr;  // the model whose states it shares, in place of its own
  Library::Log log;
  database::Trust trust;
};

// An input, an output or a state.
struct Port {
  std::string name;
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  size_t value = 0;             // of the graph
  std::optional<int64_t> last;  // of an input that says where writes begin: the last row that does
};

// A node as a profile shows it.
struct NodeLine {
  std::string label, spec, kernel, sketch;
  tw_outcome outcome = TW_MISS;
  std::string reason;
  double tuned_seconds = 0;  // of its kernel, when it was tuned
  double seconds = 0;        // in the last profiled run
};

// One run at a time. A run allocates nothing and takes no lock, and nothing is compiled.
class Model {
 public:
  // Throws DatabaseError, TrustError, GraphError, and ServingError: a miss that names all nodes without a
  // kernel, or a state that `states_of` does not have.
  Model(const std::string& path, const ModelOptions& options);

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::vector<NodeLine>& nodes() const { return lines_; }
  // What keeps its elements from run to run, zeros at first. Models that share states live apart: the memory
  // stays until the last of them is gone.
  const std::vector<Port>& states() const { return states_; }
  void* state_data(size_t index) const { return constants_[states_[index].value]->data(); }
  // Bytes of the block that values share, of packed weights and of constants that kernels read as they are.
  int64_t arena_bytes() const { return arena_.bytes(); }
  int64_t least_arena_bytes() const { return least_bytes_; }
  int64_t weight_bytes() const { return weight_bytes_; }

  // Tensors as the ports say, in their order; compact, in the memory of the host, at any alignment.
  // Throws ServingError that names the port, before any state changes.
  void run(const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs,
           size_t output_count, const tw_executor& executor);
  // The same, and keeps each node's seconds.
  void profile(const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs,
               size_t output_count, const tw_executor& executor);

 private:
  struct Step;

  void load(const std::string& path, const ModelOptions& options);
  void add_ports(const graph::Graph& graph);
  void add_states(const graph::Graph& graph, const Model* lender);
  std::shared_ptr<Workspace> lent(const Port& state) const;
  void add_steps(const graph::Graph& graph);
  Step make_step(const graph::Graph& graph, const graph::Node& node);
  Step make_write(const graph::Graph& graph, const graph::Node& node);
  void* place_of(const graph::Graph& graph, size_t value);
  void reserve_workspace(int threads);
  void transfer(const DLTensor* const* tensors, size_t count, const std::vector<Port>& ports,
                bool in);
  void run_step(Step& step, const tw_executor& executor);

  std::unique_ptr<Library> library_;
  std::unique_ptr<Prepared> prepared_;
  std::vector<Port> inputs_, outputs_, states_;
  std::vector<NodeLine> lines_;
  std::vector<std::shared_ptr<Step>> steps_;
  std::vector<graph::Place> places_;
  std::vector<int64_t> offsets_;
  std::vector<std::shared_ptr<Workspace>>
      constants_;  // by value, where kernels read them, and states
  Workspace arena_, scratch_;
  int64_t least_bytes_ = 0, weight_bytes_ = 0;
};

}  // namespace tilewright::serving
