// Tells the sanitizers on which stack a thread goes on when fibers take turns. Without a sanitizer
// all of it is empty. See <sanitizer/common_interface_defs.h> and <sanitizer/tsan_interface.h>.
#pragma once

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tilewright::emulator {

// One stack, of a fiber or of the thread that resumes the fibers.
class Stack {
 public:
  Stack() = default;
  Stack(const void* bottom, size_t bytes) : bottom_(bottom), bytes_(bytes) {
#if defined(__SANITIZE_THREAD__)
    fiber_ = __tsan_create_fiber(0);
#endif
  }
  // Forgets the marks of the unwound frames of a fiber that has ended.
  void release() {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(bottom_, bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(fiber_);
#endif
  }

  // Goes before a switch from this stack to `to`.
  void leave(Stack& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&saved_, to.bottom_, to.bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    if (!fiber_) fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.fiber_, 0);
#endif
  }
  // Goes before the last switch, behind which nothing returns to this stack.
  void end(Stack& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(nullptr, to.bottom_, to.bytes_);
#endif
  }
  // Goes behind a switch to this stack, which came from `from`.
  void enter(Stack& from) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(saved_, &from.bottom_, &from.bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
    if (__tsan_get_current_fiber() != fiber_) __tsan_switch_to_fiber(fiber_, 0);  // it ended
#endif
  }

 private:
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] size_t bytes_ = 0;
  [[maybe_unused]] void* saved_ = nullptr;  // the address sanitizer's second stack
  [[maybe_unused]] void* fiber_ = nullptr;  // the thread sanitizer's name for it
};

// The time during which a thread is away from its stack.
class Away {
 public:
  Away(Stack& own, Stack& other) : own_(own), other_(other) { own_.leave(other_); }
  ~Away() { own_.enter(other_); }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  Stack& own_;
  Stack& other_;
};

// Where boost takes a fiber's stack from; `stack` learns which one it is.
class StackSource {
 public:
  StackSource(size_t bytes, Stack* stack) : pages_(bytes), stack_(stack) {}
  boost::context::stack_context allocate() {
    boost::context::stack_context made = pages_.allocate();
    *stack_ = Stack(static_cast<char*>(made.sp) - made.size, made.size);
    return made;
  }
  void deallocate(boost::context::stack_context& made) { pages_.deallocate(made); }

 private:
  boost::context::protected_fixedsize_stack pages_;
  Stack* stack_;
};

}  // namespace tilewright::emulator
