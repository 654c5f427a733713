// Lowering for GPUs: from a scheduled program of blocks to the code of one thread of each kernel.
//
// A kernel is a nest of the program's outermost level. Its loops that are bound to block axes
// become the grid; its loops that are bound to thread axes become the threads of a block. All of
// these are the same threads, so that loops that stand side by side share their work among them:
//
//   for i in 0..8 block_x {
//     for t in 0..64 thread_x { S[t] = … }
//     for u in 0..64 thread_x { … = S[63 - u] }
//   }
//   ->  for bx in 0..8 block_x { for tx in 0..64 thread_x { S[tx] = …; barrier; … = S[63 - tx] } }
#pragma once

#include <string>
#include <vector>

#include "codegen/lowering.h"
#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

// The passes for a CUDA target in order, named and kept to as cpu_passes() are.
const std::vector<Pass>& cuda_passes();

// Runs all passes. Each statement of the result's outermost sequence is a kernel; around the
// sequence stand the allocations of buffers that kernels hand on. A kernel is loops over block
// axes, allocations in shared memory, loops over thread axes, and the code of one thread. The
// interpreter runs it, with threads that meet at barriers; only matrix instructions have no meaning
// to it.
Program lower_for_cuda(const Program& program, const Target& target,
                       const LoweringOptions& options = {});

// `body` of a program with `fn` applied to each of its kernels.
Stmt map_kernels(const Stmt& body, const std::function<Stmt(const Stmt&)>& fn);

bool is_block_axis(ForKind kind);
bool is_thread_axis(ForKind kind);
// True for a buffer that is private to one thread: registers and arrays of its own.
bool is_private(const Buffer& buffer);

// Whether a kernel may start before the preceding one has ended, and waits for that itself
// (programmatic dependent launch, griddepcontrol). All kernels of a program but the first do so
// then.
inline bool launches_overlap(const GpuFacts& gpu) { return gpu.compute_capability >= 90; }

// The annotation of a kernel's loop over blocks that says how rows in shared memory get into
// different banks: kSwizzled, or else padding.
inline constexpr const char* kSharedRowsKey = "shared_rows";
inline constexpr const char* kSwizzled = "swizzled";

// The annotation of a kernel's outermost loop over blocks, a number. The grid has at most so many
// blocks, as many as the chip holds at once, and each of them takes further iterations.
inline constexpr const char* kPersistentKey = "persistent_blocks";
// The annotation of the loop over k right under such a loop (stream-K). All blocks compute equally
// many whole tiles. The rest of the work is shared evenly, down to single steps of k.
inline constexpr const char* kStreamedKey = "stream_k";

// The annotation of a loop over warps, a number. An iteration then belongs to a team of so many
// neighbouring lanes of a warp, a power of two, not to the whole warp. All lanes of a team do the
// same, each in its own registers, except in loops over lanes. Four lanes hold a row of the
// accumulators of a matrix instruction.
inline constexpr const char* kTeamKey = "team";

// The passes themselves (codegen/passes/gpu/*.cc) ---------------------------------------------

