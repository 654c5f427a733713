// tune-cli export for CUDA targets: what comes out builds against the driver's header alone and checks
// itself on a device.
#include <gmock/gmock.h>

#include "runtime/cuda/nvrtc.h"
#include "tests/cli/fake_gpu.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kExportSm80 = " --target cuda:sm_80";

class GpuExportCommand : public FakeGpu {
 protected:
  Json export_one(const std::string& arguments, const std::string& environment = "") {
    Ran ran = run("export --json -o out " + arguments + kExportSm80, environment);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? ran.json()["results"][0] : Json();
  }

  bool has_driver_header() {
    return shell(
               "echo '#include <cuda.h>' | cc -I${CUDA_HOME:-/usr/local/cuda}/include -E - "
               ">/dev/null")
               .code == 0;
  }
};

TEST_F(GpuExportCommand, AStoredKernelBuildsAndChecksItselfOnTheDevice) {
  if (!has_driver_header()) GTEST_SKIP() << "no cuda.h";
  const std::string spec = "elementwise:shape=64,fn=relu";
  store_kernel(spec, "tw_relu");
  Json exported = export_one(spec, driver() + " TILEWRIGHT_CUDA=off");
  std::string name = exported["name"], build = exported["build"];
  EXPECT_EQ(exported["files"].size(), 5u);
  EXPECT_THAT(read(dir_ / "out" / (name + ".h")), HasSubstr("Tuned for Fake GPU"));
  EXPECT_THAT(read(dir_ / "out" / (name + ".cu")), HasSubstr("// the text of tw_relu"));
  EXPECT_EQ(read(dir_ / "out" / (name + ".cubin")), "im");
  // The stand-in takes the driver's place.
  build.replace(build.find("-lcuda"), 6, "../driver.so");
  Ran built = shell("cd out && " + build + " -Wall -Wextra -Werror");
  ASSERT_EQ(built.code, 0) << built.err;
  Ran checked = shell("cd out && ./" + name + "_check");
  EXPECT_EQ(checked.code, 0) << checked.out;
  EXPECT_THAT(checked.out, StartsWith("ok: max error 0 "));
  checked = shell("cd out && FAKE_CUDA_KERNEL=wrong ./" + name + "_check");
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.out, HasSubstr("wrong: element 7"));
  checked = shell("cd out && FAKE_CUDA_KERNEL=fault ./" + name + "_check");
  EXPECT_EQ(checked.code, 1);
  EXPECT_THAT(checked.out, HasSubstr("cuCtxSynchronize(): an illegal memory access"));
}

TEST_F(GpuExportCommand, TensorMapsAreMadeWhereKernelsAreLaunched) {
  if (!has_driver_header()) GTEST_SKIP() << "no cuda.h";
  const std::string spec = "elementwise:shape=64,fn=relu";
  store_kernel(spec, "tw_relu", [](CudaDescription& d) {
    TensorMap rows{0, ElemType::f32, {Expr(8), Expr(8)}, {Expr(32)}, {8, 8}, TensorSwizzle::B32};
    TensorMap row{1, ElemType::f8e4m3, {Expr(256)}, {}, {16}, TensorSwizzle::None};
    TensorMap windows{0,
                      ElemType::f32,
                      {Expr(4), Expr(4), Expr(2), Expr(2)},
                      {Expr(16), Expr(64), Expr(128)},
                      {4, 8},
                      TensorSwizzle::None};
    windows.pixels = PixelBox{{-1, 0}, {-1, 0}, {1, 2}};
    d.source.launches[0].tensor_maps = {rows, row, windows};
  });
  Json exported = export_one(spec, driver() + " TILEWRIGHT_CUDA=off");
  ASSERT_FALSE(exported.is_null());
  std::string name = exported["name"], build = exported["build"];
  const std::string text = read(dir_ / "out" / (name + ".c"));
  EXPECT_THAT(text, HasSubstr("CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,"));
  EXPECT_THAT(text, HasSubstr("CU_TENSOR_MAP_SWIZZLE_32B"));
  EXPECT_THAT(text, HasSubstr("CU_TENSOR_MAP_DATA_TYPE_UINT8, 1,"));
  EXPECT_THAT(text, HasSubstr("&tensor_map_0_0, &tensor_map_0_1, &tensor_map_0_2}"));
  EXPECT_THAT(text, HasSubstr("int lower[] = {-1, 0}, upper[] = {-1, 0};"));
  EXPECT_THAT(text, HasSubstr("steps[] = {1, 1, 2, 1};"));
  EXPECT_THAT(text, HasSubstr("cuTensorMapEncodeIm2col(\n        &tensor_map_0_2, "
                              "CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, "));
  EXPECT_THAT(text, HasSubstr("dims, strides, lower, upper, 4, 8, steps,"));
  build.replace(build.find("-lcuda"), 6, "../driver.so");
  Ran built = shell("cd out && " + build + " -Wall -Wextra -Werror");
  ASSERT_EQ(built.code, 0) << built.err;
  Ran checked = shell("cd out && ./" + name + "_check");
  EXPECT_EQ(checked.code, 0) << checked.out;
}

