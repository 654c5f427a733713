#include "provider/hits.h"

#include <algorithm>
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
  tw_model* open(const std::string& onnx, std::set<std::string>& missing) const {
    auto options = TW_INIT(tw_model_options);
    options.threads = options_.threads;
    const auto add = [](void* user, const char* node) {
      static_cast<std::set<std::string>*>(user)->insert(node);
    };
    tw_model* model = nullptr;
    check_tw(tw_model_of_hits(library_, onnx.data(), onnx.size(), &options, add, &missing, &model));
    return model;
  }

 private:
  const Options& options_;
  tw_library* library_ = nullptr;
};

// An input of open sizes; "": there is none.
std::string open_input(const GraphView& graph, const Region& whole) {
  for (const std::string& input : whole.inputs) {
    const ValueType type = graph.type(input);
    const auto is_open = [](int64_t size) { return size < 0; };
    if (!type.has_shape || std::ranges::any_of(type.sizes, is_open)) return input;
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

// The parts that win by themselves, the best first.
void sort_out(const GraphView& graph, const Options& options, std::vector<Part>& parts) {
  std::vector<std::pair<double, Part>> winners;
  for (Part& part : parts) {
    const Verdict verdict =
        race(graph, part.region, onnx_of(graph, part.region), {part}, options, kPartSeconds, 0);
    if (!loss(verdict, options.tolerance).empty()) continue;
    winners.emplace_back(verdict.ratio, std::move(part));
  }
  std::ranges::stable_sort(winners, {}, &std::pair<double, Part>::first);
  parts.clear();
  for (auto& [ratio, part] : winners) parts.push_back(std::move(part));
}

}  // namespace

Hits find_hits(const GraphView& graph, const Options& options) {
  Hits hits;
  const Kernels kernels(options);
  std::set<std::string> excluded = options.excluded;
  std::map<std::string, std::shared_ptr<Runner>> known;  // by digest; null: not all are hits
  for (bool divided = true; divided;) {
    divided = false;
    hits.parts.clear();
    for (Region& region : regions_of(graph, excluded)) {
      const Rope onnx = onnx_of(graph, region);
      const std::string digest = digest_of(onnx);
      const auto [place, fresh] = known.try_emplace(digest);
      std::set<std::string> missing;
      try {
        const std::string text = fresh ? onnx.text() : "";
        const auto open = [&] { return kernels.open(text, missing); };
        if (fresh) {
          place->second = std::make_shared<Runner>(
              graph.runtime(), options.database + " for " + digest, options, open);
        }
      } catch (const ProviderError& e) {
        if (hits.why.empty()) hits.why = options.database + ": " + e.what();
        for (const std::string& name : missing) divided = excluded.insert(name).second || divided;
      }
      if (place->second != nullptr) hits.parts.push_back({std::move(region), place->second});
    }
  }
  return hits;
}

std::string keep_winners(const GraphView& graph, const Options& options, std::vector<Part>& parts) {
  if (parts.empty()) return "";
  std::string why;
  const auto drop = [&](size_t kept, const std::string& lost) {
    why = "the graph with " + std::to_string(parts.size()) + " parts on hits of " +
          options.database + " " + lost;
    parts.resize(kept);
  };
  try {
    const std::optional<Region> whole = whole_of(graph);
    const std::string open = whole ? open_input(graph, *whole) : "";
    if (!whole) drop(0, "cannot be timed: some of its nodes hold graphs");
    if (!open.empty()) drop(0, "cannot be timed: input '" + open + "' has open sizes");
    if (parts.size() > 1) {
      sort_out(graph, options, parts);
      if (parts.empty()) why = "no part on hits of " + options.database + " wins by itself";
    }
    const Rope onnx = parts.empty() ? Rope() : onnx_of(graph, *whole);
    while (!parts.empty()) {
      const Verdict verdict = race(graph, *whole, onnx, parts, options, kGraphSeconds, kMostTime);
      const std::string lost = loss(verdict, options.tolerance);
      if (lost.empty()) break;
      drop(parts.size() / 2, lost);
    }
  } catch (const ProviderError& e) {
    drop(0, std::string("cannot be timed: ") + e.what());
  }
  return why;
}

}  // namespace tilewright::provider
