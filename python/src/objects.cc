#include "python/src/objects.h"

#include <algorithm>
#include <utility>

namespace tilewright::python {
namespace {

// A class of the package's Python side.
py::object python_class(const char* name) {
  return py::module_::import("tilewright._types").attr(name);
}

// A spec as text: inline, or JSON of a mapping, whose types may be those of NumPy and PyTorch.
std::string spec_text(const py::handle& spec) {
  if (py::isinstance<py::str>(spec)) return spec.cast<std::string>();
  return py::module_::import("tilewright._dtypes").attr("spec_text")(spec).cast<std::string>();
}

// A function of Python's that the library may call from any thread, and let go of in any.
std::shared_ptr<py::object> shared_callable(py::object function) {
  return {new py::object(std::move(function)), [](py::object* held) {
            py::gil_scoped_acquire gil;
            delete held;
          }};
}

}  // namespace

const char* outcome_name(tw_outcome outcome) {
  switch (outcome) {
    case TW_HIT: return "hit";
    case TW_NEAR: return "near";
    case TW_DEFAULT: return "default";
    case TW_MISS: return "miss";
  }
  return "";
}

std::shared_ptr<const tw::Pool> Pool::get() const {
  if (pool_ == nullptr) throw Refused(TW_ERROR_ARGUMENT, "the pool is closed");
  return pool_;
}

Opening::Opening(const py::object& file, py::object lines, const py::iterable& keys,
                 const std::string& pin)
    : path(py::module_::import("os").attr("fsencode")(file).cast<std::string>()), trust{{}, pin} {
  if (lines.is_none()) {
    lines = py::module_::import("logging").attr("getLogger")("tilewright").attr("warning");
  } else if (PyCallable_Check(lines.ptr()) == 0) {
    throw Refused(TW_ERROR_ARGUMENT, "log takes a function of one line of text, or None");
  }
  auto call = shared_callable(std::move(lines));
  log = [call](const std::string& line) {
    py::gil_scoped_acquire gil;
    try {
      (*call)(line);
    } catch (py::error_already_set& error) {
      // The library cannot pass it on, and what it does is no failure.
      error.discard_as_unraisable("the log of tilewright");
    }
  };
  if (py::isinstance<py::str>(keys)) {
    throw Refused(TW_ERROR_ARGUMENT, "trust takes a list of public keys, not one text");
  }
  for (const py::handle key : keys) trust.keys.push_back(key.cast<std::string>());
}

Library::Library(const Opening& opening) {
  py::gil_scoped_release released;
  library_ = std::make_shared<const tw::Library>(opening.path, opening.log, opening.trust);
}

Prepared Library::prepare(const PrepareArguments& arguments) const {
  const std::shared_ptr<const tw::Library> library = library_;  // may be closed meanwhile
  if (library == nullptr) throw Refused(TW_ERROR_ARGUMENT, "the library is closed");
  tw::PrepareOptions options;
  options.target = arguments.target;
  options.device = arguments.device;
  options.threads = arguments.threads;
  if (py::isinstance<py::str>(arguments.specs) || py::hasattr(arguments.specs, "items")) {
    options.specs.push_back(spec_text(arguments.specs));
  } else {
    for (const py::handle spec : arguments.specs) options.specs.push_back(spec_text(spec));
  }
  if (options.specs.empty()) throw Refused(TW_ERROR_ARGUMENT, "no specs; give at least one");
  if (!arguments.sizes.is_none()) {
    for (const auto& [dim, values] : arguments.sizes.cast<py::dict>()) {
      std::vector<int64_t> sizes;
      for (const py::handle value : values) sizes.push_back(value.cast<int64_t>());
      options.sizes.emplace_back(dim.cast<std::string>(), std::move(sizes));
    }
  }
  py::gil_scoped_release released;
  return {library->prepare(options), options.target.rfind("cuda", 0) == 0};
}

py::list Prepared::report() const {
  const py::object line_class = python_class("Report");
  py::list lines;
  for (const tw_report& line : prepared_->report()) {
    lines.append(line_class(line.spec, line.sizes, outcome_name(line.outcome), line.reason,
                            line.command, line.kernel, line.sketch, line.seconds, line.threads));
  }
  return lines;
}

Kernel Prepared::find(const py::object& spec) const {
  return {prepared_, spec_text(spec), on_gpu_};
}

Kernel::Kernel(std::shared_ptr<const tw::Prepared> prepared, std::string spec, bool on_gpu)
    : prepared_(std::move(prepared)), spec_(std::move(spec)), on_gpu_(on_gpu),
      kernel_(prepared_->find(spec_)), operands_(kernel_.operands()) {
  describe();
}

void Kernel::describe() {
  static constexpr const char* kRoles[] = {"input", "weight", "output"};
  static constexpr const char* kPacked[] = {"no", "yes", "either"};
  const py::object operand_class = python_class("Operand"), dim_class = python_class("Dim"),
                   extent_class = python_class("Extent");
  py::list operands, dims;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const tw_operand& o = operands_[i];
    py::list shape, extents;
    for (int32_t axis = 0; axis < o.ndim; ++axis) {
      shape.append(o.shape[axis] < 0 ? py::object(py::none()) : py::int_(o.shape[axis]));
      const tw_extent extent = kernel_.extent(i, static_cast<size_t>(axis));
      extents.append(extent_class(sizes_of(extent.factors, extent.factor_count), extent.offset,
                                  extent.divisor));
    }
    operands.append(operand_class(o.name, kRoles[o.role], type_name(o.dtype), py::tuple(shape),
                                  py::tuple(extents), o.alignment, kPacked[o.packed]));
  }
  for (const tw_dim& d : kernel_.dims()) {
    dims.append(dim_class(d.name, d.min, d.max, operands_[d.operand].name, d.axis));
  }
  described_operands_ = py::tuple(operands);
  described_dims_ = py::tuple(dims);
}

