// Specs in the inline form.
#include "ir/ops/spec.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {"matmul:m=8,n=8,k=8",
          "matmul:m=1..16,n=5,k=9,batch=2,trans_a=true,trans_b=true,epilogue=[bias,add,relu]",
          "matmul:m=2,n=4,k=64,dtype=bf16,w.dtype=i4,w.scale=f16,w.zero=u4,w.group=32",
          "matmul:m=2,n=4,k=8,w.sparse=2:4,w.vector=16,dtype=i8,acc=f32",
          "conv2d:n=1,h=6,w=5,ci=2,co=4,kernel=3x1,stride=2,pad=1,groups=2,layout=nchw",
          "conv2d_transpose:n=1,h=2,w=3,ci=1,co=2,kernel=2",
          "depthwise_conv2d:n=1..3,h=5,w=6,c=4,kernel=3",
          "capsule_conv2d:n=1,h=3,w=3,ci=1,co=2,kernel=2,capsule=2",
          "softmax:m=6,n=7",
          "layer_norm:m=1..6,n=8",
          "norm:b=2,m=3,n=4",
          "reduce:shape=[4,2,9],axes=[0,2],kind=mean",
          "elementwise:shape=[3,4],fn=gelu",
          "gather:rows=3,cols=4,index=5",
          "attention:b=1,h=2,m=4,n=8,d=16"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Spec spec = parse_spec(std::string(fuzz::text_of(data, size)));
    std::string text = canonical_text(spec);
    fuzz::require(canonical_text(parse_spec(spec_to_inline(spec))) == text,
                  "the inline text of a spec reads back as another one");
    Workload workload = make_workload(spec);
    fuzz::require(workload.canonical == text, "a workload has another text than its spec");
  } catch (const SpecError&) {
  }
  return 0;
}
