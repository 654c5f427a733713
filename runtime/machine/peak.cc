#include "runtime/machine/peak.h"

#include <ctime>

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "kernel/cpu_features.h"
#include "runtime/machine/caches.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/timer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The loops must keep their registers in debug builds too.
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace tilewright {
namespace {

constexpr int64_t kWindowIterations = 200'000;
constexpr int64_t kTileIterations = 20'000;  // as long a window
constexpr int kWindows = 12;
constexpr int kPasses = 16;  // some of them meet nobody else on the memory

// Each loop updates independent sums x = x * a + b, more of them than latency times throughput of
// the unit (8 to 10 on today's cores), fewer than registers; a < 1 keeps them finite. Each returns
// a value that depends on every sum.
struct PeakLoop {
  float (*run)(int64_t iterations);
  int64_t operations;  // an iteration
  int64_t window = kWindowIterations;
};

constexpr float kFactor = 0.999f, kAddend = 0.001f;

#if defined(__x86_64__)

[[gnu::target("avx512f"), gnu::noinline]] float loop_avx512(int64_t iterations) {
  constexpr int kSums = 16;
  __m512 sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(kFactor), b = _mm512_set1_ps(kAddend);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  }
  __m512 total = sum[0];
#pragma GCC unroll 16
  for (int i = 1; i < kSums; ++i) total = _mm512_add_ps(total, sum[i]);
  return _mm512_cvtss_f32(total);
}

[[gnu::target("avx2,fma"), gnu::noinline]] float loop_avx2(int64_t iterations) {
  constexpr int kSums = 12;
  __m256 sum[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(kFactor), b = _mm256_set1_ps(kAddend);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  }
  __m256 total = sum[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total = _mm256_add_ps(total, sum[i]);
  return _mm256_cvtss_f32(total);
}

// Products of zero bytes: the time does not depend on the data.
[[gnu::target("avx512f,avx512vnni"), gnu::noinline]] float loop_i8_avx512(int64_t iterations) {
  constexpr int kSums = 16;
  __m512i sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(1), b = _mm512_setzero_si512();
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
  __m512i total = sum[0];
#pragma GCC unroll 16
  for (int i = 1; i < kSums; ++i) total = _mm512_add_epi32(total, sum[i]);
  return static_cast<float>(_mm512_cvtsi512_si32(total));
}

// Bytes that were widened to 16 bits, in pairs: two instructions where there is none for sums of four.
[[gnu::target("avx2"), gnu::noinline]] float loop_i8_avx2(int64_t iterations) {
  constexpr int kSums = 12;
  __m256i sum[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = _mm256_set1_epi32(i);
  const __m256i a = _mm256_set1_epi16(1), b = _mm256_setzero_si256();
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      // As assembly, since the products never change and would be formed once, or none, being zero.
      __m256i pairs;
      asm volatile("vpmaddwd %3, %2, %0\n\tvpaddd %0, %1, %1"
                   : "=&x"(pairs), "+x"(sum[i])
                   : "x"(a), "x"(b));
    }
  }
  __m256i total = sum[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total = _mm256_add_epi32(total, sum[i]);
  return static_cast<float>(_mm256_cvtsi256_si32(total));
}

[[gnu::target("avx512f,avx512bf16"), gnu::noinline]] float loop_bf16_avx512(int64_t iterations) {
  constexpr int kSums = 16;
  __m512 sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh a = _mm512_cvtne2ps_pbh(sum[1], sum[1]), b = _mm512_cvtne2ps_pbh(sum[0], sum[0]);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], a, b);
  }
  __m512 total = sum[0];
#pragma GCC unroll 16
  for (int i = 1; i < kSums; ++i) total = _mm512_add_ps(total, sum[i]);
  return _mm512_cvtss_f32(total);
}

// AMX: six sums, more than latency times throughput of the unit (52 cycles over 16), and one tile of
// each factor. All tiles are of full size (codegen/intrinsics/intrinsics_amx.cc), and all elements of the factors
// are `one`. In assembly, since no compiler keeps tiles in variables; none touches them in between.
constexpr int kTileSums = 6;
constexpr int64_t kTileElements = 256;  // of a sum

void begin_tiles(const void* ones) {
  alignas(64) unsigned char config[64] = {1};
  for (int tile = 0; tile < 8; ++tile) {
    config[16 + 2 * tile] = 64;
    config[48 + tile] = 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
      "tilezero %%tmm4\n\ttilezero %%tmm5\n\t"
      "tileloadd (%0,%1,1), %%tmm6\n\ttileloadd (%0,%1,1), %%tmm7"
      :
      : "r"(ones), "r"(int64_t{64})
      : "memory");
}

