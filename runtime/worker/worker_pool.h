// Several workers and a queue of jobs for them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/worker/worker_process.h"

namespace tilewright {

struct Completion {
  int64_t job;
  JobResult result;
};

// Not thread-safe; belongs to the thread that made it (see Worker).
class WorkerPool {
 public:
  // `count` workers, started when jobs need them.
  WorkerPool(const WorkerOptions& options, int count);
  // One worker for each of the options.
  explicit WorkerPool(const std::vector<WorkerOptions>& options);

  // Queues a job (`payload` is JSON text) and returns its number. Its time counts from when a worker
  // takes it.
  int64_t submit(std::string type, std::string payload, double timeout_seconds);
  // The jobs that ended, in that order; waits until there is one, at most `seconds`. Returns at once
  // when there are no jobs.
  std::vector<Completion> wait(double seconds);
  // Jobs that were submitted and are not yet reported.
  size_t pending() const { return queue_.size() + running(); }
  size_t running() const;
  size_t size() const { return slots_.size(); }
  // Kills every worker that is busy; all jobs are reported as Cancelled.
  std::vector<Completion> cancel_all();

 private:
  struct Slot {
    explicit Slot(const WorkerOptions& options) : worker(options) {}
    Worker worker;
    int64_t job = -1;
  };
  struct Job {
    int64_t number;
    std::string type, payload;
    double timeout_seconds;
  };
  void assign();
  void pump(std::vector<Completion>* done);
  void sleep(double seconds);

  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Job> queue_;
  int64_t next_job_ = 1;
};

}  // namespace tilewright
