// The functions of the C interface: each reads its structs, calls the library, and turns what is
// thrown into a status.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "runtime/machine/cpus.h"
#include "runtime/thread_pool.h"
#include "serving/c_options.h"
#include "serving/fork.h"
#include "serving/library.h"
#include "serving/status.h"
#include "tilewright/version.h"

using tilewright::serving::guarded;
using tilewright::serving::require;

struct tw_prepared {
  explicit tw_prepared(std::unique_ptr<tilewright::serving::Prepared> made)
      : prepared(std::move(made)) {}
  std::unique_ptr<tilewright::serving::Prepared> prepared;
};

struct tw_weights {
  explicit tw_weights(tilewright::serving::Weights made) : weights(std::move(made)) {}
  tilewright::serving::Weights weights;
};

struct tw_pool {
  // No more threads than may run at once: others would wait for each other.
  explicit tw_pool(int threads) : pool(std::min(threads, tilewright::available_threads())) {}
  tilewright::ThreadPool pool;
  tw_executor executor{};
};

namespace tilewright::serving {
namespace {

void log_to_stderr(void*, const char* line) { std::fprintf(stderr, "tilewright: %s\n", line); }

PrepareOptions prepare_options(const tw_prepare_options* given) {
  const auto read = read_struct(given, "tw_prepare_options");
  PrepareOptions options;
  if (read.spec_count == 0) throw ServingError(TW_ERROR_ARGUMENT, "spec_count is 0; give a spec");
  require(read.specs, "specs");
  for (size_t i = 0; i < read.spec_count; ++i) {
    require(read.specs[i], "specs[]");
    options.specs.emplace_back(read.specs[i]);
  }
  if (read.size_count > 0) require(read.sizes, "sizes");
  for (size_t i = 0; i < read.size_count; ++i) {
    require(read.sizes[i].dim, "sizes[].dim");
    require(read.sizes[i].values, "sizes[].values");
    if (options.sizes.count(read.sizes[i].dim) != 0) {
      throw ServingError(TW_ERROR_ARGUMENT,
                         fmt::format("sizes: '{}' is named twice; name it once, with all its sizes",
                                     read.sizes[i].dim));
    }
    options.sizes[read.sizes[i].dim].assign(read.sizes[i].values,
                                            read.sizes[i].values + read.sizes[i].count);
  }
  if (read.target != nullptr) options.target = read.target;
  if (read.threads < 0 || read.device < 0) {
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("threads is {} and device {}; neither may be negative",
                                   read.threads, read.device));
  }
  options.device = read.device;
  options.threads = read.threads;
  return options;
}

tw_report report_of(const ReportLine& line) {
  return {sizeof(tw_report),   line.spec.c_str(),    line.sizes.c_str(),  line.outcome,
          line.reason.c_str(), line.command.c_str(), line.kernel.c_str(), line.sketch.c_str(),
          line.seconds,        line.threads};
}

tw_role role_of(ParamRole role) {
  switch (role) {
    case ParamRole::Input: return TW_INPUT;
    case ParamRole::Weight: return TW_WEIGHT;
    case ParamRole::Output: return TW_OUTPUT;
  }
  return TW_INPUT;
}

}  // namespace

database::Trust trust_of(const tw_open_options& options) {
  database::Trust trust;
  if (options.trust_count > 0) require(options.trust, "trust");
  for (size_t i = 0; i < options.trust_count; ++i) {
    require(options.trust[i], "trust[]");
    trust.keys.emplace_back(options.trust[i]);
  }
  if (options.pin != nullptr) trust.pin = options.pin;
  return trust;
}

Library::Log log_of(const tw_open_options& options) {
  auto log = options.log != nullptr ? options.log : log_to_stderr;
  return [log, user = options.log_user](const std::string& line) {
    const MayFork may_fork;
    log(user, line.c_str());
  };
}

