// A launch does nothing besides computing. Seen from malloc, from the locks of threads, and from
// the kernel of the operating system.
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "tests/serving/cuda_fixture.h"
#include "tests/serving/models/model_fixture.h"

// A sanitizer brings an allocator and system calls of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Allocations and locks of this thread while it counts.
namespace {
thread_local bool counting = false;
std::atomic<int> allocations{0}, locks{0};
void count_one() {
  if (counting) ++allocations;
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count_one();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  count_one();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  count_one();
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count_one();
  return __libc_memalign(alignment, bytes);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting) ++locks;
  return lock(mutex);
}
}
#endif

namespace tilewright::serving::testing {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

struct Counts {
  int allocations = 0, locks = 0;
};

// The work of this thread meanwhile.
template <class Work>
Counts counts_of(Work work) {
  const Counts before = {allocations, locks};
  counting = true;
  work();
  counting = false;
  return {allocations - before.allocations, locks - before.locks};
}

TEST(ServingLaunch, IsSeenByTheCounts) {
  std::mutex mutex;
  const Counts seen = counts_of([&] {
    std::lock_guard lock(mutex);
    std::free(std::malloc(100));
  });
  EXPECT_EQ(seen.allocations, 1);
  EXPECT_EQ(seen.locks, 1);
}

TEST(ServingLaunch, AllocatesNothing) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .scratch = 64}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=1..64,n=8,k=16", 3);
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  alignas(64) char workspace[192];
  tw_pool* pool = nullptr;
  ASSERT_EQ(tw_pool_start(3, &pool), TW_OK) << tw_last_error();

  bool served = true;
  const auto serve = [&](const tw_executor* executor) {
    for (int i = 0; i < 1000; ++i) {
      const tw_kernel* kernel = nullptr;
      served &= tw_find(p.prepared, "matmul:m=1..64,n=8,k=16", &kernel) == TW_OK;
      served &= launch(kernel, a, nullptr, c, packed.weights, workspace, sizeof workspace,
                       executor) == TW_OK;
    }
  };
  EXPECT_EQ(counts_of([&] { serve(tw_pool_executor(pool)); }).allocations, 0);
  const Counts alone = counts_of([&] { serve(nullptr); });
  EXPECT_EQ(alone.allocations, 0);
  EXPECT_EQ(alone.locks, 0) << "but those of a pool";
  EXPECT_TRUE(served) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 0), "");
  tw_pool_stop(pool);
}

