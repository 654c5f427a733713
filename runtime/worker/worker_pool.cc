#include "runtime/worker/worker_pool.h"

#include <poll.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/machine/timer.h"

namespace tilewright {

WorkerPool::WorkerPool(const WorkerOptions& options, int count)
    : WorkerPool(std::vector<WorkerOptions>(static_cast<size_t>(std::max(count, 0)), options)) {}

WorkerPool::WorkerPool(const std::vector<WorkerOptions>& options) {
  TW_ASSERT(!options.empty(), "a pool has workers");
  for (const WorkerOptions& o : options) slots_.push_back(std::make_unique<Slot>(o));
}

int64_t WorkerPool::submit(std::string type, std::string payload, double timeout_seconds) {
  int64_t number = next_job_++;
  queue_.push_back({number, std::move(type), std::move(payload), timeout_seconds});
  assign();
  return number;
}

size_t WorkerPool::running() const {
  return static_cast<size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const auto& s) { return s->worker.busy(); }));
}

void WorkerPool::assign() {
  for (auto& slot : slots_) {
    if (queue_.empty()) return;
    if (slot->worker.busy() || slot->job >= 0) continue;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    slot->job = job.number;
    slot->worker.submit(job.type, job.payload, job.timeout_seconds);
  }
}

void WorkerPool::pump(std::vector<Completion>* done) {
  for (auto& slot : slots_) {
    if (std::optional<JobResult> result = slot->worker.pump()) {
      done->push_back({slot->job, std::move(*result)});
      slot->job = -1;
    }
  }
  assign();
}

void WorkerPool::sleep(double seconds) {
  std::vector<pollfd> events;
  for (const auto& slot : slots_) {
    if (!slot->worker.busy()) continue;
    Worker::Interest i = slot->worker.interest();
    if (i.reply_fd < 0) return;  // not started yet
    seconds = std::min(seconds, i.seconds);
    events.push_back({i.reply_fd, POLLIN, 0});
    events.push_back({i.error_fd, POLLIN, 0});
    if (i.request_fd >= 0) events.push_back({i.request_fd, POLLOUT, 0});
  }
  double milliseconds = std::clamp(std::ceil(seconds * 1e3), 0.0, 60e3);
  ::poll(events.data(), events.size(), static_cast<int>(milliseconds));
}

std::vector<Completion> WorkerPool::wait(double seconds) {
  std::vector<Completion> done;
  double deadline = steady_seconds() + seconds;
  for (;;) {
    pump(&done);
    double left = deadline - steady_seconds();
    if (!done.empty() || pending() == 0 || left <= 0) return done;
    sleep(left);
  }
}

std::vector<Completion> WorkerPool::cancel_all() {
  std::vector<Completion> done;
  for (auto& slot : slots_) {
    if (std::optional<JobResult> result = slot->worker.cancel()) {
      done.push_back({slot->job, std::move(*result)});
      slot->job = -1;
    }
  }
  for (Job& job : queue_) {
    JobResult result;
    result.status = JobStatus::Cancelled;
    result.message = "cancelled";
    done.push_back({job.number, std::move(result)});
  }
  queue_.clear();
  return done;
}

}  // namespace tilewright
