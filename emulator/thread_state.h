// A thread of an emulated block, as its memory, its collectives and the scheduler see it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/memory/order.h"
#include "emulator/prelude/host_abi.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright::emulator {

constexpr int kSelectors = 4;  // of metadata, at most
constexpr int kWays = 4;       // in which two operands run along or across their terms

// An asynchronous copy under way: bytes on their way to an array in shared memory.
struct AsyncCopy {
  tw_emu_array* to;
  int64_t offset;
  std::array<unsigned char, 16> bytes;
  int count;
  int line;
};

// Accumulators that asynchronous matrix instructions will write to registers of a thread.
struct PendingSums {
  std::vector<uint32_t> words;
  int64_t group;  // of commits, the last one that has a part in it
  int line;
};

// Bytes of shared memory that such an instruction reads until its group has been waited for.
struct PendingReads {
  tw_emu_array* array;
  std::vector<int64_t> offsets;
  int64_t group;
  int line;
};

// An operand A in a thread's registers, which stay as they are until its group has been waited for.
struct PendingRegisters {
  const unsigned* registers;
  std::vector<uint32_t> words;  // that it had when it was given
  int64_t group;
  int line;
};

struct WgmmaState {
  bool is_fenced = false;    // by a wgmma.fence, since registers may have been touched
  bool is_a_fenced = false;  // likewise those of an operand A, which are made anew for each group
  int64_t groups = 0;        // that were committed
  std::map<void*, PendingSums> sums;
  std::vector<PendingRegisters> fragments;
  std::vector<PendingReads> reads;  // of the warp: its first lane has them
};

// A bulk copy under way: many bytes by one thread, which an mbarrier counts (to shared memory) or a
// group of the thread (from shared memory).
struct BulkCopy {
  // Bytes next to each other; those of the copy stand one stretch behind another.
  struct Stretch {
    tw_emu_array* to;
    int64_t offset;
    int64_t bytes;
  };
  std::vector<Stretch> stretches;
  std::vector<unsigned char> bytes;
  std::vector<Stretch> sources = {};  // in shared memory, until they have been read
  uint32_t by = 0;                    // the id of the thread that asked
  int line = 0;
};

enum class Space : uint8_t { Global, Shared };
enum class AccessKind : uint8_t { Load, Store, AsyncStore };

// An access as the counters need it.
struct Access {
  const void* site;  // the address of the instruction that asked: one for all lanes
  int64_t address;
  int16_t bytes;
  Space space;
  AccessKind kind;
};

// The request that a lane makes together with others of its warp.
struct WarpRequest {
  enum class Kind : uint8_t {
    Sync,
    Shuffle,
    LdMatrix,
    StMatrix,
    Mma,
    SparseMma,
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait,
    Wgmma
  };
  Kind kind = Kind::Sync;
  unsigned mask = 0xffffffffu;
  int line = 0;
  // The row of an mma; of a sparse one kSelectors times it, plus the selector; matrices and
  // transposition of an ldmatrix or stmatrix; of a wgmma kWays times its row, plus which operands run
  // across their terms; how many groups may be pending behind a wait.
  int variant = 0;
  uint64_t value = 0;  // of a shuffle; metadata
  int source = 0;
  bool adds = false;  // whether a wgmma does, to its sums
  int selector = -1;  // of a wgmma whose A is sparse, which `variant` counts apart
  tw_emu_array* array = nullptr;
  int64_t offset = 0;
  void* d = nullptr;
  const unsigned *a = nullptr, *b = nullptr;
  const void* c = nullptr;
  const tw_operand *shared_a = nullptr, *shared_b = nullptr;  // of a wgmma

  // Whether both are the same operation of the warp.
  bool matches(const WarpRequest& o) const {
    return kind == o.kind && mask == o.mask && line == o.line && variant == o.variant &&
           selector == o.selector;
  }
};

struct ThreadState {
  enum class Wait : uint8_t {
    Ready,
    Block,
    Cluster,
    Warp,
    MBarrier,
    NamedBarrier,
    Registers,
    Others,  // to run as far as they can, before it looks at a barrier
    Done
  };

  int index = 0;          // in the block
  int rank = 0;           // of the block in its cluster
  int place = 0;          // in the cluster
  int place_of_warp = 0;  // likewise
  uint32_t id = 0;        // in the launch, from 1
  tw_emu_dim position = {};
  tw_emu_dim block = {};
  Wait wait = Wait::Ready;
  int barrier_line = 0;
  int64_t barrier = 0;  // which one: an mbarrier's place in shared memory, a named barrier's number
  uint32_t epoch = 0;   // block barriers since the program began: it orders all of a block
  uint32_t warp_epoch = 0;  // __syncwarp in this warp: it orders lanes
  uint32_t clock = 0;       // times that it told others by a barrier of another kind
  Order seen;               // what such barriers told it
  // The mbarriers that it has made and fenced, and those of others that relaxed barriers told of.
  Order fenced_inits, seen_inits;
  bool may_overlap = false;      // the launch before has perhaps not ended yet
  bool came_to_cluster = false;  // and has not waited at its barrier since
  int64_t cluster_phase = 0;     // to which it came
  WarpRequest request;
  std::vector<AsyncCopy> uncommitted;
  std::deque<std::vector<AsyncCopy>> groups;
  WgmmaState wgmma;
  std::vector<BulkCopy> uncommitted_stores;
  std::deque<std::vector<BulkCopy>> store_groups;
  // Stretches of shared memory that it wrote since its last fence to the asynchronous proxy.
  std::vector<std::pair<int64_t, int64_t>> unfenced;
  int registers = 0;         // of its warp, as setmaxnreg left them
  int wanted_registers = 0;  // while it waits for them
  std::vector<Access> log;

  int warp() const { return index / kWarp; }
  int lane() const { return index % kWarp; }
};

// Thrown by checks and caught where the thread began; the scheduler adds what it knows.
struct Fault {
  EmulatorFault fault;
  const ThreadState* by = nullptr;  // whose fault it is; null: of the thread that runs
};

[[noreturn]] inline void fail(FaultKind kind, int line, std::string problem,
                              const ThreadState* by = nullptr) {
  Fault fault{.fault = {}, .by = by};
  fault.fault.kind = kind;
  fault.fault.line = line;
  fault.fault.problem = std::move(problem);
  throw fault;
}

}  // namespace tilewright::emulator
