#include "runtime/load/placed_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/load/perf_map.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

KernelSource scaling(const std::string& factor) {
  KernelSource source;
  source.code = test::kPrelude + R"(
    static const float table[4] = {1, 2, 3, 4};
    int32_t other(void* const* args, const int64_t* dims, const tw_context* context) { return 7; }
    int32_t kernel(void* const* args, const int64_t* dims, const tw_context* context) {
      const float* x = args[0];
      float* y = args[1];
      for (int i = 0; i < 64; ++i) y[i] = x[i] * table[i & 3] * )" +
                factor + R"(;
      return 0;
    })";
  source.description.main = {
      "kernel", {test::param("X", {64}), test::param("Y", {64}, ParamRole::Output)}, 0, 0};
  return source;
}

Kernel placed_kernel(const std::string& object, const KernelSource& source) {
  const auto memory = std::make_shared<CodeMemory>();
  Kernel kernel(object, source.description, memory);
  memory->seal();
  return kernel;
}

float last_of(const Kernel& kernel, float x) {
  alignas(64) float in[64], out[64] = {};
  for (float& v : in) v = x;
  void* args[] = {in, out};
  kernel.launch(args, nullptr, serial_context());
  return out[63];
}

TEST(PlacedObject, ComputesWhatTheLoadedOneDoes) {
  const KernelSource source = scaling("0.5f");
  const std::string object = compile(source).object;
  ASSERT_TRUE(PlacedObject::place(object, std::make_shared<CodeMemory>()).has_value());
  const Kernel loaded(object, source.description);
  Kernel placed = placed_kernel(object, source);
  EXPECT_EQ(last_of(placed, 3), 6);
  EXPECT_EQ(last_of(loaded, 3), 6);
  Dl_info info{};
  auto* function = reinterpret_cast<void*>(placed.main_function());
  EXPECT_EQ(dladdr(function, &info), 0);  // the loader does not know it
  const Kernel moved = std::move(placed);
  EXPECT_EQ(last_of(moved, 5), 10);
}

// A line for perf: first address, bytes and name in one line.
TEST(PlacedObject, ProfilersAreToldOfItWhereTheyAsk) {
  const KernelSource source = scaling("1.5f");
  const std::string object = compile(source).object;
  unlink(perf_map_path().c_str());
  const auto placed = [&] {
    const auto memory = std::make_shared<CodeMemory>();
    Kernel kernel(object, source.description, memory, "scale:\nn=64");
    memory->seal();
    return reinterpret_cast<uintptr_t>(kernel.main_function());
  };
  placed();
  EXPECT_EQ(access(perf_map_path().c_str(), F_OK), -1) << "nobody asked";
  setenv("TILEWRIGHT_PERF_MAP", "1", 1);
  const uintptr_t main = placed();
  unsetenv("TILEWRIGHT_PERF_MAP");
  std::ifstream map(perf_map_path());
  uintptr_t first = 0;
  size_t bytes = 0;
  std::string name, next;
  map >> std::hex >> first >> bytes >> name >> next;
  EXPECT_GE(main, first);
  EXPECT_LT(main, first + bytes);
  EXPECT_EQ(name + " " + next, "scale: n=64");
  unlink(perf_map_path().c_str());
}

TEST(PlacedObject, ObjectsOfOneTextAreApart) {
  const KernelSource source = scaling("0.5f");
  const std::string object = compile(source).object;
  auto memory = std::make_shared<CodeMemory>(1 << 20);
  const Kernel a(object, source.description, memory);
  {
    const Kernel b(object, source.description, memory);
    EXPECT_NE(a.main_function(), b.main_function());
  }
  memory->seal();
  memory.reset();
  EXPECT_EQ(last_of(a, 1), 2);
}

// A call of libm is a relocation, and so the loader's.
TEST(PlacedObject, LeavesRelocationsToTheLoader) {
  KernelSource source = scaling("sinhf(x[i])");
  source.code = "float sinhf(float);\n" + source.code;
  const std::string object = compile(source).object;
  EXPECT_FALSE(PlacedObject::place(object, std::make_shared<CodeMemory>()).has_value());
  const Kernel kernel = placed_kernel(object, source);
  EXPECT_EQ(last_of(kernel, 0), 0);
}

TEST(PlacedObject, FindsItsOwnFunctionsAlone) {
  KernelSource source = scaling("1");
  const std::string object = compile(source).object;
  const auto placed = PlacedObject::place(object, std::make_shared<CodeMemory>());
  ASSERT_TRUE(placed.has_value());
  EXPECT_NE(placed->symbol(object, "kernel"), nullptr);
  EXPECT_NE(placed->symbol(object, "other"), placed->symbol(object, "kernel"));
  for (const char* name : {"system", "", "kerne", "kernel2"}) {
    EXPECT_EQ(placed->symbol(object, name), nullptr) << name;
  }
  source.description.main.symbol = "system";
  EXPECT_THROW(placed_kernel(object, source), KernelError);
}

// Nobody may write code that runs.
TEST(CodeMemory, IsFixedWhenItIsSealed) {
  CodeMemory memory(1 << 16);
  char* first = memory.take(10);
  ASSERT_NE(first, nullptr);
  *first = 1;
  memory.seal();
  EXPECT_DEATH(*first = 2, "");
  char* second = memory.take(10);  // other memory, which may be written
  *second = 1;
  EXPECT_EQ(*first, 1);
}

// An object that the loader would refuse is not placed either.
TEST(PlacedObject, RefusesWhatTheLoaderIsNotGiven) {
  const KernelSource source = scaling("1");
  const std::string object = compile(source).object;
  for (size_t bytes : {size_t{0}, size_t{63}, size_t{200}, object.size() / 2}) {
    EXPECT_THROW(placed_kernel(object.substr(0, bytes), source), KernelError);
  }
}

}  // namespace
}  // namespace tilewright
