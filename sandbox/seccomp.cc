#include "sandbox/seccomp.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "runtime/worker/sandbox.h"

namespace tilewright {
namespace {

// The calls that computing, threads, loading from memory and reading take.
constexpr int kAllowed[] = {
    // Memory.
    SCMP_SYS(brk),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(mincore),
    SCMP_SYS(mlock),
    SCMP_SYS(munlock),
    SCMP_SYS(membarrier),
    SCMP_SYS(memfd_create),
    SCMP_SYS(mbind),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(set_mempolicy),
    // Threads and their ends.
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(get_robust_list),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(getcpu),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(getpriority),
    // Signals of its own.
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(pause),
    // Clocks.
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(getrusage),
    // Files that are open, and what there is to know about others.
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(lseek),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(eventfd2),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(fadvise64),
    // Who and where it is.
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(getpgrp),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrlimit),
};

struct Refusal {
  int call, error;
};

// Refused without ending the process: libraries try them and do without.
constexpr Refusal kDenied[] = {
    {SCMP_SYS(clone3), ENOSYS},  // its flags lie in memory; clone() follows
    {SCMP_SYS(openat2), ENOSYS},
    {SCMP_SYS(ioctl), ENOTTY},
    {SCMP_SYS(setrlimit), EPERM},
    {SCMP_SYS(setpriority), EPERM},
    {SCMP_SYS(sched_setscheduler), EPERM},
    {SCMP_SYS(sched_setparam), EPERM},
    {SCMP_SYS(sched_setattr), EPERM},
    {SCMP_SYS(utimensat), EPERM},
};

constexpr int kMostCalls = 512;
std::array<const char*, kMostCalls> call_names{};  // by number, filled before the filter holds

// Says which call it was and ends the process. Async-signal-safe.
void refuse(int, siginfo_t* info, void*) {
  const int call = info->si_syscall;
  const char* name =
      call >= 0 && call < kMostCalls ? call_names[static_cast<size_t>(call)] : nullptr;
  if (name == nullptr) name = "that has no name here";
  for (std::string_view part : {kRefusedCall, std::string_view(name), std::string_view("\n")}) {
    [[maybe_unused]] ssize_t put = write(STDERR_FILENO, part.data(), part.size());
  }
  std::signal(SIGSYS, SIG_DFL);
  std::raise(SIGSYS);
  _exit(1);
}

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_TRAP)) {
    if (context_ == nullptr) throw std::runtime_error("no memory");
  }
  ~Filter() { seccomp_release(context_); }
  Filter(Filter&&) = delete;

  void set(scmp_filter_attr attribute, uint32_t value) {
    check(seccomp_attr_set(context_, attribute, value));
  }
  template <class... Conditions>
  void allow(int call, Conditions... conditions) {
    check(seccomp_rule_add(context_, SCMP_ACT_ALLOW, call, sizeof...(conditions), conditions...));
  }
  template <class... Conditions>
  void deny(int error, int call, Conditions... conditions) {
    check(seccomp_rule_add(context_, SCMP_ACT_ERRNO(static_cast<uint16_t>(error)), call,
                           sizeof...(conditions), conditions...));
  }
  void load() { check(seccomp_load(context_)); }

 private:
  static void check(int result) {
    if (result < 0) throw std::runtime_error(std::strerror(-result));
  }
  scmp_filter_ctx context_;
};

// Calls that are allowed with some arguments only.
void add_conditions(Filter& filter) {
  const auto self = static_cast<scmp_datum_t>(getpid());
  const scmp_datum_t writing = O_ACCMODE | O_CREAT | O_TRUNC;
  filter.allow(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, writing, O_RDONLY));
  filter.allow(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, writing, O_RDONLY));
  filter.allow(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
  filter.allow(SCMP_SYS(kill), SCMP_A0(SCMP_CMP_EQ, self, 0));
  filter.allow(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, self, 0));
  for (int command : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC}) {
    filter.allow(SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command), 0));
  }
  // Processors are claimed without waiting (cpu_claim.h).
  filter.allow(SCMP_SYS(flock), SCMP_A1(SCMP_CMP_EQ, LOCK_EX | LOCK_NB, 0));
  constexpr scmp_datum_t kSetVma = 0x53564d41;  // malloc names its mappings
  for (scmp_datum_t option : {scmp_datum_t{PR_SET_NAME}, scmp_datum_t{PR_GET_NAME}, kSetVma}) {
    filter.allow(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, option, 0));
  }
  filter.allow(SCMP_SYS(sched_setaffinity), SCMP_A0(SCMP_CMP_EQ, 0, 0));
  filter.deny(EPERM, SCMP_SYS(sched_setaffinity), SCMP_A0(SCMP_CMP_NE, 0, 0));
  filter.allow(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0, 0));
  filter.deny(EPERM, SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_NE, 0, 0));
}

void install_filter() {
  for (int call = 0; call < kMostCalls; ++call) {
    call_names[static_cast<size_t>(call)] =
        seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);
  }
  struct sigaction action {};
  action.sa_sigaction = refuse;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  Filter filter;
  filter.set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  filter.set(SCMP_FLTATR_CTL_TSYNC, 1);
  // Without this, older kernels turn a speculation off that the same code has in other processes.
  filter.set(SCMP_FLTATR_CTL_SSB, 1);
  filter.set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (int call : kAllowed) filter.allow(call);
  for (const Refusal& r : kDenied) filter.deny(r.error, r.call);
  add_conditions(filter);
  filter.load();
}

}  // namespace

std::string confine_process() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return std::string("cannot give up new privileges: ") + std::strerror(errno);
  }
  if (std::string problem = confinement_problem(); !problem.empty()) return problem;
  try {
    install_filter();
  } catch (const std::runtime_error& e) {
    return std::string("the system takes no seccomp filter: ") + e.what();
  }
  return {};
}

}  // namespace tilewright
