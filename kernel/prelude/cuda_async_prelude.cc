#include "kernel/prelude/cuda_async_prelude.h"

#include <fmt/format.h>

#include <string_view>

#include "kernel/tensor_map.h"

namespace tilewright {
namespace {

constexpr const char* kMBarriers = R"(
TW_FN void tw_mbarrier_init(unsigned long long* at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(tw_shared_address(at)), "r"(arrivals) : "memory");
}
TW_FN void tw_mbarrier_fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
TW_FN void tw_mbarrier_invalidate(unsigned long long* at) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(tw_shared_address(at)) : "memory");
}
TW_FN void tw_mbarrier_arrive(unsigned long long* at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :: "r"(tw_shared_address(at)) : "memory");
}
TW_FN void tw_mbarrier_expect_tx(unsigned long long* at, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
               :: "r"(tw_shared_address(at)), "r"(bytes) : "memory");
}
TW_FN void tw_mbarrier_arrive_expect_tx(unsigned long long* at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(tw_shared_address(at)), "r"(bytes) : "memory");
}
// Loops, as the instruction gives up after a time of its own choice. With TW_WATCHDOG a wait of more
// nanoseconds is an error of the kernel, in place of one that never ends. Its loop is one statement: where
// a compiler sees the trap as a branch of its own, it moves what wgmma has under way to other registers.
// With TW_SPIN_WAIT the thread is not suspended meanwhile.
#ifdef TW_SPIN_WAIT
#define TW_MBARRIER_LOOK "mbarrier.test_wait.parity"
#else
#define TW_MBARRIER_LOOK "mbarrier.try_wait.parity"
#endif
TW_FN void tw_mbarrier_wait(unsigned long long* at, int parity) {
#ifdef TW_WATCHDOG
  asm volatile("{\n.reg .pred p;\n.reg .u32 begin, now;\n.reg .u64 time;\n"
               "mov.u64 time, %%globaltimer;\n"
               "shr.u64 time, time, 20;\n"
               "cvt.u32.u64 begin, time;\n"
               "LOOK:\n"
               TW_MBARRIER_LOOK ".shared::cta.b64 p, [%0], %1;\n"
               "@p bra ENDED;\n"
               "mov.u64 time, %%globaltimer;\n"
               "shr.u64 time, time, 20;\n"
               "cvt.u32.u64 now, time;\n"
               "sub.u32 now, now, begin;\n"
               "setp.le.u32 p, now, %2;\n"
               "@p bra LOOK;\n"
               "trap;\n"
               "ENDED:\n}"
               :: "r"(tw_shared_address(at)), "r"(parity), "n"(TW_WATCHDOG >> 20) : "memory");
#else
  unsigned ended;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 TW_MBARRIER_LOOK ".shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(ended) : "r"(tw_shared_address(at)), "r"(parity) : "memory");
  } while (ended == 0);
#endif
}
)";

// PTX ISA, griddepcontrol. In a launch that depends on no other, the wait returns at once.
constexpr const char* kGrids = R"(
TW_FN void tw_grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
TW_FN void tw_grid_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
)";

// Operations between the blocks of a cluster. Arrivals and waits keep the scope of the block, as
// those of CUTLASS's ClusterBarrier do: what they order are reads by wgmma that have ended, and
// copies of the asynchronous proxy. With the scope of the cluster ptxas puts a memory barrier of the
// whole GPU before each arrival, and invalidates the first-level cache behind each wait. A device can
// tell the difference (TW_CLUSTER_SCOPE).
// tw_cluster_arrive_relaxed publishes nothing but what a fence before it did (PTX ISA,
// fence.mbarrier_init).
constexpr const char* kCluster = R"(
TW_FN unsigned tw_cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
TW_FN void tw_cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
TW_FN void tw_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
TW_FN void tw_cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
#ifdef TW_CLUSTER_SCOPE
#define TW_ARRIVE_AT "mbarrier.arrive.release.cluster"
#else
#define TW_ARRIVE_AT "mbarrier.arrive"
#endif
TW_FN void tw_mbarrier_arrive_cluster(unsigned long long* at, int rank) {
  asm volatile("{\n.reg .b32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               TW_ARRIVE_AT ".shared::cluster.b64 _, [there];\n}"
               :: "r"(tw_shared_address(at)), "r"(rank) : "memory");
}
)";

