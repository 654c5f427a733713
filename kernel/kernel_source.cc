#include "kernel/kernel_source.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernel/kernel_abi.h"
#include "kernel/kernel_json.h"

namespace tilewright {
namespace {

using kernel_json::fail;
using kernel_json::field;
using kernel_json::member;
using kernel_json::size_field;
using nlohmann::json;

json function_to_json(const KernelFunction& f) {
  json params = json::array();
  for (const KernelParam& p : f.params) params.push_back(kernel_json::of_param(p));
  return {{"symbol", f.symbol},
          {"params", params},
          {"workspace_bytes", f.workspace_bytes},
          {"workspace_bytes_per_thread", f.workspace_bytes_per_thread}};
}

KernelFunction function_from_json(const json& j, const std::string& where, size_t dims) {
  KernelFunction f;
  f.symbol = field<std::string>(j, where, "symbol");
  const json& params = member(j, where, "params");
  if (!params.is_array()) fail(where, "key 'params' is no array");
  for (size_t i = 0; i < params.size(); ++i) {
    std::string place = where + ".params[" + std::to_string(i) + "]";
    f.params.push_back(kernel_json::param(params[i], place));
    const std::vector<KernelExtent>& shape = f.params.back().shape;
    for (size_t e = 0; e < shape.size(); ++e) {
      if (shape[e].factors.size() > dims || (shape[e].is_constant() && shape[e].offset < 1)) {
        fail(place, "extent " + params[i]["shape"][e].dump() +
                        " is neither positive nor -1-d of one of " + std::to_string(dims) +
                        " dynamic dimensions, nor a formula of them");
      }
    }
  }
  f.workspace_bytes = size_field(j, where, "workspace_bytes");
  f.workspace_bytes_per_thread = size_field(j, where, "workspace_bytes_per_thread");
  return f;
}

}  // namespace

std::string KernelDescription::to_json() const {
  json packed = json::array();
  for (const KernelFunction& f : packs) packed.push_back(function_to_json(f));
  json j = {{"abi", abi}, {"main", function_to_json(main)}, {"packs", packed}, {"dims", dims}};
  if (!features.empty()) j["features"] = features;
  if (!sizes.steps.empty()) j["sizes"] = kernel_json::of_sizes(sizes);
  return j.dump();
}

KernelDescription KernelDescription::from_json(const std::string& text) {
  const json j = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (j.is_discarded()) fail("text", "not JSON");
  KernelDescription d;
  d.abi = field<int>(j, "top level", "abi");
  if (d.abi != TW_KERNEL_ABI_VERSION) {
    fail("top level", "calling convention " + std::to_string(d.abi) + ", this build speaks " +
                          std::to_string(TW_KERNEL_ABI_VERSION));
  }
  d.dims = field<std::vector<std::string>>(j, "top level", "dims");
  if (j.contains("features")) {
    d.features = field<std::vector<std::string>>(j, "top level", "features");
  }
  if (j.contains("sizes")) d.sizes = kernel_json::sizes(j["sizes"], d.dims.size());
  d.main = function_from_json(member(j, "top level", "main"), "main", d.dims.size());
  const json& packs = member(j, "top level", "packs");
  if (!packs.is_array()) fail("top level", "key 'packs' is no array");
  for (size_t i = 0; i < packs.size(); ++i) {
    std::string where = "packs[" + std::to_string(i) + "]";
    d.packs.push_back(function_from_json(packs[i], where, d.dims.size()));
    if (d.packs.back().params.size() < 2) {
      fail(where, "a packing function takes a weight and what it fills, 2 parameters or more");
    }
  }
  return d;
}

}  // namespace tilewright
