// Lowering for GPUs: from a scheduled program of blocks to what one thread of each kernel does.
//
// A kernel is a nest of the program's outermost level. Its loops that are bound to block axes
// become the grid; its loops that are bound to thread axes become the threads of a block, all of
// them the same threads, so that loops that stand side by side share their work among them:
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
#include "codegen/target.h"
#include "ir/stmt.h"

namespace tilewright {

// The passes for a CUDA target in order, likewise named and kept to as those for a CPU.
const std::vector<Pass>& cuda_passes();

// Runs all passes. Each statement of the result's outermost sequence, under the allocations of what
// passes from one to another, is a kernel: loops over block axes, allocations in shared memory,
// loops over thread axes, and what one thread does. The interpreter runs it,
// its threads meeting at barriers; only matrix instructions have no meaning to it.
Program lower_for_cuda(const Program& program, const Target& target,
                       const LoweringOptions& options = {});

// `body` of a program with `fn` applied to each kernel of it.
Stmt map_kernels(const Stmt& body, const std::function<Stmt(const Stmt&)>& fn);

bool is_block_axis(ForKind kind);
bool is_thread_axis(ForKind kind);
// Private to one thread: registers and arrays of its own.
bool is_private(const Buffer& buffer);

// Whether a kernel may start before the one ahead of it has ended, and waits for that itself
// (griddepcontrol). All but the first of a program do so then.
inline bool launches_overlap(const GpuFacts& gpu) { return gpu.compute_capability >= 90; }

// The annotation of a kernel's loop over blocks that says how rows in shared memory are kept apart:
// kSwizzled, or else padding.
inline constexpr const char* kSharedRowsKey = "shared_rows";
inline constexpr const char* kSwizzled = "swizzled";
// With the name of a shared array behind it, on the same loop once lowered: the elements of a row of
// it, which are swizzled.
inline constexpr const char* kSwizzledRowKey = "swizzled_row_";

// The annotation of a kernel's outermost loop over blocks, a number: there are at most so many blocks,
// as many as the chip holds at once, and each of them takes further iterations.
inline constexpr const char* kPersistentKey = "persistent_blocks";
// The annotation of the loop over terms right under such a loop: what is left of the work when all
// blocks have computed as many whole tiles as each other is shared evenly, down to the terms.
inline constexpr const char* kStreamedKey = "stream_k";

// The annotation of a loop over what the lanes of a warp, or of a team (kTeamKey), each have of a
// reduction: one term, or all that the loops under it run over, which a lane reduces by itself first.
// The lanes then exchange by shuffles what they hold. Its loop stands in one over warps, and has an
// iteration a lane.
inline constexpr const char* kLanesKey = "lanes";

// The annotation of a loop over warps, a number: an iteration is no whole warp's but that of so many
// neighbouring lanes of one, a power of two. All of them do the same, each in registers of its own,
// but for loops over lanes: four are those that hold a row of the sums of a matrix instruction.
inline constexpr const char* kTeamKey = "team";

// The annotation of a loop over four terms of a sum of products of bytes, which registers of the
// thread hold side by side: one instruction (codegen/cuda_dot.h).
inline constexpr const char* kDotKey = "dot";

// The annotation of loops over matrices of 8 x 8 elements that a warp stores to shared memory by one
// instruction (codegen/cuda_stmatrix.h).
inline constexpr const char* kStmatrixKey = "stmatrix";

// The passes themselves (codegen/passes/gpu_*.cc) ---------------------------------------------

// Loops of tensor copies along the rows of a tile that is gathered, or scattered to where a result lies, by
// whose digits the operand is read or written, run over the numbers of the rows themselves, which
// simplification then leaves whole:
//
//   for x in 0..64 @{tensor_copy: 1} { S[t * 64 + x] = X[(t * 64 + x) / 28, (t * 64 + x) % 28] }
//   ->  for x in t * 64 .. + 64 @{tensor_copy: 1} { S[x] = X[x / 28, x % 28] }
Program number_window_rows(const Program& program);
// Grids of a number of blocks that is given (kPersistentKey), whatever the number of tiles:
//
//   for i in 0..n block_x @{persistent_blocks: 100} { C[i] = … }
//   ->  for b in 0..min(n, 100) block_x { for turn in 0..ceildiv(n, 100) {
//         let i = turn * 100 + b   if i < n { C[i] = … } } }
//
// A tile's copies begin when the one before is done: nothing runs ahead from tile to tile.
//
// Where the loop over terms is annotated kStreamedKey, the last tiles, fewer than two for each block,
// are shared by all blocks: their terms, tile behind tile, are cut into even shares ("Stream-K",
// Osama et al., PPoPP 2023, in its hybrid form). What a share has of a tile without being all of it
// goes to memory, at most two tiles a block, and a second kernel adds these sums up, in the order of
// the terms: the result does not depend on which block is faster, and no block waits for another.
Program persist_grids(const Program& program);
// Software pipelining of loops with the annotation "pipeline_stages": what an iteration copies from
// global to shared memory is issued that many iterations less one ahead, into a ring of as many
// buffers:
//
//   for k in 0..n @{pipeline_stages: 3} { S[i] = A[k, i]   use S }
//   ->  for s in 0..2 { if s < n { S[s, i] async= A[s, i] }  commit }
//       for k in 0..n { wait(1)  barrier
//                       if k + 2 < n { S[(k + 2) % 3, i] async= A[k + 2, i] }  commit
//                       use S[k % 3] }
Program pipeline_loops(const Program& program);
// A barrier of the block before each statement that reads what other threads may have written since
// the last one, or writes what they may still read.
Program insert_barriers(const Program& program);
// Loops over axes move outward and become one each, as above; shared buffers are allocated around
// the threads. What stands in no loop over threads is done by each of them in its registers, and by
// the first one in memory.
Program hoist_threads(const Program& program);
// Pipelined loops whose copies are boxes of operands (codegen/cuda_tensor_copy.h), and boxes that are
// stored. The copies of an iteration are one arrival at an mbarrier that also takes their bytes; who
// uses them waits for that phase, which is the number of rounds through the ring, over all tiles of a
// block. Where warps have roles, the kernel's loops and conditions around the copies are there twice:
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
// so that copies run ahead from tile to tile, too. The threads that compute meet at a barrier of their
// own.
Program pipeline_tensor_copies(const Program& program, const Target& target);
// Rows of shared buffers whose length is a multiple of 32 bytes get 16 bytes of padding, so that
// the same place of eight neighbouring rows lies in different banks. In a kernel that asks for
// swizzles they get one where their length is a power of two: kSwizzledRowKey.
Program pad_shared_rows(const Program& program);

}  // namespace tilewright
