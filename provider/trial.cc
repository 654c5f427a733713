#include "provider/trial.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "provider/compare.h"
#include "tilewright/version.h"

namespace tilewright::provider {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A tensor of the sizes of a port with made-up values: floats in [-1, 1), all else 1, which is an index of most
// tables and a mask that hides nothing.
struct MadeInput {
  std::vector<char> data;
  OwnedValue value;
};

MadeInput make_input(const Runtime& runtime, const ort::MemoryInfo* memory, int32_t elem,
                     const std::vector<int64_t>& shape, uint64_t seed) {
  const std::optional<DLDataType> type = dl_type(elem);
  if (!type) throw ProviderError("an input has an element type that no trial makes");
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  MadeInput made{std::vector<char>(count * type->bits / 8), OwnedValue(runtime)};
  fill(made.data, elem, seed);
  runtime.checked<ort::CreateTensorWithData>(memory, static_cast<void*>(made.data.data()),
                                             made.data.size(), shape.data(), shape.size(),
                                             static_cast<ort::Element>(elem), made.value.out());
  return made;
}

// Both sides of a trial, and their inputs at the largest or least sizes of the parts.
class Race {
 public:
  Race(const GraphView& graph, const Region& region, const std::string& onnx,
       const std::vector<Part>& parts, const Options& options, double seconds, double most)
      : runtime_(graph.runtime()), graph_(graph), region_(region), parts_(parts), options_(options),
        cpu_(runtime_, onnx, options.threads, {region.inputs, region.outputs}), memory_(runtime_),
        seconds_(seconds), most_(most) {
    runtime_.checked<ort::CreateCpuMemoryInfo>(0, 0, memory_.out());
  }

  Verdict run(bool largest) {
    std::vector<MadeInput> made;
    std::vector<const ort::Value*> inputs;
    for (const std::string& name : region_.inputs) {
      made.push_back(make_input(runtime_, memory_.get(), graph_.type(name).elem,
                                sizes_of(name, largest), made.size()));
    }
    for (const MadeInput& input : made) inputs.push_back(input.value.get());
    Verdict verdict;
    std::vector<OwnedValue> wanted;
    try {
      wanted = cpu_.run(inputs);
    } catch (const ProviderError& e) {
      verdict.problem = e.what();
      return verdict;
    }
    try {
      start_own();
      verdict.difference = difference(runtime_, own_->run(inputs), wanted);
      verdict.ratio = ratio(inputs);
    } catch (const ProviderError& e) {
      verdict.failure = e.what();
    }
    return verdict;
  }

 private:
  void start_own() {
    if (own_ != nullptr) return;
    std::vector<Context> contexts;
    std::vector<std::shared_ptr<Runner>> runners;
    for (const Part& part : parts_) {
      contexts.push_back({&part.region, part.runner->path()});
      runners.push_back(part.runner);
    }
    const Lending lending(std::move(runners));
    const InnerSession::ProviderOptions own = {
        {"trial", "0"}, {"fallback", "0"}, {"threads", std::to_string(options_.threads)}};
    own_ = std::make_unique<InnerSession>(
        runtime_, onnx_of(graph_, region_, contexts).text(), options_.threads,
        InnerSession::Names{region_.inputs, region_.outputs}, own);
  }

  std::vector<int64_t> sizes_of(const std::string& name, bool largest) const {
    for (const Part& part : parts_) {
      const auto port = std::ranges::find(part.runner->inputs(), name, &Port::name);
      if (port != part.runner->inputs().end()) return largest ? port->most : port->least;
    }
    std::vector<int64_t> sizes = graph_.type(name).sizes;  // of an input that no output depends on
    for (int64_t& size : sizes) size = std::max<int64_t>(1, size);
    return sizes;
  }

  double time_of(const InnerSession& session, const std::vector<const ort::Value*>& inputs,
                 int runs) const {
    const auto start = Clock::now();
    for (int i = 0; i < runs; ++i) session.run(inputs);
    return seconds_since(start) / runs;
  }

  // The median of rounds in which both run in turns.
  double ratio(const std::vector<const ort::Value*>& inputs) const {
    const double once = std::max(1e-7, time_of(cpu_, inputs, 1));
    const int runs = std::clamp(static_cast<int>(2e-3 / once), 1, 1000);
    std::vector<double> ratios;
    const auto start = Clock::now();
    const auto close = [&] { return std::abs(median(ratios) / most_ - 1) < 0.05; };
    while (ratios.size() < 5 || seconds_since(start) < seconds_ ||
           (close() && seconds_since(start) < 2)) {
      const bool own_first = ratios.size() % 2 == 0;
      const double first = time_of(own_first ? *own_ : cpu_, inputs, runs);
      const double second = time_of(own_first ? cpu_ : *own_, inputs, runs);
      ratios.push_back(own_first ? first / second : second / first);
      if (seconds_since(start) > 20) break;
    }
    return median(ratios);
  }

  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }

