#include "cli/run/checked_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernel/cuda_description.h"
#include "runtime/check/check_points.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StoredSizes {
  SizeFacts facts;
  CheckBudget budget;
};

// Only descriptions of GPU kernels have a "kind". Their kernels have no tails of their own.
StoredSizes sizes_of(const database::Artifact& artifact) {
  const Json stored = Json::parse(artifact.description, nullptr, /*allow_exceptions=*/false);
  if (stored.is_object() && stored.contains("kind")) {
    return {CudaDescription::from_json(artifact.description).source.sizes, {.has_tails = false}};
  }
  return {KernelDescription::from_json(artifact.description).sizes, {.has_tails = true}};
}

// "7", of several dimensions "(7, 16)".
std::string text_of(const Json& sizes) {
  std::vector<int64_t> values;
  for (const Json& size : sizes) values.push_back(size.get<int64_t>());
  return values.size() == 1 ? std::to_string(values[0])
                            : fmt::format("({})", fmt::join(values, ", "));
}

}  // namespace

Json checked_sizes(const Workload& workload, const database::Artifact& artifact, bool predicted) {
  if (workload.dims.empty()) return nullptr;
  const auto [facts, budget] = sizes_of(artifact);
  const bool known = !facts.steps.empty();
  Json j = {{"accesses", known ? Json(facts.accesses) : Json(nullptr)},
            {"proved", known ? Json(facts.proved) : Json(nullptr)},
            {"checked", Json::array()}};
  if (predicted) return j;
  for (const auto& dims : check_points(workload, facts, budget)) j["checked"].push_back(dims);
  j["checked"].push_back(largest_sizes(workload));
  std::sort(j["checked"].begin(), j["checked"].end());
  return j;
}

std::string checked_text(const Workload& workload, const Json& checked) {
  std::string text;
  if (!checked["proved"].is_null()) {
    text = fmt::format("bounds: {} of {} accesses proved for all sizes",
                       checked["proved"].get<int>(), checked["accesses"].get<int>());
  }
  if (checked["checked"].empty()) return text;
  std::vector<std::string> names, sizes;
  for (const auto& [name, size] : largest_sizes(workload)) names.push_back(name);
  for (const Json& dims : checked["checked"]) sizes.push_back(text_of(dims));
  return fmt::format("{}{}checked at {} = {}", text, text.empty() ? "" : "; ",
                     names.size() == 1 ? names[0] : fmt::format("({})", fmt::join(names, ", ")),
                     fmt::join(sizes, ", "));
}

}  // namespace tilewright::cli
