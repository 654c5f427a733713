#include "cli/sizes.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "cli/command.h"

namespace tilewright::cli {
namespace {

std::pair<std::string, int64_t> parse(const std::string& text) {
  size_t equals = text.find('=');
  std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  int64_t size = 0;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  bool whole = error == std::errc() && end == number.data() + number.size();
  if (!whole || equals == 0) {
    throw UsageError(fmt::format("--dim {}: expected NAME=SIZE, as in m=16", text));
  }
  return {text.substr(0, equals), size};
}

const DimVar* find(const Workload& workload, const std::string& name) {
  auto found = std::find_if(workload.dims.begin(), workload.dims.end(),
                            [&](const DimVar& d) { return d.var.name() == name; });
  return found == workload.dims.end() ? nullptr : &*found;
}

std::string dynamic_dimensions(const std::vector<Workload>& workloads) {
  std::string names;
  for (const Workload& w : workloads) {
    for (const DimVar& d : w.dims) {
      std::string range = fmt::format("{} ({} to {})", d.var.name(), d.min, d.max);
      if (names.find(range) == std::string::npos) names += (names.empty() ? "" : ", ") + range;
    }
  }
  return names.empty() ? "none" : names;
}

}  // namespace

void Sizes::add_to(CLI::App& app) {
  app.add_option("--dim", given_,
                 "NAME=SIZE: size of a dynamic dimension; default: the largest")
      ->take_all()
      ->allow_extra_args(false);  // what follows is the spec
}

void Sizes::require_known(const std::vector<Workload>& workloads) const {
  for (const std::string& text : given_) {
    auto [name, size] = parse(text);
    bool known = false;
    for (const Workload& w : workloads) {
      const DimVar* dim = find(w, name);
      known |= dim != nullptr;
      if (dim != nullptr && (size < dim->min || size > dim->max)) {
        throw UsageError(
            fmt::format("--dim {}: '{}' goes from {} to {}", text, name, dim->min, dim->max));
      }
    }
    if (!known) {
      throw UsageError(fmt::format("--dim {}: '{}' is no dynamic dimension; there are: {}", text,
                                   name, dynamic_dimensions(workloads)));
    }
  }
}

std::map<std::string, int64_t> Sizes::of(const Workload& workload) const {
  std::map<std::string, int64_t> sizes = largest_sizes(workload);
  for (const std::string& text : given_) {
    auto [name, size] = parse(text);
    if (sizes.count(name) > 0) sizes[name] = size;
  }
  return sizes;
}

}  // namespace tilewright::cli
