// Operations of sm_90 threads on mbarriers and TMA copies, as statements of lowered programs. They
// are forms of the calls by which threads wait and copy (ir/expr.h), told apart by their arguments.
// An element of an array that is only named is a Load, as the address of a prefetch is.
//
//   barrier(mbarrier, arrivals)            initializes an mbarrier whose phases take so many
//                                          arrivals
//   barrier(mbarriers)                     shows those that the thread has initialized to copies
//   barrier(0)                             proxy fence: the thread's earlier accesses to shared
//                                          memory come before those of copies, for whoever is told
//                                          of it after this
//   barrier(blocks)                        all threads of a cluster of so many blocks meet
//   barrier(blocks, mbarriers)             the same, which shows others these mbarriers and nothing
//                                          else
//   barrier(number, threads)               so many threads of the block meet at the named barrier
//   barrier(0, 32)                         the lanes of a warp meet
//
//   async_commit(mbarrier, bytes)          arrives; the phase then expects so many bytes of copies,
//                                          too
//   async_commit(mbarrier, bytes, rank)    arrives at the mbarrier of that block of the cluster
//   async_wait(mbarrier, parity)           waits until the phase of this parity has ended
//
//   prefetch(to, operand, mbarrier, …)     TMA load: a tile of an operand to shared memory; the
//                                          mbarrier counts its bytes
//   prefetch(to, operand, mbarrier, …, blocks)
//                                          multicast: the same, to the same place of all of so many
//                                          blocks of the cluster; the mbarrier of each counts it
//   prefetch(to, operand, rank, mbarrier, …)
//                                          im2col TMA load (BoxPixels), likewise
//   prefetch(to, element, mbarrier, bytes)
//                                          1-D bulk copy: so many contiguous bytes of an operand,
//                                          from an element on, to shared memory, likewise
//   async_commit(from, operand, …)         TMA store: a tile of shared memory to an operand, in a
//                                          bulk group of its own
//   async_wait(array)                      waits until such groups of the thread have read shared
//                                          memory
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

/// Additional data of an im2col copy, per dimension of an image, the outermost first. They are
/// offsets to the element of the filter, and the bounding box and the steps of its map (PixelBox,
/// kernel/tensor_map.h).
struct BoxPixels {
  std::vector<Expr> offsets;
  std::vector<int64_t> lower, upper, steps;
};

/// The TMA tile of an operand that one copy moves. Dimensions are outermost first, as the schedule
/// knows the operand: rows of its dense array.
struct TensorBox {
  std::vector<Expr> at;      ///< the first element; beyond the operand there are zeros
  std::vector<Expr> dims;    ///< the operand's extents
  std::vector<int64_t> box;  ///< elements; for im2col, pixels in the place of the width
  std::optional<BoxPixels> pixels = {};

  int64_t elements() const;
};

struct AsyncOp {
  enum class Kind : uint8_t {
    MakeBarrier,
    ShowBarriers,
    Fence,
    NamedBarrier,
    WarpBarrier,
    ClusterBarrier,
    Arrive,
    WaitPhase,
    Load,
    LoadBytes,
    Store,
    WaitStores
  };
  Kind kind;
  Expr barrier;  ///< a Load: in all but Store, WaitStores and the barriers of threads
  Expr count;    ///< arrivals, bytes, or the parity; for NamedBarrier its number
  int64_t threads = 0;
  Expr shared;     ///< a Load: the first element in shared memory; in Load…, Store and WaitStores
  Buffer operand;  ///< in global memory; for Load and Store
  TensorBox box;
  int64_t blocks = 1;  ///< in the cluster, that take part; for ClusterBarrier and Load
  Expr rank = {};      ///< for Arrive: the target block in the cluster; undefined: its own
  Expr element = {};   ///< a Load: the first element in global memory; for LoadBytes
};

/// The form that a call has; nothing for other calls.
std::optional<AsyncOp> async_op(const Expr& call);
std::optional<AsyncOp> async_op(const Stmt& statement);

Stmt make_mbarrier(const Expr& barrier, int64_t arrivals);
Stmt show_mbarriers(const Expr& barriers);
Stmt fence_async();
Stmt named_barrier(int64_t number, int64_t threads);
Stmt warp_barrier();
Stmt cluster_barrier(int64_t blocks);
/// The same where others need to see nothing but these mbarriers, which show_mbarriers() is before.
Stmt cluster_barrier_of(const Expr& barriers, int64_t blocks);
/// `bytes` of 0: an arrival alone.
Stmt arrive(const Expr& barrier, const Expr& bytes);
/// Arrives at the mbarrier at the same place in another block of the cluster.
Stmt arrive_at(const Expr& barrier, const Expr& rank);
/// Waits until the phase has ended, whichever blocks of the cluster arrive.
Stmt wait_phase(const Expr& barrier, const Expr& parity);
Stmt load_box(const Expr& to, const Buffer& operand, const Expr& barrier, const TensorBox& box,
              int64_t blocks = 1);
/// `bytes` is a multiple of 16, as are both addresses.
Stmt load_bytes(const Expr& to, const Expr& from, const Expr& barrier, int64_t bytes);
Stmt store_box(const Expr& from, const Buffer& operand, const TensorBox& box);
Stmt wait_stores(const Expr& array);

}  // namespace tilewright
