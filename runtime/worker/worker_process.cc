#include "runtime/worker/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "runtime/compile/private_folder.h"
#include "runtime/compile/process.h"
#include "runtime/machine/timer.h"
#include "runtime/worker/sandbox.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr size_t kTailBytes = 4096;
constexpr int kDeathPatienceMs = 2000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;  // what sanitizers map for themselves is beyond any limit
#else
constexpr bool kLimitsMemory = true;
#endif

// All that the child does between fork and exec, with nothing that takes a lock or memory.
[[noreturn]] void become_worker(const WorkerOptions& options, char* const* argv,
                                char* const* environment, pid_t parent, int in, int out, int err,
                                int failure) {
  setpgid(0, 0);  // Ctrl-C in the terminal is the parent's business
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (kLimitsMemory && options.memory_limit_bytes > 0) {
    auto bytes = static_cast<rlim_t>(options.memory_limit_bytes);
    rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_DATA, &limit);
  }
  if (!options.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : options.cpus) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  sigset_t empty;
  sigemptyset(&empty);
  sigprocmask(SIG_SETMASK, &empty, nullptr);
  for (int fd : options.inherited) fcntl(fd, F_SETFD, 0);
  if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2)
    execvpe(argv[0], argv, environment);
  int error = errno;
  [[maybe_unused]] ssize_t put = write(failure, &error, sizeof error);
  _exit(127);
}

bool make_pipe(UniqueFd* read_end, UniqueFd* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  *read_end = UniqueFd(ends[0]);
  *write_end = UniqueFd(ends[1]);
  return true;
}

// A worker's temporary files lie in this process's folder: workers are killed, and cannot tidy up.
std::vector<std::string> worker_environment() {
  try {
    return environment_with({"TMPDIR=" + private_folder()});
  } catch (const Error&) {
    return environment_with({});  // told by whoever needs such a file
  }
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

// The part of a text that is shown in a message.
std::string excerpt(const std::string& bytes) {
  std::string text;
  for (unsigned char c : bytes.substr(0, 60)) {
    text +=
        c >= 0x20 && c < 0x7f ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return text;
}

}  // namespace

std::string_view name_of(JobStatus status) {
  switch (status) {
    case JobStatus::Done: return "done";
    case JobStatus::Failed: return "failed";
    case JobStatus::NoToolchain: return "no toolchain";
    case JobStatus::OutOfMemory: return "out of memory";
    case JobStatus::Crashed: return "crashed";
    case JobStatus::Exited: return "exited";
    case JobStatus::Malformed: return "malformed reply";
    case JobStatus::TimedOut: return "timed out";
    case JobStatus::NotStarted: return "not started";
    case JobStatus::Cancelled: return "cancelled";
  }
  return "";
}

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {
  TW_ASSERT(!options_.command.empty(), "a worker has a command");
}

Worker::~Worker() { kill_and_reap(); }

std::string Worker::start() {
  UniqueFd child_in, child_out, child_err, failure_read, failure_write;
  int sockets[2];
  // A socket rather than a pipe: writing to a dead worker must not raise SIGPIPE here.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return std::strerror(errno);
  request_ = UniqueFd(sockets[0]);
  child_in = UniqueFd(sockets[1]);
  if (!make_pipe(&reply_, &child_out) || !make_pipe(&errors_, &child_err) ||
      !make_pipe(&failure_read, &failure_write)) {
    return std::strerror(errno);
  }
  std::vector<std::string> words = options_.command, environment = worker_environment();
  if (options_.confined) words.emplace_back("--confined");
  std::vector<char*> argv = pointers_to(words), variables = pointers_to(environment);
  pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) return std::strerror(errno);
  if (pid_ == 0) {
    become_worker(options_, argv.data(), variables.data(), parent, child_in.get(), child_out.get(),
                  child_err.get(), failure_write.get());
  }
  setpgid(pid_, pid_);  // in both, so that it holds before either goes on
  failure_write.reset();
  int error = 0;
  if (read(failure_read.get(), &error, sizeof error) == sizeof error) {
    kill_and_reap();
    return fmt::format("cannot run '{}': {}", options_.command[0], std::strerror(error));
  }
  for (int fd : {request_.get(), reply_.get(), errors_.get()}) set_nonblocking(fd);
  reader_.clear();
  return "";
}

void Worker::submit(std::string_view type, std::string_view payload, double timeout_seconds) {
  TW_ASSERT(!busy_, "a worker does one job at a time");
  drop_if_stale();
  busy_ = true;
  ++job_id_;
  begin_ = steady_seconds();
  deadline_ = begin_ + timeout_seconds;
  stderr_tail_.clear();
  outgoing_ = frame_message(
      fmt::format("{{\"id\":{},\"type\":{},\"payload\":{}}}", job_id_, json(type).dump(), payload));
}

Worker::Interest Worker::interest() const {
  return {reply_.get(), errors_.get(), outgoing_.empty() ? -1 : request_.get(),
          busy_ ? std::max(0.0, deadline_ - steady_seconds())
                : std::numeric_limits<double>::infinity()};
}

