// The loops that measure what this machine can do at best.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "ir/type.h"
#include "runtime/tensor/array.h"
#include "runtime/thread_pool.h"

namespace tilewright {

// f32 operations a second (2 a fused multiply-add) of fused multiply-adds in the widest registers of
// this processor, on all threads of the pool together; the best of several short windows. Time is
// that of each thread on its processor, so that other load on the machine does not lower it much.
double measure_peak_flops(ThreadPool& pool);

// The same of the fastest instructions that sum products of bytes (`factors` i8; on AVX2 of bytes
// widened to 16 bits) or of bf16, tiles among them, a multiplication and an addition being two
// operations; 0 where this processor has none.
double measure_peak(ThreadPool& pool, ElemType factors);

// Several times as much as the last cache holds. Filling it takes longer than reading it.
HostArray words_to_read();
// Bytes a second that the threads of the pool read together from the last `bytes` of the words, each
// its own part again and again, so that they come from the cache that holds them; the best of several
// passes. A pass goes on where the one before it ended, so none has to read all of a large memory.
double measure_read_bandwidth(ThreadPool& pool, const HostArray& words, int64_t bytes);

// Operations of one run of the compute loop, and that run: for tests of its arithmetic.
int64_t peak_loop_operations(int64_t iterations);
float run_peak_loop(int64_t iterations);
// Of one run of the loop over tiles of factors that are all 1: the sum of the six sums' first elements,
// and the operations. Nothing where this processor multiplies no tiles of that type.
std::optional<std::pair<float, int64_t>> run_tile_loop(ElemType factors, int64_t iterations);

}  // namespace tilewright
