#include "tuner/fleet/fleet_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/base64.h"
#include "base/files.h"
#include "ir/ops/spec.h"
#include "runtime/machine/timer.h"
#include "tuner/backend.h"
#include "tuner/fleet/hello.h"
#include "tuner/fleet/link.h"
#include "tuner/fleet/trial_message.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr size_t kKeptObjects = 256;
constexpr int kLastSeconds = 20;  // for a job to end after the input has

// Lines of the standard streams. A thread of its own reads, and says that the process is alive while a
// job goes on.
class Lines {
 public:
  explicit Lines(double beat_seconds)
      : in_(fcntl(0, F_DUPFD_CLOEXEC, 3)), out_(fcntl(1, F_DUPFD_CLOEXEC, 3)),
        beat_ms_(static_cast<int>(beat_seconds * 1000)) {
    const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(null.get(), 0);
    dup2(2, 1);  // nothing else may write between the lines
    std::thread([this] { read(); }).detach();
  }

  // Waits. Nothing: the input has ended.
  std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !lines_.empty(); });
    if (lines_.empty()) return std::nullopt;
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  void write(const std::string& line) {
    const std::lock_guard lock(writing_);
    if (!write_all(out_.get(), line + "\n")) std::_Exit(1);
  }
  // The lease whose job goes on; 0: none.
  void set_lease(uint64_t lease) { lease_ = lease; }
  const std::atomic<bool>& ended() const { return ended_; }

 private:
  void read() {
    std::string received;
    char buffer[1 << 16];
    for (;;) {
      pollfd event{in_.get(), POLLIN, 0};
      const int ready = poll(&event, 1, beat_ms_);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) {
        if (lease_ != 0) write(fmt::format(R"({{"beat":{}}})", lease_.load()));
        continue;
      }
      const ssize_t got = ::read(in_.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      received.append(buffer, static_cast<size_t>(got));
      take_lines(received);
      if (received.size() > Link::kLongestLine) break;
    }
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    std::this_thread::sleep_for(std::chrono::seconds(kLastSeconds));
    std::_Exit(1);
  }
  void take_lines(std::string& received) {
    size_t begin = 0;
    for (size_t end; (end = received.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(received.substr(begin, end - begin));
    }
    received.erase(0, begin);
    changed_.notify_all();
  }

  UniqueFd in_, out_;
  const int beat_ms_;
  std::mutex mutex_, writing_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> lease_ = 0;
};

class FleetWorker {
 public:
  FleetWorker(const FleetWorkerOptions& options, Lines& lines, Target target)
      : options_(options), lines_(lines), target_(std::move(target)) {}

  void serve(const std::string& line);

 private:
  std::string trial(const TrialJob& job);
  std::string compare(const CompareJob& job);
  LocalMeasurer& measurer_for(const JobContext& context);
  const Workload& workload_of(const std::string& canonical);
  MeasureLimits limits_of(const JobContext& context) const;
  void keep(const std::string& object);
  void fetch(const CompareJob& job);

  const FleetWorkerOptions& options_;
  Lines& lines_;
  const Target target_;
  uint64_t lease_ = 0;
  std::string measurer_key_;
  std::unique_ptr<LocalMeasurer> measurer_;
  std::optional<Workload> workload_;
  std::map<std::string, std::string> objects_;  // by their SHA-256
  std::deque<std::string> kept_;                // the oldest first
};

const Workload& FleetWorker::workload_of(const std::string& canonical) {
  if (!workload_ || workload_->canonical != canonical) workload_ = parse_workload(canonical);
  return *workload_;
}

// One measurer keeps the reference values of a workload for all its candidates.
LocalMeasurer& FleetWorker::measurer_for(const JobContext& context) {
  JobContext same = context;
  same.seconds_left = 0;
  same.workload.clear();
  const std::string key = to_json(same);
  if (!measurer_ || key != measurer_key_) {
    measurer_ = std::make_unique<LocalMeasurer>(options_.job_worker, target_, context.options);
    measurer_key_ = key;
  }
  return *measurer_;
}

MeasureLimits FleetWorker::limits_of(const JobContext& context) const {
  return {lines_.ended(), steady_seconds() + context.seconds_left};
}

void FleetWorker::keep(const std::string& object) {
  const std::string hash = sha256_of(object);
  if (!objects_.emplace(hash, object).second) return;
  kept_.push_back(hash);
  if (kept_.size() <= kKeptObjects) return;
  objects_.erase(kept_.front());
  kept_.pop_front();
}

// The candidate of the config: it must be the coordinator's program.
Candidate candidate_of(CandidateMaker& maker, const TrialJob& job) {
  if (job.is_default) return maker.make_default();
  const std::string problem = replay_problem(job.sketch, job.sketch_version);
  if (!problem.empty()) throw FleetError(problem);
  std::string reason;
  auto candidate = maker.make(*find_sketch(job.sketch), Trial::replay(job.config), &reason);
  if (!candidate) throw FleetError("the config gives no program here: " + reason);
  if (candidate->fingerprint != job.fingerprint) {
    throw FleetError("the config gives another program here: " + job.config);
  }
  return std::move(*candidate);
}

