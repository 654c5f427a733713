#include "tests/mutation/mutants.h"

namespace tilewright::mutation {

const std::vector<std::string>& workload_specs() {
  static const std::vector<std::string> specs = {
      // Products.
      "matmul:m=33,n=40,k=24",
      "matmul:m=20,n=48,k=64,dtype=bf16,out=f32",
      "matmul:m=12,n=36,k=40,dtype=i8",
      "matmul:m=9,n=33,k=20,dtype=f16",
      "matmul:batch=3,m=10,n=17,k=12,trans_b=true",
      "matmul:m=1..40,n=40,k=24",
      "matmul:m=1..24,n=32,k=32,dtype=bf16,out=f32",
      "matmul:m=6,n=1..50,k=20",
      "grouped_matmul:groups=3,blocks=4,rows=8,n=24,k=20",
      "gated_mlp:m=5,n=24,k=20",
      "gated_mlp:m=1..9,n=24,k=20,act=relu",
      // Convolutions.
      "conv1d:n=1,l=20,ci=6,co=16,kernel=3,stride=2,pad=1",
      "conv1d:n=1,l=8..40,ci=4,co=8,kernel=3,pad=1",
      "conv2d:n=1,h=9,w=9,ci=5,co=16,kernel=3,pad=1",
      "conv2d:n=2,h=8,w=7,ci=4,co=8,kernel=3,stride=2,pad=1,dtype=f16",
      "conv3d:n=1,d=4,h=5,w=5,ci=4,co=8,kernel=3,pad=1",
      "depthwise_conv2d:n=1,h=9,w=9,c=16,kernel=3,pad=1",
      "conv2d_transpose:n=1,h=4,w=4,ci=3,co=8,kernel=4,stride=2,pad=1",
      "capsule_conv2d:n=1,h=5,w=4,ci=2,co=3,kernel=3,stride=2,pad=1,capsule=2",
      // Row operators.
      "softmax:m=6,n=37",
      "softmax:m=1..20,n=24",
      "layer_norm:m=4,n=45,affine=true",
      "rms_norm:m=3,n=50",
      "norm:b=2,m=5,n=17",
      "reduce:shape=20x33,axes=1,kind=sum",
      "reduce:shape=17x40,axes=0,kind=max",
      "reduce:shape=9x30,axes=1,kind=max,dtype=i8",
      // Elementwise operators.
      "elementwise:shape=33x21,fn=gelu",
      "elementwise:shape=13x40,fn=silu,dtype=bf16",
      "gather:rows=50,cols=40,index=30",
      // Low-bit and sparse weights.
      "matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=u4,w.group=32,w.zero=u4,w.scale=f16",
      "matmul:m=1,n=48,k=60,dtype=bf16,out=f32,w.dtype=i4,w.group=20",
      "matmul:m=3,n=32,k=64,dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f16",
      "matmul:m=2,n=32,k=64,dtype=bf16,out=f32,w.dtype=nf4,w.group=32,w.scale=bf16",
      "matmul:m=3,n=32,k=64,dtype=bf16,out=f32,w.dtype=i2,w.group=32",
      "matmul:m=2,n=32,k=64,dtype=bf16,out=f32,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
      "matmul:m=1..12,n=32,k=64,w.dtype=u4,w.group=16,w.zero=u4",
      "matmul:m=3,n=48,k=64,w.sparse=2:4",
      "matmul:m=5,n=48,k=64,w.sparse=1:4,w.vector=16",
      "matmul:m=2,n=48,k=64,dtype=bf16,out=f32,w.dtype=i4,w.group=32,w.sparse=2:4",
      // Attention.
      "attention:heads=2,m=10,n=33,d=16",
      "attention:heads=2,m=1..20,n=20..40,d=16,causal=true",
      "attention:batch=2,heads=4,kv_heads=2,m=1,n=40,d=16,lengths=keys",
  };
  return specs;
}

}  // namespace tilewright::mutation
