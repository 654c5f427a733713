// What an emulated kernel and the emulator say to each other. This text also heads every emulated
// kernel, before cuda_on_cpu.h, so it includes nothing and stands in no namespace.
#pragma once

// Memory that a kernel may touch through one name: an operand, or an array in shared memory.
struct tw_emu_array;

struct tw_emu_dim {
  unsigned x, y, z;
};

// An operand of a wgmma in shared memory: swizzle and offsets in bytes, as of wgmma_rows.h.
struct tw_operand {
  tw_emu_array* array;
  long long offset;
  int swizzle, leading, stride;
};

// What warpgroups ask for (wgmma.h).
struct tw_emu_wgmma_host {
  void (*fence)(int line);
  void (*commit)(int line);
  void (*wait)(int pending, int line);
  // `row` counts the rows of wgmma_rows.h. A is `registers`, or where these are null `a`; bit 0 of
  // `across` says that A runs across its terms, bit 1 that B does. The sums in `d` are registers.
  void (*multiply)(int row, int across, void* d, const unsigned* registers, const tw_operand* a,
                   const tw_operand* b, int scale_d, int line);
  // The same with a sparse A, with metadata `e` from the lanes that `selector` names.
  void (*multiply_sparse)(int row, int selector, int across, void* d, const unsigned* registers,
                          const tw_operand* a, const tw_operand* b, unsigned e, int scale_d,
                          int line);
};

// What the emulator does for the running thread. `line` is where the kernel's text asks for it, and
// offsets count bytes from the start of the array.
struct tw_emu_host {
  void (*load)(tw_emu_array* array, long long offset, int bytes, void* out, int line);
  void (*store)(tw_emu_array* array, long long offset, int bytes, const void* value, int line);
  tw_emu_array* (*shared)(const char* name, long long offset, long long count, int bytes, int line);
  void (*sync_block)(int line);
  void (*sync_warp)(unsigned mask, int line);
  unsigned long long (*shuffle)(unsigned mask, unsigned long long value, int source, int line);
  void (*copy_async)(tw_emu_array* to, long long to_offset, tw_emu_array* from,
                     long long from_offset, int bytes, int valid, int line);
  void (*copy_commit)(int line);
  void (*copy_wait)(int pending, int line);
  void (*ldmatrix)(tw_emu_array* array, long long offset, int count, int transposed, unsigned* r,
                   int line);
  void (*stmatrix)(tw_emu_array* array, long long offset, int count, int transposed,
                   const unsigned* r, int line);
  // `row` counts the rows of mma_rows.h; the accumulators are float, int or tw_f16.
  void (*mma)(int row, void* d, const unsigned* a, const unsigned* b, const void* c, int line);
  // The same with a sparse A, with metadata `e` from the lanes that `selector` names.
  void (*mma_sp)(int row, int selector, void* d, const unsigned* a, const unsigned* b,
                 const void* c, unsigned e, int line);
  const tw_emu_wgmma_host* wgmma;
};

// A box of an operand that tensor copies move.
struct tw_emu_tensor_map;

// What it does about barriers of a part of the block or of its cluster, and about bulk copies;
// likewise.
struct tw_emu_async_host {
  void (*mbarrier_init)(tw_emu_array* array, long long offset, int arrivals, int line);
  void (*mbarrier_fence_init)(int line);
  void (*mbarrier_invalidate)(tw_emu_array* array, long long offset, int line);
  void (*mbarrier_arrive)(tw_emu_array* array, long long offset, int line);
  void (*mbarrier_expect)(tw_emu_array* array, long long offset, int bytes, int line);
  void (*mbarrier_wait)(tw_emu_array* array, long long offset, int parity, int line);
  // Likewise an arrival at the one at the same place of the block `rank` of the cluster.
  void (*mbarrier_arrive_at)(tw_emu_array* array, long long offset, int rank, int line);
  void (*grid_wait)(int line);
  // If it is relaxed, others see initializations of mbarriers alone, those before a fence.
  void (*cluster_arrive)(int relaxed, int line);
  void (*cluster_wait)(int line);
  void (*named_barrier)(int number, int threads, int wait, int line);
  void (*registers)(int count, int more, int line);
  void (*fence_async)(int line);
  void (*bulk_load)(tw_emu_array* to, long long to_offset, tw_emu_array* from,
                    long long from_offset, int bytes, tw_emu_array* barrier,
                    long long barrier_offset, int line);
  void (*bulk_store)(tw_emu_array* to, long long to_offset, tw_emu_array* from,
                     long long from_offset, int bytes, int line);
  // `at` has `rank` coordinates in elements, the innermost first.
  void (*tensor_load)(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                      const int* at, tw_emu_array* barrier, long long barrier_offset, int line);
  // To the same place of each block of the cluster whose bit is set.
  void (*tensor_multicast)(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                           const int* at, tw_emu_array* barrier, long long barrier_offset,
                           unsigned mask, int line);
  // Windows by a map of such: `offsets` has two numbers fewer.
  void (*tensor_im2col)(tw_emu_array* to, long long offset, tw_emu_tensor_map* map, int rank,
                        const int* at, const int* offsets, tw_emu_array* barrier,
                        long long barrier_offset, int line);
  void (*tensor_im2col_multicast)(tw_emu_array* to, long long offset, tw_emu_tensor_map* map,
                                  int rank, const int* at, const int* offsets,
                                  tw_emu_array* barrier, long long barrier_offset, unsigned mask,
                                  int line);
  void (*tensor_store)(tw_emu_tensor_map* map, int rank, const int* at, tw_emu_array* from,
                       long long offset, int line);
  void (*bulk_commit)(int line);
  void (*bulk_wait)(int pending, int written, int line);
  void (*prefetch)(int line);
};

// A parameter of a kernel: a pointer to elements of `bytes`, a number of so many, or a tensor map.
struct tw_emu_param {
  int pointer;  // 0 of a number, 1 of a pointer, TW_EMU_TENSOR_MAP
  int writable, bytes;
};
#define TW_EMU_TENSOR_MAP 2

struct tw_emu_argument {
  tw_emu_array* array;
  long long integer;
  double number;
  tw_emu_tensor_map* map;
};

// A kernel as the emulator finds it: the symbol tw_emu_entry_NAME.
struct tw_emu_entry {
  int count;
  const tw_emu_param* params;
  void (*call)(const tw_emu_argument* arguments);
};

// Set by the emulator before a thread runs: the symbol tw_emu.
struct tw_emu_state {
  const tw_emu_host* host;
  const tw_emu_async_host* async;
  tw_emu_dim thread, block, block_extent, grid_extent;
  unsigned cluster_rank;
  int lane;
};
