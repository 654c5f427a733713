// The rules from which sketches for GPUs are generated.
#pragma once

#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// A thread an access of 16 bytes where memory allows it, blocks of threads over all elements.
void gpu_injective(RuleContext& c, const Block& block);

// A block of threads a row: each thread reduces its share, and all of them what is left of it.
void gpu_row_reduction(RuleContext& c, const Block& block);

// A chain of row reductions and injective stages over common rows (softmax, norms), with the rows
// in shared memory meanwhile. False when the program is no such chain.
bool gpu_fuse_rows(RuleContext& c);

// Attention in one kernel: a block takes a tile of queries through one loop over blocks of keys, by
// matrix instructions with scores and weights in registers (gpu_tensor_chain.h), or by threads with
// these in shared memory. False when the program is something else, or the trial wants a kernel a stage.
bool gpu_softmax_chain(RuleContext& c);

// Tiles of the result for blocks and threads, sums in registers, operands through shared memory.
void gpu_contraction(RuleContext& c, const Block& block);

// How many neighbours along an extent a thread may take in one access of 16 bytes.
int64_t gpu_vector(RuleContext& c, const Block& block, int64_t extent);
// Whether no extent of the block depends on a dynamic dimension.
bool gpu_is_static(const BlockFacts& facts);
// A power of two from 32 to `most` that is enough for so much work.
int64_t gpu_threads_for(int64_t work, int64_t most);
// The loops as one.
Loop gpu_fused(RuleContext& c, const std::vector<Loop>& loops);
// Makes of spatial loops, outermost first, a loop over blocks and one or two over the threads of a
// block, along the last of the loops: {blocks, threads…}.
std::vector<Loop> gpu_thread_grid(RuleContext& c, const std::vector<Loop>& loops, int64_t threads);
// Binds them.
void gpu_bind_grid(RuleContext& c, const std::vector<Loop>& grid);
// The block that writes a buffer.
Block gpu_writer(const Schedule& s, const std::string& buffer);

}  // namespace tilewright
