// Collective operations of a warp's lanes: shuffles, `ldmatrix`, `stmatrix` and `mma`, element by
// element as the PTX ISA places them.
#pragma once

#include <vector>

#include "emulator/memory/memory.h"

namespace tilewright::emulator {

// Each works on the requests of a warp's lanes, at the index of each lane; lanes that take no part are
// null. They throw Fault. Their request says where results go; that of a shuffle is `value`.
void shuffle(const std::vector<ThreadState*>& lanes, EmulatorCounters& counters);
// Every lane's row address is a lane's read of 16 bytes.
void load_matrices(const std::vector<ThreadState*>& lanes, Memory& memory,
                   EmulatorCounters& counters);
// Every lane's row address is a lane's write of 16 bytes.
void store_matrices(const std::vector<ThreadState*>& lanes, Memory& memory,
                    EmulatorCounters& counters);
// Products are summed as a device of this compute capability times ten does (kernel/instructions/tensor_sums.h); for
// 0 in f64, and rounded once. The elements of a sparse A go where the metadata put them.
void multiply_matrices(const std::vector<ThreadState*>& lanes, int compute_capability,
                       EmulatorCounters& counters);

}  // namespace tilewright::emulator
