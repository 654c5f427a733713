#include "emulator/instructions/wgmma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/instructions/mma_values.h"
#include "emulator/instructions/sparse_operand.h"
#include "emulator/instructions/tensor_sums.h"
#include "kernel/instructions/wgmma_layout.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright::emulator {
namespace {

constexpr size_t kWarps = kWarpgroup / kWarp;
constexpr int kRowsOfWarp = kWarpgroupRows / static_cast<int>(kWarps);
// As f32 a signaling NaN, which no arithmetic leaves as it is.
constexpr uint32_t kPendingWord = 0x7fa0dead;

[[noreturn]] void fail(FaultKind kind, const ThreadState& by, int line, std::string problem) {
  emulator::fail(kind, line, std::move(problem), &by);
}

// An operand in shared memory. `x` counts rows of A or columns of B.
class SharedOperand {
 public:
  SharedOperand(const tw_operand& given, bool across, const Instruction& row, ElemType type,
                char name)
      : given_(given), row_(row), type_(type), name_(name) {
    layout_.along_k = !across;
    layout_.leading = given.leading;
    layout_.stride = given.stride;
  }

  // Refuses what no descriptor says, on behalf of `by`.
  void check(const ThreadState& by, int line) {
    auto refuse = [&](const std::string& problem) {
      fail(FaultKind::BadDescriptor, by, line,
           fmt::format("gives wgmma {} as its operand {}: {}", given_.array->name, name_, problem));
    };
    if (given_.array->storage->space != Space::Shared) refuse("it is not in shared memory");
    auto swizzle = swizzle_of_span(given_.swizzle == 0 ? 16 : given_.swizzle);
    if (!swizzle || given_.swizzle == 16) {
      refuse(fmt::format("a swizzle of {} bytes; there are 0, 32, 64 and 128", given_.swizzle));
    }
    layout_.swizzle = *swizzle;
    if (!fits_descriptor(start())) {
      refuse(fmt::format("it begins at byte {} of shared memory, no multiple of 16", start()));
    }
    for (int64_t offset : {layout_.leading, layout_.stride}) {
      if (!fits_descriptor(offset)) {
        refuse(fmt::format("an offset of {} bytes; they are multiples of 16 below 2^18", offset));
      }
    }
    constexpr int64_t kLine = 128;  // the swizzle changes addresses within these
    if (start() % period_of(*swizzle) >= kLine) {
      refuse(
          fmt::format("it begins at byte {} of shared memory, within a swizzle's pattern, which "
                      "begins at multiples of {}",
                      start(), period_of(*swizzle)));
    }
  }

  // Where a byte of an element lies in the array.
  int64_t place(int64_t x, int64_t k) const {
    const int64_t address = start() + layout_.place(row_.operand_bits(), x, k);
    return swizzled(layout_.swizzle, address) - given_.array->begin;
  }

  // The elements of `count` rows from `first` on are read from now on, by a warp.
  PendingReads begin_reading(Memory& memory, const ThreadState& by, int64_t first, int64_t count,
                             int line) const {
    PendingReads reads{given_.array, {}, by.wgmma.groups, line};
    const int64_t bytes = row_.operand_bits() / 8;
    for (int64_t x = first; x < first + count; ++x) {
      for (int64_t k = 0; k < row_.k; ++k) {
        const int64_t at = place(x, k);
        for (int64_t i = at; i < at + bytes; ++i) {
          begin(memory, by, i, line);
          reads.offsets.push_back(i);
        }
      }
    }
    return reads;
  }

  double value(int64_t x, int64_t k) const {
    const auto bytes = static_cast<size_t>(row_.operand_bits() / 8);
    uint32_t bits = 0;
    std::memcpy(&bits, given_.array->storage->data + given_.array->begin + place(x, k), bytes);
    return operand_value(row_, type_, bits);
  }

 private:
  int64_t start() const { return given_.array->begin + given_.offset; }

  void begin(Memory& memory, const ThreadState& by, int64_t at, int line) const {
    try {
      memory.begin_async_read(by, *given_.array, at, line);
    } catch (Fault& fault) {  // not of the lane that came last and runs
      fault.by = &by;
      throw;
    }
  }

