// Sparse weights on GPU tensor cores, compared with the oracle in the emulator, and through
// NVIDIA's compiler.
#include <gmock/gmock.h>

#include "codegen/cuda_lowering.h"
#include "ir/arith/simplify.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/a100.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"
#include "tuner/gpu/gpu_work.h"
#include "tuner/rules/gpu/weight/gpu_sparse.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Weights that `mma.sp` takes without half of their elements.
const std::vector<std::string>& sparse_specs() {
  static const std::vector<std::string> list = {
      "matmul:m=16,n=64,k=128,dtype=f16,trans_b=true,w.sparse=2:4",
      "matmul:m=5,n=40,k=200,dtype=f16,w.sparse=2:4",
      "matmul:m=1,n=70,k=128,dtype=bf16,trans_b=true,w.sparse=2:4,w.vector=8",
      "matmul:m=40,n=72,k=64,dtype=bf16,out=f32,w.sparse=1:4",
      "matmul:m=9,n=40,k=128,dtype=f16,w.sparse=2:8",
      "matmul:m=130,n=64,k=64,dtype=f16,w.sparse=2:4,epilogue=[bias,gelu]",
      "matmul:m=7,n=40,k=196,dtype=i8,w.sparse=2:4",
      "matmul:m=33,n=64,k=128,dtype=u8,trans_b=true,w.sparse=1:4",
      "matmul:m=1..40,n=48,k=128,dtype=f16,w.sparse=2:4",
      "matmul:m=16,n=48,k=256,dtype=f16,trans_b=true,w.dtype=i4,w.group=128,w.scale=f16,"
      "w.sparse=2:4",
      "matmul:m=5,n=40,k=300,dtype=bf16,w.dtype=u4,w.group=64,w.zero=u4,w.scale=bf16,w.sparse=2:4",
      "matmul:m=7,n=40,k=128,dtype=f16,w.dtype=i8,w.group=64,w.sparse=2:4",
      "matmul:m=7,n=40,k=128,dtype=f16,w.dtype=f8e4m3,w.group=-1,w.sparse=2:4",
      "matmul:m=7,n=40,k=128,dtype=f16,w.dtype=u2,w.group=64,w.zero=u2,w.sparse=1:4",
      "matmul:m=7,n=40,k=192,dtype=i8,w.dtype=i4,w.sparse=2:4",
      "matmul:m=7,n=40,k=128,dtype=i8,acc=f32,w.dtype=i4,w.group=64,w.sparse=2:4",
      "matmul:m=20,n=40,k=128,dtype=f16,w.dtype=i4,w.group=64,w.sparse=2:4,epilogue=[bias,relu]",
  };
  return list;
}

// Some sizes in the workload's range, or its only one.
std::vector<std::map<std::string, int64_t>> dims_of(const Workload& w) {
  if (w.dims.empty()) return {{}};
  const std::string name = w.dims[0].var.name();
  return {{{name, 1}}, {{name, 17}}, {{name, 40}}};
}

// Random choices, some of which are incompatible.
void expect_right_for_seeds(const Workload& w, const std::map<std::string, int64_t>& dims) {
  int right = 0;
  for (uint64_t seed = 1; seed < 20 && right < 3; ++seed) {
    SCOPED_TRACE(seed);
    std::optional<Schedule> s;
    try {
      s = gpu_schedule(w, a100(), Trial::random(seed));
    } catch (const ScheduleError&) {
      continue;
    }
    expect_right_on_gpu(w, *s, a100(), dims);
    ++right;
  }
  EXPECT_EQ(right, 3);
}

class GpuSparse : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuSparse, IsRightWhateverTheAnswers) {
  Workload w = make_workload(parse_spec(GetParam()));
  for (const auto& dims : dims_of(w)) {
    expect_right_on_gpu(w, gpu_schedule(w, a100(), Trial::first()), a100(), dims);
  }
  expect_right_for_seeds(w, dims_of(w).back());
}

TEST_P(GpuSparse, LeavesHalfOfTheElementsOut) {
  std::string text = first_text(GetParam(), a100());
  EXPECT_THAT(text, HasSubstr("tw_mma_sp_")) << text;
  EXPECT_THAT(text, HasSubstr("<16>(B_rows_shared")) << "metadata come 16 bytes at a time";
  // Before sm_80 there is no such instruction.
  EXPECT_THAT(first_text(GetParam(), Target::parse("cuda:sm_75")), Not(HasSubstr("tw_mma_sp_")));
}

INSTANTIATE_TEST_SUITE_P(All, GpuSparse, ::testing::ValuesIn(sparse_specs()), name_of_case);

TEST(GpuSparse, OthersAreReadWithTheirZeros) {
  for (const char* spec :
       {"matmul:m=16,n=64,k=128,dtype=f16,w.sparse=4:8", "matmul:m=16,n=64,k=128,w.sparse=2:4",
        "matmul:m=16,n=64,k=126,dtype=f16,w.sparse=2:4",
        "matmul:m=16,n=64,k=128,dtype=f16,w.dtype=i4,w.group=32,w.sparse=2:4"}) {
    EXPECT_THAT(first_text(spec, a100()), Not(HasSubstr("tw_mma_sp_"))) << spec;
  }
}