TEST(ServingLaunch, ARunOfAModelAllocatesNothing) {
  Database db{{.scratch = 64}};
  Floats b({16, 8}, 2), x({2, 2, 16}, 1), flat({4, 16}, 1), y({4, 8}), z({32});
  OpenedModel opened(write_model(db.path(), product_graph(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  bool served = true;
  const Counts counts = counts_of([&] {
    for (int i = 0; i < 1000; ++i) served &= opened.run(x, y, z, nullptr, i % 2 == 0) == TW_OK;
  });
  EXPECT_TRUE(served) << tw_last_error();
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
  EXPECT_EQ(product_fault(flat, b, y, 0), "");
}

TEST(ServingLaunch, ARunOfAModelWithRangesAllocatesNothing) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .scratch = 64}};
  Floats b({16, 8}, 2), x({16, 2, 16}, 1), y({32, 8}), z({256});
  Floats less({2, 2, 16}, 1), less_y({4, 8}), less_z({32});
  OpenedModel opened(write_model(db.path(), ranged_product_graph(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  bool served = true;
  const Counts counts = counts_of([&] {
    for (int i = 0; i < 1000; ++i) {
      served &= (i % 2 == 0 ? opened.run(x, y, z) : opened.run(less, less_y, less_z)) == TW_OK;
    }
  });
  EXPECT_TRUE(served) << tw_last_error();
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

TEST(ServingLaunch, AWriteToAStateAllocatesNothing) {
  Database db{{}};
  Floats b({16, 8}, 2), x({2, 2, 16}, 1), y({4, 8}), z({32});
  OpenedModel opened(write_model(db.path(), with_state(b, 6)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  const Number position(2);
  const DLTensor *inputs[] = {&x.tensor, &position.tensor}, *outputs[] = {&y.tensor, &z.tensor};
  auto args = TW_INIT(tw_model_args);
  args.inputs = inputs;
  args.outputs = outputs;
  args.input_count = args.output_count = 2;
  bool served = true;
  const Counts counts = counts_of([&] {
    for (int i = 0; i < 1000; ++i) served &= tw_model_run(opened.model, &args) == TW_OK;
  });
  EXPECT_TRUE(served) << tw_last_error();
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

TEST(ServingLaunch, ALoopOfAModelAllocatesNothing) {
  Database db{{.scratch = 64}};
  Floats b({16, 8}, 2), xs({3, 4, 16}, 1), ys({3, 4, 8});
  OpenedModel opened(write_model(db.path(), with_loop(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  const Number rounds(3);
  const DLTensor *inputs[] = {&xs.tensor, &rounds.tensor}, *outputs[] = {&ys.tensor};
  auto args = TW_INIT(tw_model_args);
  args.inputs = inputs;
  args.outputs = outputs;
  args.input_count = 2;
  args.output_count = 1;
  bool served = true;
  const Counts counts = counts_of([&] {
    for (int i = 0; i < 1000; ++i) served &= tw_model_run(opened.model, &args) == TW_OK;
  });
  EXPECT_TRUE(served) << tw_last_error();
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

// From here on the thread may leave and wait for threads; any other call of the operating system
// ends the process.
bool forbid_system_calls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Exit status of a child that forbids itself system calls and then runs `work`; -1: it was killed.
template <class Work>
int status_under_filter(Work work) {
  pid_t child = fork();
  if (child == 0) {
    if (!forbid_system_calls()) _exit(77);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ServingLaunch, AsksTheOperatingSystemForNothing) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=1..64,n=8,k=16");
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  const int probe = status_under_filter([] { return getppid() != 0; });
  if (probe == 77) GTEST_SKIP() << "this system forbids filters of system calls";
  EXPECT_EQ(probe, -1) << "the filter lets system calls pass";
  EXPECT_EQ(status_under_filter([&] {
              bool served = true;
              for (int i = 0; i < 100; ++i) {
                const tw_kernel* kernel = nullptr;
                served &= tw_find(p.prepared, "matmul:m=1..64,n=8,k=16", &kernel) == TW_OK;
                served &= launch(kernel, a, nullptr, c, packed.weights) == TW_OK;
              }
              return served;
            }),
            0);
}

// Kernels of a GPU: what is left is the driver's, here a stand-in's.
class ServingLaunchOnAGpu : public ServingCuda {
 protected:
  void SetUp() override {
    ServingCuda::SetUp();
    opened_ = std::make_unique<Opened>(database_with_ranges("Fake GPU"));
    ASSERT_EQ(prepare(*opened_, "cuda:sm_80", &prepared_, kGpuRanges), TW_OK) << tw_last_error();
  }
  void TearDown() override { tw_release(prepared_); }

  // Finds the kernel and launches it at all sizes of both of its ranges.
  bool serve() {
    bool served = true;
    for (int64_t size = 1; size <= 64; ++size) {
      const tw_kernel* kernel = nullptr;
      served &= tw_find(prepared_, kGpuRanges, &kernel) == TW_OK;
      x_.tensor.shape[0] = y_.tensor.shape[0] = size;
      served &= relu(kernel, x_.tensor, y_.tensor) == TW_OK;
    }
    return served;
  }

  test::ScopedEnv rows_{"FAKE_CUDA_ROWS", std::string("1")};
  std::unique_ptr<Opened> opened_;
  tw_prepared* prepared_ = nullptr;
  OnDevice x_, y_;
};

TEST_F(ServingLaunchOnAGpu, AllocatesNothingAndTakesNoLock) {
  bool served = false;
  const Counts during = counts_of([&] { served = serve(); });
  EXPECT_TRUE(served) << tw_last_error();
  EXPECT_EQ(during.allocations, 0);
  EXPECT_EQ(during.locks, 0);
  EXPECT_EQ(y_[63], x_[63] > 0 ? x_[63] : 0);
}

TEST_F(ServingLaunchOnAGpu, AsksTheOperatingSystemForNothing) {
  const int probe = status_under_filter([] { return getppid() != 0; });
  if (probe == 77) GTEST_SKIP() << "this system forbids filters of system calls";
  EXPECT_EQ(probe, -1) << "the filter lets system calls pass";
  EXPECT_EQ(status_under_filter([&] { return serve(); }), 0);
}

#endif

TEST(ServingLaunch, RunsOnTheCallersThreads) {
  Database db{{.packed = false, .scratch = 32}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  struct Rows {
    int64_t asked = 0;
    int calls = 0;
  } rows;
  auto executor = TW_INIT(tw_executor);
  executor.threads = 2;
  executor.pool = &rows;
  // Each iteration by itself, backwards, by two workers in turn.
  executor.parallel_for = [](void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
                             void* closure) {
    auto* seen = static_cast<Rows*>(pool);
    seen->asked = n;
    for (int64_t i = n; i-- > 0; ++seen->calls)
      body(closure, i, i + 1, static_cast<int32_t>(i % 2));
  };
  alignas(64) char workspace[64] = {};
  ASSERT_EQ(launch(p.kernel, a, &b, c, nullptr, workspace, 64, &executor), TW_OK)
      << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 0), "");
  EXPECT_EQ(rows.asked, 4);
  EXPECT_EQ(rows.calls, 4);
  EXPECT_EQ(workspace[63], 1);  // of the second worker

  executor.threads = 0;
  EXPECT_EQ(launch(p.kernel, a, &b, c, nullptr, workspace, 64, &executor), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "tw_executor.threads is 0; expected 1 or more");
  executor.threads = 1;
  executor.parallel_for = nullptr;
  EXPECT_EQ(launch(p.kernel, a, &b, c, nullptr, workspace, 64, &executor), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "'parallel_for' is null");
  tw_pool* pool = nullptr;
  EXPECT_EQ(tw_pool_start(0, &pool), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "threads is 0; expected 1 to 4096");
}

}  // namespace
}  // namespace tilewright::serving::testing
