// Whole models: a program of kernels out of one file, over one block of memory.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/places.h"
#include "graph/plan.h"
#include "runtime/load/kernel.h"
#include "serving/library.h"
#include "serving/models/model_index.h"
#include "serving/models/model_memory.h"
#include "serving/models/port.h"
#include "serving/models/stored_model.h"

namespace tilewright::serving {

class Model;

struct ModelOptions {
  int threads = 0;                   // that kernels were tuned for; 0: any number
  const Model* states_of = nullptr;  // the model whose states it shares, in place of its own
  std::string target;                // of the kernels; "": that which the file was compiled for
  int device = 0;                    // which GPU
  decltype(PrepareOptions::emulate) emulate;
  Library::Log log;
  LaunchObserver observer;
  database::Trust trust;
};

// A node as a profile shows it.
struct NodeLine {
  std::string label, spec, kernel, sketch;
  tw_outcome outcome = TW_MISS;
  std::string reason;
  double tuned_seconds = 0;  // of its kernel, when it was tuned
  double seconds = 0;        // in the last profiled run
};

// The place of a run's launches: on a CPU's threads, or on a stream of a GPU.
struct Course {
  const tw_executor* executor = nullptr;
  void* stream = nullptr;
};

// One run at a time. A run allocates nothing and takes no lock, and nothing is compiled.
class Model {
 public:
  // Throws DatabaseError, TrustError, GraphError, and ServingError: a miss that names all nodes without a
  // kernel, or a state that `states_of` does not have.
  Model(const std::string& path, const ModelOptions& options);
  // The program of `source` on kernels that were prepared for its specs. Throws GraphError.
  Model(StoredModel source, std::unique_ptr<Prepared> prepared);
  ~Model();

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::vector<NodeLine>& nodes() const { return lines_; }
  // Dimensions whose sizes each run gives.
  const std::vector<graph::Dim>& dims() const { return dims_; }
  // The sizes that these inputs say; all of them are checked. Throws ServingError that names the port and, where
  // a size is out of it, the range.
  Sizes sizes_of(const DLTensor* const* inputs, size_t count) const;
  // Sizes that plain nodes say are the largest ones here.
  Sizes largest_sizes() const;
  Sizes least_sizes() const;
  // States keep their elements from run to run, zeros at first. Models that share states live apart: the memory
  // stays until the last of them is gone.
  const std::vector<Port>& states() const { return states_; }
  void* state_data(size_t index) const;
  // Bytes of the block that values share, of packed weights and of constants that kernels read as they are.
  int64_t arena_bytes() const { return arena_.bytes(); }
  int64_t least_arena_bytes() const { return least_bytes_; }
  int64_t weight_bytes() const { return weight_bytes_; }

  // Tensors as the ports say, in their order; compact, in the memory of the host, at any alignment, or of the
  // model's GPU. Throws ServingError that names the port, before any state changes. On a GPU the run is in order
  // with the stream, and has ended on return where a tensor is the host's.
  void run(const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs,
           size_t output_count, const Course& course);
  // The same, and keeps each node's seconds.
  void profile(const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs,
               size_t output_count, const Course& course);
  // The sizes in the last run, also those that plain nodes said. Throws ServingError where there was none.
  const Sizes& last_sizes() const;

 private:
  struct Copy;
  struct Frame;
  struct Rounds;
  struct Step;

  void load(const std::string& path, const ModelOptions& options);
  void build(StoredModel& source, const Model* states_of);
  void log_untuned(const std::string& path, const Library::Log& log) const;
  void add_states(const graph::Graph& graph, const Model* lender);
  std::shared_ptr<Block> lent(const Port& state) const;
  void require_no_states(const graph::Graph& graph) const;
  void add_ports(StoredModel& source);
  void add_steps(StoredModel& source, const graph::Plan& plan);
  void add_step(StoredModel& source, Frame& frame, const graph::Node& node, const graph::Plan& plan,
                std::vector<Workspace>& copies, std::vector<std::shared_ptr<Step>>* steps);
  void require_kernels(const StoredModel& source) const;
  Step make_step(StoredModel& source, Frame& frame, const graph::Node& node, const NodeSpec& spec,
                 std::vector<Workspace>& copies);
  Step make_loop(StoredModel& source, Frame& frame, const graph::Node& node,
                 const graph::Plan& plan, char* block, std::vector<Workspace>& copies);
  void stage_inputs(const Frame& frame, const graph::Graph& body, Rounds& rounds);
  // The values of the operands. Throws GraphError where they are not what the kernel takes.
  std::vector<size_t> operands_of(const Frame& frame, const graph::Node& node,
                                  const Step& step) const;
  const void* packed_from(const StoredModel& source, const Frame& frame, size_t value,
                          Workspace& copy) const;
  Step make_write(StoredModel& source, Frame& frame, const graph::Node& node);
  void* place_of(StoredModel& source, Frame& frame, size_t value);
  static int64_t workspace_of(const std::vector<std::shared_ptr<Step>>& steps, int threads);
  void reserve_workspace(int threads);
  void transfer(const DLTensor* const* tensors, const std::vector<Port>& ports, const Sizes& sizes,
                bool in, void* stream);
  // Checks the tensors, and calls `run` with the sizes between copies of inputs and outputs.
  template <class Run>
  void run_between(const DLTensor* const* inputs, size_t input_count,
                   const DLTensor* const* outputs, size_t output_count, const Course& course,
                   const Run& run);
  // `timed`: adds to the seconds of its line.
  // A plain node changes the sizes.
  void run_step(Step& step, Sizes& sizes, const Course& course, bool timed);
  void launch_step(Step& step, const Sizes& sizes, const Course& course);
  void run_loop(Step& step, Sizes& sizes, const Course& course, bool timed);
  Step make_plain(StoredModel& source, Frame& frame, const graph::Node& node);
  void run_on_nothing(const Step& step, const int64_t* dims) const;

  std::unique_ptr<Library> library_;
  std::unique_ptr<Prepared> prepared_;
  std::shared_ptr<const Gpu> gpu_;  // null: values lie in the memory of the host
  Place place_;
  std::vector<graph::Dim> dims_;
  std::vector<Port> inputs_, outputs_, states_;
  std::vector<NodeLine> lines_;
  std::vector<std::shared_ptr<Step>> steps_;
  std::deque<Frame> frames_;  // the model's, then those of bodies
  // While the model is loaded.
  std::map<const graph::Node*, size_t> specs_;
  std::map<std::string_view, const ReportLine*> reports_;
  Block arena_, scratch_;
  std::unique_ptr<CapturedRun> captured_;  // of all steps; null: they are launched one by one
  int64_t least_bytes_ = 0, weight_bytes_ = 0;
  std::optional<Sizes> last_sizes_;
};

}  // namespace tilewright::serving
