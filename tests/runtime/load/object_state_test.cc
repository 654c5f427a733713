// Kernels with memory of their own are not loaded.
#include "runtime/load/object_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::unary_kernel;
using ::testing::HasSubstr;

std::string state_of(const std::string& body) {
  return object_state(compile(unary_kernel(body, 4)).object);
}

TEST(ObjectState, KernelsHaveNone) {
  EXPECT_EQ(state_of("c[0] = a[0];"), "");
  EXPECT_EQ(state_of("extern float expf(float); c[0] = expf(a[0]); __builtin_memcpy(c, a, n + "
                     "((long*)a)[1]);"),
            "");
  EXPECT_EQ(state_of("static const float t[] = {1, 2, 3, 4}; c[0] = t[(int)a[0]];"), "");
}

TEST(ObjectState, IsWhatACallLeavesForTheNext) {
  EXPECT_THAT(state_of("static int calls; c[0] = ++calls;"), HasSubstr("from call to call"));
  EXPECT_THAT(state_of("static int calls = 7; c[0] = ++calls;"), HasSubstr("from call to call"));
  EXPECT_THAT(state_of("extern float expf(float); static char calls; c[0] = expf(++calls);"),
              HasSubstr("from call to call"));
  EXPECT_THAT(state_of("static float last[1024]; c[0] = last[(int)a[0]]; last[(int)a[1]] = a[0];"),
              HasSubstr("4096 bytes from call to call"));
}

TEST(ObjectState, IsRefusedAtLoading) {
  const KernelSource source = unary_kernel("static int calls; c[0] = ++calls;", 4);
  try {
    Kernel kernel(compile(source).object, source.description);
    FAIL() << "loaded";
  } catch (const KernelError& e) {
    EXPECT_THAT(e.what(), HasSubstr("from call to call"));
  }
}

TEST(ObjectState, DamagedObjectsHaveAnAnswer) {
  const std::string object = compile(unary_kernel("static int calls; c[0] = ++calls;", 4)).object;
  for (size_t cut = 0; cut < object.size(); cut += 7) object_state(object.substr(0, cut));
  for (size_t at = 0; at < std::min<size_t>(object.size(), 1024); ++at) {
    std::string damaged = object;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    object_state(damaged);
  }
}

}  // namespace
}  // namespace tilewright