std::optional<JobResult> Worker::pump() {
  if (!busy_) return std::nullopt;
  if (pid_ < 0) {
    if (std::string why = start(); !why.empty()) return finish(JobStatus::NotStarted, why);
  }
  send_some();
  std::string received;
  bool open = receive(&reply_, &received);
  reader_.feed(received);
  if (!receive(&errors_, &stderr_tail_)) errors_.reset();
  if (stderr_tail_.size() > kTailBytes) {
    stderr_tail_.erase(0, stderr_tail_.size() - kTailBytes);
  }
  if (std::optional<JobResult> reply = take_reply()) return reply;
  if (!open) return after_death();
  if (steady_seconds() >= deadline_) {
    kill_and_reap();
    return finish(JobStatus::TimedOut, fmt::format("killed after {:.3g} s", deadline_ - begin_));
  }
  return std::nullopt;
}

void Worker::send_some() {
  while (!outgoing_.empty()) {
    ssize_t put = send(request_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      // A dead worker is noticed by the end of its replies.
      if (errno != EAGAIN && errno != EWOULDBLOCK) outgoing_.clear();
      return;
    }
    outgoing_.erase(0, static_cast<size_t>(put));
  }
}

// Appends what is there; false when the stream has ended.
bool Worker::receive(UniqueFd* from, std::string* into) {
  char buffer[1 << 16];
  for (;;) {
    ssize_t got = read(from->get(), buffer, sizeof buffer);
    if (got > 0) {
      into->append(buffer, static_cast<size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
}

std::optional<JobResult> Worker::take_reply() {
  std::optional<std::string> text = reader_.next();
  if (!text && !reader_.malformed()) return std::nullopt;
  json reply = text ? json::parse(*text, nullptr, false) : json();
  if (!reply.is_object() || reply.value("id", int64_t{-1}) != job_id_ || !reply.contains("ok")) {
    std::string shown = excerpt(text ? *text : reader_.rest());
    kill_and_reap();
    return finish(JobStatus::Malformed, "the worker's output is no reply: \"" + shown + "\"");
  }
  if (reply.value("last", false)) kill_and_reap();
  if (reply["ok"] == true) {
    return finish(JobStatus::Done, "", reply.value("result", json()).dump());
  }
  std::string kind = reply.value("kind", ""), message = reply.value("message", "");
  if (kind == "memory") return finish(JobStatus::OutOfMemory, message);
  if (kind == "toolchain") return finish(JobStatus::NoToolchain, message);
  return finish(JobStatus::Failed, message);
}

std::string Worker::refusal() const {
  std::optional<std::string> call = refused_call(stderr_tail_);
  if (!call) return "the kernel made a system call that kernels may not make";
  return fmt::format("the kernel called {}, which kernels may not", *call);
}

JobResult Worker::after_death() {
  std::string rest = reader_.rest();
  bool forced = false;
  int status = kill_and_reap(&forced);
  receive(&errors_, &stderr_tail_);
  if (forced) return finish(JobStatus::Malformed, "closed its output and went on");
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    if (signal == SIGSYS) return finish(JobStatus::Crashed, refusal());
    // The parent's own kills do not come here.
    std::string who = signal == SIGKILL ? ", perhaps because the system ran out of memory" : "";
    return finish(JobStatus::Crashed, "killed by " + signal_name(signal) + who);
  }
  if (!rest.empty()) {
    return finish(JobStatus::Malformed,
                  "the worker's output is no reply: \"" + excerpt(rest) + "\"");
  }
  return finish(JobStatus::Exited,
                fmt::format("exited with code {} before it replied", WEXITSTATUS(status)));
}

JobResult Worker::finish(JobStatus status, std::string message, std::string result) {
  busy_ = false;
  outgoing_.clear();
  return {status, std::move(result), std::move(message), std::move(stderr_tail_),
          steady_seconds() - begin_};
}

std::optional<JobResult> Worker::cancel() {
  bool was_busy = busy_;
  kill_and_reap();
  if (!was_busy) return std::nullopt;
  return finish(JobStatus::Cancelled, "cancelled");
}

bool Worker::hung_up() const {
  pollfd event{reply_.get(), POLLIN, 0};
  return poll(&event, 1, 0) == 1 && (event.revents & POLLHUP) != 0;
}

void Worker::drop_if_stale() {
  if (pid_ < 0) return;
  std::string unasked = reader_.rest();
  if (!receive(&reply_, &unasked) || !unasked.empty()) kill_and_reap();
}

// A process that is ending by itself gets a moment, so that its own way of ending is seen.
int Worker::kill_and_reap(bool* forced) {
  if (pid_ < 0) return 0;
  int status = 0;
  bool reaped = false;
  for (int waited = 0; hung_up() && !reaped && waited < kDeathPatienceMs; ++waited) {
    reaped = waitpid(pid_, &status, WNOHANG) == pid_;
    if (!reaped) poll(nullptr, 0, 1);
  }
  if (!reaped) kill_tree(pid_);  // a compiler has a process group of its own
  kill(-pid_, SIGKILL);          // with all that it may have left behind
  if (!reaped) {
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (forced != nullptr) *forced = !reaped;
  pid_ = -1;
  request_.reset();
  reply_.reset();
  return status;
}

}  // namespace tilewright