constexpr const char* kNamedBarriers = R"(
TW_FN void tw_barrier_sync(int number, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
TW_FN void tw_barrier_arrive(int number, int threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
)";

constexpr const char* kRegisters = R"(
template <int REGISTERS> TW_FN void tw_registers_raise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}
template <int REGISTERS> TW_FN void tw_registers_lower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}
)";

constexpr const char* kFence = R"(
TW_FN void tw_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
)";

constexpr const char* kBulkCopies = R"(
TW_FN void tw_bulk_load(void* to, const void* from, int bytes, unsigned long long* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];"
               :: "r"(tw_shared_address(to)), "l"(from), "r"(bytes),
                  "r"(tw_shared_address(barrier)) : "memory");
}
TW_FN void tw_bulk_store(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to), "r"(tw_shared_address(from)), "r"(bytes) : "memory");
}
)";

constexpr const char* kBulkGroups = R"(
TW_FN void tw_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING> TW_FN void tw_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" :: "n"(PENDING) : "memory");
}
template <int PENDING> TW_FN void tw_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}
)";

// Copies take the map by its address among the parameters; therefore they are inline.
constexpr const char* kTensorMap = R"(
struct alignas(64) tw_tensor_map { unsigned long long words[16]; };
#define TW_TENSOR_MAP const __grid_constant__ tw_tensor_map
TW_FN void tw_tensor_prefetch(const tw_tensor_map& map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}
)";

PreludePiece tensor_piece(int rank) {
  std::string parameters, places, operands;
  for (int d = 0; d < rank; ++d) {
    parameters += fmt::format(", int c{}", d);
    places += fmt::format("{}%{}", d ? ", " : "", d + 2);
    operands += fmt::format(", \"r\"(c{})", d);
  }
  std::string load = fmt::format(
      "\nTW_FN void tw_tensor_load_{0}d(void* to, const tw_tensor_map& map{1},\n"
      "    unsigned long long* barrier) {{\n"
      "  asm volatile(\"cp.async.bulk.tensor.{0}d.shared::cluster.global.tile.mbarrier\"\n"
      "               \"::complete_tx::bytes [%0], [%1, {{{2}}}], [%{3}];\"\n"
      "               :: \"r\"(tw_shared_address(to)), \"l\"(&map){4},\n"
      "                  \"r\"(tw_shared_address(barrier)) : \"memory\");\n}}\n",
      rank, parameters, places, rank + 2, operands);
  std::string multicast = fmt::format(
      "TW_FN void tw_tensor_multicast_{0}d(void* to, const tw_tensor_map& map{1},\n"
      "    unsigned long long* barrier, unsigned mask) {{\n"
      "  asm volatile(\"cp.async.bulk.tensor.{0}d.shared::cluster.global.tile.mbarrier\"\n"
      "               \"::complete_tx::bytes.multicast::cluster [%0], [%1, {{{2}}}], [%{3}], "
      "%{5};\"\n"
      "               :: \"r\"(tw_shared_address(to)), \"l\"(&map){4},\n"
      "                  \"r\"(tw_shared_address(barrier)), \"h\"((unsigned short)mask)\n"
      "               : \"memory\");\n}}\n",
      rank, parameters, places, rank + 2, operands, rank + 3);
  std::string store = fmt::format(
      "TW_FN void tw_tensor_store_{0}d(const tw_tensor_map& map{1}, const void* from) {{\n"
      "  asm volatile(\"cp.async.bulk.tensor.{0}d.global.shared::cta.tile.bulk_group \"\n"
      "               \"[%1, {{{2}}}], [%0];\"\n"
      "               :: \"r\"(tw_shared_address(from)), \"l\"(&map){3} : \"memory\");\n}}\n",
      rank, parameters, places, operands);
  return {{fmt::format("tw_tensor_load_{}d", rank), fmt::format("tw_tensor_multicast_{}d", rank),
           fmt::format("tw_tensor_store_{}d", rank)},
          load + multicast + store};
}