// Gives the sum of the sums' first elements.
template <class Sum>
float end_tiles() {
  alignas(64) Sum sums[kTileSums * kTileElements];
  asm volatile(
      "tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 1024(%0,%1,1)\n\t"
      "tilestored %%tmm2, 2048(%0,%1,1)\n\ttilestored %%tmm3, 3072(%0,%1,1)\n\t"
      "tilestored %%tmm4, 4096(%0,%1,1)\n\ttilestored %%tmm5, 5120(%0,%1,1)\n\ttilerelease"
      :
      : "r"(sums), "r"(int64_t{64})
      : "memory");
  float total = 0;
  for (int64_t i = 0; i < kTileSums; ++i) total += static_cast<float>(sums[i * kTileElements]);
  return total;
}

#define TW_SIX_TILES(instruction)                                                            \
  asm volatile(instruction                                                                   \
               " %tmm7, %tmm6, %tmm0\n\t" instruction " %tmm7, %tmm6, %tmm1\n\t" instruction \
               " %tmm7, %tmm6, %tmm2\n\t" instruction " %tmm7, %tmm6, %tmm3\n\t" instruction \
               " %tmm7, %tmm6, %tmm4\n\t" instruction " %tmm7, %tmm6, %tmm5")

[[gnu::noinline]] float loop_bf16_amx(int64_t iterations) {
  constexpr uint16_t kOne = 0x3f80;
  alignas(64) uint16_t ones[512];
  std::fill(std::begin(ones), std::end(ones), kOne);
  begin_tiles(ones);
  for (int64_t n = 0; n < iterations; ++n) TW_SIX_TILES("tdpbf16ps");
  return end_tiles<float>();
}

[[gnu::noinline]] float loop_i8_amx(int64_t iterations) {
  alignas(64) int8_t ones[1024];
  std::fill(std::begin(ones), std::end(ones), int8_t{1});
  begin_tiles(ones);
  for (int64_t n = 0; n < iterations; ++n) TW_SIX_TILES("tdpbssd");
  return end_tiles<int32_t>();
}

#undef TW_SIX_TILES

#endif

