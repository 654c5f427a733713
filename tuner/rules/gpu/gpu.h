// The rules from which GPU sketches are generated.
#pragma once

#include <limits>

#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// Elementwise blocks: coalesced accesses with a 16-byte vector per thread where memory allows it,
// thread blocks over all elements.
void gpu_injective(RuleContext& c, const Block& block);

// Row reductions: a thread block per row. Each thread reduces its share; then all threads reduce
// the rest.
void gpu_row_reduction(RuleContext& c, const Block& block);

// Fuses a chain of row reductions and injective stages over common rows (softmax, norms), with the
// rows kept in shared memory. Returns false if the program is not such a chain.
bool gpu_fuse_rows(RuleContext& c);

// Attention in one kernel: a block takes a tile of queries through one loop over blocks of keys.
// Matrix instructions keep scores and weights in registers (gpu_ask_attention.h); otherwise threads
// keep them in shared memory. Returns false for other programs, or if the trial chooses one kernel
// per stage.
bool gpu_softmax_chain(RuleContext& c);

// Tiles of the result per block and thread, accumulators in registers, operands staged in shared
// memory.
void gpu_contraction(RuleContext& c, const Block& block);

// Neighbours along an extent that a thread may access as one 16-byte vector.
int64_t gpu_vector(RuleContext& c, const Block& block, int64_t extent);
// Whether no extent of the block depends on a dynamic dimension.
bool gpu_is_static(const BlockFacts& facts);
// The least power of two, from 32 to `most`, that covers this much work.
int64_t gpu_threads_for(int64_t work, int64_t most);
// Groups of loops as one list.
std::vector<Loop> gpu_in_order(const std::vector<std::vector<Loop>>& groups);
// Fuses the loops into one.
Loop gpu_fused(RuleContext& c, const std::vector<Loop>& loops);
// Turns spatial loops, outermost first, into a loop over blocks and one or two loops over the
// threads of a block. The threads run along the last loop. Returns {blocks, threads…}.
std::vector<Loop> gpu_thread_grid(RuleContext& c, const std::vector<Loop>& loops, int64_t threads);
// Binds the loops of gpu_thread_grid().
void gpu_bind_grid(RuleContext& c, const std::vector<Loop>& grid);
// Divides a loop over a tile's elements among threads, in turns of `vector` neighbours. The number of
// turns must be whole. Unrolls up to `unrolled` turns.
void gpu_deal(RuleContext& c, const Loop& all, int64_t threads, int64_t vector,
              int64_t unrolled = std::numeric_limits<int64_t>::max());
// A thread's own copy by these loops, its last ones: the innermost in vectors of up to `most`
// neighbours (1: element by element), the others unrolled.
void gpu_copy_in_vectors(RuleContext& c, std::vector<Loop> loops, int64_t most);
// The block that writes a buffer.
Block gpu_writer(const Schedule& s, const std::string& buffer);

}  // namespace tilewright