  const Runtime& runtime_;
  const GraphView& graph_;
  const Region& region_;
  const std::vector<Part>& parts_;
  const Options& options_;
  InnerSession cpu_;
  std::unique_ptr<InnerSession> own_;
  OwnedMemoryInfo memory_;
  double seconds_, most_;
};

bool is_ranged(const Part& part) {
  return std::ranges::any_of(part.runner->inputs(),
                             [](const Port& p) { return p.least != p.most; });
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  }
  return "";
}

// A digest of all that a verdict depends on.
std::string key_of(const Runner& runner, const Runtime& runtime, const Options& options) {
  Rope facts;
  std::ifstream file(runner.path(), std::ios::binary | std::ios::ate);
  std::string content(static_cast<size_t>(std::max<std::streamoff>(0, file.tellg())), '\0');
  file.seekg(0).read(content.data(), static_cast<std::streamsize>(content.size()));
  facts.add(std::move(content));  // a model's weights: no copy of them
  facts.add(runtime.release() + '\n' + TILEWRIGHT_VERSION + '\n' + processor_name() + '\n' +
            std::to_string(options.threads) + ' ' + std::to_string(processors()));
  return digest_of(facts);
}

// The trials of one key: the latest verdict, and how many there were.
struct Trials {
  Verdict verdict;
  int count = 0;
  bool settled(double most) const { return count > 1 || (count == 1 && verdict.ratio <= most); }
};

// Trials of this process, for folders that it may not write to.
struct OwnTrials {
  std::mutex mutex;
  std::map<std::string, Trials> by_key;
};
OwnTrials& own_trials() {
  static auto* all = new OwnTrials;  // never destroyed: threads may still run when the process ends
  return *all;
}

// Lines of a key, a ratio and a difference.
std::string trials_file(const Runner& runner) { return runner.path() + ".trials"; }

Trials known_trials(const Runner& runner, const std::string& key) {
  Trials trials;
  std::ifstream file(trials_file(runner));
  std::string own;
  for (Verdict line; file >> own >> line.ratio >> line.difference;) {
    if (own == key) trials = {line, trials.count + 1};
  }
  const std::lock_guard lock(own_trials().mutex);
  const auto known = own_trials().by_key.find(key);
  return known != own_trials().by_key.end() && known->second.count > trials.count ? known->second
                                                                                  : trials;
}

void keep_trial(const Runner& runner, const std::string& key, const Trials& trials) {
  {
    const std::lock_guard lock(own_trials().mutex);
    own_trials().by_key[key] = trials;
  }
  std::array<char, 128> line{};
  const int length = std::snprintf(line.data(), line.size(), "%s %.4f %.3g\n", key.c_str(),
                                   trials.verdict.ratio, std::min(trials.verdict.difference, 1e9));
  // One write of a line: those of several processes do not mix. A line that is cut off ends what readers see.
  const int file =
      open(trials_file(runner).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  [[maybe_unused]] const auto written = write(file, line.data(), static_cast<size_t>(length));
  close(file);
}

}  // namespace

std::string percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f%%", ratio * 100);
  return text.data();
}

Verdict race(const GraphView& graph, const Region& whole, const Rope& onnx,
             const std::vector<Part>& parts, const Options& options, double seconds, double most) {
  Race race(graph, whole, onnx.text(), parts, options, seconds, most);
  Verdict verdict = race.run(true);
  const bool ranged = std::ranges::any_of(parts, is_ranged);
  if (!ranged || !verdict.problem.empty() || !verdict.failure.empty()) return verdict;
  const Verdict least = race.run(false);
  verdict.ratio = std::max(verdict.ratio, least.ratio);
  verdict.difference = std::max(verdict.difference, least.difference);
  verdict.problem = least.problem;
  verdict.failure = least.failure;
  return verdict;
}

Verdict verdict_on(const GraphView& graph, const Region& region, const Rope& onnx,
                   const std::shared_ptr<Runner>& runner, const Options& options, double seconds) {
  const std::string key = key_of(*runner, graph.runtime(), options);
  const Trials known = known_trials(*runner, key);
  const double most = most_time(is_part(graph, region));
  const bool late = is_late(options);
  if (known.settled(most) || (late && known.count > 0)) return known.verdict;
  Verdict verdict;
  verdict.late = late;
  if (late) return verdict;
  try {
    verdict = race(graph, region, onnx, {{region, runner}}, options, seconds, most);
  } catch (const ProviderError& e) {
    verdict.problem = e.what();  // such as a region that is too large for a session of its own
  }
  if (verdict.problem.empty() && verdict.failure.empty())
    keep_trial(*runner, key, {verdict, known.count + 1});
  return verdict;
}

}  // namespace tilewright::provider
