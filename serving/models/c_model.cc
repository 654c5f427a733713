// The functions of the C interface for whole models.
#include <memory>

#include "serving/fork.h"
#include "serving/models/c_model.h"
#include "serving/status.h"

using tilewright::serving::guarded;
using tilewright::serving::require;

namespace serving = tilewright::serving;

namespace {

// The output of that number, for a caller who wants its shape.
const serving::Port& output_with(const serving::Model& model, size_t output, const int64_t* shape) {
  serving::check_index(output, model.outputs().size(), "ports");
  const serving::Port& port = model.outputs()[output];
  if (!port.sizes.empty()) require(shape, "shape");
  return port;
}

void write_shape(const serving::Port& port, const serving::Sizes& sizes, int64_t* shape) {
  for (const auto& size : port.sizes) *shape++ = size.at(sizes.data());
}

tw_port port_of(const serving::Port& port) {
  return {sizeof(tw_port),
          port.name.c_str(),
          serving::dl_type(port.elem),
          static_cast<int32_t>(port.shape.size()),
          port.shape.data(),
          port.least.data()};
}

tw_status port_at(const tw_model* model,
                  const std::vector<serving::Port>& (serving::Model::*ports)() const, size_t index,
                  tw_port* port) {
  return guarded([&] {
    require(model, "model");
    const auto& all = (model->model.*ports)();
    serving::check_index(index, all.size(), "ports");
    serving::write_struct(port, port_of(all[index]), "tw_port");
  });
}

}  // namespace

extern "C" {

tw_status tw_model_open(const char* path, const tw_model_options* options,
                        tw_model** model) noexcept {
  return guarded([&] {
    require(path, "path");
    require(model, "model");
    const serving::NoFork no_fork;
    const tw_model_options read = serving::read_model_options(options);
    tw_open_options open = {};
    if (read.open != nullptr) open = serving::read_struct(read.open, "tw_open_options");
    serving::ModelOptions own;
    own.threads = read.threads;
    if (read.states_of != nullptr) own.states_of = &read.states_of->model;
    if (read.target != nullptr) own.target = read.target;
    own.device = read.device;
    own.log = serving::log_of(open);
    own.observer = serving::observer_of(open);
    own.trust = serving::trust_of(open);
    *model = std::make_unique<tw_model>(path, own).release();
  });
}

void tw_model_close(tw_model* model) noexcept {
  const serving::NoFork no_fork;
  delete model;
}

size_t tw_model_input_count(const tw_model* model) noexcept {
  return model == nullptr ? 0 : model->model.inputs().size();
}
size_t tw_model_output_count(const tw_model* model) noexcept {
  return model == nullptr ? 0 : model->model.outputs().size();
}
tw_status tw_model_input_at(const tw_model* model, size_t index, tw_port* port) noexcept {
  return port_at(model, &serving::Model::inputs, index, port);
}
tw_status tw_model_output_at(const tw_model* model, size_t index, tw_port* port) noexcept {
  return port_at(model, &serving::Model::outputs, index, port);
}

size_t tw_model_state_count(const tw_model* model) noexcept {
  return model == nullptr ? 0 : model->model.states().size();
}
tw_status tw_model_state_at(const tw_model* model, size_t index, tw_port* port,
                            void** data) noexcept {
  const tw_status status = port_at(model, &serving::Model::states, index, port);
  if (status != TW_OK) return status;
  return guarded([&] {
    require(data, "data");
    *data = model->model.state_data(index);
  });
}

tw_status tw_model_run(tw_model* model, const tw_model_args* args) noexcept {
  return guarded([&] {
    require(model, "model");
    const auto read = serving::read_struct(args, "tw_model_args");
    if (read.input_count > 0) require(read.inputs, "inputs");
    if (read.output_count > 0) require(read.outputs, "outputs");
    const tw_executor executor = serving::executor_of(read.executor);
    auto run = read.profile != 0 ? &serving::Model::profile : &serving::Model::run;
    (model->model.*run)(read.inputs, read.input_count, read.outputs, read.output_count,
                        {&executor, read.stream});
  });
}

tw_status tw_model_output_shape(const tw_model* model, const DLTensor* const* inputs,
                                size_t input_count, size_t output, int64_t* shape) noexcept {
  return guarded([&] {
    require(model, "model");
    if (input_count > 0) require(inputs, "inputs");
    const serving::Model& own = model->model;
    const serving::Port& port = output_with(own, output, shape);
    write_shape(port, own.sizes_of(inputs, input_count), shape);
  });
}

tw_status tw_model_last_output_shape(const tw_model* model, size_t output,
                                     int64_t* shape) noexcept {
  return guarded([&] {
    require(model, "model");
    const serving::Model& own = model->model;
    const serving::Port& port = output_with(own, output, shape);
    write_shape(port, own.last_sizes(), shape);
  });
}

size_t tw_model_node_count(const tw_model* model) noexcept {
  return model == nullptr ? 0 : model->model.nodes().size();
}
tw_status tw_model_node_at(const tw_model* model, size_t index, tw_model_node* node) noexcept {
  return guarded([&] {
    require(model, "model");
    const auto& all = model->model.nodes();
    serving::check_index(index, all.size(), "nodes");
    const serving::NodeLine& line = all[index];
    serving::write_struct(
        node,
        tw_model_node{sizeof(tw_model_node), line.label.c_str(), line.spec.c_str(), line.outcome,
                      line.reason.c_str(), line.tuned_seconds, line.seconds},
        "tw_model_node");
  });
}

}  // extern "C"
