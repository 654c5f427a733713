#include "runtime/check/garbage.h"

#include <cstddef>
#include <cstring>

namespace tilewright {
namespace {

constexpr size_t kStackBytes = 128 << 10;

[[gnu::noinline]] void fill_stack(Garbage garbage) {
  unsigned char bytes[kStackBytes];
  std::memset(bytes, static_cast<int>(garbage), sizeof bytes);
  __asm__ volatile("" : : "r"(bytes) : "memory");
}

#if defined(__x86_64__)
[[gnu::noinline]] void fill_registers(Garbage garbage) {
  unsigned char bytes[16];
  std::memset(bytes, static_cast<int>(garbage), sizeof bytes);
  __asm__ volatile(
      "movdqu (%0), %%xmm0\n"
      "movdqu (%0), %%xmm1\n"
      "movdqu (%0), %%xmm2\n"
      "movdqu (%0), %%xmm3\n"
      "movdqu (%0), %%xmm4\n"
      "movdqu (%0), %%xmm5\n"
      "movdqu (%0), %%xmm6\n"
      "movdqu (%0), %%xmm7\n"
      "movdqu (%0), %%xmm8\n"
      "movdqu (%0), %%xmm9\n"
      "movdqu (%0), %%xmm10\n"
      "movdqu (%0), %%xmm11\n"
      "movdqu (%0), %%xmm12\n"
      "movdqu (%0), %%xmm13\n"
      "movdqu (%0), %%xmm14\n"
      "movdqu (%0), %%xmm15\n"
      :
      : "r"(bytes)
      : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
#else
void fill_registers(Garbage) {}
#endif

}  // namespace

void leave_garbage(Garbage garbage) {
  fill_stack(garbage);
  fill_registers(garbage);
}

}  // namespace tilewright
