#include "provider/runner.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace tilewright::provider {
namespace {

size_t bytes_of(DLDataType type, const std::vector<int64_t>& shape) {
  size_t bytes = (static_cast<size_t>(type.bits) * type.lanes + 7) / 8;
  for (int64_t size : shape) bytes *= static_cast<size_t>(size);
  return bytes;
}

Port port_of(const tw_port& port) {
  return {port.name,
          port.dtype,
          {port.least, port.least + port.ndim},
          {port.shape, port.shape + port.ndim}};
}

template <class Count, class At>
std::vector<Port> ports_of(const tw_model* model, Count count, At at) {
  std::vector<Port> ports;
  for (size_t i = 0; i < count(model); ++i) {
    auto port = TW_INIT(tw_port);
    check_tw(at(model, i, &port));
    ports.push_back(port_of(port));
  }
  return ports;
}

size_t place_of(const std::vector<std::string>& names, const std::string& name, const char* what) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end()) {
    throw ProviderError("the model file has " + std::string(what) + " '" + name +
                        "', which the nodes do not have");
  }
  return static_cast<size_t>(at - names.begin());
}

// Loops of kernels on the session's own threads.
struct Loops {
  const Runtime& runtime;
  const ort::KernelContext* context;
  int threads;
};

struct Loop {
  int64_t n;
  size_t parts;
  void (*body)(void*, int64_t, int64_t, int32_t);
  void* closure;

  static void part(void* self, size_t i) {
    const Loop& loop = *static_cast<const Loop*>(self);
    const auto cut = [&](size_t at) {
      return static_cast<int64_t>(at) * loop.n / static_cast<int64_t>(loop.parts);
    };
    loop.body(loop.closure, cut(i), cut(i + 1), static_cast<int32_t>(i));
  }
};

void parallel_for(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
                  void* closure) {
  const Loops& loops = *static_cast<const Loops*>(pool);
  const auto parts = static_cast<size_t>(std::min<int64_t>(loops.threads, n));
  Loop loop{n, parts, body, closure};
  if (parts > 1) {
    ort::Status* failed = loops.runtime.plain<ort::ParallelFor>(loops.context, &Loop::part, parts,
                                                                parts, static_cast<void*>(&loop));
    if (failed == nullptr) return;
    loops.runtime.plain<ort::ReleaseStatus>(failed);  // it refused before it began
  }
  if (n > 0) body(closure, 0, n, 0);
}

void open_file(const std::string& path, const Options& options, const Runner::Log& log,
               size_t count, tw_model** models) {
  const std::vector<const char*> keys = pointers_to(options.trust);
  auto open = TW_INIT(tw_open_options);
  open.log = [](void* user, const char* line) { (*static_cast<const Runner::Log*>(user))(line); };
  open.log_user = const_cast<Runner::Log*>(&log);
  open.trust = keys.data();
  open.trust_count = keys.size();
  auto model_options = TW_INIT(tw_model_options);
  model_options.open = &open;
  model_options.threads = options.threads;
  for (size_t i = 0; i < count; ++i) {
    const tw_status status = tw_model_open(path.c_str(), &model_options, &models[i]);
    if (status == TW_OK) continue;
    while (i > 0) tw_model_close(models[--i]);
    check_tw(status);
  }
}

// Lent by this thread; null: nothing.
thread_local const std::vector<std::shared_ptr<Runner>>* lent = nullptr;

}  // namespace

Lending::Lending(std::vector<std::shared_ptr<Runner>> runners) : runners_(std::move(runners)) {
  lent = &runners_;
}

Lending::~Lending() { lent = nullptr; }

std::shared_ptr<Runner> Lending::find(const std::string& path) {
  if (lent == nullptr) return nullptr;
  const auto found = std::ranges::find(*lent, path, [](const auto& r) { return r->path(); });
  return found == lent->end() ? nullptr : *found;
}

std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

void check_tw(tw_status status) {
  if (status != TW_OK) throw ProviderError(tw_last_error());
}

std::string describe(const std::vector<int64_t>& least, const std::vector<int64_t>& most) {
  std::string text = "[";
  for (size_t d = 0; d < most.size(); ++d) {
    text += d == 0 ? "" : ", ";
    if (least[d] != most[d]) text += std::to_string(least[d]) + "..";
    text += std::to_string(most[d]);
  }
  return text + "]";
}

