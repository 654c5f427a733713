#include "tests/kernels/async_kernels.h"

#include "runtime/tensor/element.h"
#include "tests/kernels/cuda_kernels.h"

namespace tilewright::test {

const char* const kTensorPipeline = R"(
extern "C" __global__ void __launch_bounds__(160, 1) pipeline(
    TW_TENSOR_MAP A, TW_TENSOR_MAP B, TW_TENSOR_MAP C, long long k) {
  TW_SHARED(tw_f16, As, 0, 12288);
  TW_SHARED(tw_f16, Bs, 24576, 6144);
  TW_SHARED(float, Cs, 36864, 2048);
  TW_SHARED(unsigned long long, full, 45056, 3);
  TW_SHARED(unsigned long long, empty, 45080, 3);
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int row = blockIdx.y * 64, column = blockIdx.x * 32;
  const int tiles = (int)((k + 63) / 64);
  if (t == 0) {
    for (int s = 0; s < 3; ++s) {
      tw_mbarrier_init(full + s, 1);
      tw_mbarrier_init(empty + s, 4);
    }
    tw_mbarrier_fence_init();
  }
  __syncthreads();
  if (warp == 4) {
    if (lane == 0) {
      tw_tensor_prefetch(A);
      for (int i = 0; i < tiles; ++i) {
        const int s = i % 3, round = i / 3;
        tw_mbarrier_wait(empty + s, (round & 1) ^ 1);
        tw_mbarrier_arrive_expect_tx(full + s, 12288);
        tw_tensor_load_2d(As + s * 4096, A, i * 64, row, full + s);
        tw_tensor_load_2d(Bs + s * 2048, B, i * 64, column, full + s);
      }
    }
    return;
  }
  float d[4][4] = {};
  for (int i = 0; i < tiles; ++i) {
    const int s = i % 3, round = i / 3;
    tw_mbarrier_wait(full + s, round & 1);
    for (int kk = 0; kk < 4; ++kk) {
      unsigned a[4], b[2];
      const int ra = warp * 16 + lane % 16, ca = kk * 16 + lane / 16 * 8;
      tw_ldmatrix_x4(a, As + (s * 4096 + tw_swizzle<3, 3, 3>(ra * 64 + ca)));
      for (int j = 0; j < 4; ++j) {
        const int rb = j * 8 + lane % 8, cb = kk * 16 + lane / 8 % 2 * 8;
        tw_ldmatrix_x2(b, Bs + (s * 2048 + tw_swizzle<3, 3, 3>(rb * 64 + cb)));
        tw_mma_m16n8k16_f32_f16(d[j], a, b, d[j]);
      }
    }
    tw_fence_async(); __syncwarp();
    if (lane == 0) tw_mbarrier_arrive(empty + s);
  }
  for (int j = 0; j < 4; ++j) {
    for (int e = 0; e < 4; ++e) {
      Cs[(warp * 16 + lane / 4 + e / 2 * 8) * 32 + j * 8 + lane % 4 * 2 + e % 2] = d[j][e];
    }
  }
  tw_fence_async();
  tw_barrier_sync(1, 128);
  if (t == 0) {
    tw_tensor_store_2d(C, column, row, Cs);
    tw_bulk_commit();
    tw_bulk_wait_read<0>();
  }
}
)";

