// Descriptions of CUDA programs, as artifacts hold them.
#include "base/error.h"
#include "kernel/cuda_description.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {
namespace {

CudaDescription example() {
  Var n("n");
  CudaDescription d;
  d.source.target = "cuda:sm_90a";
  d.source.params = {{"A", ElemType::f16, {KernelExtent::dimension(0), 64}, ParamRole::Input},
                     {"C", ElemType::f32, {KernelExtent::dimension(0)}, ParamRole::Output}};
  d.source.dims = {{n, 16, 4096}};
  d.source.scratch = {{"partial", ElemType::f32, n * 4}};
  CudaLaunch launch;
  launch.entry = "tw_rows_0";
  launch.buffers = {0, 2, 1};
  launch.grid = {floordiv(n + 31, Expr(32)), Expr(2), Expr(1)};
  launch.block = {128, 1, 1};
  launch.shared_bytes = 4096;
  launch.dependent = true;
  d.source.launches = {launch};
  d.facts = {{40, 0, {{"HMMA", 16}, {"LDSM", 4}}}};
  d.source.packing.code = "code";
  d.source.packing.flags = {"-O2"};
  d.source.packing.description.main.symbol = "tw_main";
  d.source.packing.description.packs = {
      {"tw_pack_0", {{"W", ElemType::u4, {64, 8}, ParamRole::Weight}, d.source.params[0]}}};
  d.source.packing.description.packs[0].params[1].shape = {64, 64};
  d.emulated = {"matmul:m=64,n=64,k=64", {{"bank_conflicts", 0}}};
  d.packing = {std::string("\177ELF\0", 5), "x86_64"};
  return d;
}

}  // namespace

std::vector<std::string> seed_inputs() {
  CudaDescription plain = example(), with_map = plain;
  TensorMap map;
  map.buffer = 0;
  map.elem = ElemType::f16;
  map.dims = {Expr(64), plain.source.dims[0].var};
  map.strides = {Expr(128)};
  map.box = {64, 16};
  with_map.source.launches[0].tensor_maps = {map};
  return {plain.to_json(), with_map.to_json()};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto read = CudaDescription::from_json(std::string(fuzz::text_of(data, size)));
    std::string written = read.to_json();
    fuzz::require(CudaDescription::from_json(written).to_json() == written,
                  "a description reads back as another one");
    std::vector<int64_t> dims(read.source.dims.size(), 17);
    for (const CudaLaunch& launch : read.source.launches) {
      for (const Expr& size : launch.grid) size_at(size, read.source, dims);
      for (const TensorMap& map : launch.tensor_maps) tensor_map_at(map, read.source, dims);
    }
  } catch (const Error&) {
  }
  return 0;
}
