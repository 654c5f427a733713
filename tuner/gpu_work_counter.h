// How gpu_work.cc counts: what a walk over one kernel knows.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda_async_op.h"
#include "codegen/cuda_mma.h"
#include "codegen/cuda_wgmma_nest.h"
#include "ir/simplify.h"
#include "ir/visitor.h"
#include "tuner/gpu_work.h"

namespace tilewright::emulator {
struct LaneAccess;
}

namespace tilewright::gpu_work_detail {

constexpr int kLanes = 32;

class Counter {
 public:
  Counter(const Program& program, const Target& target, const std::map<std::string, int64_t>& sizes)
      : target_(target) {
    for (const DimVar& d : program.dims) {
      const auto size = sizes.find(d.var.name());
      work_.values.set(d.var, size == sizes.end() ? d.max : size->second);
      known_.bind(d.var, Interval{d.min, d.max});
    }
  }

  GpuKernelWork count(const Stmt& kernel);

 private:
  void walk(const Stmt& s);
  void loop(const ForNode& n);
  void axis(const ForNode& n);
  void lanes(const ForNode& loop);
  void branch(const IfNode& n);
  std::optional<double> share_of(const Expr& cond);
  double trips_of(const ForNode& n);
  void keep_lengths(const ForNode& n);
  bool sample(const Expr& e, const std::function<void()>& fn);
  void padded(const SelectNode& n);
  void store(const StoreNode& n);
  void unpack(const StoreNode& n);
  void allocate(const AllocateNode& n);
  void use_own(const Buffer& b, int64_t elements);
  void evaluate(const Expr& e);
  void asynchronous(const AsyncOp& op);
  void part(const IfNode& n);
  void mma(const ForNode& n);
  void wgmma(const ForNode& n);
  void sequence(const SeqNode& n);
  void wait_for_group();
  void matrices(const MmaOperand& o, int64_t count, int per_load);
  void store_matrices(const ForNode& n);
  // The first byte of the element in its array: elsewhere where rows are swizzled.
  int64_t byte_of(const Buffer& b, int64_t element) const;

  // The loads and the arithmetic of a value.
  void value(const Expr& e);
  void power(const BinaryNode& difference);
  void binary(const BinaryNode& n);
  void under(const Expr& cond, bool holds, const Expr& e);
  void access(const Buffer& b, const Expr& index, bool is_store, bool is_async);
  // How often each of a load's places is named by iterations that compilers bring together.
  double repeats(const Expr& index) const;
  // The bytes that the active lanes of a warp reach.
  void reach(int warp, const Buffer& b, const Expr& index, int bytes,
             std::vector<emulator::LaneAccess>& at);
  // Sectors that a load of these bytes gets from the second-level cache: of those that it reads a part
  // of, the first-level cache has the rest when another warp or a next iteration of a loop around wants
  // it. On average over those that share most.
  double new_sectors(int warp, const Buffer& b, const Expr& index,
                     const std::vector<emulator::LaneAccess>& at);
  void issue(double instructions) { work_.instructions += instructions * warps() * times_; }

  // Those that run what is walked.
  int warps() const {
    return role_warps_ > 0 ? role_warps_ : (work_.threads + kLanes - 1) / kLanes;
  }
  bool is_active() const;
  // Calls `fn` for each active lane of a sampled warp.
  template <class F>
  void for_each_lane(int warp, const F& fn);
  std::vector<int> sampled_warps() const;
  void stand_at(int thread);

  const Target& target_;
  GpuKernelWork work_;
  Analyzer known_;
  std::vector<std::pair<Var, int>> thread_axes_;  // the fastest first
  struct Loop {
    Var var;
    int64_t min, trips;
    bool is_one = false;  // unrolled, and what it reads stays: compilers read the same place once
  };
  std::vector<Loop> loops_;
  std::map<const BufferNode*, int64_t> own_elements_;
  std::map<std::string, int> peeled_;             // registers of private arrays, by their names
  std::map<std::string, int64_t> swizzled_rows_;  // of shared arrays by their names
  VarMap lets_;                                   // variables in terms of loops and axes
  std::vector<std::pair<Expr, bool>> guards_;
  std::vector<std::pair<Expr, bool>> branches_;  // that all threads take, of those around
  double times_ = 1;                             // iterations of the loops around
  double rounds_ = 0;                            // global latencies since the last barrier
  bool has_barrier_ = false;
  bool is_rounded_ = false;                            // what is computed, to 16 bits
  bool has_pending_ = false;                           // groups of wgmma, which the next ones hide
  std::optional<WgmmaNest> asked_;                     // for by the statement that was walked
  bool from_shared_ = false, from_registers_ = false;  // operands A of wgmma that are waited for
  int64_t consumers_ = 0;      // threads that compute, where warps have roles
  int budget_ = 0;             // registers of theirs, where roles share these out
  int role_warps_ = 0;         // of the role that is walked
  bool copies_ahead_ = false;  // in the role that copies
  bool along_curve_ = false;   // blocks work their tiles out
};

}  // namespace tilewright::gpu_work_detail
