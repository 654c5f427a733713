// Python's arrays as DLPack tensors, without a copy.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tilewright/tilewright.h"

namespace tilewright::python {

namespace py = pybind11;

// A refusal of the binding before the library is asked; becomes the exception of that status.
class Refused : public std::runtime_error {
 public:
  Refused(tw_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  tw_status status() const noexcept { return status_; }

 private:
  tw_status status_;
};

// An array that is borrowed for as long as this lives. All of it needs the GIL. Moving it keeps the
// addresses that the DLTensor holds.
class Tensor {
 public:
  // Asks `array` for its memory: by `__dlpack__`, and where it cannot say itself that way (NumPy 1
  // hands no read-only array over) by the buffer protocol. `stream` is where memory of a GPU is
  // going to be used, as `__dlpack__` takes it. Throws Refused (tensor) that begins with `what`:
  // "operand 'A'".
  Tensor(py::handle array, const std::string& what, std::optional<uintptr_t> stream);

  const DLTensor& get() const { return tensor_; }
  bool read_only() const { return read_only_; }
  // Takes unsigned integers for elements of `type`, where Python's arrays often have no such type:
  // bf16 comes as uint16, floats of 8 bits as uint8.
  void take_as(DLDataType type);

  char* begin() const { return static_cast<char*>(tensor_.data) + tensor_.byte_offset; }
  // Bytes of the elements, without gaps between them.
  size_t bytes() const;
  // Whether the elements follow each other in row-major order.
  bool is_compact() const;
  // The same, and the first one is aligned so.
  bool fits(size_t alignment) const;

 private:
  void take(py::handle array, const std::string& what, std::optional<uintptr_t> stream);
  void take_capsule(py::object capsule, const std::string& what);
  void take_buffer(py::handle array, const std::string& what);

  DLTensor tensor_{};
  bool read_only_ = false;
  py::object carried_;  // where the caller's array says elements that DLPack does not
  py::object capsule_;  // owns the tensor: it frees what it holds when nobody has taken it out
  std::optional<py::buffer_info> buffer_;
  std::vector<int64_t> shape_, strides_;  // of a buffer
};

// A tuple of so many sizes.
py::tuple sizes_of(const int64_t* first, size_t count);
// "f32", "bf16", "u4": what specs call the type; "" where they have no name for it.
std::string type_name(DLDataType type);

}  // namespace tilewright::python
