#include "bench/peers/onednn/threads.h"

#include <chrono>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#endif

namespace tilewright::peers {

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP

std::string threading_name() { return "OpenMP"; }

void use_threads(int threads) { omp_set_num_threads(threads); }

void with_threads(int threads, const std::function<void()>& make) {
  use_threads(threads);
  make();
}

// Releases the pool; the next parallel region starts it again.
void stop_spinning() { omp_pause_resource_all(omp_pause_soft); }

#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_TBB

std::string threading_name() { return "TBB"; }

void use_threads(int threads) {
  static std::unique_ptr<tbb::global_control> limit;
  static int limited_to = 0;
  if (limited_to == threads) return;
  limit.reset();
  limit =
      std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads);
  limited_to = threads;
}

void with_threads(int threads, const std::function<void()>& make) {
  use_threads(threads);
  tbb::task_arena arena(threads);
  arena.execute(make);
}

// Idle workers of TBB look for work for well under this time before they sleep.
void stop_spinning() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

#else

std::string threading_name() { return "sequential"; }
void use_threads(int) {}
void with_threads(int, const std::function<void()>& make) { make(); }
void stop_spinning() {}

#endif

}  // namespace tilewright::peers
