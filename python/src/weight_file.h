// Files of weights as Python sees them.
#pragma once

#include "python/src/objects.h"

namespace tilewright::python {

// Adds the classes StoredFile and StoredArray, and open_weights, which makes the first.
void add_weight_file(py::module_& module);

}  // namespace tilewright::python
