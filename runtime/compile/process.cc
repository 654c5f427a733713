#include "runtime/compile/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files.h"

extern char** environ;

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

// Waits until the child has ended or the deadline is past; whether it has ended.
bool wait_until(pid_t child, Clock::time_point deadline, int* status) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  for (;;) {
    pid_t ended = waitpid(child, status, WNOHANG);
    if (ended == child) return true;
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    int wait_ms = static_cast<int>(std::min<int64_t>(left.count() + 1, 1000));
    if (pidfd.valid()) {
      pollfd event{pidfd.get(), POLLIN, 0};
      poll(&event, 1, wait_ms);
    } else {  // an old kernel: look again soon
      poll(nullptr, 0, 1);
    }
  }
}

// The three standard streams as anonymous files: nothing can block on a full pipe, and there is no
// SIGPIPE when the child ends early.
struct Streams {
  UniqueFd in = anonymous_file("stdin");
  UniqueFd out = anonymous_file("stdout");
  UniqueFd err = anonymous_file("stderr");
};

}  // namespace

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    std::string_view entry = *at, name = entry.substr(0, entry.find('=') + 1);
    bool replaced = std::any_of(variables.begin(), variables.end(),
                                [&](const std::string& v) { return v.starts_with(name); });
    if (!replaced) all.emplace_back(entry);
  }
  return all;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void kill_tree(pid_t pid) {
  kill(pid, SIGSTOP);    // so that it starts no more of them
  std::error_code none;  // a process that is gone has no children
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), none)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child; children >> child;) kill_tree(child);
  }
  kill(pid, SIGKILL);
}

std::string signal_name(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  const char* description = sigdescr_np(signal);
  if (abbreviation == nullptr) return "signal " + std::to_string(signal);
  std::string text(description != nullptr ? description : "");
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return tolower(c); });
  return "SIG" + std::string(abbreviation) + " (" + text + ")";
}

void ProcessResult::take(int wait_status) {
  if (WIFEXITED(wait_status)) exit_code = WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) signal = WTERMSIG(wait_status);
}

std::string ProcessResult::outcome() const {
  if (!started) return error;
  if (timed_out) return "timed out";
  if (signal != 0) return "killed by " + signal_name(signal);
  return "exit code " + std::to_string(exit_code);
}

int spawn_process(const std::vector<std::string>& argv, const std::vector<std::string>& variables,
                  const std::array<int, 3>& streams, pid_t* child) {
  const std::vector<std::string> environment = environment_with(variables);
  std::vector<char*> args = pointers_to(argv), values = pointers_to(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int stream = 0; stream < 3; ++stream) {
    const int given = streams[static_cast<size_t>(stream)];
    if (given >= 0) posix_spawn_file_actions_adddup2(&actions, given, stream);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int error = posix_spawnp(child, args[0], &actions, &attributes, args.data(), values.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input,
                          double timeout_seconds, const std::vector<std::string>& variables) {
  ProcessResult result;
  Streams streams;
  if (!write_all(streams.in.get(), input) || lseek(streams.in.get(), 0, SEEK_SET) != 0) {
    result.error = std::string("cannot hold the input: ") + std::strerror(errno);
    return result;
  }
  auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(timeout_seconds));
  pid_t child = 0;
  const std::array<int, 3> ends = {streams.in.get(), streams.out.get(), streams.err.get()};
  if (int error = spawn_process(argv, variables, ends, &child); error != 0) {
    result.error = "cannot run '" + argv[0] + "': " + std::strerror(error);
    return result;
  }
  result.started = true;
  int status = 0;
  if (!wait_until(child, deadline, &status)) {
    result.timed_out = true;
    kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  result.take(status);
  result.out = read_all(streams.out.get());
  result.err = read_all(streams.err.get());
  return result;
}

}  // namespace tilewright
