#include "serving/status.h"

#include <fmt/format.h>

#include <new>

#include "database/error.h"
#include "database/trust/trust.h"
#include "graph/graph.h"
#include "kernel/target.h"
#include "runtime/error.h"

namespace tilewright::serving {
namespace {

constexpr size_t kTextBytes = 2048;
// An array, not a string: nothing is to be destroyed when a thread ends after the library was
// unloaded, and a failure for want of memory needs none.
thread_local char text[kTextBytes];

void keep(std::string_view message) noexcept {
  size_t length = std::min(message.size(), kTextBytes - 1);
  std::memcpy(text, message.data(), length);
  text[length] = '\0';
}

}  // namespace

const char* status_name(tw_status status) noexcept {
  switch (status) {
    case TW_OK: return "ok";
    case TW_ERROR_ARGUMENT: return "argument";
    case TW_ERROR_SPEC: return "spec";
    case TW_ERROR_DATABASE: return "database";
    case TW_ERROR_MISS: return "miss";
    case TW_ERROR_TENSOR: return "tensor";
    case TW_ERROR_WEIGHTS: return "weights";
    case TW_ERROR_DEVICE: return "device";
    case TW_ERROR_KERNEL: return "kernel";
    case TW_ERROR_MEMORY: return "memory";
    case TW_ERROR_INTERNAL: return "internal";
    case TW_ERROR_FILE: return "file";
  }
  return "unknown";
}

const char* last_error() noexcept { return text; }

tw_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const ServingError& e) {
    keep(e.what());
    return e.status();
  } catch (const SpecError& e) {
    keep(e.what());
    return TW_ERROR_SPEC;
  } catch (const TargetError& e) {
    keep(e.what());
    return e.is_known() ? TW_ERROR_DEVICE : TW_ERROR_ARGUMENT;
  } catch (const database::TrustError& e) {
    keep(e.what());
    return TW_ERROR_ARGUMENT;
  } catch (const database::DatabaseError& e) {
    keep(e.what());
    return TW_ERROR_DATABASE;
  } catch (const DeviceError& e) {
    keep(e.what());
    return TW_ERROR_DEVICE;
  } catch (const KernelError& e) {
    keep(e.what());
    return TW_ERROR_KERNEL;
  } catch (const FileError& e) {
    keep(e.what());
    return TW_ERROR_FILE;
  } catch (const graph::GraphError& e) {  // a model file's program
    keep(e.what());
    return TW_ERROR_FILE;
  } catch (const MemoryError& e) {
    keep(e.what());
    return TW_ERROR_MEMORY;
  } catch (const std::bad_alloc&) {
    keep("out of memory");
    return TW_ERROR_MEMORY;
  } catch (const std::exception& e) {
    keep(e.what());
    return TW_ERROR_INTERNAL;
  } catch (...) {
    keep("an exception of an unknown kind");
    return TW_ERROR_INTERNAL;
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    throw ServingError(TW_ERROR_ARGUMENT, fmt::format("'{}' is null", name));
  }
}

void check_index(size_t index, size_t count, const char* what) {
  if (index < count) return;
  throw ServingError(TW_ERROR_ARGUMENT,
                     fmt::format("index is {}; there are {} {}", index, count, what));
}

void bad_struct(const char* name, size_t given, size_t known) {
  throw ServingError(
      TW_ERROR_ARGUMENT,
      given < sizeof(size_t) || given <= known
          ? fmt::format("{}.struct_size is {}; expected {}, as TW_INIT({}) sets it", name, given,
                        known, name)
          : fmt::format(
                "{} has {} bytes and says things that this version ({} bytes) does not know", name,
                given, known));
}

}  // namespace tilewright::serving