std::optional<DLDataType> dl_type(int32_t elem) {
  struct Row {
    int32_t elem;
    DLDataType type;
  };
  constexpr std::array kRows = {
      Row{ort::kF32, {kDLFloat, 32, 1}},  Row{ort::kU8, {kDLUInt, 8, 1}},
      Row{ort::kI8, {kDLInt, 8, 1}},      Row{ort::kU16, {kDLUInt, 16, 1}},
      Row{ort::kI16, {kDLInt, 16, 1}},    Row{ort::kI32, {kDLInt, 32, 1}},
      Row{ort::kI64, {kDLInt, 64, 1}},    Row{ort::kBool, {kDLBool, 8, 1}},
      Row{ort::kF16, {kDLFloat, 16, 1}},  Row{ort::kF64, {kDLFloat, 64, 1}},
      Row{ort::kU32, {kDLUInt, 32, 1}},   Row{ort::kU64, {kDLUInt, 64, 1}},
      Row{ort::kBf16, {kDLBfloat, 16, 1}}};
  const auto* row = std::ranges::find(kRows, elem, &Row::elem);
  return row == kRows.end() ? std::nullopt : std::optional(row->type);
}

Runner::Runner(const Runtime& runtime, const std::string& path, const Options& options,
               const Log& log)
    : Runner(runtime, path, options, [&](size_t count, tw_model** models) {
        open_file(path, options, log, count, models);
      }) {}

Runner::Runner(const Runtime& runtime, std::string path, const Options& options, const Open& open)
    : runtime_(runtime), path_(std::move(path)), threads_(options.threads) {
  std::vector<tw_model*> models(static_cast<size_t>(options.instances));
  for (size_t i = 0; i < models.size(); ++i) instances_.push_back(std::make_unique<Instance>());
  open(models.size(), models.data());
  for (size_t i = 0; i < models.size(); ++i) instances_[i]->model = models[i];
  for (const auto& instance : instances_) free_.push_back(instance.get());
  const tw_model* model = instances_.front()->model;
  inputs_ = ports_of(model, tw_model_input_count, tw_model_input_at);
  outputs_ = ports_of(model, tw_model_output_count, tw_model_output_at);
  if (tw_model_state_count(model) > 0) {
    throw ProviderError(path_ + " has states, which nodes of a graph do not have");
  }
  for (const auto& instance : instances_) {
    instance->in.resize(inputs_.size());
    instance->out.resize(outputs_.size());
    for (DLTensor& tensor : instance->in) instance->in_pointers.push_back(&tensor);
    for (DLTensor& tensor : instance->out) instance->out_pointers.push_back(&tensor);
    for (const Port& port : outputs_) {
      instance->out_shapes.emplace_back(port.most.size());
      const bool varies = port.least != port.most;
      instance->rooms.emplace_back(
          varies ? static_cast<std::byte*>(::operator new (
                       std::max<size_t>(1, bytes_of(port.dtype, port.most)), std::align_val_t{64}))
                 : nullptr);
    }
  }
}

void Runner::bind(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  input_at_.clear();
  output_at_.clear();
  for (const Port& port : inputs_) input_at_.push_back(place_of(inputs, port.name, "an input"));
  for (const Port& port : outputs_) output_at_.push_back(place_of(outputs, port.name, "an output"));
  for (const std::string& output : outputs) {
    if (std::ranges::find(outputs_, output, &Port::name) == outputs_.end()) {
      throw ProviderError("the model file has no output '" + output + "'");
    }
  }
  if (fallback_ == nullptr) return;
  fallback_inputs_.clear();
  fallback_outputs_.clear();
  for (const std::string& name : fallback_->names().inputs) {
    fallback_inputs_.push_back(place_of(inputs, name, "an input"));
  }
  for (const std::string& name : fallback_->names().outputs) {
    fallback_outputs_.push_back(place_of(outputs, name, "an output"));
  }
}

Runner::Instance& Runner::take() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return !free_.empty(); });
  Instance& instance = *free_.back();
  free_.pop_back();
  return instance;
}

void Runner::give_back(Instance& instance) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(&instance);
  }
  freed_.notify_one();
}

void Runner::compute(ort::KernelContext* context) {
  Instance& instance = take();
  const auto back = [this](Instance* taken) { give_back(*taken); };
  std::unique_ptr<Instance, decltype(back)> lease(&instance, back);
  if (read_inputs(context, instance)) {
    run(context, instance);
  } else if (fallback_ != nullptr) {
    lease.reset();
    run_fallback(context);
  } else {
    refuse_sizes(instance);
  }
}

