#include "python/src/model.h"

#include "python/src/weight_file.h"

#include <memory>
#include <mutex>
#include <utility>

namespace tilewright::python {
namespace {

// A model, and the lock that lets one thread at a time use its memory. Models that share states share it.
struct OpenedModel {
  OpenedModel(const Opening& opening, int threads, const OpenedModel* states_of)
      : model(opening.path, threads, opening.log, opening.trust,
              states_of == nullptr ? nullptr : &states_of->model),
        inputs(model.inputs()), outputs(model.outputs()),
        running(states_of == nullptr ? std::make_shared<std::mutex>() : states_of->running) {}
  tw::Model model;
  std::vector<tw_port> inputs, outputs;
  std::shared_ptr<std::mutex> running;
};

// The arrays of one run on one side, borrowed; those with gaps are copies.
class PortArrays {
 public:
  PortArrays(const std::vector<tw_port>& ports, const py::sequence& given, bool outputs) {
    const std::string side = outputs ? "output" : "input";
    if (py::len(given) != ports.size()) {
      throw Refused(TW_ERROR_ARGUMENT, std::to_string(py::len(given)) + " " + side +
                                           "s; the model has " + std::to_string(ports.size()));
    }
    tensors_.reserve(ports.size());  // the library is given addresses
    for (size_t i = 0; i < ports.size(); ++i) {
      const std::string what = side + " '" + ports[i].name + "'";
      const py::object array = given[i];
      Tensor tensor(array, what, std::nullopt);
      if (outputs && tensor.read_only()) {
        throw Refused(TW_ERROR_TENSOR,
                      what + ": its memory is read-only; expected an array that can be written");
      }
      if (!tensor.is_compact() && tensor.get().device.device_type == kDLCPU) {
        const py::object copy = py::module_::import("tilewright._arrays").attr("aligned")(array);
        if (outputs) written_back_.emplace_back(array, copy);
        tensor = Tensor(copy, what, std::nullopt);
      }
      tensor.take_as(ports[i].dtype);
      tensors_.push_back(std::move(tensor));
      pointers_.push_back(&tensors_.back().get());
    }
  }

  const std::vector<const DLTensor*>& pointers() const { return pointers_; }
  void write_back() const {
    for (const auto& [array, copy] : written_back_) {
      py::module_::import("tilewright._arrays").attr("copy_back")(array, copy);
    }
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<const DLTensor*> pointers_;
  std::vector<std::pair<py::object, py::object>> written_back_;
};

// A model file, until it is closed and no run uses it.
class Model {
 public:
  Model(const Opening& opening, int threads, const Model* states_of) {
    const std::shared_ptr<OpenedModel> lender = states_of == nullptr ? nullptr : states_of->get();
    py::gil_scoped_release released;
    opened_ = std::make_shared<OpenedModel>(opening, threads, lender.get());
  }

  py::tuple inputs() const { return ports(get()->inputs); }
  py::tuple outputs() const { return ports(get()->outputs); }

  py::tuple nodes() const {
    const std::shared_ptr<OpenedModel> opened = get();
    const auto read = [&] {
      py::gil_scoped_release released;
      const std::scoped_lock lock(*opened->running);
      return opened->model.nodes();
    };
    const py::object node_class = py::module_::import("tilewright._types").attr("Node");
    py::list told;
    for (const tw_model_node& n : read()) {
      told.append(node_class(n.label, n.spec, outcome_name(n.outcome), n.reason, n.tuned_seconds,
                             n.seconds));
    }
    return py::tuple(told);
  }

  py::tuple output_shapes(const py::sequence& inputs) const {
    const std::shared_ptr<OpenedModel> opened = get();
    const PortArrays in(opened->inputs, inputs, false);
    py::list shapes;
    for (size_t i = 0; i < opened->outputs.size(); ++i) {
      const std::vector<int64_t> shape = opened->model.output_shape(in.pointers(), i);
      shapes.append(sizes_of(shape.data(), shape.size()));
    }
    return py::tuple(shapes);
  }

  // Arrays over the memory of the states, by their names.
  py::dict states() const {
    const std::shared_ptr<OpenedModel> opened = get();
    const py::object as_array = py::module_::import("numpy").attr("asarray");
    py::dict arrays;
    for (const auto& [port, data] : opened->model.states()) {
      DLTensor tensor{};
      tensor.data = data;
      tensor.dtype = port.dtype;
      tensor.ndim = port.ndim;
      tensor.shape = const_cast<int64_t*>(port.shape);  // DLPack has no constant shapes
      arrays[port.name] = as_array(py::cast(StoredArray{opened, tensor}));
    }
    return arrays;
  }

