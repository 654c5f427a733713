// Statements that run up to their next barrier, so that the threads of a block take turns. Internal
// to the interpreter.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace tilewright::interp {

// A coroutine that stops at barriers. Move-only; everything it refers to must outlive it.
class Steps {
 public:
  struct Barrier {};
  struct promise_type {
    std::exception_ptr error;
    Steps get_return_object() { return Steps(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(Barrier) noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  Steps(Steps&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Steps& operator=(Steps&&) = delete;
  ~Steps() {
    if (handle_) handle_.destroy();
  }

  // Runs to the next barrier (true) or to the end (false). Throws whatever the statement throws.
  bool next() {
    handle_.resume();
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return !handle_.done();
  }

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Steps(Handle handle) : handle_(handle) {}
  Handle handle_;
};

}  // namespace tilewright::interp