  const tw_operand& given_;
  const Instruction& row_;
  ElemType type_;
  char name_;
  WgmmaLayout layout_;
};

bool same(const tw_operand* a, const tw_operand* b) {
  return (!a && !b) ||
         (a && b && a->array == b->array && a->offset == b->offset && a->swizzle == b->swizzle &&
          a->leading == b->leading && a->stride == b->stride);
}

// All lanes must name the same operands, and have fenced the registers that they give.
void check_lanes(const Instruction& row, const std::vector<ThreadState*>& lanes) {
  const WarpRequest& first = lanes[0]->request;
  for (const ThreadState* lane : lanes) {
    const WarpRequest& r = lane->request;
    if (!same(r.shared_a, first.shared_a) || !same(r.shared_b, first.shared_b) ||
        r.adds != first.adds) {
      fail(FaultKind::BadDescriptor, *lane, r.line,
           "gives wgmma other operands than the first lane of its warpgroup");
    }
    auto pending = lane->wgmma.sums.find(r.d);
    const bool is_chained = pending != lane->wgmma.sums.end() && !r.a;
    if (!is_chained && !lane->wgmma.is_fenced) {
      fail(FaultKind::MissingFence, *lane, r.line,
           fmt::format("gives wgmma registers with no wgmma.fence since {}",
                       lane->wgmma.groups > 0 ? "the last wait" : "it began"));
    }
    if (r.a && !lane->wgmma.is_a_fenced) {
      fail(FaultKind::MissingFence, *lane, r.line,
           "gives wgmma an operand A in registers with no wgmma.fence since the last group was "
           "committed");
    }
    if (pending != lane->wgmma.sums.end() &&
        pending->second.words.size() != static_cast<size_t>(row.sum_registers())) {
      fail(FaultKind::WgmmaInFlight, *lane, r.line,
           fmt::format("adds to accumulators of the wgmma at line {}, of another shape, which was "
                       "not waited for",
                       pending->second.line));
    }
  }
}

// The sums that a lane's instruction starts from: in its registers, or on their way there.
const void* sums_of(const ThreadState& lane) {
  auto pending = lane.wgmma.sums.find(lane.request.d);
  return pending == lane.wgmma.sums.end() ? lane.request.d : pending->second.words.data();
}

Matrix matrix_a(const Instruction& row, const std::vector<ThreadState*>& lanes,
                const SharedOperand* shared) {
  Matrix a(kWarpgroupRows, row.k);
  if (shared) {
    for (int i = 0; i < kWarpgroupRows; ++i) {
      for (int k = 0; k < row.k; ++k) a.at({i, k}) = shared->value(i, k);
    }
    return a;
  }
  each_element(row.a(), lanes, [&](const WarpRequest& r, int e, MatrixPlace at) {
    a.at(at) = element_value(row, row.operand, r.a, e);
  });
  return a;
}

// A lane's new accumulators, as bits of its registers.
std::vector<uint32_t> new_sums(const Instruction& row, const ThreadState& state, int lane,
                               const SumsOfProducts& products) {
  const bool adds = state.request.adds;
  const void* sums = sums_of(state);
  std::vector<uint32_t> words(static_cast<size_t>(row.sum_registers()));
  const Fragment& d = row.d();
  for (int r = 0; r < d.elements(); ++r) {
    const MatrixPlace at = d.at(lane, r);
    double sum = adds ? sum_value(row, sums, r) : 0;
    sum = products.add_to(sum, at.row, at.column);
    set_sum(row, words.data(), r, sum);
  }
  return words;
}

// From here on the registers are the instruction's.
void take_registers(ThreadState& lane, std::vector<uint32_t> words) {
  const std::vector<uint32_t> pattern(words.size(), kPendingWord);
  std::memcpy(lane.request.d, pattern.data(), pattern.size() * sizeof(uint32_t));
  lane.wgmma.sums[lane.request.d] = {std::move(words), lane.wgmma.groups, lane.request.line};
}

void begin_reading_registers(const Instruction& row, ThreadState& lane) {
  const WarpRequest& r = lane.request;
  lane.wgmma.fragments.push_back({r.a, {r.a, r.a + row.a_registers()}, lane.wgmma.groups, r.line});
}

void end_reading_registers(const ThreadState& lane, const PendingRegisters& pending, int line) {
  if (std::equal(pending.words.begin(), pending.words.end(), pending.registers)) return;
  fail(FaultKind::WgmmaInFlight, lane, line,
       fmt::format("waits for the wgmma at line {}, whose operand A was changed in registers "
                   "meanwhile",
                   pending.line));
}

void land_sums(ThreadState& lane, void* registers, const PendingSums& pending, int line) {
  const std::vector<uint32_t> pattern(pending.words.size(), kPendingWord);
  const size_t bytes = pattern.size() * sizeof(uint32_t);
  if (std::memcmp(registers, pattern.data(), bytes) != 0) {
    fail(FaultKind::WgmmaInFlight, lane, line,
         fmt::format("waits for the wgmma at line {}, whose accumulators were changed meanwhile",
                     pending.line));
  }
  std::memcpy(registers, pending.words.data(), bytes);
}

}  // namespace