TEST(GpuSparse, ZerosMayBeRead) {
  Workload w = make_workload(parse_spec(sparse_specs()[9]));
  const Schedule zeros =
      gpu_schedule(w, a100(), {{".B.sparse", "zeros"}, {".B.layout", "fragments"}});
  EXPECT_THAT(text_of(w, zeros, a100()), Not(HasSubstr("tw_mma_sp_")));
}

// Weights whose kept elements dense instructions take, with gathered activations.
const std::vector<std::string>& gathered_specs() {
  static const std::vector<std::string> list = {
      "matmul:m=16,n=64,k=256,dtype=f16,out=f16,trans_b=true,w.sparse=4:16,w.vector=32",
      "matmul:m=5,n=70,k=192,dtype=bf16,w.sparse=1:4,w.vector=16",
      "matmul:m=72,n=128,k=128,dtype=f16,w.sparse=2:8,w.vector=64",
      "matmul:m=40,n=300,k=128,dtype=f16,w.sparse=8:32,w.vector=128,epilogue=[bias,relu]",
      "matmul:m=24,n=64,k=128,dtype=f16,trans_a=true,w.sparse=1:8,w.vector=16",
      "matmul:m=9,n=48,k=256,dtype=f16,w.dtype=i4,w.group=64,w.scale=f16,w.sparse=4:16,w.vector=16",
      "matmul:m=33,n=64,k=256,dtype=bf16,w.dtype=u4,w.group=128,w.zero=u4,w.sparse=2:8,w.vector=32",
      "matmul:m=1..40,n=64,k=192,dtype=f16,out=f16,trans_b=true,w.sparse=2:8,w.vector=32",
      "matmul:m=1..40,n=48,k=256,dtype=bf16,w.dtype=i4,w.group=64,w.scale=bf16,w.sparse=4:16,"
      "w.vector=16",
      "matmul:m=1..40,n=64,k=128,dtype=f16,trans_a=true,w.sparse=1:4,w.vector=16",
  };
  return list;
}

// Finds choices with this variant of multiplying the weight.
Schedule schedule_with(const Workload& w, const std::string& way) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
    try {
      Schedule s = apply_sketch(cuda_sketches().front(), {w, a100(), 1}, trial);
      if (trial.config().find(".B.sparse\":\"" + way + "\"") != std::string::npos) return s;
    } catch (const ScheduleError&) {  // incompatible choices
    }
  }
  ADD_FAILURE() << "no answers say '" << way << "'";
  return gpu_schedule(w, a100(), Trial::first());
}

class GpuGathered : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuGathered, IsRightWhateverTheAnswers) {
  Workload w = make_workload(parse_spec(GetParam()));
  for (const auto& dims : dims_of(w)) {
    expect_right_on_gpu(w, gpu_schedule(w, a100(), Trial::first()), a100(), dims);
  }
  expect_right_for_seeds(w, dims_of(w).back());
}

TEST_P(GpuGathered, MultipliesTheKeptElementsAlone) {
  Workload w = make_workload(parse_spec(GetParam()));
  Schedule s = schedule_with(w, "kept");
  std::string text = generate_cuda(s.module(), a100()).text;
  EXPECT_THAT(text, HasSubstr("_trans(")) << text;
  EXPECT_THAT(text, Not(HasSubstr("tw_mma_sp_")));
  for (const auto& dims : dims_of(w)) expect_right_on_gpu(w, s, a100(), dims);
}

INSTANTIATE_TEST_SUITE_P(All, GpuGathered, ::testing::ValuesIn(gathered_specs()), name_of_case);

// One index map makes both the packing program and the kernel: each word of metadata is where the
// instruction expects it.
TEST(GpuSparse, MetadataLieAsTheInstructionTakesThem) {
  for (const char* name : {"sp_m16n8k32_f32_f16", "sp_m16n8k64_s32_s8"}) {
    const Instruction& row = *find_instruction(name);
    const int64_t terms = row.kept() * row.selectors();
    IndexMap map = metadata_map(row, 2, 1, 0, 32, 2 * terms);
    auto at = [&](int64_t r, int64_t n) {
      std::vector<int64_t> out;
      for (const Expr& e : map.apply({Expr(r), Expr(n)})) out.push_back(*as_int(simplify(e)));
      return out;
    };
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int i = 0; i < row.indices_in_word(); ++i) {
        const MatrixPlace place = row.metadata().at(lane, i);
        // In the second column fragment and the second word along k, of tile [3, 1].
        std::vector<int64_t> got =
            at(1 * 2 * terms + terms + place.column, 3 * 32 + 16 + place.row);
        const int64_t in_word = row.indices_in_word();
        EXPECT_EQ(got, (std::vector<int64_t>{3, 1, ((1 * 2 + 1) * 32 + lane) * in_word + i}));
      }
    }
  }
}

