// The text that stands before every CUDA kernel: the functions through which kernels access memory
// and use what warps have beyond plain C++. The same kernel is compiled for a device behind
// `cuda_prelude`, and for the CPU behind the emulation header (emulator/), which defines
// the same names. No text has an #include.
//
// A kernel's text may use the following; the emulator checks all of it.
//
// Memory:
//   TW_IN(T), TW_OUT(T), TW_INOUT(T)       types of operands in global memory
//   TW_MADE(T)                             type of one that an earlier launch writes; it may do so
//                                          until tw_grid_wait()
//   TW_SHARED(T, name, byte_offset, count);
//                                          an array in the block's dynamic shared memory
//   p[i], p[i] = v, p + i                  elements; no & and no dereference
//   tw_swizzle<BITS, BASE, SHIFT>(i)       the index of element i in a swizzled array
//   tw_as<U>(p)                            the same memory as elements of type U
//   tw_ld<N>(p), tw_st<N>(p, v)            a tw_vec<T, N> of 2, 4, 8 or 16 bytes, aligned
//
// Numbers:
//   tw_f16, tw_bf16, tw_e4m3, tw_e5m2      stored floats, converted from and to float
//   tw_tf32(x)                             the bits of x rounded to tf32
//   tw_bits(x), tw_float(bits)             a float as its bits and back
//   tw_exp2(x)                             2^x by one instruction, to 2 ulp; 0 below 2^-126
//   tw_softened(x)                         1, or 2^23 / |x| where that is less
//   tw_either(condition, a, b)             a or b, both of which are computed
//   tw_quotient(x, y)                      x / y by the reciprocal of y, to 2 ulp
//   tw_pack(lo, hi)                        two 16-bit elements as one packed register
//   tw_cvt_e4m3x2, tw_cvt_e5m2x2(upper, lower), tw_cvt_f16x2_e4m3x2(pair)
//                                          two 8-bit floats from float and to f16, where TW_FP8_CVT is
//                                          defined: from sm_89 on
//
// Asynchronous copies:
//   tw_cp_async<B>(shared, global), tw_cp_async_zfill<B>(shared, global, valid_bytes),
//   tw_cp_async_commit(), tw_cp_async_wait<N>()
//                                          asynchronous copies of B = 4, 8 or 16 bytes
//
// Matrix instructions:
//   tw_ldmatrix_x1|x2|x4[_trans](r, row_pointer)
//                                          fragments of 8x8 matrices of 16-bit elements
//   tw_stmatrix_x1|x2|x4[_trans](row_pointer, r)
//                                          back to shared memory, from sm_90 on
//   tw_mma_<row>(d, a, b, c)               the rows of mma_rows.h
//   tw_mma_<row><SELECTOR>(d, a, b, c, e)  the sparse rows of mma_rows.h, with metadata e
//
// Asynchronous matrix instructions of warpgroups:
//   tw_wgmma_<row><A_ACROSS, B_ACROSS>(d, a, b, scale_d)
//                                          the rows of wgmma_rows.h: adds to D where scale_d is not
//                                          0; ACROSS is 1 for 16-bit operands that are MN-major,
//                                          other rows have no <>; an A in registers stays until its
//                                          group has landed
//   tw_wgmma_<row><SELECTOR, A_ACROSS, B_ACROSS>(d, a, b, e, scale_d)
//                                          the sparse rows of wgmma_rows.h, with metadata e
//
// Their operands and order:
//   tw_wgmma_operand<SWIZZLE>(p, leading, stride)
//                                          an operand in shared memory, a tw_operand: a swizzle of
//                                          0, 32, 64 or 128 bytes, offsets in bytes
//   tw_wgmma_fence()                       before wgmma uses registers that were touched
//   tw_wgmma_commit(), tw_wgmma_wait<N>()  as for copies; until then nobody touches the
//                                          accumulators
//   tw_wgmma_hold(d)                       no access to d is moved past this
//   tw_wgmma_settle(a)                     packed registers get their values here, for a later
//                                          wgmma that reads them
//
// TMA copies:
//   TW_TENSOR_MAP                          the type of a parameter that is a tensor map
//                                          (tensor_map.h)
//   tw_tensor_load_<r>d(shared, map, c0, …, mbarrier), tw_tensor_store_<r>d(map, c0, …, shared),
//   tw_tensor_prefetch(map)                copies of a TMA tile in 1 to 5 dimensions, from sm_90 on
//   tw_tensor_multicast_<r>d(shared, map, c0, …, mbarrier, mask)
//                                          a load to the same place of each block of the mask
//   tw_tensor_im2col_<r>d(shared, map, c0, …, o0, …, mbarrier),
//   tw_tensor_im2col_multicast_<r>d(shared, map, c0, …, o0, …, mbarrier, mask)
//                                          im2col loads of images in 3 to 5 dimensions, at offsets
//
// 1-D bulk copies, and the completion of both kinds:
//   tw_bulk_load(shared, global, bytes, mbarrier), tw_bulk_store(global, shared, bytes)
//                                          1-D bulk copies of multiples of 16 bytes
//   tw_bulk_commit(), tw_bulk_wait<N>(), tw_bulk_wait_read<N>()
//                                          groups of stores of either kind
//   tw_fence_async()                       shows the thread's writes of shared memory to these
//                                          copies and to wgmma, and its reads to loads that write
//                                          there
//
// Barriers:
//   tw_mbarrier_init(p, arrivals), tw_mbarrier_fence_init(), tw_mbarrier_arrive(p),
//   tw_mbarrier_expect_tx(p, bytes), tw_mbarrier_arrive_expect_tx(p, bytes),
//   tw_mbarrier_wait(p, parity), tw_mbarrier_invalidate(p)
//                                          barriers in shared memory, of type unsigned long long
//   tw_barrier_sync(n, threads), tw_barrier_arrive(n, threads)
//                                          named barriers 1 to 15 of a block
//
// Clusters, launches and register budgets:
//   tw_cluster_rank(), tw_cluster_arrive(), tw_cluster_arrive_relaxed(), tw_cluster_wait()
//                                          for blocks in clusters, along x
//   tw_mbarrier_arrive_cluster(p, rank)    at the mbarrier of another block
//   tw_grid_wait()                         waits for the end of the launch before, from sm_90 on
//   tw_grid_launch_dependents()            the next launch may start: it waits for this one's end
//   tw_registers_raise<N>(), tw_registers_lower<N>()
//                                          registers of a warpgroup's threads, on sm_90a
//
// Registers:
//   tw_word_at(p), tw_put_word(p, word)    four bytes of an array in registers
//   tw_dp4a(a, b, c)                       c plus four products of bytes
//   tw_lookup(mine, code)                  of the registers of 16 lanes, the one that the lowest 4
//                                          bits of the code select
//
// It may also use threadIdx and its kin, __syncthreads, __syncwarp, __shfl_sync, __shfl_xor_sync,
// __shfl_down_sync, __shfl_up_sync, min, max and the float functions of CUDA's math library.
#pragma once

