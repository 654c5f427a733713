#include "serving/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/identity.h"
#include "serving/gpu.h"
#include "serving/status.h"

namespace tilewright::serving {
namespace {

// Sizes to look for one by one: every combination of those that were named.
std::vector<Box> boxes_of(const Request& request, const PrepareOptions& options) {
  std::vector<Box> boxes = {{}};
  for (const Dim& d : request.dims) {
    auto named = options.sizes.find(d.name);
    std::vector<DimSize> choices;
    if (named != options.sizes.end()) {
      for (int64_t value : named->second) {
        if (value < d.min || value > d.max) {
          throw ServingError(TW_ERROR_ARGUMENT, fmt::format("sizes: {}={}; {} has {} to {}", d.name,
                                                            value, request.text, d.min, d.max));
        }
        choices.push_back({value, value});
      }
    }
    if (choices.empty()) choices.push_back({d.min, d.max});
    std::vector<Box> longer;
    for (const Box& box : boxes) {
      for (const DimSize& choice : choices) {
        longer.push_back(box);
        longer.back().push_back(choice);
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

bool overlaps(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d].min > b[d].max || b[d].min > a[d].max) return false;
  }
  return true;
}

ReportLine line_of(const Request& request, const Candidate& c, const Box& box) {
  ReportLine line;
  line.spec = request.text;
  line.sizes = box_text(request.dims, box);
  line.outcome = c.outcome;
  line.reason = c.reason;
  // The text that was given says the same, mostly, and the shortest form takes long to find.
  const bool own = c.made_for->hash == request.hash &&
                   (!request.text.starts_with('{') || c.made_for->canonical.empty());
  line.kernel = own ? request.text : c.made_for->text();
  line.sketch = c.kernel->sketch;
  line.seconds = c.kernel->seconds;
  line.threads = c.kernel->threads;
  return line;
}

// A kernel that was preferred for some sizes and did not load.
struct Failure {
  Box box;
  std::string text;
};

std::string failures_in(const Box& box, const std::vector<Failure>& failures) {
  std::string text;
  for (const Failure& f : failures) {
    if (overlaps(f.box, box)) text += (text.empty() ? "" : "; ") + f.text;
  }
  return text;
}

// Says of a kernel that it stands in for others.
void add_failures(ReportLine& line, const std::string& failures, const Candidate& c) {
  if (failures.empty()) return;
  line.reason = failures + (line.reason.empty() ? "" : "; ") + line.reason;
  if (line.outcome == TW_HIT) line.outcome = c.kernel->is_default ? TW_DEFAULT : TW_NEAR;
}

// The next command, as the end of a sentence.
std::string next_of(const ReportLine& line) {
  return line.command.empty() ? "" : "; this would tune it: " + line.command;
}

// The command that helps a miss. New kernels in a file that others may write would not be loaded either: its reason
// says what helps.
std::string command_for(const Table& table, const Request& request, const std::string& reason) {
  const std::string& distrust = table.distrust();
  const bool untrusted = !distrust.empty() && reason.find(distrust) != std::string::npos;
  return untrusted ? "" : tune_command(table, request);
}

database::ThreadsAsked threads_of(const Target& target, const PrepareOptions& options) {
  return {target.has_threads ? options.threads : 0, available_threads()};
}

const char* name_of(tw_outcome outcome) {
  switch (outcome) {
    case TW_HIT: return "hit";
    case TW_NEAR: return "served by a near kernel";
    case TW_DEFAULT: return "served by a default kernel";
    case TW_MISS: return "miss";
  }
  return "";
}

}  // namespace

struct Library::Device {
  Target target;
  database::TargetIdentity identity;
  Place place;
  std::shared_ptr<const Gpu> gpu;    // null: the CPU
  std::shared_ptr<CodeMemory> code;  // of all kernels, sealed later; null: each has its own
  decltype(PrepareOptions::emulate) emulate;

