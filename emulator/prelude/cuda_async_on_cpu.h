// The second half of what stands before a CUDA kernel that is compiled for the CPU, behind
// cuda_on_cpu.h: mbarriers, named barriers, register budgets, bulk and tensor copies.
#pragma once

struct tw_tensor_map {
  tw_emu_tensor_map* map;
};
#define TW_TENSOR_MAP const tw_tensor_map

template <>
struct tw_emu_of<tw_tensor_map> {
  static constexpr tw_emu_param param = {TW_EMU_TENSOR_MAP, 0, 0};
  TW_FN static tw_tensor_map value(const tw_emu_argument& a) { return {a.map}; }
};

typedef tw_ptr<unsigned long long> tw_emu_barrier;

TW_FN void tw_mbarrier_init(tw_emu_barrier at, int arrivals, TW_LINE) {
  tw_emu.async->mbarrier_init(at.array, at.offset, arrivals, line);
}
TW_FN void tw_mbarrier_fence_init(TW_LINE) { tw_emu.async->mbarrier_fence_init(line); }
TW_FN void tw_mbarrier_invalidate(tw_emu_barrier at, TW_LINE) {
  tw_emu.async->mbarrier_invalidate(at.array, at.offset, line);
}
TW_FN void tw_mbarrier_arrive(tw_emu_barrier at, TW_LINE) {
  tw_emu.async->mbarrier_arrive(at.array, at.offset, line);
}
TW_FN void tw_mbarrier_expect_tx(tw_emu_barrier at, int bytes, TW_LINE) {
  tw_emu.async->mbarrier_expect(at.array, at.offset, bytes, line);
}
TW_FN void tw_mbarrier_arrive_expect_tx(tw_emu_barrier at, int bytes, TW_LINE) {
  tw_emu.async->mbarrier_expect(at.array, at.offset, bytes, line);
  tw_emu.async->mbarrier_arrive(at.array, at.offset, line);
}
TW_FN void tw_mbarrier_wait(tw_emu_barrier at, int parity, TW_LINE) {
  tw_emu.async->mbarrier_wait(at.array, at.offset, parity, line);
}
TW_FN void tw_mbarrier_arrive_cluster(tw_emu_barrier at, int rank, TW_LINE) {
  tw_emu.async->mbarrier_arrive_at(at.array, at.offset, rank, line);
}

TW_FN void tw_grid_wait(TW_LINE) { tw_emu.async->grid_wait(line); }
TW_FN void tw_grid_launch_dependents() {}
TW_FN unsigned tw_cluster_rank() { return tw_emu.cluster_rank; }
TW_FN void tw_cluster_arrive(TW_LINE) { tw_emu.async->cluster_arrive(0, line); }
TW_FN void tw_cluster_arrive_relaxed(TW_LINE) { tw_emu.async->cluster_arrive(1, line); }
TW_FN void tw_cluster_wait(TW_LINE) { tw_emu.async->cluster_wait(line); }

TW_FN void tw_barrier_sync(int number, int threads, TW_LINE) {
  tw_emu.async->named_barrier(number, threads, 1, line);
}
TW_FN void tw_barrier_arrive(int number, int threads, TW_LINE) {
  tw_emu.async->named_barrier(number, threads, 0, line);
}

template <int REGISTERS>
TW_FN void tw_registers_raise(TW_LINE) {
  tw_emu.async->registers(REGISTERS, 1, line);
}
template <int REGISTERS>
TW_FN void tw_registers_lower(TW_LINE) {
  tw_emu.async->registers(REGISTERS, 0, line);
}

TW_FN void tw_fence_async(TW_LINE) { tw_emu.async->fence_async(line); }

template <class T, class U>
TW_FN void tw_bulk_load(tw_ptr<T> to, tw_ptr<U> from, int bytes, tw_emu_barrier barrier, TW_LINE) {
  tw_emu.async->bulk_load(to.array, to.offset, from.array, from.offset, bytes, barrier.array,
                          barrier.offset, line);
}
template <class T, class U>
TW_FN void tw_bulk_store(tw_ptr<T> to, tw_ptr<U> from, int bytes, TW_LINE) {
  tw_emu.async->bulk_store(to.array, to.offset, from.array, from.offset, bytes, line);
}
TW_FN void tw_bulk_commit(TW_LINE) { tw_emu.async->bulk_commit(line); }
template <int PENDING>
TW_FN void tw_bulk_wait(TW_LINE) {
  tw_emu.async->bulk_wait(PENDING, 1, line);
}
template <int PENDING>
TW_FN void tw_bulk_wait_read(TW_LINE) {
  tw_emu.async->bulk_wait(PENDING, 0, line);
}

