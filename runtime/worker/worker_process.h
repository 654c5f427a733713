// The parent's side of one worker.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "runtime/worker/message.h"

namespace tilewright {

struct WorkerOptions {
  // The command to execute: the program (found on the PATH) and its arguments, such as
  // {"/proc/self/exe", "job-worker"}.
  std::vector<std::string> command;
  int64_t memory_limit_bytes = 0;  // of data segment and private mappings; 0: none
  std::vector<int> cpus = {};      // the processors it may run on; empty: all
  // Kernels run in it: it gets the argument --confined, at which its program calls confine_process().
  bool confined = false;
  std::vector<int> inherited = {};  // further descriptors that it gets, under the same numbers
};

enum class JobStatus : uint8_t {
  Done,         // `result` is what the handler gave
  Failed,       // the handler threw an Error; the worker lives
  NoToolchain,  // it threw a ToolchainError
  OutOfMemory,  // it threw for want of memory
  Crashed,      // a signal ended the worker
  Exited,       // the worker ended by itself before it replied
  Malformed,    // what came back was no reply
  TimedOut,     // it was killed after its time
  NotStarted,   // the worker's program could not be run
  Cancelled,    // by the parent
};

std::string_view name_of(JobStatus status);

struct JobResult {
  JobStatus status = JobStatus::Done;
  std::string result;       // JSON text, when Done
  std::string message;      // else what happened
  std::string stderr_tail;  // the last the worker wrote there during this job
  double seconds = 0;       // from submission to the end
};

// A worker process that is started when the first job needs it, and again after it died. One job at
// a time. Not thread-safe; the thread that submits must outlive the jobs, since the worker is
// killed when the thread that started it ends.
class Worker {
 public:
  explicit Worker(WorkerOptions options);
  // Kills the process.
  ~Worker();
  Worker(Worker&&) = delete;

  // Requires that it is idle. `payload` is JSON text.
  void submit(std::string_view type, std::string_view payload, double timeout_seconds);
  bool busy() const { return busy_; }
  // The events to wait for before the next pump(): descriptors that may become readable or
  // writable, and the seconds until the deadline.
  struct Interest {
    int reply_fd, error_fd;
    int request_fd;  // -1 when the request is sent
    double seconds;
  };
  Interest interest() const;
  // Takes what has come, sends what can be sent, kills when the time is over; never blocks for long.
  // The job's result when it is over.
  std::optional<JobResult> pump();
  // Kills the process; the job in flight is Cancelled.
  std::optional<JobResult> cancel();

  pid_t pid() const { return pid_; }  // -1: not running

 private:
  std::string start();  // empty, or why it cannot
  void send_some();
  bool receive(UniqueFd* from, std::string* into);
  std::optional<JobResult> take_reply();
  JobResult after_death();
  // Which system call has ended a worker that was confined.
  std::string refusal() const;
  JobResult finish(JobStatus status, std::string message, std::string result = {});
  // Ends a process that died, or wrote what nobody asked for, since its last job.
  void drop_if_stale();
  // Whether nobody holds the other end of the replies any more.
  bool hung_up() const;
  // The wait status; `forced`: it had to be killed.
  int kill_and_reap(bool* forced = nullptr);

  WorkerOptions options_;
  pid_t pid_ = -1;
  UniqueFd request_, reply_, errors_;
  MessageReader reader_;
  std::string outgoing_, stderr_tail_;
  bool busy_ = false;
  int64_t job_id_ = 0;
  double begin_ = 0, deadline_ = 0;
};

}  // namespace tilewright
