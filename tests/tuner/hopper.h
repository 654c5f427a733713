// Shared helpers of tests of sm_90a kernels.
#pragma once

#include <string>

#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {

// With `sms` SMs, for grids made for the chip; 0 keeps the real number.
inline Target hopper(int sms = 0) {
  Target target = Target::parse("cuda:sm_90a");
  if (sms > 0) target.gpu.sms = sms;
  return target;
}

inline Workload workload(const std::string& spec) { return make_workload(parse_spec(spec)); }

inline std::string text_of(const Schedule& s, const Target& target = hopper()) {
  return generate_cuda(s.module(), target).text;
}

// The wgmma instruction for operands of this type.
inline std::string wgmma_for(ElemType elem) {
  switch (elem) {
    case ElemType::f8e4m3: return "wgmma_f32_e4m3";
    case ElemType::i8: return "wgmma_s32_s8";
    case ElemType::u8: return "wgmma_s32_u8";
    default: return "wgmma_f32_" + std::string(to_string(elem));
  }
}

// With wgmma and this tile, on a plain grid: no parts, rows in order, results stored directly.
inline Choices plain_wgmma(const Workload& w, const std::string& tile) {
  return {{".parts?", 1},      {".mma", wgmma_for(w.inputs.front().buffer->elem)},
          {".tile", tile},     {".stages", 3},
          {".pending?", 1},    {".stores", "direct"},
          {".order?", "rows"}, {".group?", 1},
          {".grid?", "tiles"}, {".blocks?", 1}};
}

}  // namespace tilewright
