// Attention on a GPU in one kernel: a tile of queries per block, and one loop over blocks of keys.
#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "ir/type.h"
#include "kernel/instructions/wgmma_rows.h"
#include "schedule/error.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_ask_attention.h"
#include "tuner/rules/gpu/chain/gpu_chain_rows.h"
#include "tuner/rules/gpu/chain/gpu_softmax_parts.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {
namespace {

constexpr int64_t kColumnThreads = 8;  // per block, along the result's columns
constexpr int64_t kScores = 4;         // per thread, along queries and along keys

// Queries per block, and keys per step. Each thread has 4 x 4 scores.
struct SoftmaxTile {
  int64_t rows, keys;

  std::string name() const { return fmt::format("{}x{}", rows, keys); }
  int64_t threads() const { return rows / kScores * (keys / kScores); }
};

class OnlineKernel {
 public:
  OnlineKernel(RuleContext& c, SoftmaxChain chain) : c_(c), chain_(std::move(chain)) {}

  // Finds tiles for which everything but the result fits into shared memory. For dynamic sizes a
  // tile is smaller than the maximum, so that its own loops have constant extents.
  bool fits() {
    tiles_.clear();
    auto is_cut = [](int64_t size, int64_t largest, bool dynamic) {
      return !dynamic || size < largest;
    };
    const BlockNode& scores = c_.s.node(chain_.scores);
    const int64_t terms = largest_extent(c_.s, scores.iters.back().extent);
    const ScoreOperands operands = score_operands(c_.s, chain_);
    const int64_t element = bits_of(read_elem(scores, operands.rows)) / 8;
    const int64_t sum = bits_of(store_of(scores).buffer->elem) / 8;
    constexpr int64_t kPadding = 16, kRowBuffers = 5;
    for (SoftmaxTile t : {SoftmaxTile{64, 32}, {32, 32}, {64, 64}, {128, 32}, {32, 64}, {16, 64}}) {
      const int64_t copies = (terms * t.rows + t.keys * (terms + chain_.columns)) * element;
      const int64_t weights = 2 * t.keys * t.rows * sum + kRowBuffers * t.rows * sum;
      const int64_t padding = (3 * t.keys + terms + t.keys) * kPadding;
      const bool fits = copies + weights + padding <= c_.input.target.gpu.shared_per_block;
      if (fits && is_cut(t.rows, chain_.rows, chain_.dynamic_rows) &&
          is_cut(t.keys, chain_.keys, chain_.dynamic_keys)) {
        tiles_.push_back(t);
      }
    }
    return !tiles_.empty();
  }

  void run() {
    choose();
    std::optional<KeyParts> parts;
    if (parts_ > 1) parts = split_keys(c_.s, chain_, parts_);
    OnlineLoops loops = parts ? place_key_parts(c_.s, chain_, *parts, tile_.rows, tile_.keys)
                              : place_softmax_chain(c_.s, chain_, tile_.rows, tile_.keys);
    lay_rows_last(c_.s, chain_);
    // Bound while each block still stores its results whole: disjoint tiles cannot be recognized in
    // pieces.
    c_.s.bind(loops.tile, ForKind::BlockX);
    copy_operands(loops);
    tile_scores();
    for (const Block& b : {chain_.top, chain_.sum}) bind_rows(b, true);
    bind_weights();
    for (const Block& b : loops.made) {
      // Blocks of the product have a column besides the row.
      const bool of_product = c_.s.output(b)->name == c_.s.output(chain_.product)->name;
      of_product ? tile_columns(b) : bind_rows(b, false);
    }
    tile_columns(chain_.product);
    tile_columns(chain_.result);
    if (parts) {
      for (const Block& b : parts->left) bind_rows(b, false);
    }
    place_buffers(loops.made);
    if (parts) gpu_join_key_parts(c_, *parts);
  }

 private:
  void choose() {
    // Few queries would leave most of a tall tile idle.
    constexpr int64_t kLowest = 16;
    std::stable_partition(tiles_.begin(), tiles_.end(), [&](const SoftmaxTile& t) {
      return t.rows < std::max(kLowest + 1, 2 * chain_.rows);
    });
    tile_ = c_.t.choose_among(chain_.top.name + ".tile", tiles_);
    int64_t stacks = 1;
    for (int64_t extent : analyze(c_.s, chain_.top).extents) stacks *= extent;
    const int64_t tiles = ceil_div(chain_.rows, tile_.rows);
    parts_ = gpu_choose_key_parts(c_, chain_, stacks / (chain_.rows * chain_.keys) * tiles,
                                  tile_.keys, false);
  }