// Kernels with errors in reading a sparse weight; each is rejected.
void expect_caught(const std::string& spec,
                   const std::vector<std::pair<std::string, std::string>>& mutants) {
  Workload w = make_workload(parse_spec(spec));
  Schedule s = gpu_schedule(w, a100(), Trial::first());
  expect_right_on_gpu(w, s, a100());
  for (const auto& [from, to] : mutants) {
    const GpuRun run = run_edited(w, s, a100(), from, to);
    EXPECT_NE(outcome_of(run), "ok") << to << "\n" << run.source.text;
  }
}

TEST(GpuSparseMutants, OfElementsAreCaught) {
  expect_caught(
      "matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.sparse=2:4",
      {{"<0>(", "<1>("},                                                  // wrong selector
       {"= tw_word_at(", "= 0x44444444 + 0 * tw_word_at("},               // wrong metadata
       {"= tw_word_at(", "= ~tw_word_at("},                               // meaningless metadata
       {"tw_ld<4>(B_rows_shared + (", "tw_ld<4>(B_rows_shared + (4 ^ "},  // another lane's metadata
       {"tw_ldmatrix_x4(b[g], A_shared + (", "tw_ldmatrix_x4(b[g], A_shared + (8 + "},
       {"tw_ld<8>(B_values_shared + (", "tw_ld<8>(B_values_shared + (8 ^ "}});
}

TEST(GpuSparseMutants, OfFewBitsAreCaught) {
  expect_caught(
      "matmul:m=16,n=64,k=512,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.zero=u4,w.sparse=2:4",
      {{"<1>(", "<0>("},
       {"= tw_word_at(", "= 0xeeeeeeee + 0 * tw_word_at("},
       {"tw_cp_async<16>(B_rows_shared + (", "tw_cp_async<16>(B_rows_shared + (16 ^ "},
       {"tw_cp_async_wait<", "tw_cp_async_wait<7>(), tw_cp_async_wait<2 + "},
       {"tw_f16x2_u4(", "tw_f16x2_i4("}});
}

TEST(GpuSparseMutants, OfGatheredRowsAreCaught) {
  Workload w = make_workload(parse_spec(gathered_specs()[0]));
  Schedule s = schedule_with(w, "kept");
  expect_right_on_gpu(w, s, a100());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"const int row = lane % 16", "const int row = lane % 8"},
           {"B_rows_shared[", "B_rows_shared[1 ^ "},
           {"const int at = ", "const int at = 8 + "}}) {
    EXPECT_NE(outcome_of_edited(w, s, a100(), from, to), "ok") << to;
  }
}

// The model counts kept elements only, at the dense rate.
TEST(GpuSparse, TheModelCountsHalfOfTheProducts) {
  auto operations = [](const std::string& spec) {
    Workload w = make_workload(parse_spec(spec));
    Schedule s = gpu_schedule(w, a100(), Trial::first());
    auto works = gpu_work_of(lower_for_cuda(s.program(), a100()), a100());
    return works[0].products.operations * static_cast<double>(works[0].blocks);
  };
  const std::string spec = "matmul:m=128,n=256,k=512,dtype=f16,trans_b=true";
  EXPECT_EQ(operations(spec), 2.0 * 128 * 256 * 512);
  EXPECT_EQ(operations(spec + ",w.sparse=2:4"), 128.0 * 256 * 512);
}

// Sizes of language models, whose first choices must fit the registers.
TEST(GpuSparseCode, KeepsEverythingInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  for (const auto& [spec, instruction] : std::vector<std::pair<std::string, std::string>>{
           {"matmul:m=16,n=4096,k=4096,dtype=f16,out=f16,trans_b=true,w.sparse=2:4", "HMMA.SP"},
           {"matmul:m=256,n=14336,k=4096,dtype=f16,out=f16,trans_b=true,w.sparse=2:4", "HMMA.SP"},
           {"matmul:m=256,n=14336,k=4096,dtype=f16,out=f16,trans_b=true,w.sparse=2:4,w.dtype=i4,"
            "w.group=128,w.scale=f16",
            "HMMA.SP"},
           {"matmul:m=256,n=4096,k=4096,dtype=i8,trans_b=true,w.sparse=2:4", "IMMA.SP"},
           {"matmul:m=256,n=4096,k=4096,dtype=f16,trans_b=true,w.sparse=4:16,w.vector=32",
            "HMMA"}}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
      Target target = Target::parse(name);
      std::string arch = target.name.substr(target.name.find(':') + 1);
      if (!cuda::nvrtc_accepts(arch)) continue;
      CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
      std::string cubin = cuda::compile_to_cubin(source.text, "kernel", arch);
      cuda::CubinFacts facts = cuda::cubin_facts(cubin, source.launches.back().entry);
      EXPECT_GT(facts.count(instruction), 0) << name;
      EXPECT_GT(facts.count("LDGSTS"), 0);
      EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    }
  }
}

}  // namespace
}  // namespace tilewright