// Im2col copies (TMA). Offsets are 16-bit numbers.
PreludePiece im2col_piece(int rank) {
  std::string parameters, places, offsets, operands;
  for (int d = 0; d < rank; ++d) {
    parameters += fmt::format(", int c{}", d);
    places += fmt::format("{}%{}", d ? ", " : "", d + 2);
    operands += fmt::format(", \"r\"(c{})", d);
  }
  for (int x = 0; x < rank - 2; ++x) {
    parameters += fmt::format(", int o{}", x);
    offsets += fmt::format("{}%{}", x ? ", " : "", rank + 2 + x);
    operands += fmt::format(", \"h\"((unsigned short)o{})", x);
  }
  const int barrier = 2 * rank;
  auto function = [&](const char* name, const char* parameter, const char* qualifier,
                      const std::string& last, const char* operand) {
    return fmt::format(
        "\nTW_FN void {0}_{1}d(void* to, const tw_tensor_map& map{2},\n"
        "    unsigned long long* barrier{3}) {{\n"
        "  asm volatile(\"cp.async.bulk.tensor.{1}d.shared::cluster.global.im2col.mbarrier\"\n"
        "               \"::complete_tx::bytes{4} [%0], [%1, {{{5}}}], [%{6}], \"\n"
        "               \"{{{7}}}{8};\"\n"
        "               :: \"r\"(tw_shared_address(to)), \"l\"(&map){9},\n"
        "                  \"r\"(tw_shared_address(barrier)){10} : \"memory\");\n}}\n",
        name, rank, parameters, parameter, qualifier, places, barrier, offsets, last, operands,
        operand);
  };
  return {{fmt::format("tw_tensor_im2col_{}d", rank),
           fmt::format("tw_tensor_im2col_multicast_{}d", rank)},
          function("tw_tensor_im2col", "", "", "", "") +
              function("tw_tensor_im2col_multicast", ", unsigned mask", ".multicast::cluster",
                       fmt::format(", %{}", barrier + 1), ", \"h\"((unsigned short)mask)")};
}

}  // namespace

std::vector<PreludePiece> async_prelude() {
  std::vector<PreludePiece> pieces = {
      {{"tw_mbarrier_init", "tw_mbarrier_fence_init", "tw_mbarrier_invalidate",
        "tw_mbarrier_arrive", "tw_mbarrier_expect_tx", "tw_mbarrier_arrive_expect_tx",
        "tw_mbarrier_wait"},
       kMBarriers},
      {{"tw_cluster_rank", "tw_cluster_arrive", "tw_cluster_arrive_relaxed", "tw_cluster_wait",
        "tw_mbarrier_arrive_cluster"},
       kCluster},
      {{"tw_grid_wait", "tw_grid_launch_dependents"}, kGrids},
      {{"tw_barrier_sync", "tw_barrier_arrive"}, kNamedBarriers},
      {{"tw_registers_raise", "tw_registers_lower"}, kRegisters},
      {{"tw_fence_async"}, kFence},
      {{"tw_bulk_load", "tw_bulk_store"}, kBulkCopies},
      {{"tw_bulk_commit", "tw_bulk_wait", "tw_bulk_wait_read"}, kBulkGroups},
      {{"TW_TENSOR_MAP", "tw_tensor_map", "tw_tensor_prefetch"}, kTensorMap},
  };
  for (int rank = 1; rank <= kMaxTensorRank; ++rank) pieces.push_back(tensor_piece(rank));
  for (int rank = 3; rank <= kMaxTensorRank; ++rank) pieces.push_back(im2col_piece(rank));
  return pieces;
}

}  // namespace tilewright
