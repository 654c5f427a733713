// tune-cli export --triton: the text of each way as a golden file, which tests/foreign/triton_test.py
// compiles with Triton and runs in its interpreter; what has no such text is refused.
#include <gmock/gmock.h>

#include "cli/export/export_triton.h"
#include "ir/ops/spec.h"
#include "tests/cli/fake_gpu.h"
#include "tests/golden.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string triton_text(const std::string& spec, const std::string& config,
                        const char* target = "cuda:sm_90a") {
  return triton_source(parse_workload(spec), config, Target::parse(target), "Tuned for a test");
}

struct TritonCase {
  std::string name, spec, config;

  friend void PrintTo(const TritonCase& c, std::ostream* out) { *out << c.name; }
};

class TritonText : public testing::TestWithParam<TritonCase> {};

TEST_P(TritonText, IsTheGoldenOne) {
  const TritonCase& c = GetParam();
  EXPECT_TRUE(
      test::matches_golden_file(triton_text(c.spec, c.config),
                                std::filesystem::path("export_triton_test") / (c.name + ".txt")));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, TritonText,
    testing::Values(
        TritonCase{
            "bf16_epilogue", "matmul:m=100,n=136,k=96,dtype=bf16,trans_b=true,epilogue=[bias,relu]",
            R"({"C_acc.B.layout": "none", "C_acc.vk.parts": 1, "C_acc.mma": "m16n8k16_f32_bf16",
                   "C_acc.tile": "32x64x32/32x16", "C_acc.stages": 3, "C_acc.rows": "swizzled",
                   "C_acc.stores": "shared", "C_acc.group": 2, "C_acc.grid": "tiles"})"},
        // 5 rows and 3 columns of tiles in groups of 2 rows: the last group has one.
        TritonCase{"f16_short_group", "matmul:m=150,n=136,k=96,dtype=f16,trans_b=true",
                   R"({"C_acc.B.layout": "none", "C_acc.vk.parts": 1,
                   "C_acc.mma": "m16n8k16_f32_f16", "C_acc.tile": "32x64x32/32x16",
                   "C_acc.stages": 3, "C_acc.rows": "swizzled", "C_acc.stores": "shared",
                   "C_acc.group": 2, "C_acc.grid": "tiles"})"},
        // Swapped operands: 5 columns of tiles in groups of 3, 2 rows.
        TritonCase{"u4_short_group",
                   "matmul:m=40,n=320,k=128,dtype=f16,trans_b=true,w.dtype=u4,w.group=64,"
                   "w.scale=f16,w.zero=u4",
                   R"({"C_acc.B.layout": "fragments", "C_acc.mma": "wgmma_f32_f16",
                   "C_acc.tile": "32x64/16", "C_acc.store": "shared", "C_acc.scales": "staged",
                   "C_acc.k": 64, "C_acc.copies": "cp_async", "C_acc.stages": 6,
                   "C_acc.order": "rows", "C_acc.group": 3, "C_acc.grid": "tiles"})"},
        TritonCase{"f16_persistent", "matmul:m=256,n=320,k=200,dtype=f16,epilogue=[bias,gelu,add]",
                   R"({"C_acc.B.layout": "none", "C_acc.mma": "wgmma_f32_f16",
                   "C_acc.tile": "128x64x64/64x64", "C_acc.copies": "roles", "C_acc.stages": 4,
                   "C_acc.pending": 1, "C_acc.cluster": "2x1", "C_acc.stores": "stmatrix_tensor",
                   "C_acc.order": "hilbert", "C_acc.grid": "persistent", "C_acc.blocks": 1})"},
        TritonCase{
            "f16_split_k", "matmul:m=64,n=80,k=1024,dtype=f16,epilogue=[bias,silu]",
            R"({"C_acc.B.layout": "none", "C_acc.vk.parts": 4, "C_acc_rf.operands": "gathered",
                   "C_acc_rf.mma": "m16n8k16_f32_f16", "C_acc_rf.tile": "32x64x32/32x16",
                   "C_acc_rf.stages": 3, "C_acc_rf.rows": "swizzled", "C_acc_rf.group": 1,
                   "C_acc_rf.grid": "tiles"})"},
        TritonCase{"f32_tf32x3", "matmul:m=40,n=70,k=50,trans_a=true",
                   R"({"C.vk.parts": 1, "C.mma": "m16n8k8_f32_tf32x3", "C.tile": "32x64x16/32x16",
                   "C.stages": 3, "C.rows": "swizzled", "C.stores": "direct", "C.group": 1,
                   "C.grid": "tiles"})"},
        TritonCase{"f32_dynamic_batch", "matmul:m=1..64,n=48,k=64,batch=3,out=f16",
                   R"({"C_acc.vk.parts": 1, "C_acc.mma": "none", "C_acc.tile": "32x32x32/4x4",
                   "C_acc.stages": 2, "C_acc.grid": "tiles"})"},
        TritonCase{"i8", "matmul:m=64,n=64,k=128,dtype=i8",
                   R"({"C.B.layout": "none", "C.mma": "m16n8k32_s32_s8", "C.tile": "32x64x64/32x16",
                   "C.stages": 3, "C.group": 1, "C.grid": "stream_k", "C.blocks": 1})"},
        TritonCase{"u4_zeros",
                   "matmul:m=20,n=128,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                   "w.scale=f16,w.zero=u4",
                   R"({"C_acc.B.layout": "fragments", "C_acc.mma": "wgmma_f32_f16",
                   "C_acc.tile": "24x64/16", "C_acc.store": "shared", "C_acc.scales": "staged",
                   "C_acc.k": 64, "C_acc.copies": "cp_async", "C_acc.stages": 6,
                   "C_acc.order": "rows", "C_acc.group": 2, "C_acc.grid": "tiles"})"},
        TritonCase{"i4_batch",
                   "matmul:m=16,n=72,k=96,batch=2,dtype=bf16,w.dtype=i4,w.group=32,w.scale=bf16,"
                   "epilogue=[bias,relu,add]",
                   R"({"C_acc.B.layout": "none", "C_acc.tile": "32x32x64/4x4", "C_acc.stages": 3,
                   "C_acc.grid": "tiles"})"},
        TritonCase{
            "u4_float_zeros",
            "matmul:m=16,n=64,k=128,dtype=f16,w.dtype=u4,w.group=64,w.scale=f16,w.zero=f16",
            R"({"C_acc.B.layout": "fragments", "C_acc.tile": "16x32/16", "C_acc.store": "shared",
                   "C_acc.scales": "staged", "C_acc.k": 64, "C_acc.stages": 6,
                   "C_acc.grid": "tiles"})"},
        TritonCase{"u8_offsets",
                   "matmul:m=16,n=64,k=80,dtype=f16,w.dtype=u8,w.scale=f16,w.offset=f32",
                   R"({"C_acc.B.layout": "none", "C_acc.tile": "32x32x32/4x4", "C_acc.stages": 1,
                   "C_acc.grid": "tiles"})"},
        TritonCase{"i8_by_i4", "matmul:m=32,n=64,k=128,dtype=i8,acc=f32,w.dtype=i4,w.group=32",
                   R"({"C.B.layout": "fragments", "C.tile": "32x32/16", "C.store": "shared",
                   "C.scales": "staged", "C.k": 32, "C.stages": 6, "C.grid": "tiles"})"}),
    [](const auto& info) { return info.param.name; });

