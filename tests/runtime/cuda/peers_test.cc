// Libraries that compute the same on the GPU: how products reach them, through stand-ins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "runtime/error.h"
#include "runtime/worker/rival.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/cuda/fake_libraries.h"
#include "tests/runtime/support.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include "runtime/cuda/peers/cublas_lt_functions.h"
#endif
#if __has_include(<cusparseLt.h>)
#include <cusparseLt.h>

#include "runtime/cuda/peers/cusparse_lt_functions.h"
#endif

namespace tilewright {
namespace {

using test::ScopedEnv;
using testing::HasSubstr;

class GpuPeers : public FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    make_fake_library(kFakeCublasLt, dir.path("libcublasLt.so.13"));
    make_fake_library(kFakeCusparseLt, dir.path("libcusparseLt.so.0"));
    device = std::make_unique<cuda::Device>(0, path);
  }

  // The library's answer on the workload.
  PeerResult ask(cuda::GpuPeer& peer, const std::string& spec) {
    Workload w = parse_workload(spec);
    OperandSet host(operands_of(w, {}), 1);
    Oracle oracle(w, seeded_readers(host.infos(), 1), {});
    Reference reference = make_reference(host.output().elem(), host.output().shape(), 100, 1,
                                         [&](int64_t i) { return oracle.at(i); });
    cuda::DeviceOperands operands(*device, host);
    PeerResult told;
    auto rival = cuda::make_rival(*device, peer, w, host, operands, reference, told);
    EXPECT_EQ(rival == nullptr, !told.problem.empty());
    return told;
  }

  std::unique_ptr<cuda::Device> device;
};

TEST_F(GpuPeers, AreFoundWhereTheKnobSays) {
  ScopedEnv folder("TILEWRIGHT_PEERS", dir.path().c_str());
  std::vector<std::unique_ptr<cuda::GpuPeer>> peers = cuda::find_gpu_peers();
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers[0]->name() + " " + peers[0]->version(), "cublaslt 13.1.2");
  EXPECT_EQ(peers[1]->name() + " " + peers[1]->version(), "cusparselt 0.8.1");
  ScopedEnv old("FAKE_CUDA_LIBRARY", "old");
  EXPECT_EQ(cuda::find_gpu_peers().size(), 1u) << "cuSPARSELt 0.5 counts its types otherwise";
}

TEST_F(GpuPeers, WithoutLibrariesThereAreNone) {
  ScopedEnv folder("TILEWRIGHT_PEERS", "/no/such/folder"), off("TILEWRIGHT_CUDA", "off");
  EXPECT_TRUE(cuda::find_gpu_peers().empty());
}

TEST_F(GpuPeers, CublasLtComputesEveryLayout) {
  ScopedEnv folder("TILEWRIGHT_PEERS", dir.path().c_str());
  auto peer = cuda::open_cublas_lt();
  for (const char* spec :
       {"matmul:m=5,n=7,k=9", "matmul:m=5,n=7,k=9,trans_a=true", "matmul:m=5,n=7,k=9,trans_b=true",
        "matmul:m=5,n=7,k=9,trans_a=true,trans_b=true,batch=3", "matmul:m=5,n=7,k=9,batch=2",
        "matmul:m=5,n=7,k=9,epilogue=[bias,relu]", "matmul:m=5,n=7,k=9,epilogue=[relu]",
        "matmul:m=8,n=4,k=12,dtype=i8", "matmul:m=8,n=4,k=12,dtype=i8,trans_b=true"}) {
    PeerResult told = ask(*peer, spec);
    EXPECT_EQ(told.problem, "") << spec;
    EXPECT_TRUE(told.checked) << spec;
    EXPECT_EQ(told.note, "the best of 1 algorithm") << "of three one can be run";
  }
}

TEST_F(GpuPeers, CublasLtSaysWhatItDoesNotCompute) {
  ScopedEnv folder("TILEWRIGHT_PEERS", dir.path().c_str());
  auto peer = cuda::open_cublas_lt();
  auto problem = [&](const char* spec) { return ask(*peer, spec).problem; };
  EXPECT_EQ(problem("softmax:m=4,n=8"), "it computes products of matrices only");
  EXPECT_EQ(problem("matmul:m=5,n=7,k=9,epilogue=[gelu]"),
            "it has no epilogue 'gelu' in this place");
  EXPECT_EQ(problem("matmul:m=5,n=7,k=9,dtype=u8"),
            "it has no products of u8 summed in i32 to i32");
  {
    ScopedEnv none("FAKE_CUDA_LIBRARY", "none");
    EXPECT_EQ(problem("matmul:m=5,n=7,k=9"),
              "cuBLASLt: cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED");
  }
  ScopedEnv wrong("FAKE_CUDA_LIBRARY", "wrong");
  EXPECT_THAT(problem("matmul:m=5,n=7,k=9"), HasSubstr("its result is another: "));
}