  // Stages the operands. Queries are transposed, like scores, so that the threads of a warp read
  // neighbours.
  void copy_operands(const OnlineLoops& loops) {
    const ScoreOperands operands = score_operands(c_.s, chain_);
    const std::string values = value_operand(c_.s, chain_);
    const Block rows = chain_copy_of(c_, chain_.scores, operands.rows, Scope::Shared);
    c_.s.compute_at(rows, loops.tile);
    share(rows);
    const std::string buffer = c_.s.output(rows)->name;
    const size_t rank = store_of(c_.s.node(rows)).indices.size();
    c_.s.transform_layout(buffer, moved_index(rank, rank - 2, rank - 1));
    for (const auto& [reader, operand] :
         {std::pair{chain_.scores, operands.keys}, {chain_.product, values}}) {
      const Block copy = chain_copy_of(c_, reader, operand, Scope::Shared);
      c_.s.compute_at(copy, loops.step);
      share(copy);
    }
  }

  // Copies the elements by all threads in turns.
  void share(const Block& copy) {
    std::vector<Loop> loops = own_loops(c_.s, copy);
    const Loop along = c_.s.fuse({loops[loops.size() - 2], loops.back()});
    std::vector<Loop> parts = c_.s.split(along, {-1, tile_.threads()});
    c_.s.bind(parts[1], ForKind::ThreadX);
  }

  // Accumulates each thread's scores in registers, and stores them to shared memory.
  void tile_scores() {
    const Block copy =
        c_.s.cache_write(chain_.scores, c_.s.output(chain_.scores)->name, Scope::Register);
    std::vector<Loop> loops = own_loops(c_.s, chain_.scores);
    const size_t n = loops.size();
    std::vector<Loop> row = c_.s.split(loops[n - 3], {-1, kScores});
    std::vector<Loop> key = c_.s.split(loops[n - 2], {-1, kScores});
    c_.s.reorder({key[0], row[0], loops[n - 1], key[1], row[1]});
    const Loop thread = c_.s.fuse({key[0], row[0]});
    c_.s.reverse_compute_at(copy, thread);
    const Block init = c_.s.decompose_reduction(chain_.scores, loops[n - 1]);
    c_.s.bind(thread, ForKind::ThreadX);
    unroll_last(chain_.scores, 2);
    unroll_last(init, 2);
    unroll_last(copy, 2);
  }

  void unroll_last(const Block& block, size_t count) {
    std::vector<Loop> loops = c_.s.loops(block);
    for (size_t i = loops.size() - count; i < loops.size(); ++i) c_.s.unroll(loops[i]);
  }

  // One thread per query.
  void bind_rows(const Block& block, bool reduces) {
    std::vector<Loop> loops = c_.s.loops(block);
    c_.s.bind(loops[loops.size() - (reduces ? 2 : 1)], ForKind::ThreadX);
  }

  void bind_weights() {
    std::vector<Loop> loops = own_loops(c_.s, chain_.weights);
    const Loop row = loops[loops.size() - 2], key = loops.back();
    c_.s.reorder({key, row});
    std::vector<Loop> parts = c_.s.split(c_.s.fuse({key, row}), {-1, tile_.threads()});
    c_.s.bind(parts[1], ForKind::ThreadX);
  }

  // Gives elements of the product and of the result to the same threads, so that accumulators stay
  // in registers.
  void tile_columns(const Block& block) {
    std::vector<Loop> all = c_.s.loops(block);
    const bool reduces = block == chain_.product;
    const size_t column_at = all.size() - (reduces ? 2 : 1);
    const int64_t row_threads = tile_.threads() / kColumnThreads;
    const bool whole = block == chain_.result;
    // The result's rows were split off as a tile.
    const Loop row_loop = all[column_at - 1], column_loop = all[column_at];
    std::vector<Loop> row = c_.s.split(row_loop, {row_threads, tile_.rows / row_threads});
    std::vector<Loop> column = c_.s.split(column_loop, {-1, kColumnThreads});
    std::vector<Loop> order = {row[0], column[1]};
    if (reduces) order.push_back(all.back());
    order.insert(order.end(), {row[1], column[0]});
    c_.s.reorder(order);
    c_.s.bind(c_.s.fuse({row[0], column[1]}), ForKind::ThreadX);
    if (!whole) {
      c_.s.unroll(row[1]);
      c_.s.unroll(column[0]);
    }
  }