// Four lanes are what every 64-bit processor has; separate multiply and add where there is no more.
[[gnu::noinline]] float loop_generic(int64_t iterations) {
  typedef float Lanes __attribute__((vector_size(16)));
  constexpr int kSums = 12;
  Lanes sum[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sum[i] = Lanes{} + static_cast<float>(i);
  const Lanes a = Lanes{} + kFactor, b = Lanes{} + kAddend;
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sum[i] = sum[i] * a + b;
  }
  Lanes total = sum[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total += sum[i];
  return total[0];
}

PeakLoop peak_loop() {
#if defined(__x86_64__)
  if (cpu_features().count("avx512f")) return {loop_avx512, 2 * 16 * 16};
  if (cpu_features().count("avx2") && cpu_features().count("fma")) return {loop_avx2, 2 * 12 * 8};
#endif
  return {loop_generic, 2 * 12 * 4};
}

// Those of all instructions that sum products of bytes, or of bf16: the fastest counts.
std::vector<PeakLoop> loops_of(ElemType factors) {
  std::vector<PeakLoop> loops;
#if defined(__x86_64__)
  auto has = [](const char* feature) { return cpu_features().count(feature) != 0; };
  if (factors == ElemType::bf16) {
    if (has("amx-bf16"))
      loops.push_back({loop_bf16_amx, kTileSums * 16 * 16 * 64, kTileIterations});
    if (has("avx512bf16")) loops.push_back({loop_bf16_avx512, 2 * 16 * 32});
  } else {
    if (has("amx-int8")) loops.push_back({loop_i8_amx, kTileSums * 16 * 16 * 128, kTileIterations});
    if (has("avx512vnni")) {
      loops.push_back({loop_i8_avx512, 2 * 16 * 64});
    } else if (has("avx2")) {
      loops.push_back({loop_i8_avx2, 2 * 12 * 16});
    }
  }
#endif
  return loops;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// One result a worker, on a cache line of its own.
struct alignas(64) Lane {
  double rate = 0;
  uint64_t sink = 0;
};

struct ComputeJob {
  PeakLoop loop;
  Lane* lanes;
  static void body(void* closure, int64_t begin, int64_t end, int32_t) {
    auto* job = static_cast<ComputeJob*>(closure);
    for (int64_t i = begin; i < end; ++i) {
      double before = thread_seconds();
      float value = job->loop.run(job->loop.window);
      double seconds = thread_seconds() - before;
      job->lanes[i].sink += value > 0;
      job->lanes[i].rate =
          static_cast<double>(job->loop.window * job->loop.operations) / std::max(seconds, 1e-9);
    }
  }
};

// As wide as the processor reads.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::noinline]]
#endif
uint64_t
sum_words(const uint64_t* words, int64_t count) {
  uint64_t sums[64] = {};
  for (int64_t w = 0; w < count; w += 64) {
    for (int64_t k = 0; k < 64; ++k) sums[k] += words[w + k];
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

struct ReadJob {
  const uint64_t* words;
  int64_t part;   // from one worker's words to the next one's
  int64_t count;  // of them in this pass
  int64_t repeats;
  Lane* lanes;
  static void body(void* closure, int64_t begin, int64_t end, int32_t) {
    auto* job = static_cast<ReadJob*>(closure);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t n = 0; n < job->repeats; ++n) {
        job->lanes[i].sink += sum_words(job->words + i * job->part, job->count);
      }
    }
  }
};

}  // namespace

int64_t peak_loop_operations(int64_t iterations) { return iterations * peak_loop().operations; }
float run_peak_loop(int64_t iterations) { return peak_loop().run(iterations); }

std::optional<std::pair<float, int64_t>> run_tile_loop(ElemType factors, int64_t iterations) {
  const std::vector<PeakLoop> loops = loops_of(factors);
  if (loops.empty() || loops[0].window != kTileIterations) return std::nullopt;
  return {{loops[0].run(iterations), loops[0].operations * iterations}};
}

namespace {

double measure(const PeakLoop& loop, ThreadPool& pool) {
  std::vector<Lane> lanes(static_cast<size_t>(pool.threads()));
  ComputeJob job{loop, lanes.data()};
  double best = 0;
  for (int window = 0; window < kWindows; ++window) {
    pool.parallel_for(pool.threads(), ComputeJob::body, &job);
    double total = 0;
    for (const Lane& lane : lanes) total += lane.rate;
    best = std::max(best, total);
  }
  return best;
}

}  // namespace

double measure_peak_flops(ThreadPool& pool) { return measure(peak_loop(), pool); }

double measure_peak(ThreadPool& pool, ElemType factors) {
  double best = 0;
  for (const PeakLoop& loop : loops_of(factors)) best = std::max(best, measure(loop, pool));
  return best;
}

HostArray words_to_read() {
  const CacheSizes& caches = cache_sizes();
  // Threads on several last caches reach all of these.
  const int64_t all = std::max(caches.last, caches.l3_of(available_cores()));
  const int64_t bytes = std::clamp<int64_t>(3 * all, 64 << 20, 1 << 30);
  HostArray words("bandwidth", ElemType::u64, {bytes / 8});
  words.poison();  // pages of zeros may all be one
  return words;
}

double measure_read_bandwidth(ThreadPool& pool, const HostArray& words, int64_t bytes) {
  constexpr int64_t kStep = 64;              // words that sum_words takes at once
  constexpr int64_t kBytesAPass = 48 << 20;  // long beside the start of the loop
  bytes = std::min(bytes, words.bytes());
  const int64_t windows = std::max<int64_t>(1, bytes / kBytesAPass);
  const int64_t count = std::max(kStep, bytes / 8 / pool.threads() / windows / kStep * kStep);
  const int64_t part = count * windows, pass_bytes = count * pool.threads() * 8;
  std::vector<Lane> lanes(static_cast<size_t>(pool.threads()));
  const auto* first = static_cast<const uint64_t*>(words.data()) +
                      std::max<int64_t>(0, words.count() - part * pool.threads());
  ReadJob job{first, part, count, std::max<int64_t>(1, kBytesAPass / pass_bytes), lanes.data()};
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    job.words = first + pass % windows * count;
    double before = steady_seconds();
    pool.parallel_for(pool.threads(), ReadJob::body, &job);
    double seconds = steady_seconds() - before;
    best = std::max(best, static_cast<double>(pass_bytes * job.repeats) / seconds);
  }
  return best;
}

}  // namespace tilewright
