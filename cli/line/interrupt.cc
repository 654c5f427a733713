#include "cli/line/interrupt.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace tilewright::cli {
namespace {

std::atomic<bool> interrupted{false};

void on_signal(int) {
  if (interrupted.exchange(true)) _exit(130);
}

}  // namespace

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A connection that was lost, unless the caller has seen to that (nohup).
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  return interrupted;
}

void end_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // It may have ended before that was said; then another process is the parent.
  if (getppid() != parent) interrupted = true;
}

}  // namespace tilewright::cli