  py::tuple run(const py::sequence& inputs, const py::sequence& outputs, const Pool* pool,
                bool profile) const {
    const std::shared_ptr<OpenedModel> opened = get();
    const PortArrays in(opened->inputs, inputs, false), out(opened->outputs, outputs, true);
    const std::shared_ptr<const tw::Pool> threads = pool == nullptr ? nullptr : pool->get();
    std::vector<std::vector<int64_t>> shapes;
    {
      py::gil_scoped_release released;
      const std::scoped_lock lock(*opened->running);
      opened->model.run(in.pointers(), out.pointers(),
                        threads == nullptr ? nullptr : threads->executor(), profile);
      for (size_t i = 0; i < opened->outputs.size(); ++i) {
        shapes.push_back(opened->model.last_output_shape(i));
      }
    }
    out.write_back();
    py::list told;
    for (const std::vector<int64_t>& shape : shapes) {
      told.append(sizes_of(shape.data(), shape.size()));
    }
    return py::tuple(told);
  }

  void close() { opened_.reset(); }
  bool closed() const { return opened_ == nullptr; }

 private:
  std::shared_ptr<OpenedModel> get() const {
    if (opened_ == nullptr) throw Refused(TW_ERROR_ARGUMENT, "the model is closed");
    return opened_;
  }

  static py::tuple ports(const std::vector<tw_port>& all) {
    const py::object port_class = py::module_::import("tilewright._types").attr("Port");
    py::list told;
    for (const tw_port& p : all) {
      const auto axes = static_cast<size_t>(p.ndim);
      told.append(
          port_class(p.name, type_name(p.dtype), sizes_of(p.shape, axes), sizes_of(p.least, axes)));
    }
    return py::tuple(told);
  }

  std::shared_ptr<OpenedModel> opened_;
};

}  // namespace

void add_model(py::module_& module) {
  py::class_<Model>(
      module, "Model",
      "A whole model that compile() wrote: its program, kernels and constants. It has\n"
      "the memory of one run, so runs of several threads wait for each other.")
      .def(py::init([](const py::object& path, int threads, py::object log,
                       const py::iterable& trust, const std::string& pin, const Model* states_of) {
             return std::make_unique<Model>(Opening(path, std::move(log), trust, pin), threads,
                                            states_of);
           }),
           py::arg("path"), py::kw_only(), py::arg("threads") = 0, py::arg("log") = py::none(),
           py::arg("trust") = py::tuple(), py::arg("pin") = "", py::arg("states_of") = py::none(),
           "Loads the kernels of the file at `path`, packs its weights and reserves its memory.\n"
           "`threads`: for which kernels were tuned; 0: any number. `log`, `trust` and `pin` as\n"
           "Library takes them. `states_of`: a model whose states this one uses, too. Raises\n"
           "MissError, which names the nodes, where no kernel serves.")
      .def_property_readonly("inputs", &Model::inputs, "A tuple of Port, in their order.")
      .def_property_readonly("outputs", &Model::outputs, "A tuple of Port, in their order.")
      .def_property_readonly("nodes", &Model::nodes,
                             "A tuple of Node: the program, and how each node is served.")
      .def("output_shapes", &Model::output_shapes, py::arg("inputs"),
           "The shapes that outputs have in a run on these inputs. Raises TensorError as a run\n"
           "does: for a size outside of its range, too. Sizes that the run finds are the largest.")
      .def_property_readonly(
          "states", &Model::states,
          "The values that stay from run to run, zeros at first: NumPy arrays by name,\n"
          "over its own memory. Copies of them save a sequence and bring it back.")
      .def("run", &Model::run, py::arg("inputs"), py::arg("outputs"), py::kw_only(),
           py::arg("pool") = py::none(), py::arg("profile") = false,
           "Runs the model on arrays in the host's memory, one for each port, without the GIL.\n"
           "Arrays with gaps are copied. `pool`: threads to run on; default: the calling one.\n"
           "`profile` keeps the seconds of each node for `nodes`. Returns the shapes of the\n"
           "outputs: where the run finds a size, an array has room for the largest, and its\n"
           "elements lie compactly at its beginning.")
      .def(
          "__call__",
          [](const py::object& model, const py::args& inputs, const py::kwargs& options) {
            return py::module_::import("tilewright._call")
                .attr("call_model")(model, *inputs, **options);
          },
          "call(*inputs, pool=None, profile=False, **named): runs the model and returns its "
          "output,\n"
          "or a tuple of them. Inputs come in their order or by name. Outputs are new NumPy "
          "arrays,\n"
          "or PyTorch tensors where the first input is one.")
      .def("close", &Model::close, "Frees the model, as soon as no run uses it.")
      .def_property_readonly("closed", &Model::closed, "Whether close() was called.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Model& model, const py::args&) { model.close(); })
      .def("_repr_html_", [](const py::object& model) {
        return py::module_::import("tilewright._html").attr("model_html")(model);
      });
}

}  // namespace tilewright::python
