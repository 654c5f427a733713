// The description that is kept beside the machine code of CUDA kernels.
#include "kernel/cuda_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/compare.h"

namespace tilewright {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

CudaDescription example() {
  Var n("n");
  CudaDescription d;
  d.source.target = "cuda:sm_80";
  d.source.params = {{"A", ElemType::f16, {KernelExtent::dimension(0), 64}, ParamRole::Input},
                     {"C", ElemType::f32, {KernelExtent::dimension(0)}, ParamRole::Output}};
  d.source.dims = {{n, 16, 4096}};
  d.source.scratch = {{"partial", ElemType::f32, n * 4}};
  CudaLaunch first, second;
  first.entry = "tw_rows_0";
  first.buffers = {0, 2};
  first.grid = {floordiv(n + 31, Expr(32)), Expr(2), Expr(1)};
  first.block = {128, 1, 1};
  first.shared_bytes = 4096;
  second.entry = "tw_rows_1";
  second.buffers = {2, 1};
  second.grid = {Expr(1), Expr(1), Expr(1)};
  second.block = {32, 2, 1};
  second.dependent = true;
  d.source.launches = {first, second};
  d.facts = {{40, 0, {{"HMMA", 16}, {"LDSM", 4}}}, {24, 8, {}}};
  d.source.packing.code = "code";
  d.source.packing.flags = {"-O2"};
  d.source.packing.description.main.symbol = "tw_main";
  d.source.packing.description.packs = {
      {"tw_pack_0", {{"W", ElemType::u4, {64, 8}, ParamRole::Weight}, d.source.params[0]}}};
  d.source.packing.description.packs[0].params[1].shape = {64, 64};
  d.emulated = {"matmul:m=64,n=64,k=64", {{"bank_conflicts", 0}, {"load_sectors", 5000000000}}};
  d.packing = {std::string("\177ELF\0", 5), "x86_64"};
  return d;
}

TEST(CudaDescription, ComesBackAsItWas) {
  CudaDescription d = example(), back = CudaDescription::from_json(d.to_json());
  EXPECT_EQ(back.to_json(), d.to_json());
  EXPECT_EQ(back.source.target, "cuda:sm_80");
  EXPECT_EQ(back.source.params[0].shape,
            (std::vector<KernelExtent>{KernelExtent::dimension(0), 64}));
  ASSERT_EQ(back.source.launches.size(), 2u);
  const CudaLaunch& l = back.source.launches[0];
  EXPECT_EQ(l.buffers, (std::vector<int>{0, 2}));
  EXPECT_EQ(l.block, (std::array<int, 3>{128, 1, 1}));
  EXPECT_EQ(l.shared_bytes, 4096);
  EXPECT_FALSE(l.dependent);
  EXPECT_TRUE(back.source.launches[1].dependent);
  Expr blocks = floordiv(Expr(back.source.dims[0].var) + 31, Expr(32));
  EXPECT_TRUE(equal(l.grid[0], blocks)) << "sizes are expressions of the dimensions";
  EXPECT_EQ(back.facts, d.facts);
  EXPECT_EQ(back.emulated, d.emulated);
  EXPECT_EQ(back.source.packing.code, "code");
  EXPECT_EQ(back.source.packing.flags, d.source.packing.flags);
  EXPECT_EQ(back.source.packing.description.packs[0].params[0].elem, ElemType::u4);
  EXPECT_EQ(back.packing.object, d.packing.object) << "bytes, also those that are no text";
  EXPECT_EQ(back.packing.processor, "x86_64");
}

std::string refusal_description(const std::function<void(json&)>& damage) {
  json j = json::parse(example().to_json());
  damage(j);
  try {
    CudaDescription::from_json(j.dump());
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

CudaDescription with_tensor_map() {
  CudaDescription d = example();
  TensorMap map;
  map.buffer = 2;
  map.elem = ElemType::f16;
  map.dims = {Expr(64), d.source.dims[0].var};
  map.strides = {Expr(128)};
  map.box = {64, 128};
  map.swizzle = TensorSwizzle::B128;
  d.source.launches[1].tensor_maps = {map};
  return d;
}

TEST(CudaDescription, TensorMapsComeBackAsTheyWere) {
  CudaDescription d = with_tensor_map(), back = CudaDescription::from_json(d.to_json());
  EXPECT_EQ(back.to_json(), d.to_json());
  EXPECT_TRUE(back.source.launches[0].tensor_maps.empty());
  ASSERT_EQ(back.source.launches[1].tensor_maps.size(), 1u);
  const TensorMap& map = back.source.launches[1].tensor_maps[0];
  EXPECT_EQ(map.buffer, 2);
  EXPECT_EQ(map.box, (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(map.swizzle, TensorSwizzle::B128);
  const TensorMapValues values = tensor_map_at(map, back.source, {100});
  EXPECT_EQ(values.rank, 2);
  EXPECT_EQ(values.dims[1], 100);
  EXPECT_EQ(values.strides[1], 128);
  EXPECT_EQ(values.box_bytes(), 64 * 128 * 2);
  EXPECT_EQ(tensor_map_problem(values, 256), "");

  auto refused = [&](const char* key, const json& value) {
    json j = json::parse(d.to_json());
    j["launches"][1]["tensor_maps"][0][key] = value;
    try {
      CudaDescription::from_json(j.dump());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refused("buffer", 3), HasSubstr("launches[1]: there is no buffer 3"));
  EXPECT_THAT(refused("swizzle", "256B"),
              HasSubstr("the swizzle '256B' is none of none, 32B, 64B and 128B"));
  EXPECT_THAT(refused("strides", json::array()), HasSubstr("and one stride fewer"));
  EXPECT_THAT(refused("box", json::array()), HasSubstr("1 to 5 dimensions"));
  EXPECT_THAT(refused("dims", {64, "m"}), HasSubstr("there is no dimension 'm'"));
}

TEST(CudaDescription, MapsOfWindowsComeBackAsTheyWere) {
  CudaDescription d = with_tensor_map();
  TensorMap& map = d.source.launches[1].tensor_maps[0];
  map.dims = {Expr(64), Expr(7), Expr(9), d.source.dims[0].var};
  map.strides = {Expr(128), Expr(896), Expr(8064)};
  map.pixels = PixelBox{{-1, -2}, {-1, 0}, {1, 2, 1}};
  const CudaDescription back = CudaDescription::from_json(d.to_json());
  EXPECT_EQ(back.to_json(), d.to_json());
  const TensorMap& kept = back.source.launches[1].tensor_maps[0];
  EXPECT_EQ(kept.pixels, map.pixels);
  const TensorMapValues values = tensor_map_at(kept, back.source, {100});
  EXPECT_EQ(values.rank, 4);
  EXPECT_EQ(values.dims[3], 100);
  EXPECT_EQ(values.box_bytes(), 64 * 128 * 2);
  EXPECT_EQ(tensor_map_problem(values, 256), "");

  auto refused = [&](const std::function<void(json&)>& damage) {
    json j = json::parse(d.to_json());
    damage(j["launches"][1]["tensor_maps"][0]);
    try {
      CudaDescription::from_json(j.dump());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(
      refused([](json& j) { j["pixels"]["lower"] = {1}; }),
      HasSubstr("'lower' of a map of windows has 1 numbers; there is one for each of the 2"));
  EXPECT_THAT(refused([](json& j) { j["pixels"].erase("steps"); }), HasSubstr("'steps'"));
  EXPECT_THAT(
      refused([](json& j) {
        j["box"] = {64, 8, 2, 1};
      }),
      HasSubstr("a map of windows has 3 to 5 dimensions, and a box of channels and pixels"));
}

TEST(CudaDescription, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(refusal_description([](json& j) { j = json::array(); }),
              HasSubstr("expected an object"));
  EXPECT_THAT(refusal_description([](json& j) { j["kind"] = "cpu"; }),
              HasSubstr("not that of a CUDA kernel"));
  EXPECT_THAT(refusal_description([](json& j) { j["version"] = 9; }),
              HasSubstr("version 9, this build reads 1"));
  EXPECT_THAT(refusal_description([](json& j) { j["launches"][0]["buffers"][1] = 7; }),
              HasSubstr("launches[0]: there is no buffer 7"));
  EXPECT_THAT(refusal_description([](json& j) { j["launches"][0]["grid"][0] = "m"; }),
              HasSubstr("launches[0]: there is no dimension 'm'"));
  EXPECT_THAT(refusal_description([](json& j) {
                j["launches"][0]["grid"][0] = json::array({"^", 1, 2});
              }),
              HasSubstr("expected a size"));
  EXPECT_THAT(refusal_description([](json& j) {
                j["launches"][1]["block"] = {32, 0, 1};
              }),
              HasSubstr("launches[1]: a block has an extent of 0"));
  EXPECT_THAT(refusal_description([](json& j) { j["launches"][1]["grid"].erase(2); }),
              HasSubstr("launches[1]: grid and block have three extents each"));
  EXPECT_THAT(refusal_description([](json& j) { j["scratch"][0]["elem"] = "f31"; }),
              HasSubstr("scratch[0]: unknown element type 'f31'"));
  EXPECT_THAT(refusal_description([](json& j) { j["facts"].erase(1); }),
              HasSubstr("facts: one a launch is expected"));
  EXPECT_THAT(refusal_description([](json& j) { j["packing"]["object"] = "no base64"; }),
              HasSubstr("packing: key 'object' is no base64"));
  EXPECT_THAT(refusal_description([](json& j) {
                j["packing"]["description"]["packs"][0]["params"][1]["name"] = "D";
              }),
              HasSubstr("packing: it makes 'D', which no kernel takes"));
  EXPECT_THAT(refusal_description([](json& j) { j.erase("launches"); }),
              HasSubstr("missing key 'launches'"));
}

}  // namespace
}  // namespace tilewright