TW_FN void tw_tensor_prefetch(const tw_tensor_map&, TW_LINE) { tw_emu.async->prefetch(line); }

#define TW_EMU_TENSOR(rank, parameters, places)                                                  \
  template <class T>                                                                             \
  TW_FN void tw_tensor_load_##rank##d(tw_ptr<T> to, const tw_tensor_map& map,                    \
                                      TW_EMU_ARGS parameters, tw_emu_barrier barrier, TW_LINE) { \
    const int at[] = {TW_EMU_ARGS places};                                                       \
    tw_emu.async->tensor_load(to.array, to.offset, map.map, rank, at, barrier.array,             \
                              barrier.offset, line);                                             \
  }                                                                                              \
  template <class T>                                                                             \
  TW_FN void tw_tensor_multicast_##rank##d(tw_ptr<T> to, const tw_tensor_map& map,               \
                                           TW_EMU_ARGS parameters, tw_emu_barrier barrier,       \
                                           unsigned mask, TW_LINE) {                             \
    const int at[] = {TW_EMU_ARGS places};                                                       \
    tw_emu.async->tensor_multicast(to.array, to.offset, map.map, rank, at, barrier.array,        \
                                   barrier.offset, mask, line);                                  \
  }                                                                                              \
  template <class T>                                                                             \
  TW_FN void tw_tensor_store_##rank##d(const tw_tensor_map& map, TW_EMU_ARGS parameters,         \
                                       tw_ptr<T> from, TW_LINE) {                                \
    const int at[] = {TW_EMU_ARGS places};                                                       \
    tw_emu.async->tensor_store(map.map, rank, at, from.array, from.offset, line);                \
  }
#define TW_EMU_ARGS(...) __VA_ARGS__
TW_EMU_TENSOR(1, (int c0), (c0))
TW_EMU_TENSOR(2, (int c0, int c1), (c0, c1))
TW_EMU_TENSOR(3, (int c0, int c1, int c2), (c0, c1, c2))
TW_EMU_TENSOR(4, (int c0, int c1, int c2, int c3), (c0, c1, c2, c3))
TW_EMU_TENSOR(5, (int c0, int c1, int c2, int c3, int c4), (c0, c1, c2, c3, c4))

// Copies of windows: coordinates, then offsets.
#define TW_EMU_IM2COL(rank, parameters, places, offset_parameters, offset_places)               \
  template <class T>                                                                            \
  TW_FN void tw_tensor_im2col_##rank##d(tw_ptr<T> to, const tw_tensor_map& map,                 \
                                        TW_EMU_ARGS parameters, TW_EMU_ARGS offset_parameters,  \
                                        tw_emu_barrier barrier, TW_LINE) {                      \
    const int at[] = {TW_EMU_ARGS places}, offsets[] = {TW_EMU_ARGS offset_places};             \
    tw_emu.async->tensor_im2col(to.array, to.offset, map.map, rank, at, offsets, barrier.array, \
                                barrier.offset, line);                                          \
  }                                                                                             \
  template <class T>                                                                            \
  TW_FN void tw_tensor_im2col_multicast_##rank##d(                                              \
      tw_ptr<T> to, const tw_tensor_map& map, TW_EMU_ARGS parameters,                           \
      TW_EMU_ARGS offset_parameters, tw_emu_barrier barrier, unsigned mask, TW_LINE) {          \
    const int at[] = {TW_EMU_ARGS places}, offsets[] = {TW_EMU_ARGS offset_places};             \
    tw_emu.async->tensor_im2col_multicast(to.array, to.offset, map.map, rank, at, offsets,      \
                                          barrier.array, barrier.offset, mask, line);           \
  }
TW_EMU_IM2COL(3, (int c0, int c1, int c2), (c0, c1, c2), (int o0), (o0))
TW_EMU_IM2COL(4, (int c0, int c1, int c2, int c3), (c0, c1, c2, c3), (int o0, int o1), (o0, o1))
TW_EMU_IM2COL(5, (int c0, int c1, int c2, int c3, int c4), (c0, c1, c2, c3, c4),
              (int o0, int o1, int o2), (o0, o1, o2))
