#include "provider/hits.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "serving/models/hits_interface.h"

namespace tilewright::provider {
namespace {

// Trials of parts only put them in an order; that of the graph decides.
constexpr double kPartSeconds = 0.05;
constexpr double kGraphSeconds = 0.5;
constexpr double kMostTime = most_time(true);  // of the CPU provider's: hits have to win

class Kernels {
 public:
  explicit Kernels(const Options& options) : options_(options) {
    const std::vector<const char*> keys = pointers_to(options.trust);
    auto open = TW_INIT(tw_open_options);
    open.log = [](void*, const char*) {};
    open.trust = keys.data();
    open.trust_count = keys.size();
    check_tw(tw_open(options.database.c_str(), &open, &library_));
  }
  ~Kernels() { tw_close(library_); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Throws ProviderError, after it has added the nodes that are in the way.
  void open(const std::string& onnx, std::set<std::string>& missing, size_t count,
            tw_model** models) const {
    auto options = TW_INIT(tw_model_options);
    options.threads = options_.threads;
    const auto add = [](void* user, const char* node) {
      static_cast<std::set<std::string>*>(user)->insert(node);
    };
    check_tw(tw_model_of_hits(library_, onnx.data(), onnx.size(), &options, add, &missing, count,
                              models));
  }

 private:
  const Options& options_;
  tw_library* library_ = nullptr;
};

// Why no trial of the graph is possible; "": one may be.
std::string obstacle(const GraphView& graph) {
  const std::optional<Region> whole = whole_of(graph);
  if (!whole) return "some of its nodes hold graphs";
  for (const std::string& input : whole->inputs) {
    const ValueType type = graph.type(input);
    const auto is_open = [](int64_t size) { return size < 0; };
    if (!type.has_shape || std::ranges::any_of(type.sizes, is_open)) {
      return "input '" + input + "' has open sizes";
    }
  }
  return "";
}

// Why parts with this verdict are not used; "": they are.
std::string loss(const Verdict& verdict, double tolerance) {
  if (!verdict.problem.empty()) return "cannot be timed: " + verdict.problem;
  if (!verdict.failure.empty()) return "fails in a trial: " + verdict.failure;
  if (!(verdict.difference <= tolerance)) {
    return "has outputs that differ from the CPU provider's by more than the option tolerance "
           "allows";
  }
  if (verdict.ratio <= kMostTime) return "";
  return "takes " + percent(verdict.ratio) +
         " of the CPU provider's time here, of which it may take " + percent(kMostTime);
}

// Keeps the parts that win by themselves, the best first. Half of the time left is for them, so that the graph can be
// timed, too. Returns how many it does not reach.
size_t sort_out(const GraphView& graph, const Options& options, std::vector<Part>& parts) {
  const auto now = std::chrono::steady_clock::now;
  const auto end = now() + (options.trials_end - now()) / 2;
  std::vector<std::pair<double, Part>> winners;
  size_t late = 0;
  for (Part& part : parts) {
    if (now() > end) {
      ++late;
      continue;
    }
    const Verdict verdict =
        race(graph, part.region, onnx_of(graph, part.region), {part}, options, kPartSeconds, 0);
    if (!loss(verdict, options.tolerance).empty()) continue;
    winners.emplace_back(verdict.ratio, std::move(part));
  }
  std::ranges::stable_sort(winners, {}, &std::pair<double, Part>::first);
  parts.clear();
  for (auto& [ratio, part] : winners) parts.push_back(std::move(part));
  return late;
}

}  // namespace

Hits find_hits(const GraphView& graph, const Options& options) {
  Hits hits;
  if (options.trial) {
    const std::string why = obstacle(graph);  // before the seconds that looking for hits takes
    if (!why.empty()) return {{}, options.database + ": the graph cannot be timed: " + why, {}};
  }
  const Kernels kernels(options);
  std::set<std::string> lacking;
  std::map<std::string, std::shared_ptr<Runner>> known;  // by digest; null: not all are hits
  for (bool divided = true; divided;) {
    divided = false;
    hits.parts.clear();
    for (Region& region : regions_of(graph, options.excluded, lacking)) {
      if (options.trial && is_late(options)) {
        return {{}, "hits of " + options.database + " are not timed: " + late_text(options), {}};
      }
      const Rope onnx = onnx_of(graph, region);
      const std::string digest = digest_of(onnx);
      const auto [place, fresh] = known.try_emplace(digest);
      std::set<std::string> missing;
      try {
        const std::string text = fresh ? onnx.text() : "";
        const auto open = [&](size_t count, tw_model** models) {
          kernels.open(text, missing, count, models);
        };
        if (fresh) {
          place->second = std::make_shared<Runner>(
              graph.runtime(), options.database + " for " + digest, options, open);
        }
      } catch (const ProviderError& e) {
        if (hits.why.empty()) hits.why = options.database + ": " + e.what();
        for (const std::string& name : missing) divided = lacking.insert(name).second || divided;
      }
      if (place->second != nullptr) hits.parts.push_back({std::move(region), place->second});
    }
  }
  return hits;
}

void keep_winners(const GraphView& graph, const Options& options, Hits& hits) {
  std::vector<Part>& parts = hits.parts;
  if (parts.empty()) return;
  const auto count = [](size_t n) { return std::to_string(n) + (n == 1 ? " part" : " parts"); };
  const auto drop = [&](size_t kept, const std::string& lost) {
    hits.why =
        "the graph with " + count(parts.size()) + " on hits of " + options.database + " " + lost;
    if (kept > 0) hits.why += "; the best of them stay: " + count(kept);
    parts.resize(kept);
  };
  try {
    const Region whole = whole_of(graph).value();
    if (const size_t all = parts.size(); all > 1) {
      const size_t late = sort_out(graph, options, parts);
      if (parts.size() < all) {
        hits.why = std::to_string(all - parts.size() - late) + " of " + count(all) +
                   " on hits of " + options.database + " do not win by themselves";
      }
      if (late > 0) {
        hits.why += ", and " + std::to_string(late) +
                    " were not tried in half of the time that the option trial_seconds left";
      }
    }
    const Rope onnx = parts.empty() ? Rope() : onnx_of(graph, whole);
    while (!parts.empty()) {
      if (is_late(options)) {
        drop(0, "is not timed: " + late_text(options));
        break;
      }
      const Verdict verdict = race(graph, whole, onnx, parts, options, kGraphSeconds, kMostTime);
      const std::string lost = loss(verdict, options.tolerance);
      if (lost.empty()) {
        hits.ratio = verdict.ratio;
        break;
      }
      drop(parts.size() / 2, lost);
    }
  } catch (const ProviderError& e) {
    drop(0, std::string("cannot be timed: ") + e.what());
  }
}

}  // namespace tilewright::provider
