#include "tuner/rules/gpu/weight/gpu_wgmma_packed_row.h"

#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/weight/gpu_wgmma_packed.h"

namespace tilewright {
const Instruction* wgmma_packed_row(const RuleContext& c, const Packable& w, int64_t n) {
  for (const Instruction& row : w.sparse ? sparse_wgmma_rows() : wgmma_rows()) {
    const bool typed = row.operand == w.operand && row.b_operand() == w.operand &&
                       row.acc == w.row.acc && !row.tf32;
    if (typed && row.n == n && row.runs_on(c.input.target.gpu.compute_capability)) return &row;
  }
  return nullptr;
}

int64_t wgmma_packed_chunk(const Packable& w) {
  int64_t terms = kSpanBytes * 8 / bits_of(w.operand);
  while (terms >= w.terms() && w.group % terms != 0) terms /= 2;
  return terms >= w.terms() ? terms : 0;
}

std::string gpu_wgmma_packed_way(RuleContext& c, const Block& block, const GpuRoles& roles,
                                 const Packable& weight) {
  constexpr int64_t kRows = 8;  // up to here warp instructions need no padding either
  constexpr int kAnyRows = 64;
  const BlockNode& n = c.s.node(block);
  auto most = [&](int iter) {
    return largest_extent(c.s, n.iters[static_cast<size_t>(iter)].extent);
  };
  const bool is_many = most(roles.i) > kRows && most(roles.j) >= kWarpgroupRows;
  if (!is_many || weight.gathers() || wgmma_packed_chunk(weight) == 0) return "";
  const Instruction* row = wgmma_packed_row(c, weight, kAnyRows);
  if (!row) return "";
  const std::string name(row->name);
  const std::string types = name.substr(name.find('_', name.find('m')));
  return (weight.sparse ? "wgmma_sp" : "wgmma") + types;
}

}  // namespace tilewright
