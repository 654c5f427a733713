// The serving interface as Python sees it: owners that share what they need, so that no order in
// which Python lets go of them frees something that is in use.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/src/tensor.h"
#include "tilewright/tilewright.hpp"

namespace tilewright::python {

// The name of an outcome in Python: "hit", "near", "default", "miss".
const char* outcome_name(tw_outcome outcome);

// How a file is opened, out of Python's arguments: lines go to `log`, or where it is None to the logger
// "tilewright" of Python's logging. `trust` and `pin` are those of tw_open_options.
struct Opening {
  Opening(const py::object& path, py::object log, const py::iterable& trust,
          const std::string& pin);
  std::string path;
  tw::Library::Log log;
  tw::Library::Trust trust;
};

// Threads of the library's, until they are closed and no launch uses them.
class Pool {
 public:
  explicit Pool(int threads) : pool_(std::make_shared<const tw::Pool>(threads)) {}

  // Throws Refused (argument) after close().
  std::shared_ptr<const tw::Pool> get() const;
  int threads() const { return get()->executor()->threads; }
  void close() { pool_.reset(); }

 private:
  std::shared_ptr<const tw::Pool> pool_;
};

// Weights as one kernel reads them, and the arrays that it reads as they are.
class Weights {
 public:
  Weights(tw::Weights packed, std::map<std::string, py::object> plain, py::object order)
      : packed_(std::move(packed)), plain_(std::move(plain)), order_(std::move(order)) {}

  const tw_weights* get() const { return packed_.get(); }
  size_t bytes() const { return packed_.bytes(); }
  std::string identity() const { return packed_.identity(); }
  const std::map<std::string, py::object>& plain() const { return plain_; }
  // The order in which the columns of A have to be taken, an array, or None.
  const py::object& order() const { return order_; }

 private:
  tw::Weights packed_;
  std::map<std::string, py::object> plain_;
  py::object order_;
};

// The kernels that serve one spec. Keeps the prepared set alive.
class Kernel {
 public:
  // Arguments of a launch besides its tensors; null or None: the default.
  struct LaunchOptions {
    const Weights* weights;
    const Pool* pool;
    py::object workspace, stream;
  };

  Kernel(std::shared_ptr<const tw::Prepared> prepared, std::string spec, bool on_gpu);

  const std::string& spec() const { return spec_; }
  const tw::Kernel& get() const { return kernel_; }
  std::string identity() const { return kernel_.identity(); }
  size_t workspace_bytes(int threads) const { return kernel_.workspace_bytes(threads); }
  // A tuple of tilewright.Operand, and one of tilewright.Dim.
  const py::object& operands() const { return described_operands_; }
  const py::object& dims() const { return described_dims_; }

  // `arrays` maps names of operands to arrays, each of them packed or kept for launches. `order` as
  // Weights has it.
  Weights pack(const py::dict& arrays, const Pool* pool, py::object order) const;
  // `arrays` is a sequence in the order of the operands or a mapping from their names. What is None
  // or left out comes from the weights. Runs without the GIL.
  void launch(const py::object& arrays, const LaunchOptions& options) const;

 private:
  class Call;

  // An array as the library takes it: the caller's, or a compact and aligned copy.
  struct Taken {
    Tensor tensor;
    py::object array;
  };

  // Copies an array in the host's memory that has gaps or an odd start, where `host` says that the
  // kernel reads it there. `stream` as Tensor has it.
  Taken take(const tw_operand& operand, const py::handle& array, std::optional<uintptr_t> stream,
             bool host) const;
  size_t operand_index(const std::string& name) const;
  std::string operand_names() const;
  std::string packed_names() const;
  void describe();

  std::shared_ptr<const tw::Prepared> prepared_;
  std::string spec_;
  bool on_gpu_;
  tw::Kernel kernel_;
  std::vector<tw_operand> operands_;
  py::object described_operands_, described_dims_;
};

// Kernels that are loaded.
class Prepared {
 public:
  Prepared(tw::Prepared prepared, bool on_gpu)
      : prepared_(std::make_shared<const tw::Prepared>(std::move(prepared))), on_gpu_(on_gpu) {}

  // A list of tilewright.Report.
  py::list report() const;
  Kernel find(const py::object& spec) const;

 private:
  std::shared_ptr<const tw::Prepared> prepared_;
  bool on_gpu_;
};

struct PrepareArguments {
  py::object specs, sizes;
  std::string target;
  int device, threads;
};

// A database in memory, until it is closed.
class Library {
 public:
  explicit Library(const Opening& opening);

  Prepared prepare(const PrepareArguments& arguments) const;
  void close() { library_.reset(); }
  bool closed() const { return library_ == nullptr; }

 private:
  std::shared_ptr<const tw::Library> library_;
};

}  // namespace tilewright::python