// Renumbers loops of tensor copies along the rows of a tile that is gathered (im2col), or scattered
// to the output. The digits of a row's number index the operand. The loops run over the numbers of
// the rows themselves, which simplification then leaves whole:
//
//   for x in 0..64 @{instruction: "tma"} { S[t * 64 + x] = X[(t * 64 + x) / 28, (t * 64 + x) % 28] }
//   ->  for x in t * 64 .. + 64 @{instruction: "tma"} { S[x] = X[x / 28, x % 28] }
Program number_window_rows(const Program& program);
// Makes grids of a given number of blocks (kPersistentKey), whatever the number of tiles:
//
//   for i in 0..n block_x @{persistent_blocks: 100} { C[i] = … }
//   ->  for b in 0..min(n, 100) block_x { for turn in 0..ceildiv(n, 100) {
//         let i = turn * 100 + b   if i < n { C[i] = … } } }
//
// A tile's copies begin when the tile before is done: no copy runs ahead from tile to tile.
//
// Stream-K: where the loop over k is annotated kStreamedKey, all blocks share the last tiles, fewer
// than two per block. Their steps of k, tile behind tile, are cut into even shares (Osama et al.,
// PPoPP 2023, in its hybrid form). A share that has only a part of a tile writes its accumulators
// to memory, at most two tiles per block. A second kernel adds them up in the order of k. The
// result does not depend on which block is faster, and no block waits for another.
Program persist_grids(const Program& program);
inline constexpr const char* kPipelineStagesKey = "pipeline_stages";
// Software pipelining of loops with the annotation "pipeline_stages". The copies of an iteration
// from global to shared memory are issued that many iterations less one ahead, into a ring of as
// many buffers:
//
//   for k in 0..n @{pipeline_stages: 3} { S[i] = A[k, i]   use S }
//   ->  for s in 0..2 { if s < n { S[s, i] async= A[s, i] }  commit }
//       for k in 0..n { wait(1)  barrier
//                       if k + 2 < n { S[(k + 2) % 3, i] async= A[k + 2, i] }  commit
//                       use S[k % 3] }
Program pipeline_loops(const Program& program);
// Inserts barriers of the block. One stands before each statement that reads what other threads may
// have written since the last barrier, or writes what they may still read.
Program insert_barriers(const Program& program);
// Moves loops over axes outward and makes them one each, as above; allocates shared buffers around
// the threads. A statement in no loop over threads is done by each thread where it writes
// registers, and by the first thread where it writes memory.
Program hoist_threads(const Program& program);
// Pipelines loops whose copies are TMA tiles of operands (codegen/cuda/cuda_tensor_copy.h), and stores
// TMA tiles. The copies of an iteration are one arrival at an mbarrier that also expects their
// bytes. Their consumer waits for that phase, which is the number of rounds through the ring, over
// all tiles of a block. With warp specialization ("roles"), the kernel's loops and conditions
// around the copies are there twice, for consumers and for the producer:
//
//   for tx in 0..256 thread_x { for k in 0..n @{pipeline_stages: 3, copies: "roles"} { S = A[k]  use S }
//                               D = S2 }
//   ->  for tx in 0..288 thread_x {
//         make barriers[0..6]
//         if tx < 256 { for k { wait(barriers[k % 3], k / 3 % 2)   use S[k % 3]
//                               arrive(barriers[k % 3 + 3]) }   D = S2 }
//         else if tx == 256 { for k { wait(barriers[k % 3 + 3], (k / 3 + 1) % 2)
//                                     arrive(barriers[k % 3], bytes)   S[k % 3] <- A[k] } } }
//
// Copies of the producer thus run ahead from tile to tile, too. The consumers meet at a barrier of
// their own.
//
// With "ping_pong" there are two teams of such consumers, each of as many threads as the kernel
// had, and arrays of TMA stores are there for each. Team t takes every second iteration of the loop
// over tiles, from t on. It waits for its turn at an mbarrier of its own before the loop over
// stages, and arrives at the other team's behind that loop.
//
// A loop of TMA stores may take turns in a ring of arrays (kStoreRingKey): subtiled epilogues.
Program pipeline_tensor_copies(const Program& program, const Target& target);
// Gives rows of shared buffers whose length is a multiple of 32 bytes 16 bytes of padding. The same
// position of eight neighbouring rows then lies in different banks. In a kernel that asks for
// swizzles, rows get one where their length is a power of two (BufferNode::swizzled_row).
Program pad_shared_rows(const Program& program);
/// Takes a positive factor out of the maximum over values of a thread: of registers alone, a
/// multiplication for each value becomes one for all. The bits are the same, as rounding is monotone.
///
///   M = -inf   for i { M = max(M, S[i] * 0.1) }   ->   M = -inf   for i { M = max(M, S[i]) }   M = M * 0.1
Program scale_maxima(const Program& program);

}  // namespace tilewright
