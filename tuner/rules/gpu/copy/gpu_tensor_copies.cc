#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"

#include <algorithm>

#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_window_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"

namespace tilewright {
namespace {

constexpr int64_t kVectorBits = 128;
constexpr int64_t kBarrierBytes = 1024;  // bytes of the mbarrier array, with alignment

}  // namespace

int64_t gpu_span_of_copies(const RuleContext& c, const Block& block, const GpuRoles& roles,
                           int64_t tile_k) {
  if (!roles.is_gathered() || roles.is_part || roles.a_is_box) return tile_k;
  const int64_t span = gpu_span_of_windows(c, block, roles.a, roles.k, tile_k);
  return span > 0 ? span : tile_k;
}

std::string gpu_choose_copies(RuleContext& c, const Block& block, const GpuRoles& roles,
                              std::pair<int64_t, int64_t> vectors, int64_t tile_k, int64_t a_span,
                              bool may_ping_pong) {
  const BlockNode& n = c.s.node(block);
  // A TMA tile at the end of a split-K part would hold k elements of the next part.
  const int64_t terms = largest_extent(c.s, n.iters[static_cast<size_t>(roles.k)].extent);
  const bool parts_are_boxes = roles.is_part && terms % tile_k == 0;
  auto is_copied = [&](const std::string& operand, int64_t vector, bool is_box, int64_t span) {
    const int bits = bits_of(read_elem(n, operand));
    const bool as_it_lies =
        bits == 16 || plain_iterator(n, indices_of(n, operand).back()) == roles.k;
    if (!as_it_lies || vector * bits != kVectorBits) return false;
    return roles.is_part ? parts_are_boxes
                         : is_box || gpu_is_one_copy(c, block, operand, roles.k, tile_k, span);
  };
  const bool are_copied = is_copied(roles.a, vectors.first, roles.a_is_box, a_span) &&
                          is_copied(roles.b, vectors.second, roles.b_is_box, tile_k);
  if (!are_copied) return kByCpAsync;
  std::vector<std::string> ways = {kByRoles, kByThreads, kByCpAsync};
  if (may_ping_pong) ways.emplace_back(kPingPong);
  return c.t.choose(block.name + ".copies", ways);
}

bool gpu_copies_boxes(const std::string& copies) { return copies != kByCpAsync; }

bool gpu_has_producers(const std::string& copies) {
  return copies == kByRoles || copies == kPingPong;
}

int64_t gpu_threads_with_copies(const RuleContext& c, const std::string& copies, int64_t threads) {
  if (!gpu_has_producers(copies)) return threads;
  return role_budget(threads * teams_of_consumers(copies), c.input.target.gpu).threads();
}

int64_t gpu_registers_with_copies(const RuleContext& c, const std::string& copies, int64_t threads,
                                  int64_t sums) {
  constexpr int64_t kOthers = 28;  // addresses, loops; the same number as in the model
  const GpuFacts& gpu = c.input.target.gpu;
  const RoleBudget budget = role_budget(threads * teams_of_consumers(copies), gpu);
  const bool is_shared_out = gpu_has_producers(copies) && budget.consumer_registers > 0;
  return is_shared_out ? gpu.registers_per_sm / budget.threads() : sums + kOthers;
}

std::vector<int64_t> gpu_stages_of_boxes(const RuleContext& c, int64_t stage_bytes) {
  std::vector<int64_t> stages = {4, 3, 5, 6, 8, 2};
  std::erase_if(stages, [&](int64_t n) {
    return n > 2 && n * stage_bytes + kBarrierBytes > c.input.target.gpu.shared_per_block;
  });
  return stages;
}

void gpu_copy_boxes(RuleContext& c, const std::string& buffer) {
  constexpr size_t kAround = 2;  // the block loop and the k loop
  const std::vector<Loop> loops = c.s.loops(gpu_writer(c.s, buffer));
  for (size_t l = kAround; l < loops.size(); ++l) {
    c.s.annotate(loops[l], kInstructionKey, std::string(kTma));
  }
}

void GpuTileCopies::carry_out(RuleContext& c, const std::string& buffer, int64_t vector) const {
  if (gpu_copies_boxes(way)) return gpu_copy_boxes(c, buffer);
  gpu_share_copy(c, buffer, threads, vector);
}

int64_t gpu_box_columns(const RuleContext& c, const Block& block, const TensorTileSizes& tile,
                        const Expr& columns) {
  constexpr int64_t kSpanBits = 128 * 8, kLeastBits = 32 * 8;
  const int bits = bits_of(gpu_result_elem(c, block));
  const int64_t box = std::min(kSpanBits / bits, tile.n);
  const auto all = as_int(columns);
  const bool is_span = box * bits >= kLeastBits && (box & (box - 1)) == 0 && tile.n % box == 0;
  return bits >= 8 && is_span && all && *all % box == 0 ? box : 0;
}

void gpu_number_rows(RuleContext& c, const Block& writer, const Block& copy) {
  const Buffer shared = c.s.output(writer);
  const IndexMap map = IndexMap::make(shared->rank(), [&](const std::vector<Var>& x) {
    Expr row = 0;
    for (size_t d = 0; d + 1 < x.size(); ++d) row = row * shared->shape[d] + x[d];
    return std::vector<Expr>{row, x.back()};
  });
  c.s.transform_layout(shared->name, map);
  c.s.transform_block_layout(copy, map);
}

void gpu_lay_in_boxes(RuleContext& c, const Block& writer, int64_t columns) {
  const Buffer shared = c.s.output(writer);
  c.s.transform_layout(shared->name, gpu_in_spans(shared->rank(), columns));
}

void gpu_store_boxes(RuleContext& c, const Block& copy, int64_t columns) {
  const std::vector<Loop> loops = c.s.loops(copy);
  const Loop& rows = loops[loops.size() - 2];
  const std::vector<Loop> parts = c.s.split(loops.back(), {-1, columns});
  c.s.reorder({parts[0], rows, parts[1]});
  for (const Loop& l : {parts[0], rows, parts[1]})
    c.s.annotate(l, kInstructionKey, std::string(kTma));
}

}  // namespace tilewright
