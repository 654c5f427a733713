#include "runtime/tensor/fences.h"

#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

namespace tilewright {
namespace {

constexpr std::string_view kMark = "tilewright-fence: ";
constexpr size_t kMostFences = 1024;

// A handler reads the table while a thread changes it: an entry counts while `used` is set.
struct Slot {
  std::atomic<bool> used{false};
  Fence fence{};
  std::array<char, 64> name{};  // ends with a 0
};
std::array<Slot, kMostFences> slots;
std::mutex slots_mutex;

// Text in a buffer of its own: a signal handler may call neither malloc nor printf.
class Text {
 public:
  void add(const char* text) {
    while (*text != 0 && size_ < sizeof text_) text_[size_++] = *text++;
  }
  void add(uint64_t number) {
    char digits[21] = {};
    size_t i = sizeof digits - 1;
    do {
      digits[--i] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    add(digits + i);
  }
  void write_to(int fd) const { [[maybe_unused]] ssize_t put = write(fd, text_, size_); }

 private:
  char text_[512] = {};
  size_t size_ = 0;
};

const char* access_of(const void* context) {
#if defined(__x86_64__)
  const auto* c = static_cast<const ucontext_t*>(context);
  return (c->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? "write " : "read ";
#else
  (void)context;
  return "access ";
#endif
}

void describe(const Slot& slot, const unsigned char* at, const char* access) {
  const Fence& f = slot.fence;
  Text text;
  text.add(kMark.data());
  text.add(access);
  if (at >= f.data && at < f.data + f.bytes) {
    text.add("to byte ");
    text.add(static_cast<uint64_t>(at - f.data));
    text.add(" of '");
    text.add(slot.name.data());
    text.add("', which is read-only\n");
    return text.write_to(2);
  }
  const bool before = at < f.data;
  text.add(static_cast<uint64_t>(before ? f.data - at : at - f.data - f.bytes));
  text.add(before ? " bytes before the start of '" : " bytes past the end of '");
  text.add(slot.name.data());
  text.add("' (");
  text.add(static_cast<uint64_t>(f.bytes));
  text.add(" bytes)\n");
  text.write_to(2);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto* at = static_cast<const unsigned char*>(info->si_addr);
  for (const Slot& slot : slots) {
    if (!slot.used || at < slot.fence.begin || at >= slot.fence.end) continue;
    describe(slot, at, access_of(context));
    break;
  }
  // The access is repeated after the return, and ends the process. A signal that was sent is not.
  std::signal(signal, SIG_DFL);
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

void register_fence(const Fence& fence, std::string_view array_name) {
  std::lock_guard lock(slots_mutex);
  for (Slot& slot : slots) {
    if (slot.used) continue;
    slot.fence = fence;
    slot.name.fill(0);
    array_name.copy(slot.name.data(), slot.name.size() - 1);
    slot.used = true;
    return;
  }
}

void forget_fence(const unsigned char* begin) {
  std::lock_guard lock(slots_mutex);
  for (Slot& slot : slots) {
    if (slot.used && slot.fence.begin == begin) slot.used = false;
  }
}

void name_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  for (int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

std::optional<std::string> named_fault(std::string_view stderr_tail) {
  const size_t mark = stderr_tail.rfind(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  std::string_view rest = stderr_tail.substr(mark + kMark.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

}  // namespace tilewright