#include <string>
#include <string_view>

#include "ir/type.h"

namespace tilewright {

/// The parts of the prelude that `kernel` uses, in an order that compiles.
std::string cuda_prelude(std::string_view kernel);

/// A translation unit for NVRTC or nvcc: the prelude's parts and the kernel. The kernel's lines
/// count from 1 under the file name `name`.
std::string cuda_translation_unit(std::string_view kernel, std::string_view name);

/// The text that a device and emulation share: vectors and stored element types. It requires TW_FN,
/// which declares a function. It also requires tw_bits, tw_float, tw_f16_bits, tw_f16_value and
/// tw_bf16_bits: the bits of floats and of what they round to, and back.
std::string_view cuda_types();

/// The same for elements of a few bits. Besides cuda_types() it requires tw_fma_f16x2 and
/// tw_fma_bf16x2, multiply-adds of pairs of 16-bit numbers in a register. It requires tw_twice_f16
/// and tw_twice_bf16, pairs of the same number, and tw_and_xor.
///   tw_code<BITS>(byte, slot), tw_put_code<BITS>(byte, slot, code)   a code among those of a byte
///   tw_i4(code), tw_i2, tw_i1, tw_f4e2m1, tw_nf4, tw_e8m0            a dequantized value
///   tw_f16x2_u4(word, shift, zero) and its kin                       a packed register of elements
/// A register `tw_<to>x<n>_<from>` has n elements of `to`, less the zero point. The first one's
/// code stands in `word` at `shift`, each further one as many bits further on as an element of `to`
/// has.
std::string_view cuda_codes();

/// Whether a function makes registers of `to` from codes of `from`, rounded where `to` does not
/// hold their values.
bool has_code_registers(ElemType from, ElemType to);

/// The same for numbers from a table: rounded, or as two elements each, the rounded number and what
/// that leaves. Stands behind cuda_codes(). It requires tw_lookup, for which all lanes of a warp
/// meet.
///   tw_f16x2_nf4(word, shift, zero)                                  and of bf16
///   tw_f16x2_nf4_high(word, shift), tw_f16x2_nf4_low(word, shift)    and of bf16
std::string_view cuda_tables();

/// Whether such a table has the dequantized values of codes of this type.
bool is_in_cuda_table(ElemType codes);

/// Whether there are functions that make pairs of registers of `to` from codes of `from`.
bool has_code_halves(ElemType from, ElemType to);

}  // namespace tilewright
