// The runtime's tables with errors as exceptions, and objects that are released.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "provider/abi.h"

namespace tilewright::provider {

// A failure that its reader can do something about; the runtime gets its text as a status.
class ProviderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Runtime {
 public:
  Runtime() = default;
  Runtime(const ort::Api* api, std::string release) : api_(api), release_(std::move(release)) {}

  const ort::Api* api() const { return api_; }
  const std::string& release() const { return release_; }  // "1.32.0"

  // Calls an entry that can fail, and throws its message.
  template <class E, class... Given>
  void checked(Given... given) const {
    check(ort::call<E>(api_, given...));
  }
  // The value that such an entry writes behind its arguments.
  template <class E, class Value, class... Given>
  Value get(Given... given) const {
    Value value{};
    checked<E>(given..., &value);
    return value;
  }
  template <class E, class... Given>
  auto plain(Given... given) const {
    return ort::call<E>(api_, given...);
  }

  void check(ort::Status* status) const {
    if (status == nullptr) return;
    const std::string message = plain<ort::GetErrorMessage>(status);
    plain<ort::ReleaseStatus>(status);
    throw ProviderError(message);
  }

  ort::Status* status(ort::Code code, const char* message) const noexcept {
    return plain<ort::CreateStatus>(code, message);
  }
  // Runs `body`, and makes a status of what it throws: nothing but that crosses the interface.
  template <class Body>
  ort::Status* guarded(Body&& body) const noexcept {
    try {
      body();
      return nullptr;
    } catch (const std::exception& e) {
      return status(ort::kFail, (std::string("Tilewright: ") + e.what()).c_str());
    } catch (...) {
      return status(ort::kFail, "Tilewright: an exception of an unknown type");
    }
  }

  // A line in the runtime's log.
  void log(const ort::Logger* logger, ort::Severity severity,
           const std::string& line) const noexcept {
    ort::Status* failed =
        plain<ort::LogMessage>(logger, severity, line.c_str(), "tilewright", 0, "provider");
    if (failed != nullptr) plain<ort::ReleaseStatus>(failed);
  }

 private:
  const ort::Api* api_ = nullptr;
  std::string release_;
};

// An object of the runtime that ends with this one.
template <class Object, class Release>
class Owned {
 public:
  explicit Owned(const Runtime& runtime, Object* object = nullptr)
      : runtime_(&runtime), object_(object) {}
  Owned(Owned&& other) noexcept
      : runtime_(other.runtime_), object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) runtime_->plain<Release>(object_);
  }

  Object* get() const { return object_; }
  Object** out() { return &object_; }
  // Gives the object away.
  Object* release() { return std::exchange(object_, nullptr); }

 private:
  const Runtime* runtime_;
  Object* object_;
};

using OwnedEnv = Owned<ort::Env, ort::ReleaseEnv>;
using OwnedSession = Owned<ort::Session, ort::ReleaseSession>;
using OwnedSessionOptions = Owned<ort::SessionOptions, ort::ReleaseSessionOptions>;
using OwnedMemoryInfo = Owned<ort::MemoryInfo, ort::ReleaseMemoryInfo>;
using OwnedValue = Owned<ort::Value, ort::ReleaseValue>;
using OwnedPairs = Owned<ort::Pairs, ort::ReleasePairs>;
using OwnedAttribute = Owned<ort::Attribute, ort::ReleaseAttribute>;

}  // namespace tilewright::provider
