// What tests of kernels for sm_90a have in common.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {

// With so many multiprocessors, for grids that are made for the chip; with 0 as many as it has.
inline Target hopper(int sms = 0) {
  Target target = Target::parse("cuda:sm_90a");
  if (sms > 0) target.gpu.sms = sms;
  return target;
}

inline Workload workload(const std::string& spec) { return make_workload(parse_spec(spec)); }

inline std::string text_of(const Schedule& s, const Target& target = hopper()) {
  return generate_cuda(s.module(), target).text;
}

// The instruction of warpgroups for operands of this type.
inline std::string wgmma_for(ElemType elem) {
  switch (elem) {
    case ElemType::f8e4m3: return "wgmma_f32_e4m3";
    case ElemType::i8: return "wgmma_s32_s8";
    default: return "wgmma_f32_" + std::string(to_string(elem));
  }
}

// The answers, `more` before `config`, of whichever of these blocks the product is: questions begin with
// its name. What is left to answer gets the first answer.
inline Trial answered(nlohmann::json config, const nlohmann::json& more = {},
                      std::initializer_list<const char*> blocks = {"C", "C_acc"}) {
  if (more.is_object()) config.update(more);
  nlohmann::json named;
  for (const auto& [name, answer] : config.items()) {
    for (const char* block : blocks) named[block + name] = answer;
  }
  return Trial::mutate(named.dump(), 0, 1);
}

}  // namespace tilewright
