#include "python/src/tensor.h"

#include <array>
#include <cstring>
#include <utility>

namespace tilewright::python {
namespace {

struct TypeName {
  DLDataType type;
  const char* name;
};

constexpr std::array kTypeNames = {
    TypeName{{kDLFloat, 64, 1}, "f64"},           TypeName{{kDLFloat, 32, 1}, "f32"},
    TypeName{{kDLFloat, 16, 1}, "f16"},           TypeName{{kDLBfloat, 16, 1}, "bf16"},
    TypeName{{kDLFloat8_e4m3fn, 8, 1}, "f8e4m3"}, TypeName{{kDLFloat8_e5m2, 8, 1}, "f8e5m2"},
    TypeName{{kDLFloat8_e8m0fnu, 8, 1}, "e8m0"},  TypeName{{kDLFloat4_e2m1fn, 4, 1}, "f4e2m1"},
};

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw Refused(TW_ERROR_TENSOR, what + ": " + why);
}

std::string type_of(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

// The array's capsule, of DLPack 1 where its library knows that.
py::object capsule_of(py::handle array, std::optional<uintptr_t> stream) {
  py::dict options;
  const auto device = array.attr("__dlpack_device__")().cast<std::pair<int, int>>();
  if (device.first != kDLCPU) {
    // 1 is the default stream's number there: its address, 0, could also mean another one.
    options["stream"] = py::int_(stream.value_or(0) == 0 ? 1 : *stream);
  }
  py::object method = array.attr("__dlpack__");
  options["max_version"] = py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  try {
    return method(**options);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  options.attr("pop")("max_version");
  return method(**options);
}

// The element type of a buffer, by the letters of the struct module.
std::optional<DLDataType> type_of_buffer(const py::buffer_info& buffer) {
  std::string format = buffer.format;
  const bool swapped = !format.empty() && (format[0] == '>' || format[0] == '!');
  if (!format.empty() && std::strchr("@=<>!", format[0]) != nullptr) format.erase(0, 1);
  if (format.size() != 1 || (swapped && buffer.itemsize > 1)) return std::nullopt;
  uint8_t code = 0;
  if (std::strchr("bhilqn", format[0]) != nullptr) {
    code = kDLInt;
  } else if (std::strchr("BHILQN", format[0]) != nullptr) {
    code = kDLUInt;
  } else if (std::strchr("efd", format[0]) != nullptr) {
    code = kDLFloat;
  } else if (format[0] == '?') {
    code = kDLBool;
  } else {
    return std::nullopt;
  }
  return DLDataType{code, static_cast<uint8_t>(buffer.itemsize * 8), 1};
}

bool same(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

}  // namespace

Tensor::Tensor(py::handle array, const std::string& what, std::optional<uintptr_t> stream) {
  try {
    take(array, what, stream);
  } catch (const Refused&) {
    // NumPy's extensions have types that neither protocol can say.
    carried_ = py::module_::import("tilewright._arrays").attr("carried")(array);
    if (carried_.is_none()) throw;
    take(carried_, what, stream);
  }
}

void Tensor::take(py::handle array, const std::string& what, std::optional<uintptr_t> stream) {
  const bool has_buffer = PyObject_CheckBuffer(array.ptr()) != 0;
  if (!py::hasattr(array, "__dlpack__")) {
    if (has_buffer) {
      take_buffer(array, what);
      return;
    }
    refuse(what, "got " + type_of(array) +
                     "; expected an array with __dlpack__ (NumPy, PyTorch and others) or a buffer");
  }
  py::object capsule;
  try {
    capsule = capsule_of(array, stream);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;  // a Ctrl-C, say
    if (has_buffer) {
      take_buffer(array, what);
      return;
    }
    refuse(what, py::str(error.value()).cast<std::string>());
  } catch (const py::cast_error&) {
    refuse(what, "its __dlpack_device__ gave no pair of integers");
  }
  take_capsule(std::move(capsule), what);
}

void Tensor::take_capsule(py::object capsule, const std::string& what) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      refuse(what, "of DLPack " + std::to_string(managed->version.major) + "; expected " +
                       std::to_string(DLPACK_MAJOR_VERSION));
    }
    tensor_ = managed->dl_tensor;
    read_only_ = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    tensor_ =
        static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->dl_tensor;
  } else {
    refuse(what, "its __dlpack__ gave no capsule with a tensor");
  }
  capsule_ = std::move(capsule);
}

void Tensor::take_buffer(py::handle array, const std::string& what) {
  try {
    buffer_.emplace(py::reinterpret_borrow<py::buffer>(array).request());
  } catch (py::error_already_set& error) {
    refuse(what, "neither DLPack nor the buffer protocol can say elements of this type (" +
                     py::str(error.value()).cast<std::string>() +
                     "); give them as unsigned integers of the same width: array.view('uint16')");
  }
  const std::optional<DLDataType> type = type_of_buffer(*buffer_);
  if (!type) {
    refuse(what, "elements of format '" + buffer_->format + "'; expected plain numbers in the " +
                     "processor's byte order");
  }
  shape_.assign(buffer_->shape.begin(), buffer_->shape.end());
  for (size_t axis = 0; axis < buffer_->strides.size(); ++axis) {
    if (buffer_->strides[axis] % buffer_->itemsize != 0) {
      refuse(what, "dimension " + std::to_string(axis) + " has a stride of " +
                       std::to_string(buffer_->strides[axis]) + " bytes; expected whole elements");
    }
    strides_.push_back(buffer_->strides[axis] / buffer_->itemsize);
  }
  read_only_ = buffer_->readonly;
  tensor_ = {buffer_->ptr,
             {kDLCPU, 0},
             static_cast<int32_t>(shape_.size()),
             *type,
             shape_.data(),
             strides_.data(),
             0};
}

void Tensor::take_as(DLDataType type) {
  const bool is_float = type.code == kDLBfloat || type.code >= kDLFloat8_e3m4;
  if (is_float && same(tensor_.dtype, {kDLUInt, type.bits, 1})) tensor_.dtype = type;
}

size_t Tensor::bytes() const {
  size_t bits = static_cast<size_t>(tensor_.dtype.bits) * tensor_.dtype.lanes;
  for (int32_t axis = 0; axis < tensor_.ndim; ++axis) {
    bits *= static_cast<size_t>(tensor_.shape[axis]);
  }
  return (bits + 7) / 8;
}

bool Tensor::is_compact() const {
  int64_t expected = 1;
  for (int32_t axis = tensor_.ndim - 1; tensor_.strides != nullptr && axis >= 0; --axis) {
    if (tensor_.shape[axis] != 1 && tensor_.strides[axis] != expected) return false;
    expected *= tensor_.shape[axis];
  }
  return true;
}

bool Tensor::fits(size_t alignment) const {
  return is_compact() && reinterpret_cast<uintptr_t>(begin()) % alignment == 0;
}

py::tuple sizes_of(const int64_t* first, size_t count) {
  py::tuple sizes(count);
  for (size_t i = 0; i < count; ++i) sizes[i] = py::int_(first[i]);
  return sizes;
}

std::string type_name(DLDataType type) {
  for (const TypeName& row : kTypeNames) {
    if (same(row.type, type)) return row.name;
  }
  if (type.lanes == 1 && type.code == kDLInt) return "i" + std::to_string(type.bits);
  if (type.lanes == 1 && type.code == kDLUInt) return "u" + std::to_string(type.bits);
  if (type.lanes == 1 && type.code == kDLBool) return "bool";
  return "";
}

}  // namespace tilewright::python
