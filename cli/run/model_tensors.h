// Arguments of a run of a model file: tensors of its ports, and threads.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tensor/array.h"
#include "runtime/tensor/npy.h"
#include "runtime/tensor/seeded.h"
#include "runtime/tensor/tensor_view.h"
#include "runtime/thread_pool.h"
#include "serving/models/model.h"

namespace tilewright::cli {

// A tensor of a port in memory of its own.
struct Tensor {
  Tensor(const serving::Port& port, std::vector<int64_t> own_shape)
      : array(port.name, port.elem, own_shape), shape(std::move(own_shape)) {
    tensor = {};
    tensor.data = array.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = serving::dl_type(port.elem);
    tensor.shape = shape.data();
  }
  HostArray array;
  std::vector<int64_t> shape;
  DLTensor tensor;
};

// Tensors of all ports, as a run takes them.
class Tensors {
 public:
  // At these sizes of the model's dimensions.
  Tensors(const std::vector<serving::Port>& ports, const serving::Sizes& sizes) {
    for (const serving::Port& port : ports) add(port, port.shape_at(sizes));
  }
  Tensors(const std::vector<serving::Port>& ports,
          const std::vector<std::vector<int64_t>>& shapes) {
    for (size_t i = 0; i < ports.size(); ++i) add(ports[i], shapes.at(i));
  }
  HostArray& at(size_t i) { return owned_[i]->array; }
  // An output in the shape that it had in the model's last run, which may be less than there is room for.
  TensorView found(const serving::Model& model, size_t i) const {
    const HostArray& array = owned_[i]->array;
    return {array.elem(), model.outputs()[i].shape_at(model.last_sizes()), array.data()};
  }
  const DLTensor* const* data() const { return given_.data(); }
  size_t size() const { return given_.size(); }

 private:
  void add(const serving::Port& port, std::vector<int64_t> shape) {
    owned_.push_back(std::make_unique<Tensor>(port, std::move(shape)));
    given_.push_back(&owned_.back()->tensor);
  }

  std::vector<std::unique_ptr<Tensor>> owned_;
  std::vector<const DLTensor*> given_;
};

// Fills an input of a model: floats in [-1, 1), integers 0 and 1, the same ones each time.
inline void fill_randomly(HostArray* array) {
  std::optional<ValueRange> range;
  if (!is_float(array->elem())) range = ValueRange{0, 1};
  SeededValues(0x6d6f64656cull, array->name(), array->elem(), range)
      .fill(array->data(), array->count());
}

// Writes what a file holds into an input of a model. Truth values are bytes there. Throws as `assign` does.
inline void assign_input(HostArray* array, const NpyArray& given, const std::string& path) {
  const bool is_truth = given.elem == ElemType::boolean && array->elem() == ElemType::u8;
  if (is_truth && given.shape == array->shape()) {
    std::memcpy(array->data(), given.bytes.data(), given.bytes.size());
  } else {
    assign(array, given, path);
  }
}

// The pool's threads as an executor.
struct Threads {
  explicit Threads(int threads) : pool(threads) {
    executor = {sizeof(tw_executor), threads, parallel, &pool};
  }
  static void parallel(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
                       void* closure) {
    const tw_context context = static_cast<ThreadPool*>(pool)->context();
    context.parallel_for(context.pool, n, body, closure);
  }

  ThreadPool pool;
  tw_executor executor;
};

}  // namespace tilewright::cli