const char* const kClusterPipeline = R"(
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160, 1) pipeline(
    TW_TENSOR_MAP A, TW_TENSOR_MAP B, TW_TENSOR_MAP C, long long k) {
  TW_SHARED(tw_f16, As, 0, 12288);
  TW_SHARED(tw_f16, Bs, 24576, 6144);
  TW_SHARED(float, Cs, 36864, 2048);
  TW_SHARED(unsigned long long, full, 45056, 3);
  TW_SHARED(unsigned long long, empty, 45080, 3);
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, rank = (int)tw_cluster_rank();
  const int row = blockIdx.y * 64, column = blockIdx.x * 32;
  const int tiles = (int)((k + 63) / 64);
  if (t == 0) {
    for (int s = 0; s < 3; ++s) {
      tw_mbarrier_init(full + s, 1);
      tw_mbarrier_init(empty + s, 8);
    }
    tw_mbarrier_fence_init();
  }
  tw_cluster_arrive_relaxed();
  tw_cluster_wait();
  if (warp == 4) {
    if (lane == 0) {
      for (int i = 0; i < tiles; ++i) {
        const int s = i % 3, round = i / 3;
        tw_mbarrier_wait(empty + s, (round & 1) ^ 1);
        tw_mbarrier_arrive_expect_tx(full + s, 12288);
        tw_tensor_multicast_2d(As + (s * 4096 + rank * 2048), A, i * 64, row + rank * 32, full + s, 3);
        tw_tensor_load_2d(Bs + s * 2048, B, i * 64, column, full + s);
      }
    }
  } else {
    float d[4][4] = {};
    for (int i = 0; i < tiles; ++i) {
      const int s = i % 3, round = i / 3;
      tw_mbarrier_wait(full + s, round & 1);
      for (int kk = 0; kk < 4; ++kk) {
        unsigned a[4], b[2];
        const int ra = warp * 16 + lane % 16, ca = kk * 16 + lane / 16 * 8;
        tw_ldmatrix_x4(a, As + (s * 4096 + tw_swizzle<3, 3, 3>(ra * 64 + ca)));
        for (int j = 0; j < 4; ++j) {
          const int rb = j * 8 + lane % 8, cb = kk * 16 + lane / 8 % 2 * 8;
          tw_ldmatrix_x2(b, Bs + (s * 2048 + tw_swizzle<3, 3, 3>(rb * 64 + cb)));
          tw_mma_m16n8k16_f32_f16(d[j], a, b, d[j]);
        }
      }
      tw_fence_async(); __syncwarp();
      if (lane < 2) tw_mbarrier_arrive_cluster(empty + s, lane);
    }
    for (int j = 0; j < 4; ++j) {
      for (int e = 0; e < 4; ++e) {
        Cs[(warp * 16 + lane / 4 + e / 2 * 8) * 32 + j * 8 + lane % 4 * 2 + e % 2] = d[j][e];
      }
    }
    tw_fence_async();
    tw_barrier_sync(1, 128);
    if (t == 0) {
      tw_tensor_store_2d(C, column, row, Cs);
      tw_bulk_commit();
      tw_bulk_wait_read<0>();
    }
  }
  tw_cluster_arrive();
  tw_cluster_wait();
}
)";

TensorMapValues matrix_map(ElemType elem, int64_t rows, int64_t columns, int64_t box_rows,
                           int64_t box_columns, TensorSwizzle swizzle) {
  TensorMapValues map;
  map.elem = elem;
  map.rank = 2;
  map.dims = {columns, rows};
  map.strides = {0, bytes_for(elem, columns)};
  map.box = {box_columns, box_rows};
  map.swizzle = swizzle;
  return map;
}

PipelineRun run_pipeline(const std::string& text, int64_t m, int64_t n, int64_t k, uint64_t seed,
                         TensorSwizzle swizzle, int64_t rows_of_a) {
  auto count = [](int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); };
  auto halves = [](const std::vector<float>& values) {
    std::vector<uint16_t> bits;
    for (float v : values) {
      bits.push_back(static_cast<uint16_t>(encode_element(ElemType::f16, static_cast<double>(v))));
    }
    return bits;
  };
  std::vector<float> a = numbers(count(m, k), 1), b = numbers(count(n, k), 2);
  PipelineRun run{std::vector<float>(count(m, n)), std::vector<float>(count(m, n)), {}};
  for (size_t i = 0; i < run.want.size(); ++i) {
    const size_t row = i / static_cast<size_t>(n), column = i % static_cast<size_t>(n);
    for (size_t x = 0; x < static_cast<size_t>(k); ++x) {
      run.want[i] += a[row * static_cast<size_t>(k) + x] * b[column * static_cast<size_t>(k) + x];
    }
  }
  std::vector<uint16_t> a16 = halves(a), b16 = halves(b);
  EmulatedLaunch launch;
  launch.entry = "pipeline";
  launch.grid = {static_cast<int>((n + 31) / 32), static_cast<int>((m + 63) / 64), 1};
  launch.block = {kPipelineThreads, 1, 1};
  launch.shared_bytes = kPipelineShared;
  using Tensor = EmulatedLaunch::Tensor;
  launch.arguments = {Tensor{0, matrix_map(ElemType::f16, m, k, rows_of_a, 64, swizzle)},
                      Tensor{1, matrix_map(ElemType::f16, n, k, 32, 64, swizzle)},
                      Tensor{2, matrix_map(ElemType::f32, m, n, 64, 32)}, k};
  EmulatorOptions options;
  options.seed = seed;
  run.result = emulate(text, {launch},
                       {{"A", a16.data(), m * k * 2},
                        {"B", b16.data(), n * k * 2},
                        {"C", run.c.data(), m * n * 4, false}},
                       options);
  return run;
}

}  // namespace tilewright::test
