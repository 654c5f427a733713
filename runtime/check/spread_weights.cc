#include "runtime/check/spread_weights.h"

#include <algorithm>
#include <cstring>

namespace tilewright {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int64_t kMostCopies = 256;

// Places among the arguments of the kernel's main function that hold one of these constants.
std::vector<size_t> places_of(const BoundKernel& kernel, const std::vector<std::string>& names) {
  const KernelDescription& d = kernel.kernel().description();
  const auto is_constant = [&](const KernelParam& p) {
    return std::ranges::count(names, p.name) > 0;
  };
  std::vector<size_t> places;
  for (size_t i = 0; i < d.main.params.size(); ++i) {
    const KernelParam& param = d.main.params[i];
    const bool packed = std::ranges::any_of(d.packs, [&](const KernelFunction& pack) {
      return pack.params.back().name == param.name &&
             std::any_of(pack.params.begin(), pack.params.end() - 1, is_constant);
    });
    if (packed || is_constant(param)) places.push_back(i);
  }
  return places;
}

}  // namespace

SpreadWeights::SpreadWeights(const BoundKernel& kernel, const SpreadOperands& operands)
    : kernel_(kernel), args_{kernel.args()} {
  const std::vector<size_t> places = places_of(kernel, operands.names);
  int64_t own = 0;
  for (size_t p : places) own += kernel.bytes_of_arg(p);
  const int64_t wanted = std::min(operands.bytes, kMostBytes);
  if (own == 0 || wanted < 2 * own) return;
  args_.resize(static_cast<size_t>(std::min(wanted / own, kMostCopies)), kernel.args());
  for (size_t copy = 1; copy < args_.size(); ++copy) {
    for (size_t p : places) {
      const auto bytes = static_cast<size_t>(kernel.bytes_of_arg(p));
      memory_.emplace_back(static_cast<int64_t>(bytes));
      std::memcpy(memory_.back().data(), args_[0][p], bytes);
      args_[copy][p] = memory_.back().data();
    }
  }
}

void SpreadWeights::run() {
  kernel_.run(args_[turn_].data());
  turn_ = (turn_ + 1) % args_.size();
}

}  // namespace tilewright
