// The operator tilewright::model in C++, by PyTorch's stable ABI: a package of AOTInductor whose program
// has a model file runs in a process without Python. One build serves PyTorch 2.10 and later.
//
//   g++ -std=c++20 -O2 -shared -fPIC model_operator.cc -o libtilewright_torch.so
//     -DTORCH_TARGET_VERSION=0x020a000000000000 -I$TORCH/include -L$TORCH/lib -ltorch_cpu
//     $(pkg-config --cflags --libs tilewright)
//
// Load it with dlopen() or torch.ops.load_library() before the package. In a process of Python,
// tilewright.torch.model_operator() registers the same operator instead.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/tilewright.hpp"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

struct Type {
  ScalarType torch;
  DLDataType dlpack;
};

constexpr Type kTypes[] = {
    {ScalarType::Float, {kDLFloat, 32, 1}}, {ScalarType::Double, {kDLFloat, 64, 1}},
    {ScalarType::Half, {kDLFloat, 16, 1}},  {ScalarType::BFloat16, {kDLBfloat, 16, 1}},
    {ScalarType::Long, {kDLInt, 64, 1}},    {ScalarType::Int, {kDLInt, 32, 1}},
    {ScalarType::Short, {kDLInt, 16, 1}},   {ScalarType::Char, {kDLInt, 8, 1}},
    {ScalarType::Byte, {kDLUInt, 8, 1}},    {ScalarType::Bool, {kDLBool, 8, 1}},
};

DLDataType dlpack_type(ScalarType type) {
  for (const Type& row : kTypes) {
    if (row.torch == type) return row.dlpack;
  }
  throw std::invalid_argument("tilewright::model: an input has a type that no model file has");
}

ScalarType torch_type(const DLDataType& type) {
  for (const Type& row : kTypes) {
    if (row.dlpack.code == type.code && row.dlpack.bits == type.bits) return row.torch;
  }
  throw std::invalid_argument("tilewright::model: an output has a type that PyTorch lacks");
}

// A file that was opened for a number of threads, with these threads. Runs take turns.
struct Opened {
  Opened(const std::string& path, int threads) : model(path, threads), pool(threads) {}
  tw::Model model;
  tw::Pool pool;
  std::mutex running;
};

Opened& opened(const std::string& path, int threads) {
  static std::mutex lock;
  static std::map<std::pair<std::string, int>, std::unique_ptr<Opened>> files;
  const std::lock_guard<std::mutex> guard(lock);
  std::unique_ptr<Opened>& file = files[{path, threads}];
  if (file == nullptr) file = std::make_unique<Opened>(path, threads);
  return *file;
}

// Tensors as the C interface takes them.
struct Views {
  void add(void* data, DLDataType type, std::vector<int64_t> shape) {
    shapes.push_back(std::make_unique<std::vector<int64_t>>(std::move(shape)));
    auto view = std::make_unique<DLTensor>();
    *view = {data, {kDLCPU, 0},           static_cast<int32_t>(shapes.back()->size()),
             type, shapes.back()->data(), nullptr,
             0};
    pointers.push_back(view.get());
    tensors.push_back(std::move(view));
  }
  std::vector<std::unique_ptr<std::vector<int64_t>>> shapes;
  std::vector<std::unique_ptr<DLTensor>> tensors;
  std::vector<const DLTensor*> pointers;
};

std::vector<int64_t> shape_of(const Tensor& tensor) {
  std::vector<int64_t> shape;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) shape.push_back(tensor.size(axis));
  return shape;
}

std::vector<Tensor> run(std::vector<Tensor> inputs, std::string path, int64_t threads) {
  Opened& file = opened(path, static_cast<int>(threads));
  const std::lock_guard<std::mutex> guard(file.running);
  Views given, made;
  std::vector<Tensor> kept, outputs;
  for (const Tensor& input : inputs) {
    kept.push_back(torch::stable::contiguous(input));
    given.add(kept.back().data_ptr(), dlpack_type(input.scalar_type()), shape_of(input));
  }
  const std::vector<tw_port> ports = file.model.outputs();
  for (size_t i = 0; i < ports.size(); ++i) {
    std::vector<int64_t> shape = file.model.output_shape(given.pointers, i);
    outputs.push_back(torch::stable::empty(shape, torch_type(ports[i].dtype)));
    made.add(outputs.back().data_ptr(), ports[i].dtype, std::move(shape));
  }
  file.model.run(given.pointers, made.pointers, threads > 1 ? file.pool.executor() : nullptr);
  return outputs;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(tilewright, m) {
  m.def("model(Tensor[] inputs, str path, int threads) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(tilewright, CPU, m) { m.impl("model", TORCH_BOX(&run)); }
