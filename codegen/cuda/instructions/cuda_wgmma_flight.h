// Software pipelining within a warpgroup: groups of asynchronous matrix instructions (wgmma) that
// run beside other statements.
//
// A marked nest in a pipelined loop (codegen/cuda/instructions/cuda_wgmma_nest.h) may be annotated kWgmmaBehindKey.
// Its group is issued an iteration later, behind the groups of that iteration. The statements that
// use the accumulators of these groups then run beside it:
//
//   for j in 0..n @{copies: "roles", pipeline_stages: 3} {
//     S = Q * K[j]   P = exp(S - …)   H = P   O = O * …
//     for k in 0..8 @{instruction: "…", wgmma_behind: 1} { O += H * V[j] }}
//   ->  S = Q * K[0]   P = exp(S - …)   O = O * …   H = P
//       for j in 1..n { S = Q * K[j]   O += H * V[j - 1]   P = exp(S - …), with O on its way
//                       O = O * …   H = P }
//       O += H * V[n - 1]
//
// This is the pipelining within a warpgroup of Shah et al., "FlashAttention-3", 2024.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/instructions/cuda_wgmma_nest.h"

namespace tilewright {

inline constexpr const char* kWgmmaBehindKey = "wgmma_behind";
/// Whether the loop is so annotated.
bool is_wgmma_behind(const ForNode& loop);

/// The lines that issue the nest's group, with nothing that waits for it: the lines of a
/// WgmmaFlight do.
std::vector<std::string> wgmma_issue_lines(const WgmmaNest& nest, CudaExpr& expr);
/// The lines that keep compilers from touching the nest's registers before they have been waited
/// for.
std::vector<std::string> wgmma_hold_lines(const WgmmaNest& nest, CudaExpr& expr);

/// "tw_wgmma_hold(…);", or another function of all packed registers of an operand.
std::string wgmma_operand_line(const char* function, const Buffer& operand, CudaExpr& expr);

/// Whether a statement may run while the nest's group is in flight. It must use registers alone,
/// read no accumulator, and change neither these nor an operand A. The group of a nest that is
/// annotated kWgmmaBehindKey may follow where it has other accumulators.
bool runs_beside(const Stmt& s, const WgmmaNest& nest);

/// The groups in flight at a place of a kernel, in the order in which they were issued.
class WgmmaFlight {
 public:
  bool is_empty() const { return nests_.empty(); }
  /// The lines of the group of a loop, which `next` follows where it is defined. They wait for it,
  /// unless `next` may run beside it, or an outer loop leaves it pending.
  std::vector<std::string> group_lines(const WgmmaNest& nest, const ForNode& loop, const Stmt& next,
                                       CudaExpr& expr);
  /// Begins a loop that leaves groups pending: each is waited for behind the next one.
  void begin_pending() { is_pending_ = true; }
  /// The lines behind the loop, which wait for its last groups.
  std::vector<std::string> end_pending(CudaExpr& expr);
  /// The lines that wait for those groups that the statement may not run beside.
  std::vector<std::string> wait_for(const Stmt& s, CudaExpr& expr);
  /// The lines that wait for all of them.
  std::vector<std::string> end(CudaExpr& expr) { return wait_for_first(nests_.size(), expr); }

 private:
  std::vector<std::string> wait_for_first(size_t count, CudaExpr& expr);

  std::vector<WgmmaNest> nests_;
  bool is_pending_ = false;         // under a loop that leaves groups pending
  std::vector<WgmmaNest> pending_;  // its groups, once they are printed
  // Operands of the next software-pipelined group, which are made while this one is in flight.
  std::vector<Buffer> made_;
  bool makes_operands_ = false;
};

}  // namespace tilewright
