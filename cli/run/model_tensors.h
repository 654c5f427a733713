// Arguments of a run of a model file: tensors of its ports, and threads.
#pragma once

#include <memory>
#include <vector>

#include "runtime/tensor/array.h"
#include "runtime/thread_pool.h"
#include "serving/model.h"

namespace tilewright::cli {

// A tensor of a port in memory of its own.
struct Tensor {
  explicit Tensor(const serving::Port& port)
      : array(port.name, port.elem, port.shape), shape(port.shape) {
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
  explicit Tensors(const std::vector<serving::Port>& ports) {
    for (const serving::Port& port : ports) {
      owned_.push_back(std::make_unique<Tensor>(port));
      given_.push_back(&owned_.back()->tensor);
    }
  }
  HostArray& at(size_t i) { return owned_[i]->array; }
  const DLTensor* const* data() const { return given_.data(); }
  size_t size() const { return given_.size(); }

 private:
  std::vector<std::unique_ptr<Tensor>> owned_;
  std::vector<const DLTensor*> given_;
};

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