std::string refusal(const std::string& spec, const std::string& config) {
  try {
    triton_text(spec, config);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(TritonRefusal, NamesTheSpecTheReasonAndWhatIsAccepted) {
  const std::string tiles = R"({"C_acc.mma": "none", "C_acc.tile": "32x32x32/4x4"})";
  const std::pair<std::string, std::string> kRefused[] = {
      {"softmax:m=64,n=64", "its stage X_max is no part of one product"},
      {"elementwise:shape=64,fn=relu", "its stage Y is no part of one product"},
      {"conv2d:n=1,h=8,w=8,ci=8,co=8,kernel=3", "is no part of one product"},
      {"grouped_matmul:groups=4,blocks=8,rows=16,n=64,k=64,dtype=f16",
       "an operand is computed or gathered"},
      {"matmul:m=64,n=64,k=64,dtype=f8e4m3", "it multiplies f8e4m3 by f8e4m3"},
      {"matmul:m=64,n=64,k=64,dtype=f16,w.dtype=nf4,w.group=32", "it multiplies f16 by nf4"},
      {"matmul:m=64,n=64,k=64,dtype=f16,w.dtype=i2,w.group=32", "it multiplies f16 by i2"},
      {"matmul:m=64,n=64,k=64,dtype=f16,w.sparse=2:4", "pattern of zeros"},
      {"matmul:m=64,n=64,k=1..64,dtype=f16", "its k is dynamic"},
      {"matmul:m=64,n=63,k=64,dtype=f16,w.dtype=u4,w.group=32", "begin within a byte"},
      {"matmul:m=64,n=64,k=64,dtype=f16,w.dtype=u4,w.group=8", "groups of 8 are no multiple of 16"},
      {"matmul:m=64,n=64,k=128,dtype=i8,acc=f32,w.dtype=i4,w.group=16",
       "groups of 16 are no multiple of 32"},
      {"matmul:m=64,n=64,k=128,dtype=i8,w.dtype=u4,w.zero=u4,w.group=32",
       "zero points or offsets and no scales"},
      {"matmul:m=64,n=64,k=128,dtype=f16,w.dtype=u4,w.scale=none,w.zero=f16",
       "zero points or offsets and no scales"},
      {"matmul:m=32,n=64,k=128,dtype=i8,acc=f32,w.dtype=u4,w.group=32,w.zero=u8",
       "i8 does not hold the difference of u4 and a zero point of u8"},
      {"matmul:m=64,n=64,k=64,dtype=i8,acc=f32", "products of i8 do not accumulate in f32"},
      {"matmul:m=64,n=64,k=64,dtype=bf16,acc=bf16", "products of bf16 do not accumulate in bf16"},
      {"expr:expr=\"C[i,j] += A[i,k] * B[k,j]; D[i,j] = C[j,i]\",dims.i=64,dims.j=64,dims.k=64",
       "its stage D reads C at another place"},
      {"expr:expr=\"C[i,j] += A[i,k] * B[k,j]; D[p,q] = C[p,q]\",dims.i=64,dims.j=64,dims.k=64,"
       "dims.p=32,dims.q=64",
       "its stage D has other sizes than the sum"},
      {"expr:expr=\"C[i,j] += A[i,k] * B[k,j]; D[i,j] = C[i,j] + select(j >= 1, S[j-1], 0)\","
       "dims.i=64,dims.j=64,dims.k=64",
       "its stage D reads S under a condition"},
      {"expr:expr=\"C[i,j] += A[i,k] * B[k,j]; D[i,j] = tanh(C[i,j])\",dims.i=64,dims.j=64,"
       "dims.k=64",
       "its epilogue has tanh"},
      {"expr:expr=\"C[i,j] += A[i,k] + B[k,j]\",dims.i=64,dims.j=64,dims.k=64",
       "its sum is not one of products"},
      {"expr:expr=\"C[i,j] += A[i,j] * B[k,j]\",dims.i=64,dims.j=64,dims.k=64",
       "its operands are not one of rows and one of columns"},
  };
  for (const auto& [spec, why] : kRefused) {
    const std::string text = refusal(spec, tiles);
    EXPECT_THAT(text, HasSubstr(why)) << spec;
    EXPECT_THAT(text, HasSubstr("accepted are tiled products of two matrices (matmul)")) << spec;
  }
  EXPECT_THAT(refusal("matmul:m=1,n=64,k=64,dtype=f16,trans_b=true", R"({"C_acc.gemv": "4x2/4"})"),
              HasSubstr("its kernel has no tiles, its config is {\"C_acc.gemv\":\"4x2/4\"}"));
  for (const char* config : {R"({"C.tile": "0x64x16/4x4"})", R"({"C.tile": "64x64x16/0x4"})",
                             R"({"C.tile": "64x64/0"})", R"({"C.tile": "64x9999999x16/4x4"})",
                             R"({"C.tile": 3})", R"({"C.tile": "64x64x16/4x4", "C.stages": "a"})",
                             R"({"C.tile": "64x64x16/4x4", "C.stages": -1})",
                             R"({"C.tile": "64x64x16/4x4", "C.vk.parts": 0})"}) {
    EXPECT_THAT(refusal("matmul:m=64,n=64,k=64", config), HasSubstr("its config")) << config;
  }
}

TEST(TritonRefusal, OfPartsThatDoNotDivide) {
  const std::string parts = R"({"C.mma": "none", "C.tile": "32x32x32/4x4", "C.vk.parts": 3})";
  EXPECT_THAT(refusal("matmul:m=64,n=64,k=1000", parts),
              HasSubstr("3 parts of k do not divide it"));
  EXPECT_EQ(refusal("matmul:m=64,n=64,k=999", parts), "");
}

// A name that ends another's is a parameter of its own.
TEST(TritonModule, RunTakesEachTensor) {
  EXPECT_THAT(triton_text("expr:expr=\"C[i,j] += XA[i,k] * A[k,j]\",dims.i=64,dims.j=64,dims.k=64",
                          R"({"C.mma": "none", "C.tile": "32x32x32/4x4"})"),
              HasSubstr("def run(XA_ptr, A_ptr, C_ptr):"));
}

TEST(TritonModule, BytesHaveTilesOf32AtLeast) {
  EXPECT_THAT(triton_text("matmul:m=64,n=64,k=128,dtype=i8",
                          R"({"C.mma": "none", "C.tile": "64x64x16/4x4"})"),
              HasSubstr("# A tile has 32 k in place of 16: Triton takes powers of two from 32."));
}

// Text of a database stays within the comment that holds it.
TEST(TritonModule, NamesOfChipsBeginNoLine) {
  const std::string text = triton_source(
      parse_workload("matmul:m=64,n=64,k=64,dtype=f16"),
      "{\"C_acc.mma\": \"none\",\n \"C_acc.tile\": \"32x32x32/4x4\",\"a.x\\ny\":\"u\\nimport os\"}",
      Target::parse("cuda:sm_80"), "Tuned for a\nimport os\r");
  EXPECT_THAT(
      text, HasSubstr("# Tuned for a import os .\n# Config: {\"C_acc.mma\":\"none\",\"C_acc."
                      "tile\":\"32x32x32/4x4\",\"a.x\\ny\":\"u\\nimport os\"}\n# Left to Triton's "
                      "compiler: a.x y=u import os.\nimport triton\n"));
  EXPECT_TRUE(text.starts_with("# -*- coding: utf-8 -*-\n"));
}

class TritonCommand : public FakeGpu {};

TEST_F(TritonCommand, TheStoredConfigIsPrinted) {
  const std::string spec = "matmul:m=64,n=64,k=64,dtype=f16";
  store_kernel(spec, "tw_matmul");
  Ran ran = run("export --json -o out '" + spec + "' --target cuda:sm_80 --triton",
                driver() + " TILEWRIGHT_CUDA=off");
  // The stand-in's kernel has the config {}.
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("its kernel has no tiles, its config is {}"));
}

TEST_F(TritonCommand, ACpuTargetIsRefused) {
  Ran ran = run("export -o out matmul:m=64,n=64,k=64 --default --triton --target avx2");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--triton: tiles are printed of kernels for GPUs; the target is "
                                 "avx2"));
}

TEST_F(TritonCommand, ADefaultIsRefused) {
  Ran ran = run("export -o out matmul:m=64,n=64,k=64 --default --triton --target cuda:sm_80");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--triton: the untuned default has no tiles; 'tune-cli tune SPEC "
                                 "--offline --target cuda:sm_80' chooses some"));
}

}  // namespace
}  // namespace tilewright::cli
