// A cubin's facts on its kernels: their needs of an SM, and the instructions that they consist of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tilewright::cuda {

struct CubinFacts {
  int registers = 0;         ///< of a thread
  int64_t stack_bytes = 0;   ///< local memory of a thread: arrays that are indexed, and spills
  int64_t shared_bytes = 0;  ///< static shared memory of a block
  /// How often each instruction stands in the code: HMMA, LDGSTS, … Of those that tell
  /// how a kernel works: matrix instructions (HMMA.SP with a sparse operand, HGMMA of a
  /// warpgroup), memory (UTMALDG.IM2COL of windows, UTMALDG.MULTICAST to several blocks of a cluster,
  /// UTMALDG.IM2COL.MULTICAST), barriers (UCGABAR of a cluster; ACQBULK, which waits for the end of the
  /// launch before, and PREEXIT, which lets the next one start), shuffles, and operations on bits (LOP3),
  /// which unpack codes.
  std::map<std::string, int> instructions;

  int count(const std::string& mnemonic) const {
    auto found = instructions.find(mnemonic);
    return found == instructions.end() ? 0 : found->second;
  }
  /// Loads and stores of local memory: spills, unless the kernel indexes an array of its own.
  int local_accesses() const { return count("LDL") + count("STL"); }
};

/// Reads the facts of `kernel`. Throws KernelError when the bytes are no cubin, are cut off, or lack
/// the kernel. Instructions are told by the lowest nine bits of their 128, which sm_75 and all later
/// targets share.
CubinFacts cubin_facts(std::string_view cubin, std::string_view kernel);

}  // namespace tilewright::cuda
