// The counter behind gpu_work.cc: the state of a walk over one kernel.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_async_op.h"
#include "codegen/cuda/cuda_kernel.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "kernel/instructions/mma_rows.h"
#include "tuner/gpu/gpu_work.h"
#include "tuner/gpu/gpu_work_lengths.h"

namespace tilewright::emulator {
struct LaneAccess;
}

namespace tilewright::gpu_work_detail {

inline constexpr int64_t kPassBytes = 128;  // through the banks of shared memory

class Counter {
 public:
  Counter(const Program& program, const Stmt& kernel, const Target& target,
          const std::map<std::string, int64_t>& sizes)
      : target_(target) {
    for (const DimVar& d : program.dims) {
      const auto size = sizes.find(d.var.name());
      work_.values.set(d.var, size == sizes.end() ? d.max : size->second);
      known_.bind(d.var, Interval{d.min, d.max});
    }
    kernel_ = match_kernel(with_longest_lengths(kernel, known_), program.dims, target);
  }

  GpuKernelWork count();

 private:
  void walk(const Stmt& s);
  void loop(const ForNode& n);
  void axis(const ForNode& n);
  // Work that loops with products contain.
  struct Beside {
    double instructions = 0, passes = 0;
  };
  struct Beginning {
    double instructions, passes, mma_operations;
    size_t accesses;
    Beside beside;
    bool waits_for_stage;
  };
  Beginning begin_loop();
  void end_loop(const Beginning& b, double times_around);
  void count_transfers();
  void count_bare();
  void branch(const IfNode& n);
  std::optional<double> share_of(const Expr& cond);
  double trips_of(const ForNode& n);
  std::pair<double, bool> average_trips(const Expr& extent);
  void keep_lengths(const ForNode& n);
  bool sample(const Expr& e, const std::function<void()>& fn);
  void padded(const SelectNode& n);
  void store(const StoreNode& n);
  void unpack(const StoreNode& n);
  void allocate(const AllocateNode& n);
  void use_own(const Buffer& b, int64_t elements);
  void evaluate(const Expr& e);
  void asynchronous(const Expr& e);
  void transfer(const TensorTransfer& copy);
  void part(const IfNode& n);
  void instruction(const InstructionNest& nest);
  void shuffle(const ShuffleNest& nest);
  void mma(const MmaNest& nest);
  void wgmma(const WgmmaNest& nest);
  void sequence(const SeqNode& n);
  void wait_for_group();
  void wait_for_stage(double ahead);
  void matrices(const MmaOperand& o, int64_t count, int per_load);
  void store_matrices(const StmatrixNest& nest);
  // The byte offset of the element in its array, after swizzling.
  int64_t byte_of(const Buffer& b, int64_t element) const;

  // Counts the loads and the arithmetic of a value.
  void value(const Expr& e);
  void power(const BinaryNode& difference);
  void binary(const BinaryNode& n);
  void under(const Expr& cond, bool holds, const Expr& e);
  void access(const Buffer& b, const Expr& index, bool is_store, bool is_async);
  // How often iterations that compilers merge load the same address.
  double repeats(const Expr& index) const;
  // Adds the bytes that the active lanes of a warp touch.
  void reach(int warp, const Buffer& b, const Expr& index, int bytes,
             std::vector<emulator::LaneAccess>& at);
  // Sectors that a load of these bytes requests from L2. L1 serves the rest of a partly read sector
  // when another warp or a later iteration of an enclosing loop wants it. The average over the
  // warps or iterations that share most.
  double new_sectors(int warp, const Buffer& b, const Expr& index,
                     const std::vector<emulator::LaneAccess>& at);
  void issue(double instructions) { work_.instructions += instructions * warps() * place_.times; }

  // Warps that execute the current statement.
  int warps() const {
    return role_.warps > 0 ? role_.warps : static_cast<int>(ceil_div(work_.threads, kWarp));
  }
  bool is_active() const;
  // Calls `fn` for each active lane of a sampled warp.
  template <class F>
  void for_each_lane(int warp, const F& fn);
  std::vector<int> sampled_warps() const;
  void stand_at(int thread);

  const Target& target_;
  CudaKernel kernel_;
  GpuKernelWork work_;
  Analyzer known_;
  bool is_rounded_ = false;  // the current value, to 16 bits

  struct Loop {
    Var var;
    int64_t min, trips;
    bool is_one = false;  // unrolled, memory unchanged: compilers load an address once
  };
  // The place of the current statement in the kernel.
  struct Place {
    std::vector<std::pair<Var, int>> thread_axes;  // fastest first
    std::vector<Loop> loops;
    VarMap lets;  // values in terms of loops and axes
    std::vector<std::pair<Expr, bool>> guards;
    std::vector<std::pair<Expr, bool>> branches;  // enclosing branches that threads do not decide
    double times = 1;                             // iterations of the enclosing loops
  } place_;
  // Private arrays, which compilers keep in registers.
  struct Registers {
    std::map<const BufferNode*, int64_t> own;  // elements in use
    std::map<std::string, int> peeled;         // registers by the array's name
  } registers_;
  // Since the last barrier.
  struct Waits {
    double rounds = 0;  // global latencies
    bool has_barrier = false;
  } waits_;
  // Asynchronous matrix instructions.
  struct Products {
    bool has_pending = false;                          // groups hidden by the next ones
    bool from_shared = false, from_registers = false;  // A operands waited for
    std::optional<WgmmaNest> asked;                    // of the statement just walked
    Beside beside;
  } products_;
  // Warp specialization.
  struct Role {
    int64_t consumers = 0;      // threads; 0 without it
    int budget = 0;             // registers per consumer thread (setmaxnreg)
    int warps = 0;              // of the current role; 0: no role
    bool copies_ahead = false;  // inside the producer role
  } role_;
  struct Order {
    bool along_curve = false;  // blocks compute their tile along a curve
    bool in_cluster = false;   // blocks run in clusters
  } order_;
  // Rings of asynchronous copies.
  struct Rings {
    double received = 0;  // bytes
    double ahead = 1, stages_read = 0;
    double fills = 1;    // how often a ring starts empty
    bool waits = false;  // for a stage, in the current loop
  } rings_;
};

}  // namespace tilewright::gpu_work_detail
