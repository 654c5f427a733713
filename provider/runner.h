// Runs a model file in the place of nodes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "provider/inner_session.h"
#include "provider/options.h"
#include "tilewright/tilewright.h"

namespace tilewright::provider {

// An input or an output of a model file.
struct Port {
  std::string name;
  DLDataType dtype;
  std::vector<int64_t> least, most;  // sizes
};

// A shape in messages: "[1..8, 3, 224]".
std::string describe(const std::vector<int64_t>& least, const std::vector<int64_t>& most);

// Throws ProviderError with the text of a failure.
void check_tw(tw_status status);
// Valid as long as the texts.
std::vector<const char*> pointers_to(const std::vector<std::string>& texts);

// The type of DLPack for one of the runtime; nothing where there is none.
std::optional<DLDataType> dl_type(int32_t elem);

// Any number of threads may call compute(); as many as there are instances run at once. A run allocates
// nothing but what the runtime does for its outputs.
class Runner {
 public:
  using Log = std::function<void(const std::string&)>;
  // Throws where a node has no kernel here, and where the file is none or is not trusted.
  Runner(const Runtime& runtime, const std::string& path, const Options& options, const Log& log);
  // Puts `count` models into an array; none where it throws.
  using Open = std::function<void(size_t count, tw_model** models)>;
  // Opens a model for each instance; `path` is their name. Throws what `open` throws.
  Runner(const Runtime& runtime, std::string path, const Options& options, const Open& open);

  const std::string& path() const { return path_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

  // The order in which the runtime has inputs and outputs.
  void bind(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  // Takes runs whose sizes the file does not have.
  void set_fallback(std::unique_ptr<InnerSession> session) { fallback_ = std::move(session); }

  void compute(ort::KernelContext* context);

 private:
  // A model with the memory of one run, and the tensors of that run.
  struct AlignedDelete {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  struct Instance {
    ~Instance() { tw_model_close(model); }
    tw_model* model = nullptr;
    std::vector<DLTensor> in, out;
    std::vector<const DLTensor*> in_pointers, out_pointers;
    std::vector<std::vector<int64_t>> out_shapes;
    // By output: memory for one whose sizes a run may find. The runtime wants them ahead, so it gets a copy.
    std::vector<std::unique_ptr<std::byte, AlignedDelete>> rooms;
  };
  Instance& take();
  void give_back(Instance& instance);
  // Reads the inputs; false where a size lies outside of the file's.
  bool read_inputs(const ort::KernelContext* context, Instance& instance) const;
  void run(ort::KernelContext* context, Instance& instance) const;
  // The memory of an output with the sizes in `instance`, as the runtime gives it.
  void* output(ort::KernelContext* context, const Instance& instance, size_t i) const;
  void run_fallback(ort::KernelContext* context) const;
  [[noreturn]] void refuse_sizes(const Instance& instance) const;

  const Runtime& runtime_;
  std::string path_;
  int threads_;
  std::vector<Port> inputs_, outputs_;
  std::vector<size_t> input_at_, output_at_;  // where the runtime has a port
  std::unique_ptr<InnerSession> fallback_;
  std::vector<size_t> fallback_inputs_, fallback_outputs_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<Instance*> free_;
  std::mutex mutex_;
  std::condition_variable freed_;
};

// Sessions that this thread starts meanwhile take these runners for nodes EPContext of their paths: a trial runs the
// model that will serve. One at a time per thread.
class Lending {
 public:
  explicit Lending(std::vector<std::shared_ptr<Runner>> runners);
  ~Lending();
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  // The runner of that path; null: none is lent.
  static std::shared_ptr<Runner> find(const std::string& path);

 private:
  std::vector<std::shared_ptr<Runner>> runners_;
};

}  // namespace tilewright::provider
