// Many threads at once: all that the interface lets them share. Also built with the thread sanitizer
// (cmake/TilewrightTests.cmake), which sees the races that no result shows.
#include <atomic>
#include <functional>
#include <thread>

#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

constexpr int kThreads = 32;
constexpr const char* kThreadsSpec = "matmul:m=1..64,n=8,k=16";

// Starts `work(t)` on all threads at the same moment; what each says is wrong, or "".
void expect_no_faults(const std::function<std::string(int)>& work) {
  std::vector<std::string> faults(kThreads);
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      faults[static_cast<size_t>(t)] = work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

std::string launched(const tw_kernel* kernel, int64_t m, const Floats& b, const tw_weights* weights,
                     int tag, const tw_executor* executor = nullptr) {
  alignas(64) char workspace[4 * 64];
  Floats a({m, 16}, static_cast<int>(m)), c({m, 8});
  const tw_status status =
      launch(kernel, a, nullptr, c, weights, workspace, sizeof workspace, executor);
  return status == TW_OK ? product_fault(a, b, c, tag) : tw_last_error();
}

HandMade tagged(int tag) {
  return {.spec = kThreadsSpec, .dynamic = true, .tag = tag, .scratch = 64};
}

TEST(ServingThreads, LaunchOneKernel) {
  Database db{tagged(1)};
  Opened opened(db.path());
  PreparedSpec p(opened.library, kThreadsSpec);
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  expect_no_faults([&](int t) {
    std::string fault;
    for (int i = 0; i < 50 && fault.empty(); ++i) {
      // Failures of one thread do not show in another.
      Floats wrong({65, 16}), c({65, 8});
      if (launch(p.kernel, wrong, nullptr, c, packed.weights) == TW_OK) fault = "65 rows ran";
      fault += launched(p.kernel, t + 1, b, packed.weights, 1);
    }
    return fault;
  });
}

// The pool serves one of them at a time; who finds it busy runs alone.
TEST(ServingThreads, LaunchThroughOnePool) {
  Database db{tagged(1)};
  Opened opened(db.path());
  PreparedSpec p(opened.library, kThreadsSpec, 3);
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  tw_pool* pool = nullptr;
  ASSERT_EQ(tw_pool_start(3, &pool), TW_OK) << tw_last_error();
  expect_no_faults([&](int t) {
    std::string fault;
    for (int i = 0; i < 20 && fault.empty(); ++i) {
      fault = launched(p.kernel, t + 20, b, packed.weights, 1, tw_pool_executor(pool));
    }
    return fault;
  });
  tw_pool_stop(pool);
}

// Each thread with kernels and weights of its own, out of one library and its loaded objects.
TEST(ServingThreads, PrepareFromOneLibrary) {
  Database db{tagged(3)};
  Opened opened(db.path());
  Floats b({16, 8}, 2);
  expect_no_faults([&](int t) {
    std::string fault;
    for (int i = 0; i < 3 && fault.empty(); ++i) {
      PreparedSpec p(opened.library, kThreadsSpec, 1, {t + 1});
      if (p.found != TW_OK) return std::string(tw_last_error());
      Packed packed(p.kernel, b);
      fault = launched(p.kernel, t + 1, b, packed.weights, 3);
      const tw_kernel* other = nullptr;
      if (tw_find(p.prepared, "softmax:m=1,n=1", &other) == TW_OK) fault += "found what is not";
    }
    return fault;
  });
}

// The prepared set of one thread outlives the library and the file, whoever launches it meanwhile.
TEST(ServingThreads, LaunchWhileTheLibraryIsClosed) {
  Database db{tagged(4)};
  auto opened = std::make_unique<Opened>(db.path());
  PreparedSpec p(opened->library, kThreadsSpec);
  Floats b({16, 8}, 2);
  Packed packed(p.kernel, b);
  expect_no_faults([&](int t) {
    if (t == 0) opened.reset();
    std::string fault;
    for (int i = 0; i < 20 && fault.empty(); ++i) {
      fault = launched(p.kernel, t + 1, b, packed.weights, 4);
    }
    return fault;
  });
}

// A library that is opened by all threads, each its own, and a log that is called from all of them.
TEST(ServingThreads, OpenAndLogAtOnce) {
  Database db{tagged(5)};
  expect_no_faults([&](int t) {
    Opened opened(db.path());
    PreparedSpec near(opened.library, kThreadsSpec, 2);
    if (near.found != TW_OK) return std::string(tw_last_error());
    return opened.lines.size() == 1 ? std::string() : "the log has not one line";
  });
}

#if defined(__SANITIZE_THREAD__)
// That this program would notice.
TEST(ServingThreadsDeathTest, ARaceEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        int shared = 0;
        std::thread other([&] { ++shared; });
        ++shared;
        other.join();
        std::exit(0);
      },
      ::testing::ExitedWithCode(66), "data race");
}
#endif

}  // namespace
}  // namespace tilewright::serving::testing
