// Files of weights as Python sees them.
#pragma once

#include "python/src/objects.h"

namespace tilewright::python {

// An array of the library, whose shape and memory stay as long as the owner.
struct StoredArray {
  std::shared_ptr<const void> owner;
  DLTensor tensor;
};

// Adds the classes StoredFile and StoredArray, and open_weights, which makes the first.
void add_weight_file(py::module_& module);

}  // namespace tilewright::python
