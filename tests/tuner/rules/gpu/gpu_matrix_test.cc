// Every variant of the GPU sketches with every matrix instruction and every stored form, on small
// shapes in the emulator. The cases come from the tables, so a new row or a new weight type is
// covered automatically.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/instructions/cuda_mma.h"
#include "ir/ops/operator.h"
#include "ir/ops/spec.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

// The first target with the instruction.
const Target* target_of(const Instruction& row) {
  for (const Target& t : cuda_targets()) {
    if (row.runs_on(t.gpu.compute_capability)) return &t;
  }
  return nullptr;
}

// These choices, and the others by the seed.
Schedule with_answers(const Workload& w, const Target& target, const nlohmann::json& answers,
                      uint64_t seed) {
  return gpu_schedule(w, target, Trial::mutate(answers.dump(), 0, seed));
}

TEST(GpuMatrix, EveryPrintedRowServesAProductOfItsTypes) {
  uint64_t seed = 1;
  for (const Instruction& row : mma_rows()) {
    // Only a spec could ask for tf32, and none does.
    if (!is_printed(row) || row.tf32) continue;
    SCOPED_TRACE(row.name);
    const Target* target = target_of(row);
    ASSERT_NE(target, nullptr);
    const std::string types =
        fmt::format("dtype={},dtypes.B={},acc={},out={}", to_string(row.operand),
                    to_string(row.b_operand()), to_string(row.acc), to_string(row.acc));
    std::string spec =
        fmt::format(R"(expr:expr="C[i,j] += A[i,k] * B[j,k]",dims.i=20,dims.j=24,dims.k={},{})",
                    3 * row.k, types);
    nlohmann::json answers = {{"C.gemv", "none"}, {"C.mma", row.name}};
    if (row.operand_bits() < 8) {  // operand A is the weight
      spec = fmt::format("matmul:m=20,n=24,k={},dtype={},w.dtype={}", 3 * row.k,
                         to_string(row.b_operand()), to_string(row.operand));
      answers = {{"C.A.elements", to_string(row.b_operand())}};
    }
    Workload w = make_workload(parse_spec(spec));
    Schedule s = with_answers(w, *target, answers, seed++);
    EXPECT_NE(generate_cuda(s.module(), *target).text.find("tw_mma_" + std::string(row.name) + "("),
              std::string::npos);
    expect_right_on_gpu(w, s, *target);
  }
}

// The variants that the sketch offers for a workload: each option of each of these knobs.
std::vector<nlohmann::json> ways_of_matrix(const Workload& w, const Target& target) {
  std::vector<nlohmann::json> ways;
  Trial first = Trial::first();
  apply_sketch(cuda_sketches().front(), {w, target, 1}, first);
  for (const Decision& d : first.decisions()) {
    bool is_way =
        d.name.ends_with(".layout") || d.name.ends_with(".gemv") || d.name.ends_with(".elements");
    if (!is_way) continue;
    for (const Answer& a : d.options) ways.push_back({{d.name, std::get<std::string>(a)}});
  }
  return ways;
}

std::vector<std::string> stored_types() {
  for (const KeyDef& key : find_operator("matmul")->keys) {
    if (key.name == "w.dtype") return key.choices;
  }
  return {};
}

// All weight types beside all activation types; the pairs rotate through the variants.
TEST(GpuMatrix, EveryStoredTypeIsRightBesideEveryActivation) {
  const Target target = Target::parse("cuda:sm_89");
  uint64_t seed = 1;
  ASSERT_GE(stored_types().size(), 12u);
  for (const char* operand : {"f16", "bf16", "f32", "i8", "u8", "f8e4m3", "f8e5m2", "i4", "u1"}) {
    const bool integers = is_integer(*parse_elem_type(operand));
    for (const std::string& stored : stored_types()) {
      const std::string spec =
          fmt::format("matmul:m={},n=64,k=288,dtype={},w.dtype={},w.group=32{}{}", 1 + seed % 5,
                      operand, stored, seed % 2 ? ",trans_b=true" : "", integers ? ",acc=f32" : "");
      SCOPED_TRACE(spec);
      Workload w = make_workload(parse_spec(spec));
      std::vector<nlohmann::json> ways = ways_of_matrix(w, target);
      if (ways.empty()) ways.push_back(nlohmann::json::object());
      const nlohmann::json& way = ways[seed % ways.size()];
      SCOPED_TRACE(way.dump());
      expect_right_on_gpu(w, with_answers(w, target, way, seed), target);
      ++seed;
    }
  }
}

// Pairs for which other libraries have special kernels, with the instruction for each pair:
// products of many rows on tensor cores, and of one row.
struct Pair {
  const char *types, *many, *one;
};

