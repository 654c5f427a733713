// Counts demands on memory and tensor cores, from the addresses of the lanes of a few warps.
#include <algorithm>
#include <bit>
#include <set>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_wgmma_flight.h"
#include "codegen/cuda_lowering.h"
#include "emulator/counters.h"
#include "ir/predicates.h"
#include "tuner/gpu/gpu_work_counter.h"

namespace tilewright::gpu_work_detail {
namespace {

constexpr int kSampledWarps = 4;
constexpr int kMatrixRows = 8;        // of 16 bytes each
constexpr int64_t kAccessBytes = 16;  // at most, per thread and instruction
// Instructions that turn a gathered position into an address.
constexpr double kGatherInstructions = 4;
constexpr double kShuffleInstructions = 2;  // a shuffle and an operation per halving
constexpr int64_t kSectorBytes = 32;
// Warps side by side, and iterations, that may read parts of the same sectors. kKeptBytes are the
// bytes of one access that L1 keeps until then: a quarter of the smallest L1.
constexpr int kSharingWarps = 8;
constexpr int64_t kSharingIterations = 8;
constexpr double kKeptBytes = 8 << 10;

}  // namespace

using emulator::LaneAccess;

void Counter::stand_at(int thread) {
  for (const auto& [var, extent] : place_.thread_axes) {
    work_.values.set(var, thread % extent);
    thread /= extent;
  }
}

bool Counter::is_active() const {
  return std::all_of(place_.guards.begin(), place_.guards.end(), [&](const auto& g) {
    return reads_memory(g.first) || (work_.values.at(g.first) != 0) == g.second;
  });
}

std::vector<int> Counter::sampled_warps() const {
  std::set<int> sampled;
  for (int i = 0; i < kSampledWarps; ++i) sampled.insert(i * warps() / kSampledWarps);
  return {sampled.begin(), sampled.end()};
}

template <class F>
void Counter::for_each_lane(int warp, const F& fn) {
  for (int lane = 0; lane < kWarp; ++lane) {
    int thread = warp * kWarp + lane;
    if (thread >= work_.threads) break;
    stand_at(thread);
    if (is_active()) fn();
  }
  stand_at(0);
}

int64_t Counter::byte_of(const Buffer& b, int64_t element) const {
  const auto swizzle = swizzle_of(b);
  return (swizzle ? swizzle->of(element) : element) * bits_of(b->elem) / 8;
}

// The 16-byte rows of the 8x8 matrices that `count` ldmatrix load.
void Counter::matrices(const MmaOperand& o, int64_t count, int per_load) {
  if (o.buffer->scope != Scope::Shared) return;  // fragments are in registers already
  const int64_t pitch = std::max(o.row, o.column);
  std::vector<LaneAccess> rows;
  for (int64_t r = 0; r < kMatrixRows; ++r) {
    rows.push_back({byte_of(o.buffer, r * pitch), static_cast<int>(kAccessBytes)});
  }
  double loads = static_cast<double>(count) * warps() * place_.times;
  work_.shared_passes += loads * per_load * emulator::bank_passes(rows);
  work_.instructions += loads;
}

void Counter::instruction(const InstructionNest& nest) {
  if (auto* n = std::get_if<WgmmaNest>(&nest)) return wgmma(*n);
  if (auto* n = std::get_if<MmaNest>(&nest)) return mma(*n);
  if (auto* n = std::get_if<StmatrixNest>(&nest)) return store_matrices(*n);
  if (auto* n = std::get_if<ShuffleNest>(&nest)) return shuffle(*n);
  issue(1);  // dp4a
}

// A reduction over lanes, one element per lane. The first lane stores the result, or each lane
// stores it to its private array.
void Counter::shuffle(const ShuffleNest& nest) {
  value(nest.term);
  issue(kShuffleInstructions * std::bit_width(static_cast<uint64_t>(nest.lanes - 1)));
  if (is_private(nest.buffer)) return use_own(nest.buffer, 1);
  place_.guards.emplace_back(eq(floormod(place_.thread_axes.front().first, Expr(nest.lanes)), 0),
                             true);
  access(nest.buffer, nest.index, true, false);
  place_.guards.pop_back();
}

// Counts an stmatrix: the values that each lane stores, and the rows that lanes address.
void Counter::store_matrices(const StmatrixNest& nest) {
  for (const Stmt& piece : nest.pieces) value(piece.as<StoreNode>()->value);
  double passes = 0;
  std::vector<int> sampled = sampled_warps();
  for (int warp : sampled) {
    for (size_t x = 0; x < nest.pieces.size(); ++x) {
      std::vector<LaneAccess> rows;
      for (int r = 0; r < kMatrixRows; ++r) {
        stand_at(warp * kWarp + static_cast<int>(x) * kMatrixRows + r);
        rows.push_back(
            {byte_of(nest.buffer, work_.values.at(nest.row)), static_cast<int>(kAccessBytes)});
      }
      passes += emulator::bank_passes(rows);
    }
  }
  stand_at(0);
  work_.shared_passes += passes * warps() / static_cast<double>(sampled.size()) * place_.times;
  issue(1);
}

void Counter::mma(const MmaNest& nest) {
  double products =
      static_cast<double>(nest.a_fragments * nest.b_fragments) * warps() * place_.times;
  const Instruction& row = *nest.row;
  work_.products.row = nest.row;
  use_own(nest.sums, nest.a_fragments * nest.b_fragments * row.acc_registers());
  // Sparse operands run at twice the rate; their kept elements run at the dense rate.
  work_.products.operations += products * 2 * static_cast<double>(nest.products());
  work_.instructions += products * nest.steps();
  matrices(nest.a, nest.a_fragments, row.a_registers());
  matrices(nest.b, nest.b_fragments * nest.steps(), row.b_registers());
  if (nest.gather.row.defined()) {  // the gathered position and its address
    issue(kGatherInstructions);
    work_.shared_passes += warps() * place_.times;
  }
  work_.registers +=
      static_cast<int>(nest.a_fragments * row.a_registers() + nest.b_fragments * row.b_registers());
  work_.waits.exposed += place_.times * (kSharedLatency + kMmaLatency);
}

// Operands that are not in registers are read from shared memory by every instruction, across all
// banks. The wait at the end of a group lasts as long as the last instruction's latency.
void Counter::wgmma(const WgmmaNest& nest) {
  constexpr double kOrdering = 3;     // fence, commit and wait
  constexpr double kDescriptors = 3;  // those that build an instruction's descriptors
  const Instruction& row = *nest.row;
  const double groups = warps() * kWarp / static_cast<double>(kWarpgroup) * place_.times;
  const auto instructions = static_cast<double>(nest.instructions());
  work_.products.row = nest.row;
  work_.products.is_wgmma = true;
  use_own(nest.sums, nest.fragments * row.acc_registers());
  work_.products.operations += groups * 2 * static_cast<double>(nest.products());
  issue(instructions * (1 + kDescriptors) + kOrdering);
  const int64_t of_a = nest.a_in_registers() ? 0 : kWarpgroupRows * row.a_bytes();
  const int64_t passes = (row.n * row.b_bytes() + of_a) / kPassBytes;
  work_.shared_passes += groups * instructions * static_cast<double>(passes);
  if (products_.has_pending) return;
  wait_for_group();
  work_.products.turn_takers = groups / place_.times;
  (nest.a_in_registers() ? products_.from_registers : products_.from_shared) = true;
  products_.asked = nest;
}

// Statements behind a wgmma that do not touch its registers run beside it.
void Counter::sequence(const SeqNode& n) {
  std::optional<WgmmaNest> running;
  double operations = 0;
  for (const Stmt& child : n.stmts) {
    if (running && !runs_beside(child, *running)) running.reset();
    const double issued = work_.instructions, multiplied = work_.products.operations;
    products_.asked.reset();
    walk(child);
    auto* loop = child.as<ForNode>();
    if (products_.asked && loop && wgmma_mark(*loop)) {
      running = products_.asked;
      operations = work_.products.operations - multiplied;
    } else if (running) {
      work_.products.beside += work_.instructions - issued;
      work_.products.beside_operations += std::exchange(operations, 0);
    }
  }
  products_.asked.reset();
}

void Counter::wait_for_group() {
  work_.waits.exposed += place_.times * (kSharedLatency + kMmaLatency);
}

void Counter::reach(int warp, const Buffer& b, const Expr& index, int bytes,
                    std::vector<LaneAccess>& at) {
  for_each_lane(warp, [&] { at.push_back({byte_of(b, work_.values.at(index)), bytes}); });
}

double Counter::new_sectors(int warp, const Buffer& b, const Expr& index,
                            const std::vector<LaneAccess>& at) {
  std::set<int64_t> places;
  for (const LaneAccess& a : at) places.insert(a.address);
  const double sectors = emulator::sectors(at);
  const int bytes = at.front().bytes;
  if (static_cast<double>(places.size()) * bytes >= sectors * kSectorBytes) return sectors;
  std::vector<LaneAccess> beside;
  const int first = warp / kSharingWarps * kSharingWarps,
            last = std::min(warps(), first + kSharingWarps);
  for (int w = first; w < last; ++w) reach(w, b, index, bytes, beside);
  double least = std::min(sectors, emulator::sectors(beside) / static_cast<double>(last - first));
  const Expr place = substitute(index, place_.lets);
  double meanwhile = sectors * kSectorBytes * warps();
  for (auto loop = place_.loops.rbegin(); loop != place_.loops.rend() && meanwhile <= kKeptBytes;
       ++loop) {
    if (!uses_var(place, loop->var)) continue;
    const int64_t iterations = std::min(loop->trips, kSharingIterations);
    std::vector<LaneAccess> all;
    for (int64_t i = 0; i < iterations; ++i) {
      work_.values.set(loop->var, loop->min + i);
      reach(warp, b, index, bytes, all);
    }
    work_.values.set(loop->var, loop->min);
    if (iterations > 1) {
      least = std::min(least, emulator::sectors(all) / static_cast<double>(iterations));
    }
    meanwhile *= static_cast<double>(loop->trips);
  }
  return least;
}

double Counter::repeats(const Expr& index) const {
  const Expr place = substitute(index, place_.lets);
  double times = 1;
  for (auto loop = place_.loops.rbegin(); loop != place_.loops.rend() && loop->is_one; ++loop) {
    const bool decides = std::any_of(
        place_.guards.begin(), place_.guards.end(),
        [&](const auto& g) { return uses_var(substitute(g.first, place_.lets), loop->var); });
    if (!decides && !uses_var(place, loop->var)) times *= static_cast<double>(loop->trips);
  }
  return times;
}

void Counter::access(const Buffer& b, const Expr& index, bool is_store, bool is_async) {
  if (is_private(b)) return;
  const int lanes = index.type().lanes, bits = bits_of(b->elem);
  bool is_run = work_.values.at(index, lanes - 1) - work_.values.at(index, 0) == lanes - 1;
  const int64_t bytes = is_run ? (int64_t{lanes} * bits + 7) / 8 : (bits + 7) / 8;
  const int64_t pieces_of_run = ceil_div(bytes, kAccessBytes);
  const auto pieces = static_cast<double>(is_run ? pieces_of_run : lanes);
  const bool is_shared = b->scope == Scope::Shared;
  double touched = 0, active = 0;
  std::vector<int> sampled = sampled_warps();
  for (int warp : sampled) {
    std::vector<LaneAccess> at;
    reach(warp, b, index, static_cast<int>(bytes), at);
    if (at.empty()) continue;
    active += 1;
    const bool is_cached = !is_shared && !is_store && !is_async;
    const double sectors = is_cached ? new_sectors(warp, b, index, at) : emulator::sectors(at);
    touched += is_shared ? emulator::bank_passes(at) : sectors * kSectorBytes;
  }
  const double times = is_store || is_async ? place_.times : place_.times / repeats(index);
  const double warp_times =
      static_cast<double>(warps()) / static_cast<double>(sampled.size()) * times;
  touched *= warp_times * (is_run ? 1 : lanes);
  work_.instructions += pieces * active * warp_times;
  if (is_shared) {
    work_.shared_passes += touched;
    return;
  }
  if (!is_store && !is_async && active > 0) waits_.rounds += 1;
  if (touched > 0) work_.global.push_back({b, index, is_store, touched, reads_memory(index)});
}

}  // namespace tilewright::gpu_work_detail
