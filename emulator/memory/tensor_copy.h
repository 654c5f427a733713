// Bulk copies of an emulated block: boxes of operands that tensor maps describe, and plain runs of
// bytes. As the PTX ISA defines them (cp.async.bulk, cp.async.bulk.tensor in tile and im2col mode).
#pragma once

#include <cstdint>
#include <string>

#include "emulator/memory/mbarrier.h"
#include "emulator/memory/memory.h"
#include "kernel/tensor_map.h"

/// A tensor map as emulated kernels have it: the operand, and the box.
struct tw_emu_tensor_map {
  tw_emu_array* array = nullptr;
  tilewright::TensorMapValues values;
};

namespace tilewright::emulator {

/// A place of an array.
struct Place {
  tw_emu_array& array;
  int64_t offset;
};

/// Each makes the copy that `by` asks for, whose bytes are taken now and land later. Throws Fault.
///
/// The box at `at` (elements, innermost first; may lie beyond the operand, where it reads zeros), to
/// shared memory.
BulkCopy load_box(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map, int rank,
                  const int* at, Place to, int line);
/// Windows by a map of pixels, likewise: `at` is the channel, the place of the filter's first element for
/// the first pixel, and the image; `offsets` (width first, two fewer) which element of the filter it is.
/// A place that is none of the bounding box's is a fault.
BulkCopy load_windows(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map, int rank,
                      const int* at, const int* offsets, Place to, int line);
/// Back from there; what lies beyond the operand is not written.
BulkCopy store_box(Memory& memory, ThreadState& by, const tw_emu_tensor_map& map, int rank,
                   const int* at, Place from, int line);
/// Neighbouring bytes, between global and shared memory.
BulkCopy copy_bytes(Memory& memory, ThreadState& by, Place to, Place from, int64_t bytes, int line);

/// A store's group: waits until all but the `pending` newest groups have been read, and if they are to
/// be `written`, until their bytes have come.
void wait_for_stores(Memory& memory, ThreadState& by, int pending, bool written, int line);

}  // namespace tilewright::emulator