const Pair kPairs[] = {
    {"dtype=f16,out=f32", "tw_mma_m16n8k16_f32_f16", ""},
    {"dtype=bf16,out=f32", "tw_mma_m16n8k16_f32_bf16", ""},
    {"dtype=f16,out=f32,w.dtype=f8e4m3", "tw_f16x2_f8e4m3", "tw_f16x2_f8e4m3"},
    {"dtype=bf16,out=f32,w.dtype=f8e4m3", "tw_bf16x2_f8e4m3", "tw_f16x2_f8e4m3"},
    {"dtype=f16,out=f32,w.dtype=f8e5m2", "tw_f16x2_f8e5m2", "tw_f16x2_f8e5m2"},
    {"dtype=f16,out=f32,w.dtype=i8", "tw_f16x2_i8", "tw_f16x2_i8"},
    {"dtype=f16,out=f32,w.dtype=u8,w.zero=u8", "tw_f16x2_u8", "tw_f16x2_u8"},
    {"dtype=bf16,out=f32,w.dtype=i8", "tw_bf16x2_i8", "tw_f16x2_i8"},
    {"dtype=f16,out=f32,w.dtype=i4", "tw_f16x2_i4", "tw_f16x2_i4"},
    {"dtype=f16,out=f32,w.dtype=u4,w.zero=u4", "tw_f16x2_u4", "tw_f16x2_u4"},
    {"dtype=bf16,out=f32,w.dtype=u4,w.zero=u4", "tw_bf16x2_u4", "tw_f16x2_u4"},
    {"dtype=f16,out=f32,w.dtype=i2", "tw_f16x2_i2", "tw_f16x2_i2"},
    {"dtype=bf16,out=f32,w.dtype=u2,w.zero=u2", "tw_bf16x2_u2", "tw_f16x2_u2"},
    {"dtype=f16,out=f32,w.dtype=u1", "tw_f16x2_u1", "tw_f16x2_u1"},
    {"dtype=bf16,out=f32,w.dtype=i1", "tw_bf16x2_i1", "tw_f16x2_i1"},
    {"dtype=f16,out=f32,w.dtype=f4e2m1,w.scale=e8m0", "tw_f16x2_f4e2m1", "tw_f16x2_f4e2m1"},
    {"dtype=bf16,out=f32,w.dtype=f4e2m1,w.scale=f8e4m3", "tw_bf16x2_f4e2m1", "tw_f16x2_f4e2m1"},
    {"dtype=f16,out=f32,w.dtype=nf4", "tw_f16x2_nf4", "tw_nf4"},
    {"dtype=bf16,out=f32,w.dtype=nf4", "tw_bf16x2_nf4", "tw_nf4"},
    {"dtype=i8", "tw_mma_m16n8k32_s32_s8", "tw_dp4a"},
    {"dtype=i8,w.dtype=i4", "tw_i8x4_i4", "tw_i8x4_i4"},
    {"dtype=i8,w.dtype=u4", "tw_i8x4_u4", "tw_i8x4_u4"},
    {"dtype=i8,w.dtype=i2", "tw_i8x4_i2", "tw_i8x4_i2"},
    {"dtype=i8,w.dtype=u2", "tw_i8x4_u2", "tw_i8x4_u2"},
    {"dtype=i8,w.dtype=u1", "tw_i8x4_u1", "tw_i8x4_u1"},
    {"dtype=i8,w.dtype=i1", "tw_i8x4_i1", "tw_i8x4_i1"},
    {"dtype=i4", "tw_mma_m16n8k64_s32_s4(", "tw_i8x4_i4"},
    {"dtype=i4,w.dtype=i2", "tw_i4x8_i2", "tw_i8x4_i2"},
    {"dtype=f8e4m3,out=f32", "tw_mma_m16n8k32_f32_e4m3", ""},
    {"dtype=f8e5m2,out=f32", "tw_mma_m16n8k32_f32_e5m2", ""},
};

TEST(GpuMatrix, PairsOfTypesGoToTheKernelsMadeForThem) {
  const Target target = Target::parse("cuda:sm_89");
  for (const Pair& pair : kPairs) {
    for (int64_t m : {20, 1}) {
      // Codes of one bit come 32 at a time, to each of 32 lanes.
      const std::string spec =
          fmt::format("matmul:m={},n=32,k={},trans_b=true,{}", m, m == 1 ? 2048 : 128, pair.types);
      SCOPED_TRACE(spec);
      Workload w = make_workload(parse_spec(spec));
      const Choices words = {{"C.B.layout", "words"}, {"C.A.elements?", "i8"}};
      Schedule s = gpu_schedule(w, target, m == 1 && w.weight ? words : Choices());
      EXPECT_NE(generate_cuda(s.module(), target).text.find(m == 1 ? pair.one : pair.many),
                std::string::npos);
      expect_right_on_gpu(w, s, target);
    }
  }
}

}  // namespace
}  // namespace tilewright