// Only the later kernels of a program wait so; the stand-in does not mind.
TEST_F(GpuExportCommand, AKernelThatWaitsForTheOneAheadMayStartEarly) {
  if (!has_driver_header()) GTEST_SKIP() << "no cuda.h";
  const std::string spec = "elementwise:shape=64,fn=relu";
  store_kernel(spec, "tw_relu", [](CudaDescription& d) { d.source.launches[0].dependent = true; });
  Json exported = export_one(spec, driver() + " TILEWRIGHT_CUDA=off");
  ASSERT_FALSE(exported.is_null());
  std::string name = exported["name"], build = exported["build"];
  const std::string text = read(dir_ / "out" / (name + ".c"));
  EXPECT_THAT(text, HasSubstr("status = launch_behind(kernels->function[0], "));
  build.replace(build.find("-lcuda"), 6, "../driver.so");
  Ran built = shell("cd out && " + build + " -Wall -Wextra -Werror");
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_EQ(shell("cd out && ./" + name + "_check").code, 0);
}

// Packed weights, several kernels with scratch memory between them, dynamic dimensions, much shared
// memory: all of it compiles with warnings as errors.
TEST_F(GpuExportCommand, DefaultsOfEveryKindCompile) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!has_driver_header()) GTEST_SKIP() << "no cuda.h";
  bool packed = false;
  for (const char* spec :
       {"matmul:m=64,n=64,k=64,dtype=f16", "softmax:m=1..64,n=40",
        "matmul:m=16,n=128,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16"}) {
    Json exported = export_one(std::string("--default '") + spec + "'");
    ASSERT_FALSE(exported.is_null()) << spec;
    std::string name = exported["name"], source = read(dir_ / "out" / (name + ".c"));
    EXPECT_THAT(source, HasSubstr("cuLaunchKernel(kernels->function[0]"));
    EXPECT_THAT(source, Not(HasSubstr("__global__")));
    packed |= read(dir_ / "out" / (name + ".h")).find("_pack_") != std::string::npos;
    Ran built = shell(
        "cd out && cc -fsyntax-only -Wall -Werror "
        "-I${CUDA_HOME:-/usr/local/cuda}/include " +
        name + ".c " + name + "_check.c");
    EXPECT_EQ(built.code, 0) << spec << built.err;
  }
  EXPECT_TRUE(packed) << "one of them has a packed weight";
}

TEST_F(GpuExportCommand, WithoutAKernelItExitsWithSeven) {
  store_kernel("elementwise:shape=64,fn=relu", "tw_relu");
  Ran ran = run("export -o out elementwise:shape=32,fn=relu --target cuda:sm_80");
  EXPECT_EQ(ran.code, 7) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("--default exports the untuned kernel"));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

}  // namespace
}  // namespace tilewright::cli
