#include "python/src/weight_file.h"

#include <memory>
#include <utility>

namespace tilewright::python {
namespace {

// Elements that the buffer protocol has no letter for are unsigned integers of their width, those of
// less than 8 bits bytes that hold several.
py::buffer_info buffer_of(const StoredArray& array) {
  const DLTensor& t = array.tensor;
  std::vector<py::ssize_t> shape(t.shape, t.shape + t.ndim);
  const int bits = t.dtype.bits;
  if (bits < 8) {
    if (shape.empty() || shape.back() * bits % 8 != 0) {
      throw Refused(TW_ERROR_TENSOR, "rows of " + std::to_string(shape.empty() ? 1 : shape.back()) +
                                         " " + type_name(t.dtype) + " fill no whole bytes");
    }
    shape.back() = shape.back() * bits / 8;
  }
  const py::ssize_t size = bits < 8 ? 1 : bits / 8;
  std::string format;
  if (t.dtype.code == kDLFloat) {
    format = bits == 64 ? "d" : bits == 32 ? "f" : "e";
  } else if (t.dtype.code == kDLBool) {
    format = "?";
  } else {
    static constexpr const char* kUnsigned[] = {"B", "H", "I", "Q"};
    static constexpr const char* kSigned[] = {"b", "h", "i", "q"};
    const int width = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    const bool is_signed = t.dtype.code == kDLInt && bits >= 8;
    format = is_signed ? kSigned[width] : kUnsigned[width];
  }
  std::vector<py::ssize_t> strides(shape.size());
  py::ssize_t step = size;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  const auto dimensions = static_cast<py::ssize_t>(shape.size());
  return {t.data, size, format, dimensions, std::move(shape), std::move(strides)};
}

// An open file. Many threads may read it.
class StoredFile {
 public:
  explicit StoredFile(const std::string& path) {
    py::gil_scoped_release released;
    file_ = std::make_unique<const tw::WeightFile>(path);
  }

  py::list tensors() const {
    py::list told;
    for (const tw_stored_tensor& t : file_->tensors()) {
      told.append(py::make_tuple(t.name, t.type, t.dtype.lanes == 0 ? "" : type_name(t.dtype),
                                 sizes_of(t.shape, static_cast<size_t>(t.ndim)), t.bytes));
    }
    return told;
  }

  py::list layers() const {
    py::list told;
    for (const tw_stored_layer& l : file_->layers()) {
      told.append(py::make_tuple(l.name, l.format, l.problem, l.keys, l.k, l.n, l.group, l.bits,
                                 l.act_order != 0));
    }
    return told;
  }

  // Arrays by the names of operands, and the order of the rows or an empty list.
  py::tuple read(const std::string& name, const Kernel* kernel, const std::string& operand,
                 const std::string& gptq_format) const {
    const auto read = [&] {
      py::gil_scoped_release released;
      return std::make_shared<const tw::Operands>(
          kernel == nullptr ? file_->read(name, operand, gptq_format)
                            : file_->read(name, kernel->get(), operand, gptq_format));
    };
    const std::shared_ptr<const tw::Operands> operands = read();
    py::dict arrays;
    for (const tw_named_tensor& named : operands->tensors()) {
      arrays[named.operand] = py::cast(StoredArray{operands, *named.tensor});
    }
    py::list order;
    for (const int64_t row : operands->order()) order.append(row);
    return py::make_tuple(arrays, order);
  }

 private:
  std::unique_ptr<const tw::WeightFile> file_;
};

}  // namespace

void add_weight_file(py::module_& module) {
  py::class_<StoredArray>(
      module, "StoredArray", py::buffer_protocol(),
      "An array of the library, as a buffer: of a file of weights, or a state of a model.")
      .def_buffer([](StoredArray& array) { return buffer_of(array); });
  py::class_<StoredFile>(module, "StoredFile", "An open file of weights.")
      .def_property_readonly("tensors", &StoredFile::tensors, "The fields of a StoredTensor each.")
      .def_property_readonly("layers", &StoredFile::layers, "The fields of a StoredLayer each.")
      .def(
          "read", &StoredFile::read, py::arg("name"), py::arg("kernel"), py::arg("operand"),
          py::arg("gptq_format"),
          "The arrays of a tensor or a layer by the names of operands, in the form of the kernel's "
          "or\nas they lie, and the order of the rows.");
  module.def(
      "open_weights", [](const py::bytes& path) { return std::make_unique<StoredFile>(path); },
      py::arg("path"), "Opens a file of weights.");
}

}  // namespace tilewright::python