TEST_F(GpuPeers, AWeightOfFewBitsIsADenseOneToThem) {
  ScopedEnv folder("TILEWRIGHT_PEERS", dir.path().c_str());
  auto peer = cuda::open_cublas_lt();
  PeerResult told = ask(*peer, "matmul:m=4,n=8,k=64,w.dtype=u4,w.group=32,w.scale=f32");
  EXPECT_EQ(told.problem, "");
  EXPECT_FALSE(told.checked) << "it computes another product of the same shape";
  EXPECT_EQ(told.note, "a dense f32 weight; the best of 1 algorithm");
}

TEST_F(GpuPeers, CusparseLtTakesWeightsOfItsPattern) {
  ScopedEnv folder("TILEWRIGHT_PEERS", dir.path().c_str());
  auto peer = cuda::open_cusparse_lt();
  for (const char* spec : {"matmul:m=8,n=16,k=32,dtype=i8,w.sparse=2:4",
                           "matmul:m=8,n=16,k=32,dtype=i8,trans_b=true,w.sparse=2:4",
                           "matmul:m=8,n=16,k=32,dtype=i8,trans_a=true,w.sparse=2:4"}) {
    PeerResult told = ask(*peer, spec);
    EXPECT_EQ(told.problem, "") << spec;
    EXPECT_TRUE(told.checked) << spec;
  }
  auto problem = [&](const char* spec) { return ask(*peer, spec).problem; };
  EXPECT_EQ(problem("matmul:m=8,n=16,k=32,dtype=i8"), "it takes weights of the pattern 2:4");
  EXPECT_EQ(problem("matmul:m=8,n=16,k=32,dtype=i8,w.sparse=1:4"),
            "it takes weights of the pattern 2:4");
  EXPECT_EQ(problem("matmul:m=8,n=16,k=32,w.sparse=2:4"),
            "it has no products of f32 summed in f32 to f32");
}

#if __has_include(<cublasLt.h>)
// This project's declarations of the interface equal those of the library's own header.
namespace lt = cuda::cublas_lt;
static_assert(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(lt::Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(lt::Candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(lt::Candidate, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(int{lt::kTransA} == CUBLASLT_MATMUL_DESC_TRANSA &&
              int{lt::kTransB} == CUBLASLT_MATMUL_DESC_TRANSB &&
              int{lt::kEpilogue} == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              int{lt::kBiasPointer} == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(int{lt::kBatchCount} == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              int{lt::kBatchStride} == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
              int{lt::kMaxWorkspace} == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(int{lt::kCompute16F} == CUBLAS_COMPUTE_16F &&
              int{lt::kCompute32F} == CUBLAS_COMPUTE_32F &&
              int{lt::kCompute64F} == CUBLAS_COMPUTE_64F &&
              int{lt::kCompute32I} == CUBLAS_COMPUTE_32I);
static_assert(int{lt::kR32F} == CUDA_R_32F && int{lt::kR64F} == CUDA_R_64F &&
              int{lt::kR16F} == CUDA_R_16F && int{lt::kR16BF} == CUDA_R_16BF &&
              int{lt::kR8I} == CUDA_R_8I && int{lt::kR32I} == CUDA_R_32I &&
              int{lt::kR8F_E4M3} == CUDA_R_8F_E4M3 && int{lt::kR8F_E5M2} == CUDA_R_8F_E5M2);
static_assert(uint32_t{lt::kPlain} == CUBLASLT_EPILOGUE_DEFAULT &&
              uint32_t{lt::kRelu} == CUBLASLT_EPILOGUE_RELU &&
              uint32_t{lt::kBias} == CUBLASLT_EPILOGUE_BIAS &&
              uint32_t{lt::kReluBias} == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(int{lt::kOpN} == CUBLAS_OP_N && int{lt::kOpT} == CUBLAS_OP_T);
#endif

#if __has_include(<cusparseLt.h>)
namespace slt = cuda::cusparse_lt;
static_assert(2 * sizeof(cusparseLtHandle_t) <= sizeof(slt::Opaque) &&
              2 * sizeof(cusparseLtMatDescriptor_t) <= sizeof(slt::Opaque) &&
              2 * sizeof(cusparseLtMatmulDescriptor_t) <= sizeof(slt::Opaque) &&
              2 * sizeof(cusparseLtMatmulAlgSelection_t) <= sizeof(slt::Opaque) &&
              2 * sizeof(cusparseLtMatmulPlan_t) <= sizeof(slt::Opaque));
static_assert(alignof(cusparseLtHandle_t) <= alignof(slt::Opaque) &&
              alignof(cusparseLtMatmulPlan_t) <= alignof(slt::Opaque));
static_assert(int{slt::kOpN} == CUSPARSE_OPERATION_NON_TRANSPOSE &&
              int{slt::kOpT} == CUSPARSE_OPERATION_TRANSPOSE);
static_assert(int{slt::kColumnOrder} == CUSPARSE_ORDER_COL &&
              int{slt::kHalfSparse} == CUSPARSELT_SPARSITY_50_PERCENT &&
              int{slt::kDefaultAlgorithm} == CUSPARSELT_MATMUL_ALG_DEFAULT);
static_assert(int{slt::kCompute32I} == CUSPARSE_COMPUTE_32I &&
              int{slt::kCompute32F} == CUSPARSE_COMPUTE_32F);
#endif

}  // namespace
}  // namespace tilewright
