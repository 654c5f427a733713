#include "codegen/cuda/cuda_roles.h"

#include <algorithm>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

constexpr int64_t kGroup = 128;
constexpr int64_t kUnit = 8;  // registers, the unit of setmaxnreg
constexpr int64_t kLeast = 24, kBusy = 40, kMost = 240;

int64_t whole_units(int64_t registers) { return registers / kUnit * kUnit; }

}  // namespace

RoleBudget role_budget(int64_t consumers, const GpuFacts& gpu, bool busy) {
  if (consumers <= kGroup) return {consumers, kWarp};
  RoleBudget budget{consumers, kGroup};
  const int64_t start = whole_units(gpu.registers_per_sm / budget.threads());
  budget.producer_registers = busy ? kBusy : kLeast;
  const int64_t left = start * budget.threads() - budget.producer_registers * budget.producers;
  budget.consumer_registers = std::min(kMost, whole_units(left / consumers));
  return budget;
}

RoleBudget budget_of_all(int64_t threads, const GpuFacts& gpu) {
  return role_budget(threads - kGroup, gpu);
}

bool has_registers_for(const RoleBudget& b, int64_t compiled_registers) {
  if (b.consumer_registers == 0) return true;
  const int64_t wanted = b.consumers * b.consumer_registers + b.producers * b.producer_registers;
  return wanted <= compiled_registers * b.threads();
}

}  // namespace tilewright
