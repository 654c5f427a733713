// Tensor maps through the stand-in for libcuda: what the driver is told of them, and what kernels get.
#include "runtime/cuda/tensor_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/program.h"
#include "runtime/error.h"
#include "tests/runtime/cuda/fake_driver.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

// A kernel of C, n x 64 elements of f16 in rows of 72, and of 256 bytes of scratch.
CudaDescription described() {
  CudaDescription d;
  Var n("n");
  d.source.target = "cuda:sm_80";
  d.source.params = {{"C", ElemType::f32, {64}, ParamRole::Output}};
  d.source.dims = {{n, 1, 4096}};
  d.source.scratch = {{"partial", ElemType::u8, Expr(256)}};
  TensorMap rows{0, ElemType::f16, {Expr(64), n}, {n * 0 + 144}, {64, 32}, TensorSwizzle::B128};
  TensorMap bytes{1, ElemType::f8e4m3, {n * 2}, {}, {16}, TensorSwizzle::None};
  CudaLaunch l;
  l.entry = "tw_maps";
  l.buffers = {0};
  l.grid = {Expr(1), Expr(1), Expr(1)};
  l.block = {32, 1, 1};
  l.tensor_maps = {rows, bytes};
  d.source.launches = {l};
  return d;
}

TEST_F(FakeDevice, KernelsGetTensorMapsBehindTheirBuffers) {
  cuda::Device device(0, path);
  cuda::DeviceArray c(device, 256);
  cuda::DeviceProgram program(device, "image", described(), {c.address()}, {100});
  program.launch();
  std::vector<int64_t> told(32);
  c.download(told.data());
  const auto address = static_cast<int64_t>(c.address());
  // Address, type, rank, dims, stride, box; 10 swizzle + 100 promotion.
  EXPECT_THAT(std::vector<int64_t>(told.begin(), told.begin() + 9),
              ElementsAre(address, 6, 2, 64, 100, 144, 64, 32, 230));
  EXPECT_THAT(std::vector<int64_t>(told.begin() + 9, told.begin() + 18),
              ElementsAre(testing::Ne(address), 0, 1, 200, 0, 0, 16, 0, 200));
}

// A map of images of 9 x 7 pixels with 32 channels; corners and steps are given width first.
TensorMap windows() {
  TensorMap map{0,
                ElemType::f16,
                {Expr(32), Expr(7), Expr(9), Expr(5)},
                {Expr(64), Expr(448), Expr(4032)},
                {32, 100},
                TensorSwizzle::B64};
  map.pixels = PixelBox{{-1, -2}, {-3, 4}, {2, 3}};
  return map;
}

TEST_F(FakeDevice, MapsOfWindowsAreMadeByTheirOwnFunction) {
  cuda::Device device(0, path);
  cuda::DeviceArray c(device, 256);
  CudaDescription d = described();
  d.source.launches[0].tensor_maps[0] = windows();
  cuda::DeviceProgram program(device, "image", d, {c.address()}, {100});
  program.launch();
  std::vector<int64_t> told(32);
  c.download(told.data());
  // Address, type, rank, first and last extent, last stride, channels, pixels; swizzle, steps, corners.
  EXPECT_THAT(std::vector<int64_t>(told.begin(), told.begin() + 9),
              ElementsAre(static_cast<int64_t>(c.address()), 6, 4, 32, 5, 4032, 32, 100,
                          0x02'03'02'04'fd'fe'ff));
  d.source.launches[0].tensor_maps[0].box = {32, 2000};
  EXPECT_THAT(error_of<DeviceError>(
                  [&] { cuda::DeviceProgram program(device, "image", d, {c.address()}, {100}); }),
              HasSubstr("kernel 'tw_maps': a tensor map, because a copy moves 2000 pixels; there "
                        "may be 1 to 1024: CUDA_ERROR"));
}

TEST_F(FakeDevice, TensorMapsThatTheDriverRefusesAreExplained) {
  cuda::Device device(0, path);
  cuda::DeviceArray c(device, 256);
  CudaDescription d = described();
  d.source.launches[0].tensor_maps[0].strides = {Expr(136)};
  EXPECT_THAT(error_of<DeviceError>(
                  [&] { cuda::DeviceProgram program(device, "image", d, {c.address()}, {100}); }),
              HasSubstr("kernel 'tw_maps': a tensor map, because dimension 1 has a stride of 136 "
                        "bytes; it is a multiple of 16 below 2^40: CUDA_ERROR"));
}

TEST_F(FakeDevice, ADriverWithoutTensorMapsIsTooOldForTheirKernelsAlone) {
  KernelSource source;
  source.language = SourceLanguage::Cxx;
  source.code = kFakeDriver;
  const std::string name = "cuTensorMapEncodeTiled";
  source.code.replace(source.code.find(name), name.size(), "cuNoSuchFunction");
  const std::string old = dir.path("libcuda-11.so");
  ASSERT_TRUE(write_file_atomic(old, compile(source).object));
  cuda::Device device(0, old);
  cuda::DeviceArray c(device, 256);
  EXPECT_THAT(error_of<DeviceError>([&] {
                cuda::DeviceProgram program(device, "image", described(), {c.address()}, {100});
              }),
              HasSubstr("kernel 'tw_maps' copies by tensor maps, for which the CUDA driver has no "
                        "'cuTensorMapEncodeTiled': that of CUDA 12.0 or newer has"));
  cuda::DeviceArray y(device, 256);
  cuda::DeviceProgram relu(device, "image", fake_relu(), {c.address(), y.address()}, {});
}

}  // namespace
}  // namespace tilewright