  void place_buffers(const std::vector<Block>& made) {
    const std::string product = c_.s.output(chain_.product)->name;
    std::vector<Block> blocks = {chain_.top, chain_.sum, chain_.weights};
    blocks.insert(blocks.end(), made.begin(), made.end());
    for (const Block& b : blocks) {
      if (c_.s.output(b)->name != product) c_.s.set_scope(c_.s.output(b)->name, Scope::Shared);
    }
    c_.s.set_scope(product, Scope::Register);
    for (const Block& b : c_.s.producers(chain_.top)) {
      c_.s.set_scope(c_.s.output(b)->name, Scope::Shared);
    }
  }

  RuleContext& c_;
  SoftmaxChain chain_;
  std::vector<SoftmaxTile> tiles_;
  SoftmaxTile tile_{};
  int64_t parts_ = 1;
};

// Packs heads that share their keys (grouped-query attention) into the rows of one tile, if the
// trial chooses so. A single query is always packed: no tile is filled without the other heads.
void choose_heads(RuleContext& c, SoftmaxChain& chain, int64_t shared) {
  constexpr int64_t kFew = 16;
  if (shared == 1) return;
  std::vector<std::string> ways = {"apart", "packed"};
  if (chain.rows < kFew) std::swap(ways[0], ways[1]);
  const std::string question = chain.top.name + ".heads";
  if (chain.rows > 1 && c.t.choose(question, ways) == "apart") return;
  pack_heads(c.s, chain, shared);
}

// Whether the chain reads sequence lengths or page tables, by which tiles differ in their work.
bool looks_up(const Schedule& s, const SoftmaxChain& chain) {
  if (!chain.operands.empty()) return true;
  for (const Block& b : {chain.scores, chain.top, chain.weights, chain.sum, chain.product}) {
    const BlockNode& n = s.node(b);
    for (const std::string& input : inputs_of(n)) {
      if (!is_float(read_elem(n, input))) return true;
    }
  }
  return false;
}

}  // namespace

bool gpu_softmax_chain(RuleContext& c) {
  std::optional<SoftmaxChain> chain = find_softmax_chain(c.s);
  if (!chain) return false;
  // Heads with a dynamic number of rows cannot be rows of one tile.
  const int64_t shared = chain->dynamic_rows ? 1 : heads_of_keys(c.s, *chain);
  const bool mma = gpu_attention_by_warps(c, *chain).has_value();
  // A single row is padded for matrix instructions; the kernel without them would have idle
  // threads.
  const bool fits = chain->rows * shared > 1 && OnlineKernel(c, *chain).fits();
  std::optional<AttentionChain> warpgroups;
  if (chain->rows > 1 && !looks_up(c.s, *chain)) {
    warpgroups = gpu_attention_by_warpgroups(c, *chain);
  }
  if (!mma && !warpgroups && !fits) return false;
  // For narrow floats the kernels per stage use tensor cores, so "online" comes after "apart".
  const ElemType elem = read_elem(c.s.node(chain->scores), score_operands(c.s, *chain).keys);
  std::vector<std::string> ways = {"apart"};
  if (fits) ways.insert(bits_of(elem) < 32 ? ways.end() : ways.begin(), "online");
  if (mma) ways.insert(ways.begin(), "online_mma");
  // Fewer rows than a warpgroup multiplies would be mostly padding.
  const bool is_filled = chain->rows >= kWarpgroupRows;
  if (warpgroups) ways.insert(is_filled ? ways.begin() : ways.end(), "online_wgmma");
  const std::string way = c.t.choose(chain->top.name + ".softmax", ways);
  if (way == "apart") return false;
  inline_terms(c.s, *chain);
  if (way == "online_wgmma") {
    gpu_attend(c, *warpgroups);
    return true;
  }
  choose_heads(c, *chain, shared);
  // Packed heads are more rows, for which there may be no tile that fits.
  auto refuse = [&] {
    throw ScheduleError(RefusalKind::Unsupported, "gpu rules",
                        fmt::format("{} rows of attention, {} heads that share their keys among "
                                    "them, have no tile that fits; '{}.heads' may be 'apart'",
                                    chain->rows, shared, chain->top.name),
                        c.s.program());
  };
  if (way == "online") {
    OnlineKernel kernel(c, *chain);
    if (!kernel.fits()) refuse();
    kernel.run();
  } else {
    const std::optional<AttentionChain> warps = gpu_attention_by_warps(c, *chain);
    if (!warps) refuse();
    gpu_attend(c, *warps);
  }
  return true;
}

}  // namespace tilewright