  std::shared_ptr<const DeviceKernel> load(const database::Artifact& artifact,
                                           std::string_view name) const {
    if (gpu != nullptr) return load_cuda_kernel(artifact, gpu);
    if (emulate) return emulate(artifact);
    if (code != nullptr) return load_cpu_kernel(artifact, code, name);
    const auto own = std::make_shared<CodeMemory>();
    auto kernel = load_cpu_kernel(artifact, own, name);
    own->seal();
    return kernel;
  }
};

struct Library::Choice {
  Box box;
  std::vector<Candidate> kernels;  // best first
};

const Served& Prepared::find(std::string_view spec) const {
  auto found = by_text_.find(spec);
  if (found != by_text_.end()) {
    const Served& served = *served_[found->second];
    if (!served.empty()) return served;
  }
  for (const ReportLine& line : report_) {
    if (line.spec == spec) {
      throw ServingError(TW_ERROR_MISS, fmt::format("{}: {}{}", spec, line.reason, next_of(line)));
    }
  }
  throw ServingError(TW_ERROR_ARGUMENT, fmt::format("'{}' was not among the specs that were "
                                                    "prepared",
                                                    spec));
}

Library::Device Library::device_for(const PrepareOptions& options) {
  Device device{Target::parse(options.target), {}, {}, nullptr, nullptr, {}};
  const TargetFacts facts = target_facts(device.target);
  if (!device.target.is_cuda()) {
    device.target.require_here();
    device.identity = database::make_target(facts.chip, facts.features, facts.cores, facts.extra);
    return device;
  }
  if (options.emulate) {
    device.emulate = options.emulate;
    device.identity = database::make_target(facts.chip, facts.features, facts.cores, facts.extra);
    return device;
  }
  device.gpu = gpu(options.device);
  if (!device.gpu->runs(device.target)) {
    throw ServingError(TW_ERROR_DEVICE,
                       fmt::format("kernels of target '{}' do not run on GPU {}, {}: it is sm_{}",
                                   device.target.name, options.device, device.gpu->facts().name,
                                   device.gpu->facts().compute_capability));
  }
  device.identity = database::make_target(device.gpu->facts().name, facts.features,
                                          device.gpu->facts().sms, facts.extra);
  device.place = {kDLCUDA, options.device, options.alignment};
  return device;
}

std::shared_ptr<const Gpu> Library::gpu(int index) {
  std::lock_guard lock(mutex_);
  std::weak_ptr<const Gpu>& known = gpus_[index];
  std::shared_ptr<const Gpu> gpu = known.lock();
  if (gpu == nullptr) {
    gpu = std::make_shared<const Gpu>(index);
    known = gpu;
  }
  return gpu;
}

std::unique_ptr<Prepared> Library::prepare(const PrepareOptions& options) {
  const Device device = device_for(options);
  std::vector<Request> requests;
  for (const std::string& spec : options.specs) {
    requests.push_back(
        make_request(spec, device.target, device.identity, threads_of(device.target, options)));
  }
  return prepare(options, device, requests);
}

std::unique_ptr<Prepared> Library::prepare(const PrepareOptions& options,
                                           const std::vector<SpecFacts>& specs) {
  constexpr size_t kStep = size_t{1} << 20;
  Device device = device_for(options);
  device.code = std::make_shared<CodeMemory>(kStep);
  std::vector<Request> requests;
  for (const SpecFacts& spec : specs) {
    requests.push_back({spec, device.target, device.identity, threads_of(device.target, options)});
  }
  auto prepared = prepare(options, device, requests);
  device.code->seal();
  return prepared;
}

std::vector<ReportLine> Library::look_up(const PrepareOptions& options,
                                         const std::vector<SpecFacts>& specs) {
  const Device device = device_for(options);
  std::vector<ReportLine> lines;
  for (const SpecFacts& spec : specs) {
    const Request request{spec, device.target, device.identity, threads_of(device.target, options),
                          nullptr};
    Box box;
    for (const Dim& d : spec.dims) box.push_back({d.max, d.max});
    const std::vector<Candidate> found = candidates(table_, request, box);
    ReportLine line;
    if (!found.empty()) {
      line = line_of(request, found.front(), box);
    } else {
      line.spec = spec.text;
      line.reason = miss_reason(table_, request);
    }
    if (line.outcome != TW_HIT) line.command = command_for(table_, request, line.reason);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::unique_ptr<Prepared> Library::prepare(const PrepareOptions& options, const Device& device,
                                           const std::vector<Request>& requests) {
  auto prepared = std::make_unique<Prepared>();
  prepared->gpu_ = device.gpu;
  for (const Request& request : requests) {
    prepared->served_.push_back(serve(request, options, device, prepared->report_));
    prepared->by_text_.emplace(prepared->served_.back()->text(), prepared->served_.size() - 1);
  }
  for (const auto& [name, values] : options.sizes) {
    const bool known = std::any_of(prepared->served_.begin(), prepared->served_.end(),
                                   [&n = name](const auto& s) { return s->has_dim(n); });
    if (!known) {
      throw ServingError(TW_ERROR_ARGUMENT,
                         fmt::format("sizes: '{}' is no dynamic dimension of any spec", name));
    }
  }
  for (const ReportLine& line : prepared->report_) log_once(line);
  return prepared;
}

std::unique_ptr<Served> Library::serve(const Request& request, const PrepareOptions& options,
                                       const Device& device, std::vector<ReportLine>& report) {
  auto served = std::make_unique<Served>(request, device.place, options.observer);
  std::vector<Choice> choices;
  for (const Box& box : boxes_of(request, options)) {
    choices.push_back({box, candidates(table_, request, box)});
  }
  // Before kernels for ranges take their sizes along, whatever the order in which sizes are named.
  std::stable_partition(choices.begin(), choices.end(), [](const Choice& choice) {
    return !choice.kernels.empty() && choice.kernels.front().in_place_of != nullptr;
  });
  for (const Choice& choice : choices) {
    if (!served->missing(choice.box).empty()) {
      serve_box(request, choice, device, *served, report);
    }
  }
  if (!served->empty()) served->finish();
  return served;
}

void Library::serve_box(const Request& request, const Choice& choice, const Device& device,
                        Served& served, std::vector<ReportLine>& report) {
  const Box& box = choice.box;
  std::vector<Failure> failures;
  for (const Candidate& c : choice.kernels) {
    for (const Box& piece : served.missing(c.box)) {
      if (!overlaps(piece, box)) continue;
      try {
        const std::string_view name = request.text;
        if (c.in_place_of != nullptr) served.declare(*load(*c.in_place_of, device, name));
        served.add(piece, load(*c.kernel, device, name), *c.made_for, c.kernel->artifact_hash);
      } catch (const Error& e) {
        // The next best may do. What is stored may be unsound, or need what this processor lacks.
        failures.push_back({piece, e.what()});
        continue;
      }
      report.push_back(line_of(request, c, piece));
      std::string better = failures_in(piece, failures);
      if (better.empty()) better = c.kernel->passed_over;
      if (better.empty() && c.outcome != TW_HIT) better = lacking_reason(table_, request);
      add_failures(report.back(), better, c);
      if (report.back().outcome != TW_HIT) report.back().command = tune_command(table_, request);
    }
    if (served.missing(box).empty()) return;
  }
  for (const Box& piece : served.missing(box)) {
    ReportLine line;
    line.spec = request.text;
    line.sizes = box_text(request.dims, piece);
    line.reason = failures_in(piece, failures);
    if (line.reason.empty()) line.reason = miss_reason(table_, request);
    line.command = command_for(table_, request, line.reason);
    report.push_back(std::move(line));
  }
}

std::shared_ptr<const DeviceKernel> Library::load(const StoredKernel& stored, const Device& device,
                                                  std::string_view name) {
  const std::string key =
      fmt::format("{} {}", device.gpu == nullptr ? "cpu" : std::to_string(device.gpu->index()),
                  stored.artifact_hash);
  std::lock_guard lock(mutex_);
  std::weak_ptr<const DeviceKernel>& known = loaded_[key];
  std::shared_ptr<const DeviceKernel> kernel = known.lock();
  if (kernel == nullptr) {
    kernel = device.load(
        device.emulate ? *table_.artifact_with_source(stored) : *table_.artifact(stored), name);
    known = kernel;
  }
  return kernel;
}

void Library::log_once(const ReportLine& line) {
  if (line.outcome == TW_HIT) return;
  std::string text = fmt::format("{}{}{}: {}: {}{}", line.spec, line.sizes.empty() ? "" : " at ",
                                 line.sizes, name_of(line.outcome), line.reason, next_of(line));
  {
    std::lock_guard lock(mutex_);
    if (!logged_.insert(text).second) return;
  }
  log_(text);
}

}  // namespace tilewright::serving
