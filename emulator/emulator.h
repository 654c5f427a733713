// Runs CUDA kernels on the CPU to find out whether they are right: a fiber for each thread of a block,
// collectives of warps lane by lane, asynchronous copies that land when they are waited for, and
// checks of every access. A test bench and a source of counts, never a way to run kernels for their
// results. docs/emulator.md says what is checked and counted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernel/tensor_map.h"

namespace tilewright {

/// An operand in global memory. A device would align it to 256 bytes.
struct EmulatedBuffer {
  std::string name;
  void* data = nullptr;
  int64_t bytes = 0;
  /// False for what kernels have to write before they read it: outputs and workspace.
  bool initialized = true;
};

/// One kernel launch. An argument is the position of a buffer, a number, or a tensor map.
struct EmulatedLaunch {
  struct Buffer {
    int index;
  };
  /// A box of a buffer, for a parameter of type TW_TENSOR_MAP.
  struct Tensor {
    int index;
    TensorMapValues map;
  };
  using Argument = std::variant<Buffer, int64_t, double, Tensor>;

  std::string entry;  ///< the name of an extern "C" __global__ function of the text
  std::array<int, 3> grid = {1, 1, 1};
  std::array<int, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;  ///< dynamic shared memory of a block
  std::vector<Argument> arguments;
  /// Registers of a thread, as the kernel was compiled; 0: as many as its block leaves room for.
  /// `setmaxnreg` hands them from warp to warp.
  int registers = 0;
  /// It may start before the launch ahead of it has ended: until a thread has waited for that, it may
  /// not touch global memory.
  bool dependent = false;
};

struct EmulatorOptions {
  /// The order in which ready threads run: 0 is that of their indices, any other number shuffles warps
  /// and lanes anew after each barrier. From 2 on a thread that comes to an mbarrier lets all others run
  /// first, so some warpgroups get ahead. What a right kernel computes does not depend on it.
  uint64_t seed = 0;
  /// Checked operations (accesses, barriers, collectives) of all threads, after which a kernel counts
  /// as one that never ends.
  int64_t step_limit = int64_t{1} << 32;
  /// Times ten, as 90: tensor cores add with as many bits as those of such a device do
  /// (kernel/instructions/tensor_sums.h), and 8-bit floats are converted as there. 0: sums are exact
  /// and rounded once, conversions those of every device.
  int compute_capability = 0;
};

enum class FaultKind {
  OutOfBounds,
  Misaligned,
  UninitializedRead,
  CopyInFlight,  ///< what an asynchronous copy writes was touched before it was waited for
  Race,          ///< two threads touch the same byte, one of them writing, with no barrier between
  DivergentBarrier,     ///< not all threads of the block come to the same __syncthreads
  DivergentCollective,  ///< not all lanes come to the same warp-wide operation
  BadLaunch,            ///< arguments or sizes that do not fit the kernel
  BadBarrier,           ///< an mbarrier or a named barrier that is used as none may be
  BadCopy,              ///< a bulk copy that no device does
  BadRegisters,         ///< a number of registers that a warp cannot have
  Deadlock,             ///< all threads wait, and none can go on
  MissingFence,         ///< the asynchronous proxy, or a wgmma, takes what no fence stands behind
  BadMetadata,          ///< words that say of a sparse operand what the instruction does not allow
  BadDescriptor,        ///< an operand of wgmma that no matrix descriptor describes
  ExitedBlock,    ///< a block of the cluster may have returned when another one reaches into it
  EarlyAccess,    ///< global memory was touched that the launch before may still write or read
  WgmmaInFlight,  ///< what a wgmma reads or writes was touched, or left, before its wait
  StepLimit,
};

/// "out-of-bounds".
std::string_view fault_name(FaultKind kind);

/// The first fault of a kernel.
struct EmulatorFault {
  FaultKind kind = FaultKind::OutOfBounds;
  std::string kernel;
  std::string buffer;  ///< the operand or shared array, where one is concerned
  int64_t index = -1;  ///< of its element
  std::array<int, 3> block = {0, 0, 0};
  std::array<int, 3> thread = {0, 0, 0};
  std::optional<std::array<int, 3>> other_thread;  ///< of a race, in the block `other_block`
  std::array<int, 3> other_block = {0, 0, 0};
  int line = 0;             ///< of the kernels' text, from 1; 0 where none is to blame
  std::string problem;      ///< what happened: "reads As[132], beyond its 128 elements"
  std::string source_line;  ///< the text of the line

  /// All of it, for people.
  std::string to_string() const;
};

/// The work of warps, as far as it matters to speed. An instruction of a warp counts once, however
/// many of its lanes take part.
struct EmulatorCounters {
  int64_t shared_loads = 0, shared_stores = 0;  ///< of warps; ldmatrix, stmatrix apart
  int64_t global_loads = 0, global_stores = 0;
  int64_t async_copies = 0;
  int64_t ldmatrix = 0, stmatrix = 0, mma = 0, shuffles = 0;
  int64_t wgmma = 0;           ///< of warpgroups
  int64_t block_barriers = 0;  ///< of whole blocks
  /// Waits of threads at mbarriers and named barriers; bulk and tensor copies, and their bytes.
  int64_t barrier_waits = 0, bulk_copies = 0, bulk_bytes = 0;
  /// 2 * m * n * k of each mma and wgmma; of a sparse one, k the terms that its stored operand has.
  int64_t mma_operations = 0;
  /// Passes through the 32 banks of 4 bytes that shared memory took, and those that accesses without
  /// bank conflicts would have taken.
  int64_t shared_passes = 0, shared_passes_ideal = 0;
  /// Sectors of 32 bytes that warps touched, an instruction at a time, and the bytes that they wanted.
  int64_t load_sectors = 0, store_sectors = 0;
  int64_t load_bytes = 0, store_bytes = 0;

  int64_t bank_conflicts() const { return shared_passes - shared_passes_ideal; }
  /// All of them by the names above, and `bank_conflicts`.
  std::map<std::string, int64_t> by_name() const;
};

struct EmulatorResult {
  std::optional<EmulatorFault> fault;
  EmulatorCounters counters;  ///< up to the fault
  bool ok() const { return !fault; }
};

/// Runs the launches one after another on the buffers; blocks run one after another, too. `text` is
/// that of the kernels alone. It is compiled by the C++ compiler of the knob TILEWRIGHT_CXX, and kept
/// in the cache of compiled kernels. Ends at the first fault. Safe from many threads at once.
/// Throws CompileError or ToolchainError when the text does not compile.
EmulatorResult emulate(const std::string& text, const std::vector<EmulatedLaunch>& launches,
                       const std::vector<EmulatedBuffer>& buffers,
                       const EmulatorOptions& options = {});

}  // namespace tilewright
