#include "runtime/check/guarded_call.h"

#if defined(__x86_64__)
// rdi: function, rsi, rdx, rcx, r8: its arguments, r9: where to store whether all patterns stand.
// The patterns are 0xa5b6c7d8e9fa0b1c. Frame: six saved registers, a word for r9, the zone.
extern "C" int32_t tw_guarded_call(void* function, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                   bool* kept);
__asm__(
    ".pushsection .text\n"
    ".local tw_guarded_call\n"
    ".type tw_guarded_call, @function\n"
    "tw_guarded_call:\n"
    "  push %rbx\n  push %rbp\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  push %r9\n"
    "  sub $4096, %rsp\n"
    "  mov %rdi, %r10\n"
    "  mov %rcx, %r11\n"
    "  movabs $0xa5b6c7d8e9fa0b1c, %rax\n"
    "  mov %rsp, %rdi\n"
    "  mov $512, %ecx\n"
    "  cld\n"
    "  rep stosq\n"
    "  mov %rax, %rbx\n  mov %rax, %rbp\n  mov %rax, %r12\n"
    "  mov %rax, %r13\n  mov %rax, %r14\n  mov %rax, %r15\n"
    "  mov %rsi, %rdi\n  mov %rdx, %rsi\n  mov %r11, %rdx\n  mov %r8, %rcx\n"
    "  call *%r10\n"
    "  mov %eax, %r8d\n"
    "  movabs $0xa5b6c7d8e9fa0b1c, %rax\n"
    "  xor %rax, %rbx\n  xor %rax, %rbp\n  xor %rax, %r12\n"
    "  xor %rax, %r13\n  xor %rax, %r14\n  xor %rax, %r15\n"
    "  or %rbp, %rbx\n  or %r12, %rbx\n  or %r13, %rbx\n  or %r14, %rbx\n  or %r15, %rbx\n"
    "  mov %rsp, %rdi\n"
    "  mov $512, %ecx\n"
    "  cld\n"
    "  repe scasq\n"
    "  setne %al\n"
    "  test %rbx, %rbx\n"
    "  setne %dl\n"
    "  or %dl, %al\n"
    "  xor $1, %al\n"
    "  add $4096, %rsp\n"
    "  pop %r9\n"
    "  mov %al, (%r9)\n"
    "  mov %r8d, %eax\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbp\n  pop %rbx\n"
    "  ret\n"
    ".size tw_guarded_call, .-tw_guarded_call\n"
    ".popsection\n");
#endif

namespace tilewright {

GuardedResult guarded_call(void* function, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  GuardedResult result;
#if defined(__x86_64__)
  result.status = tw_guarded_call(function, a, b, c, d, &result.frame_kept);
#else
  using Function = int32_t (*)(uint64_t, uint64_t, uint64_t, uint64_t);
  result.status = reinterpret_cast<Function>(function)(a, b, c, d);
#endif
  return result;
}

}  // namespace tilewright