std::string FleetWorker::trial(const TrialJob& job) {
  const Workload& workload = workload_of(job.context.workload);
  LocalMeasurer& measurer = measurer_for(job.context);
  CandidateMaker maker(workload, target_, job.context.options.threads, &lines_.ended());
  std::vector<Candidate> batch;
  batch.push_back(candidate_of(maker, job));
  const SecondsSpent before = measurer.spent();
  TrialAnswer answer;
  answer.measurement = std::move(measurer.measure(workload, batch, limits_of(job.context),
                                                  job.best_seconds, {}, job.points)[0]);
  Measurement& m = answer.measurement;
  answer.left_out = m.verdict == TrialVerdict::Illegal && m.reason.empty();
  answer.spent = measurer.spent() - before;
  const bool valid = m.verdict == TrialVerdict::Valid;
  if (!valid) {
    m.samples.clear();
    m.median = 0;
  }
  if (!valid || !m.in_full) m.object.clear();
  if (!m.object.empty()) keep(m.object);
  return to_json(answer);
}

// Asks for the objects that are not here.
void FleetWorker::fetch(const CompareJob& job) {
  json need = json::array();
  for (const auto& kernel : job.kernels) {
    if (!objects_.contains(kernel.sha256)) need.push_back(kernel.sha256);
  }
  if (need.empty()) return;
  lines_.write(json{{"lease", lease_}, {"need", need}}.dump());
  for (size_t i = 0; i < need.size(); ++i) {
    const auto line = lines_.next();
    if (!line) throw FleetError("the input has ended");
    const json artifact = json::parse(*line).at("artifact");
    const auto bytes = from_base64(artifact.at("data").get_ref<const std::string&>());
    if (!bytes || sha256_of(*bytes) != artifact.at("sha256")) {
      throw FleetError("an artifact is not what its hash says");
    }
    keep(*bytes);
  }
}

std::string FleetWorker::compare(const CompareJob& job) {
  fetch(job);
  const Workload& workload = workload_of(job.context.workload);
  LocalMeasurer& measurer = measurer_for(job.context);
  std::vector<Measurement> kernels;
  for (const CompareJob::Kernel& k : job.kernels) {
    Measurement m;
    m.verdict = TrialVerdict::Valid;
    m.median = k.median;
    m.object = objects_.at(k.sha256);
    Backend::of(target_).describe(k.cuda.empty() ? k.description : k.cuda, m);
    kernels.push_back(std::move(m));
  }
  const MeasureLimits limits = limits_of(job.context);
  const SecondsSpent before = measurer.spent();
  CompareAnswer answer;
  if (job.sizes.empty()) {
    answer.comparison = measurer.compare(workload, kernels, limits);
  } else {
    answer.at_sizes = measurer.compare_at(workload, kernels, job.sizes, job.rounds, limits);
    if (!answer.at_sizes) throw FleetError("the input has ended");
  }
  answer.spent = measurer.spent() - before;
  return to_json(answer);
}

void FleetWorker::serve(const std::string& line) {
  const json j = json::parse(line, nullptr, false);
  lease_ = j.is_object() && j.contains("lease") ? j["lease"].get<uint64_t>() : 0;
  lines_.set_lease(lease_);
  std::string answer;
  try {
    const std::string kind = j.at("kind");
    if (kind == "trial") {
      answer = trial(trial_job_from(j.at("job")));
    } else {
      answer = compare(compare_job_from(j.at("job")));
    }
    answer = fmt::format(R"({{"lease":{},"result":{}}})", lease_, answer);
  } catch (const std::exception& e) {
    answer = json{{"lease", lease_}, {"error", e.what()}}.dump(-1, ' ', false,
                                                               json::error_handler_t::replace);
  }
  lines_.set_lease(0);
  if (!lines_.ended()) lines_.write(answer);
}

}  // namespace

int fleet_worker_main(const FleetWorkerOptions& options) {
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C in a terminal is the coordinator's to decide about
  std::signal(SIGPIPE, SIG_IGN);
  // Never destroyed: its thread reads to the end of the process.
  Lines& lines = *new Lines(options.beat_seconds);
  const auto first = lines.next();
  if (!first) return 0;
  Target target;
  try {
    const Opening opening = read_opening(*first);
    target = Target::parse(opening.target);
    if (!target.is_cuda()) target.require_here();
    lines.write(hello_line(hello_of_this_machine(target, options.facts(target), options.version)));
  } catch (const Error& e) {
    lines.write(json{{"error", e.what()}}.dump(-1, ' ', false, json::error_handler_t::replace));
    return 1;
  }
  FleetWorker worker(options, lines, target);
  while (const auto line = lines.next()) worker.serve(*line);
  return 0;
}

}  // namespace tilewright
