#include "tuner/rules/gpu/weight/gpu_wgmma_packed_row.h"

#include "kernel/instructions/sparse_wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/weight/gpu_wgmma_packed.h"

namespace tilewright {
namespace {}  // namespace

const WgmmaRow* wgmma_packed_row(const RuleContext& c, const Packable& w, int64_t n) {
  auto fits = [&](const WgmmaRow& row) {
    const MmaRow& types = row.warp;
    return types.operand == w.operand && types.b_operand() == w.operand && types.acc == w.row.acc &&
           !types.tf32 && row.n() == n && types.runs_on(c.input.target.gpu.compute_capability);
  };
  if (w.sparse) {
    for (const SparseWgmmaRow& row : sparse_wgmma_rows()) {
      if (fits(row.whole())) return &row.whole();
    }
    return nullptr;
  }
  for (const WgmmaRow& row : wgmma_rows()) {
    if (fits(row)) return &row;
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
  const bool is_many = most(roles.i) > kRows && most(roles.j) >= WgmmaRow::m;
  if (!is_many || weight.gathers() || wgmma_packed_chunk(weight) == 0) return "";
  const WgmmaRow* row = wgmma_packed_row(c, weight, kAnyRows);
  if (!row) return "";
  const std::string name(row->warp.name);
  const std::string types = name.substr(name.find('_', name.find('m')));
  return (weight.sparse ? "wgmma_sp" : "wgmma") + types;
}

}  // namespace tilewright
