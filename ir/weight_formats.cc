#include "ir/weight_formats.h"

#include <algorithm>
#include <string>

#include "ir/buffer.h"
#include "ir/compare.h"

namespace tilewright {
namespace {

const Param* find_input(const Workload& workload, const std::string& name) {
  auto at =
      std::ranges::find_if(workload.inputs, [&](const Param& p) { return p.buffer->name == name; });
  return at == workload.inputs.end() ? nullptr : &*at;
}

bool are_alike(const Param& a, const Param& b) {
  const auto same = [](const Expr& x, const Expr& y) { return equal(x, y); };
  return a.role == b.role && a.buffer->elem == b.buffer->elem &&
         std::ranges::equal(a.buffer->shape, b.buffer->shape, same);
}

}  // namespace

std::vector<WeightFormat> weight_formats(const Workload& workload) {
  if (!workload.weight) return {};
  const WeightFormat& first = *workload.weight;
  std::vector<WeightFormat> formats = {first};
  // Finds the buffer that corresponds to `of` for `weight`; true when it exists and is alike.
  auto has_alike = [&](const std::string& weight, const std::string& of, std::string* name) {
    if (of.empty()) return true;
    *name = weight + of.substr(first.weight.size());
    const Param* own = find_input(workload, *name);
    return own && are_alike(*own, *find_input(workload, of));
  };
  for (const Param& p : workload.inputs) {
    const std::string& name = p.buffer->name;
    WeightFormat next = first;
    next.weight = name;
    const bool is_further =
        name != first.weight && are_alike(p, *find_input(workload, first.weight));
    if (is_further && has_alike(name, first.scale, &next.scale) &&
        has_alike(name, first.zero, &next.zero) && has_alike(name, first.offset, &next.offset)) {
      formats.push_back(std::move(next));
    }
  }
  return formats;
}

}  // namespace tilewright
