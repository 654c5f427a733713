// Whole models as Python sees them.
#pragma once

#include "python/src/objects.h"

namespace tilewright::python {

// Adds the class Model.
void add_model(py::module_& module);

}  // namespace tilewright::python