bool Runner::read_inputs(const ort::KernelContext* context, Instance& instance) const {
  bool fits = true;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto* value =
        runtime_.get<ort::KernelContextGetInput, const ort::Value*>(context, input_at_[i]);
    if (value == nullptr) throw ProviderError("input '" + inputs_[i].name + "' is left out");
    ort::Element elem{};
    const int64_t* sizes = nullptr;
    size_t rank = 0;
    runtime_.checked<ort::GetTensorShape>(value, &elem, &sizes, &rank);
    const std::optional<DLDataType> type = dl_type(elem);
    if (!type)
      throw ProviderError("input '" + inputs_[i].name +
                          "' has an element type without a name in DLPack");
    const Port& port = inputs_[i];
    DLTensor& tensor = instance.in[i];
    tensor = {};
    tensor.data = const_cast<void*>(runtime_.get<ort::GetTensorData, const void*>(value));
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(rank);
    tensor.dtype = *type;
    tensor.shape = const_cast<int64_t*>(sizes);
    fits = fits && rank == port.most.size();
    for (size_t d = 0; fits && d < rank; ++d)
      fits = port.least[d] <= sizes[d] && sizes[d] <= port.most[d];
  }
  return fits;
}

void Runner::refuse_sizes(const Instance& instance) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const DLTensor& tensor = instance.in[i];
    const std::vector<int64_t> given(tensor.shape, tensor.shape + tensor.ndim);
    const Port& port = inputs_[i];
    bool fits = given.size() == port.most.size();
    for (size_t d = 0; fits && d < given.size(); ++d)
      fits = port.least[d] <= given[d] && given[d] <= port.most[d];
    if (fits) continue;
    throw ProviderError("input '" + port.name + "' is " + describe(given, given) + "; " + path_ +
                        " takes " + describe(port.least, port.most) +
                        ". Compile it for these sizes (tune-cli compile --dim), or "
                        "leave out the option fallback=0");
  }
  throw ProviderError("the inputs do not fit");
}

void Runner::run(ort::KernelContext* context, Instance& instance) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::vector<int64_t>& shape = instance.out_shapes[i];
    if (!shape.empty()) {
      check_tw(tw_model_output_shape(instance.model, instance.in_pointers.data(), inputs_.size(), i,
                                     shape.data()));
    }
    DLTensor& tensor = instance.out[i];
    tensor = {};
    tensor.data = instance.rooms[i] ? instance.rooms[i].get() : output(context, instance, i);
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = outputs_[i].dtype;
    tensor.shape = shape.data();
  }
  Loops loops{runtime_, context, threads_};
  auto executor = TW_INIT(tw_executor);
  executor.threads = threads_;
  executor.parallel_for = &parallel_for;
  executor.pool = &loops;
  auto args = TW_INIT(tw_model_args);
  args.inputs = instance.in_pointers.data();
  args.input_count = inputs_.size();
  args.outputs = instance.out_pointers.data();
  args.output_count = outputs_.size();
  args.executor = &executor;
  check_tw(tw_model_run(instance.model, &args));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!instance.rooms[i]) continue;
    std::vector<int64_t>& shape = instance.out_shapes[i];
    check_tw(tw_model_last_output_shape(instance.model, i, shape.data()));
    void* to = output(context, instance, i);
    const size_t bytes = bytes_of(outputs_[i].dtype, shape);
    if (bytes > 0) std::memcpy(to, instance.rooms[i].get(), bytes);
  }
}

void* Runner::output(ort::KernelContext* context, const Instance& instance, size_t i) const {
  const std::vector<int64_t>& shape = instance.out_shapes[i];
  ort::Value* value = nullptr;
  runtime_.checked<ort::KernelContextGetOutput>(
      context, output_at_[i], static_cast<const int64_t*>(shape.data()), shape.size(), &value);
  return runtime_.get<ort::GetTensorMutableData, void*>(value);
}

void Runner::run_fallback(ort::KernelContext* context) const {
  std::vector<const ort::Value*> inputs;
  for (const size_t at : fallback_inputs_) {
    inputs.push_back(runtime_.get<ort::KernelContextGetInput, const ort::Value*>(context, at));
  }
  const std::vector<OwnedValue> made = fallback_->run(inputs);
  for (size_t i = 0; i < made.size(); ++i) {
    ort::Element elem{};
    const int64_t* sizes = nullptr;
    size_t rank = 0;
    const ort::Value* from = made[i].get();
    runtime_.checked<ort::GetTensorShape>(from, &elem, &sizes, &rank);
    ort::Value* to = nullptr;
    runtime_.checked<ort::KernelContextGetOutput>(context, fallback_outputs_[i], sizes, rank, &to);
    const auto bytes = runtime_.get<ort::GetTensorSizeInBytes, size_t>(from);
    if (bytes == 0) continue;
    std::memcpy(runtime_.get<ort::GetTensorMutableData, void*>(to),
                runtime_.get<ort::GetTensorData, const void*>(from), bytes);
  }
}

}  // namespace tilewright::provider
