#include "runtime/worker/sandbox.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/knobs.h"

// In programs that write counters when they end.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the compiler's.
extern "C" void __gcov_dump(void) __attribute__((weak));

namespace tilewright {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // their runtimes start processes and write reports
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

std::string confinement_problem() {
  if (!knob_boolean(Knob::Sandbox)) return "TILEWRIGHT_SANDBOX is off";
  if (kSanitized || __gcov_dump != nullptr) return "this program is instrumented";
  return missing_seccomp();
}

std::string missing_seccomp() {
  uint32_t action = SECCOMP_RET_TRAP;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0) {
    return std::string("this system has no seccomp filters: ") + std::strerror(errno);
  }
  return {};
}

std::optional<std::string> refused_call(std::string_view text) {
  size_t at = text.rfind(kRefusedCall);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kRefusedCall.size());
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace tilewright