void multiply_warpgroup(const std::vector<ThreadState*>& lanes, Memory& memory,
                        int compute_capability, EmulatorCounters& counters) {
  const WarpRequest& first = lanes[0]->request;
  const auto number = static_cast<size_t>(first.variant / kWays);
  const Instruction& row = first.selector >= 0 ? sparse_wgmma_rows()[number] : wgmma_rows()[number];
  const Instruction stored = row.stored();  // as A is given
  check_lanes(row, lanes);
  SharedOperand b(*first.shared_b, (first.variant & 2) != 0, row, row.b_operand(), 'B');
  b.check(*lanes[0], first.line);
  std::optional<SharedOperand> a;
  if (first.shared_a) {
    a.emplace(*first.shared_a, (first.variant & 1) != 0, stored, row.operand, 'A');
    a->check(*lanes[0], first.line);
  }
  for (size_t warp = 0; warp < kWarps; ++warp) {
    ThreadState& lane = *lanes[warp * kWarp];
    if (a) {
      const auto rows = static_cast<int64_t>(warp) * kRowsOfWarp;
      lane.wgmma.reads.push_back(a->begin_reading(memory, lane, rows, kRowsOfWarp, first.line));
    }
    lane.wgmma.reads.push_back(b.begin_reading(memory, lane, 0, row.n, first.line));
  }
  Matrix x = matrix_a(stored, lanes, a ? &*a : nullptr), y(row.k, row.n);
  if (row.is_sparse()) x = spread_by_metadata(row, first.selector, lanes, x);
  for (int k = 0; k < row.k; ++k) {
    for (int j = 0; j < row.n; ++j) y.at({k, j}) = b.value(j, k);
  }
  const SumsOfProducts products(row, compute_capability == 0 ? TensorSums() : wgmma_sums(row), x,
                                y);
  for (int lane = 0; lane < kWarpgroup; ++lane) {
    ThreadState& state = *lanes[static_cast<size_t>(lane)];
    if (!a) begin_reading_registers(stored, state);
    take_registers(state, new_sums(row, state, lane, products));
  }
  ++counters.wgmma;
  counters.mma_operations += int64_t{2} * kWarpgroupRows * row.n * stored.k;
}

void fence_registers(const std::vector<ThreadState*>& lanes) {
  for (ThreadState* lane : lanes) lane->wgmma.is_fenced = lane->wgmma.is_a_fenced = true;
}

void commit_group(const std::vector<ThreadState*>& lanes) {
  for (ThreadState* lane : lanes) {
    ++lane->wgmma.groups;
    lane->wgmma.is_a_fenced = false;
  }
}

void wait_for_groups(const std::vector<ThreadState*>& lanes, Memory& memory) {
  for (ThreadState* lane : lanes) {
    WgmmaState& state = lane->wgmma;
    const int line = lane->request.line;
    const int64_t end = state.groups - lane->request.variant;
    std::erase_if(state.sums, [&](const auto& entry) {
      const bool lands = entry.second.group < end;
      if (lands) land_sums(*lane, entry.first, entry.second, line);
      return lands;
    });
    std::erase_if(state.reads, [&](const PendingReads& reads) {
      const bool ends = reads.group < end;
      for (size_t i = 0; ends && i < reads.offsets.size(); ++i) {
        memory.end_async_read(*lane, *reads.array, reads.offsets[i], reads.line);
      }
      return ends;
    });
    std::erase_if(state.fragments, [&](const PendingRegisters& fragment) {
      const bool ends = fragment.group < end;
      if (ends) end_reading_registers(*lane, fragment, line);
      return ends;
    });
    state.is_fenced = state.is_a_fenced = false;  // what landed may be touched
  }
}

void require_landed(const ThreadState& thread) {
  if (thread.wgmma.sums.empty()) return;
  const int line = thread.wgmma.sums.begin()->second.line;
  fail(FaultKind::WgmmaInFlight, thread, line,
       fmt::format("returns without waiting for the wgmma at line {}, or for a group that it was "
                   "committed to",
                   line));
}

}  // namespace tilewright::emulator