size_t Kernel::operand_index(const std::string& name) const {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].name == name) return i;
  }
  throw Refused(TW_ERROR_ARGUMENT,
                "'" + name + "' is no operand of " + spec_ + "; it takes " + operand_names());
}

std::string Kernel::operand_names() const {
  std::string names;
  for (const tw_operand& o : operands_) names += (names.empty() ? "" : ", ") + std::string(o.name);
  return names;
}

std::string Kernel::packed_names() const {
  std::string names;
  for (const tw_operand& o : operands_) {
    if (o.packed != 0) names += (names.empty() ? "" : ", ") + std::string(o.name);
  }
  return names.empty() ? "nothing" : names;
}

Weights Kernel::pack(const py::dict& arrays, const Pool* pool, py::object order) const {
  std::vector<Tensor> borrowed;
  borrowed.reserve(arrays.size());  // the library is given addresses
  std::vector<tw_named_tensor> named;
  std::map<std::string, py::object> plain;
  for (const auto& [key, array] : arrays) {
    const auto name = key.cast<std::string>();
    if (std::ranges::none_of(operands_, [&](const tw_operand& o) { return o.name == name; })) {
      throw Refused(TW_ERROR_ARGUMENT,
                    "'" + name + "' is no weight of " + spec_ + "; it packs " + packed_names());
    }
    const tw_operand& operand = operands_[operand_index(name)];
    if (operand.role == TW_OUTPUT) {
      throw Refused(TW_ERROR_ARGUMENT,
                    "'" + std::string(operand.name) + "' is an output; expected weights");
    }
    // Packing functions read the host's memory, on a GPU too.
    const bool host = operand.packed != 0 || !on_gpu_;
    Taken taken = take(operand, array, std::nullopt, host);
    if (operand.packed != 1) plain[operand.name] = taken.array;
    if (operand.packed == 0) continue;
    borrowed.push_back(std::move(taken.tensor));
    named.push_back({operand.name, &borrowed.back().get()});
  }
  const std::shared_ptr<const tw::Pool> threads = pool == nullptr ? nullptr : pool->get();
  const auto pack = [&] {
    py::gil_scoped_release released;
    return kernel_.pack(named, threads == nullptr ? nullptr : threads->executor());
  };
  return {pack(), std::move(plain), std::move(order)};
}

Kernel::Taken Kernel::take(const tw_operand& operand, const py::handle& array,
                           std::optional<uintptr_t> stream, bool host) const {
  const std::string what = "operand '" + std::string(operand.name) + "'";
  py::object given = py::reinterpret_borrow<py::object>(array);
  Tensor tensor(given, what, stream);
  tensor.take_as(operand.dtype);
  if (!host || tensor.get().device.device_type != kDLCPU || tensor.fits(operand.alignment)) {
    return {std::move(tensor), std::move(given)};
  }
  py::object copy =
      py::module_::import("tilewright._arrays").attr("copied")(given, spec_, operand.name);
  Tensor copied(copy, what, stream);
  copied.take_as(operand.dtype);
  return {std::move(copied), std::move(copy)};
}

}  // namespace tilewright::python
