// The module tilewright._core: classes over the serving library. Their types are written down in
// tilewright/_core.pyi, and a test holds the two together.
#include "python/src/model.h"
#include "python/src/objects.h"
#include "python/src/weight_file.h"

namespace tilewright::python {
namespace {

// Sets Python's exception for the status, with the library's sentence. What the sentence calls by the
// name of a C function has another one here.
void set_exception(tw_status status, std::string text) {
  static const std::string kPackInC = "tw_pack_weights", kPackHere = "Kernel.pack";
  if (const size_t at = text.find(kPackInC); at != std::string::npos) {
    text.replace(at, kPackInC.size(), kPackHere);
  }
  const py::object kinds = py::module_::import("tilewright._errors").attr("BY_STATUS");
  // Paths in it may be no UTF-8.
  const auto message = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  const py::object kind = kinds[py::int_(static_cast<int>(status))];
  PyErr_SetObject(kind.ptr(), message.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const tw::Error& error) {
    set_exception(error.status(), error.what());
  } catch (const Refused& refused) {
    set_exception(refused.status(), refused.what());
  }
}

void add_library(py::module_& module) {
  py::class_<Library>(module, "Library",
                      "A database of kernels, read into memory. The file is not used afterwards.")
      .def(
          py::init([](const py::object& path, py::object log, const py::iterable& trust,
                      const std::string& pin) {
            return std::make_unique<Library>(Opening(path, std::move(log), trust, pin));
          }),
          py::arg("path"), py::kw_only(), py::arg("log") = py::none(),
          py::arg("trust") = py::tuple(), py::arg("pin") = "",
          "Reads the database at `path`, which may be of an older version, and never writes to "
          "it.\n"
          "`log` takes a line for each workload that is served by less than its own tuned kernel;\n"
          "by default they go to logging.getLogger('tilewright') as warnings. Kernels are machine "
          "code:\n"
          "those of a file that others may write, and those that came by a merge, are misses. "
          "`trust`\n"
          "are public keys whose signed kernels run all the same, `pin` is the SHA-256 of a "
          "serving "
          "file\n"
          "that may then be anybody's; both in hexadecimal digits.")
      .def(
          "prepare",
          [](const Library& library, py::object specs, py::object sizes, std::string target,
             int device, int threads) {
            return library.prepare(
                {std::move(specs), std::move(sizes), std::move(target), device, threads});
          },
          py::arg("specs"), py::kw_only(), py::arg("sizes") = py::none(),
          py::arg("target") = "native", py::arg("device") = 0, py::arg("threads") = 0,
          "Finds and loads a kernel for each spec: text, a dict, or an iterable of them. A spec "
          "that\n"
          "no kernel serves is no error: the report says so, and looking it up raises MissError.\n"
          "`sizes` maps names of dynamic dimensions to the sizes that will be asked for; others "
          "are\n"
          "looked for in their whole range. `target` is 'native', 'avx512', 'avx2', 'generic' or\n"
          "'cuda:sm_XX', `device` which GPU. `threads`: for which kernels were tuned; 0: any "
          "number.")
      .def("close", &Library::close, "Frees the database. What was prepared from it stays.")
      .def_property_readonly("closed", &Library::closed, "Whether close() was called.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Library& library, const py::args&) { library.close(); });
}

void add_prepared(py::module_& module) {
  py::class_<Prepared>(module, "Prepared", "Kernels that are loaded and ready to be launched.")
      .def_property_readonly(
          "report", &Prepared::report,
          "The outcome of each look-up: a Report for each spec and range of sizes.")
      .def(
          "find", &Prepared::find, py::arg("spec"),
          "The Kernel that serves `spec`, which is one that prepare() was given. It keeps what it\n"
          "needs alive. Raises MissError where none serves it.")
      .def("__getitem__", &Prepared::find, py::arg("spec"), "The same as find().")
      .def("_repr_html_", [](const py::object& prepared) {
        return py::module_::import("tilewright._html").attr("prepared_html")(prepared);
      });
}

void add_kernel(py::module_& module) {
  py::class_<Kernel>(module, "Kernel",
                     "The kernel, or kernels for several ranges of sizes, that serves one spec. "
                     "Any number of threads may launch it.")
      .def_property_readonly("spec", &Kernel::spec, "The spec as the caller gave it.")
      .def_property_readonly(
          "operands", &Kernel::operands,
          "A tuple of Operand: inputs in the order of the operator, then outputs.")
      .def_property_readonly("dims", &Kernel::dims, "A tuple of Dim: the dynamic dimensions.")
      .def_property_readonly(
          "identity", &Kernel::identity,
          "Identity of the packed weights that it takes; '' where it packs none.")
      .def("workspace_bytes", &Kernel::workspace_bytes, py::arg("threads") = 1,
           "Memory that a launch on that many threads needs besides its operands.")
      .def(
          "pack",
          [](const py::object& kernel, const py::dict& weights, const Pool* pool) {
            const auto expanded = py::module_::import("tilewright._weights")
                                      .attr("expand")(kernel, weights)
                                      .cast<std::pair<py::dict, py::object>>();
            return kernel.cast<const Kernel&>().pack(expanded.first, pool, expanded.second);
          },
          py::arg("weights"), py::kw_only(), py::arg("pool") = py::none(),
          "Lays weights out as this kernel reads them. `weights` maps names of operands to arrays\n"
          "in the host's memory, to what quantize() made, or to a layer of open_weights(): both\n"
          "bring scales and zero points along. All that the kernel packs must be there. Arrays\n"
          "that it reads as they are are kept, and launches with these weights take them from\n"
          "here.")
      .def(
          "launch",
          [](const Kernel& kernel, const py::object& tensors, const Weights* weights,
             const Pool* pool, py::object workspace, py::object stream) {
            kernel.launch(tensors, {weights, pool, std::move(workspace), std::move(stream)});
          },
          py::arg("tensors"), py::kw_only(), py::arg("weights") = py::none(),
          py::arg("pool") = py::none(), py::arg("workspace") = py::none(),
          py::arg("stream") = py::none(),
          "Runs the kernel on the caller's arrays, without the GIL. `tensors` is a list in the\n"
          "order of `operands`, None for those that come from `weights`, or a dict by name. "
          "Arrays\n"
          "that are compact, row-major and aligned (`Operand.alignment`; empty() makes such) are\n"
          "not copied. Of others in the host's memory a kernel for a CPU gets a copy, with a\n"
          "CopyWarning once.\n"
          "`pool`: threads to run on; default: the calling one. `workspace`: an array of at least\n"
          "workspace_bytes(); without it a CPU's launch allocates its own. `stream`: a CUDA "
          "stream,\n"
          "of a GPU's launch, which has only been started when this returns.")
      .def(
          "__call__",
          [](const py::object& kernel, const py::args& inputs, const py::kwargs& options) {
            return py::module_::import("tilewright._call").attr("call")(kernel, *inputs, **options);
          },
          "call(*inputs, weights=None, out=None, …): launches and returns the output. Inputs are\n"
          "those operands, in order, that neither `weights` holds nor are outputs. Without `out` "
          "the\n"
          "output is a new NumPy array, or a PyTorch tensor where the first input is one.")
      .def("_repr_html_",
           [](const py::object& kernel) {
             return py::module_::import("tilewright._html").attr("kernel_html")(kernel);
           })
      .def("__repr__",
           [](const Kernel& kernel) { return "<tilewright.Kernel " + kernel.spec() + ">"; });
}

void add_weights_and_pool(py::module_& module) {
  py::class_<Weights>(module, "Weights",
                      "Weights as one kernel reads them; Kernel.pack makes them.")
      .def_property_readonly("bytes", &Weights::bytes, "Size of the packed weights in bytes.")
      .def_property_readonly("identity", &Weights::identity,
                             "Identifies the workload and the layout; a kernel that expects "
                             "another\nidentity refuses the weights.")
      .def_property_readonly(
          "plain",
          [](const Weights& weights) {
            py::list names;
            for (const auto& [name, array] : weights.plain()) names.append(name);
            return py::tuple(names);
          },
          "Names of the operands that are kept as they are.")
      .def_property_readonly("order", &Weights::order,
                             "The order in which launches take the columns of A, for a layer in\n"
                             "act-order; else None.");
  py::class_<Pool>(
      module, "Pool",
      "Threads, pinned to processors. One launch at a time has them; another one that\n"
      "comes meanwhile runs on the thread that called it.")
      .def(py::init([](int threads) {
             py::gil_scoped_release released;
             return std::make_unique<Pool>(threads);
           }),
           py::arg("threads"), "`threads` counts the calling one: a pool of 4 starts 3.")
      .def_property_readonly("threads", &Pool::threads, "Number of threads, with the calling one.")
      .def("close", &Pool::close, "Ends the threads, as soon as no launch uses them.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Pool& pool, const py::args&) { pool.close(); });
}

}  // namespace
}  // namespace tilewright::python

PYBIND11_MODULE(_core, module) {
  namespace tp = tilewright::python;
  module.doc() = "Tilewright's serving library for Python.";
  pybind11::register_exception_translator(tp::translate);
  tp::add_weights_and_pool(module);
  tp::add_kernel(module);
  tp::add_prepared(module);
  tp::add_library(module);
  tp::add_model(module);
  tp::add_weight_file(module);
  module.attr("__version__") = tw_version();
}
