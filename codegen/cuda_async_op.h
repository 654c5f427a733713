// What threads of sm_90 say to mbarriers and to tensor copies, as statements of lowered programs. They
// are forms of the calls by which threads wait and copy (ir/expr.h), told apart by their arguments; an
// element of an array that is only named is a Load, as the address of a prefetch is.
//
//   barrier(mbarrier, arrivals)            makes an mbarrier whose phases take so many arrivals
//   barrier(mbarriers)                     shows those that the thread has made to copies
//   barrier(0)                             what the thread has done to shared memory comes before what
//                                          copies will do there, for whoever is told of it behind this
//   barrier(blocks)                        all threads of a cluster of so many blocks meet
//   barrier(number, threads)               so many threads of the block meet at the barrier of a number
//   barrier(0, 32)                         the lanes of a warp meet
//   async_commit(mbarrier, bytes)          arrives; the phase then takes so many bytes of copies, too
//   async_commit(mbarrier, bytes, rank)    arrives at the mbarrier of that block of the cluster
//   async_wait(mbarrier, parity)           until the phase of this parity has ended
//   async_wait(mbarrier, parity, blocks)   likewise, where so many blocks of a cluster arrive
//   prefetch(to, operand, mbarrier, …)     a box of an operand to shared memory; its bytes count there
//   prefetch(to, operand, mbarrier, …, blocks)   likewise to the same place of so many blocks of the
//                                          cluster, of all, and counted by the mbarrier of each
//   prefetch(to, operand, rank, mbarrier, …)   windows of an operand (BoxPixels), likewise
//   prefetch(to, element, mbarrier, bytes)     so many neighbouring bytes of an operand, from an element
//                                          on, to shared memory, likewise
//   async_commit(from, operand, …)         a box of shared memory to an operand, a group of its own
//   async_wait(array)                      until such groups of the thread have read shared memory
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

/// What a copy of windows says besides, of each dimension of an image, the outermost first: offsets to the
/// element of the filter, and the bounding box and the steps of its map (PixelBox, codegen/tensor_map.h).
struct BoxPixels {
  std::vector<Expr> offsets;
  std::vector<int64_t> lower, upper, steps;
};

/// The box of an operand that one tensor copy moves. Dimensions are outermost first, as those of the
/// operand that the schedule knows: rows of its dense array.
struct TensorBox {
  std::vector<Expr> at;      ///< the first element; beyond the operand there are zeros
  std::vector<Expr> dims;    ///< the operand's extents
  std::vector<int64_t> box;  ///< elements; of windows pixels in the place of the width
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
  Expr barrier;  ///< a Load: of all but Store, WaitStores and the barriers of threads
  Expr count;    ///< arrivals, bytes, or the parity; of NamedBarrier its number
  int64_t threads = 0;
  Expr shared;     ///< a Load: the first element in shared memory; of Load…, Store and WaitStores
  Buffer operand;  ///< in global memory; of Load and Store
  TensorBox box;
  int64_t blocks = 1;  ///< of ClusterBarrier, WaitPhase and Load: of the cluster that take part
  Expr rank = {};      ///< of Arrive: in which block of the cluster; undefined: its own
  Expr element = {};   ///< a Load: the first element in global memory; of LoadBytes
};

/// The form that a call is; nothing for other calls.
std::optional<AsyncOp> async_op(const Expr& call);
std::optional<AsyncOp> async_op(const Stmt& statement);

Stmt make_mbarrier(const Expr& barrier, int64_t arrivals);
Stmt show_mbarriers(const Expr& barriers);
Stmt fence_async();
Stmt named_barrier(int64_t number, int64_t threads);
Stmt warp_barrier();
Stmt cluster_barrier(int64_t blocks);
/// `bytes` of 0: an arrival alone.
Stmt arrive(const Expr& barrier, const Expr& bytes);
/// At the mbarrier at the same place in another block of the cluster.
Stmt arrive_at(const Expr& barrier, const Expr& rank);
/// Blocks other than its own may arrive where `blocks` is more than 1.
Stmt wait_phase(const Expr& barrier, const Expr& parity, int64_t blocks = 1);
Stmt load_box(const Expr& to, const Buffer& operand, const Expr& barrier, const TensorBox& box,
              int64_t blocks = 1);
/// `bytes` a multiple of 16, like both places.
Stmt load_bytes(const Expr& to, const Expr& from, const Expr& barrier, int64_t bytes);
Stmt store_box(const Expr& from, const Buffer& operand, const TensorBox& box);
Stmt wait_stores(const Expr& array);

}  // namespace tilewright