tw_executor executor_of(const tw_executor* given) {
  if (given == nullptr) return serial_executor();
  const auto executor = read_struct(given, "tw_executor");
  require(reinterpret_cast<const void*>(executor.parallel_for), "parallel_for");
  if (executor.threads < 1) {
    throw ServingError(
        TW_ERROR_ARGUMENT,
        fmt::format("tw_executor.threads is {}; expected 1 or more", executor.threads));
  }
  return executor;
}

}  // namespace tilewright::serving

namespace serving = tilewright::serving;

extern "C" {

const char* tw_status_name(tw_status status) noexcept { return serving::status_name(status); }
const char* tw_last_error(void) noexcept { return serving::last_error(); }
const char* tw_version(void) noexcept { return TILEWRIGHT_VERSION; }
uint32_t tw_interface_version(void) noexcept { return TW_INTERFACE_VERSION; }

tw_status tw_open(const char* path, const tw_open_options* options, tw_library** library) noexcept {
  return guarded([&] {
    require(path, "path");
    require(library, "library");
    const serving::NoFork no_fork;
    tw_open_options read = {};
    if (options != nullptr) read = serving::read_struct(options, "tw_open_options");
    auto made = std::make_unique<tw_library>(path, serving::log_of(read), serving::trust_of(read),
                                             serving::observer_of(read));
    *library = made.release();
  });
}

void tw_close(tw_library* library) noexcept { delete library; }

tw_status tw_prepare(tw_library* library, const tw_prepare_options* options,
                     tw_prepared** prepared) noexcept {
  return guarded([&] {
    require(library, "library");
    require(prepared, "prepared");
    const serving::NoFork no_fork;
    auto own = serving::prepare_options(options);
    own.observer = library->observer;
    auto made = std::make_unique<tw_prepared>(library->library.prepare(own));
    *prepared = made.release();
  });
}

void tw_release(tw_prepared* prepared) noexcept {
  const serving::NoFork no_fork;  // the loader has a lock of its own for what is unloaded
  delete prepared;
}

size_t tw_report_count(const tw_prepared* prepared) noexcept {
  return prepared == nullptr ? 0 : prepared->prepared->report().size();
}

tw_status tw_report_at(const tw_prepared* prepared, size_t index, tw_report* report) noexcept {
  return guarded([&] {
    require(prepared, "prepared");
    const auto& lines = prepared->prepared->report();
    serving::check_index(index, lines.size(), "lines in the report");
    serving::write_struct(report, serving::report_of(lines[index]), "tw_report");
  });
}

tw_status tw_find(const tw_prepared* prepared, const char* spec,
                  const tw_kernel** kernel) noexcept {
  return guarded([&] {
    require(prepared, "prepared");
    require(spec, "spec");
    require(kernel, "kernel");
    *kernel = reinterpret_cast<const tw_kernel*>(&prepared->prepared->find(spec));
  });
}

size_t tw_operand_count(const tw_kernel* kernel) noexcept {
  return kernel == nullptr ? 0 : serving::served(kernel).operands().size();
}

tw_status tw_operand_at(const tw_kernel* kernel, size_t index, tw_operand* operand) noexcept {
  return guarded([&] {
    require(kernel, "kernel");
    const serving::Served& served = serving::served(kernel);
    serving::check_index(index, served.operands().size(), "operands");
    const serving::Operand& o = served.operands()[index];
    serving::write_struct(
        operand,
        tw_operand{sizeof(tw_operand), o.name.c_str(), serving::role_of(o.role),
                   serving::dl_type(o.elem), static_cast<int32_t>(o.known_shape.size()),
                   o.known_shape.data(), served.place().alignment, o.packed},
        "tw_operand");
  });
}

size_t tw_dim_count(const tw_kernel* kernel) noexcept {
  return kernel == nullptr ? 0 : serving::served(kernel).dims().size();
}

tw_status tw_dim_at(const tw_kernel* kernel, size_t index, tw_dim* dim) noexcept {
  return guarded([&] {
    require(kernel, "kernel");
    const serving::Served& served = serving::served(kernel);
    serving::check_index(index, served.dims().size(), "dynamic dimensions");
    const serving::Dim& d = served.dims()[index];
    const serving::DimPlace& place = served.dim_places()[index];
    serving::write_struct(
        dim, tw_dim{sizeof(tw_dim), d.name.c_str(), d.min, d.max, place.operand, place.axis},
        "tw_dim");
  });
}

tw_status tw_extent_at(const tw_kernel* kernel, size_t operand, size_t axis,
                       tw_extent* extent) noexcept {
  return guarded([&] {
    require(kernel, "kernel");
    const serving::Served& served = serving::served(kernel);
    serving::check_index(operand, served.operands().size(), "operands");
    const auto& shape = served.operands()[operand].shape;
    serving::check_index(axis, shape.size(), "axes");
    const tilewright::KernelExtent& e = shape[axis];
    serving::write_struct(
        extent,
        tw_extent{sizeof(tw_extent), e.factors.data(), e.factors.size(), e.offset, e.divisor},
        "tw_extent");
  });
}

tw_status tw_workspace_bytes(const tw_kernel* kernel, int32_t threads, size_t* bytes) noexcept {
  return guarded([&] {
    require(kernel, "kernel");
    require(bytes, "bytes");
    if (threads < 1) {
      throw serving::ServingError(TW_ERROR_ARGUMENT,
                                  fmt::format("threads is {}; expected 1 or more", threads));
    }
    *bytes = static_cast<size_t>(serving::served(kernel).workspace_bytes(threads));
  });
}

tw_status tw_pool_start(int32_t threads, tw_pool** pool) noexcept {
  return guarded([&] {
    require(pool, "pool");
    if (threads < 1 || threads > 4096) {
      throw serving::ServingError(TW_ERROR_ARGUMENT,
                                  fmt::format("threads is {}; expected 1 to 4096", threads));
    }
    auto made = std::make_unique<tw_pool>(threads);
    tw_context context = made->pool.context();
    made->executor = {sizeof(tw_executor), context.threads, context.parallel_for, context.pool};
    // Helpers start with the first loop: here, so that no launch has to.
    made->pool.parallel_for(
        made->pool.threads(), [](void*, int64_t, int64_t, int32_t) {}, nullptr);
    *pool = made.release();
  });
}

void tw_pool_stop(tw_pool* pool) noexcept { delete pool; }

const tw_executor* tw_pool_executor(const tw_pool* pool) noexcept {
  return pool == nullptr ? nullptr : &pool->executor;
}

tw_status tw_pack_weights(const tw_kernel* kernel, const tw_named_tensor* tensors, size_t count,
                          const tw_executor* executor, tw_weights** weights) noexcept {
  return guarded([&] {
    require(kernel, "kernel");
    require(weights, "weights");
    auto made = std::make_unique<tw_weights>(
        serving::served(kernel).pack(tensors, count, serving::executor_of(executor)));
    *weights = made.release();
  });
}

void tw_free_weights(tw_weights* weights) noexcept { delete weights; }

size_t tw_weights_bytes(const tw_weights* weights) noexcept {
  return weights == nullptr ? 0 : weights->weights.bytes();
}

const char* tw_weights_identity(const tw_weights* weights) noexcept {
  return weights == nullptr ? "" : weights->weights.identity.c_str();
}

const char* tw_kernel_identity(const tw_kernel* kernel) noexcept {
  return kernel == nullptr ? "" : serving::served(kernel).identity().c_str();
}

tw_status tw_launch(const tw_kernel* kernel, const tw_launch_args* args) noexcept {
  return guarded([&] {
    require(kernel, "kernel");
    const auto read = serving::read_struct(args, "tw_launch_args");
    const tw_executor executor = serving::executor_of(read.executor);
    serving::served(kernel).launch({read.tensors, read.tensor_count,
                                    read.weights == nullptr ? nullptr : &read.weights->weights,
                                    read.workspace, read.workspace_bytes, &executor, read.stream});
  });
}

}  // extern "C"
