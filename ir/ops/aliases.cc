#include "ir/ops/aliases.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "ir/ops/operator.h"

namespace tilewright::ops {
namespace {

struct Alias {
  std::string_view other, own;  // `other` as plain() writes it
};

constexpr Alias kOperators[] = {
    {"gemm", "matmul"},
    {"linear", "matmul"},
    {"dense", "matmul"},
    {"fullyconnected", "matmul"},
    {"fc", "matmul"},
    {"innerproduct", "matmul"},
    {"mm", "matmul"},
    {"bmm", "matmul"},
    {"batchmatmul", "matmul"},
    {"groupedgemm", "grouped_matmul"},
    {"conv", "conv2d"},
    {"convolution", "conv2d"},
    {"depthwise", "depthwise_conv2d"},
    {"dwconv", "depthwise_conv2d"},
    {"dwconv2d", "depthwise_conv2d"},
    {"depthwiseconv", "depthwise_conv2d"},
    {"deconv", "conv2d_transpose"},
    {"deconv2d", "conv2d_transpose"},
    {"convtranspose", "conv2d_transpose"},
    {"convtranspose2d", "conv2d_transpose"},
    {"transposedconv2d", "conv2d_transpose"},
    {"sdpa", "attention"},
    {"flashattention", "attention"},
    {"scaleddotproductattention", "attention"},
    {"embedding", "gather"},
    {"pointwise", "elementwise"},
    {"reduction", "reduce"},
};

constexpr Alias kWords[] = {
    {"double", "f64"},
    {"float64", "f64"},
    {"fp64", "f64"},
    {"float", "f32"},
    {"single", "f32"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"half", "f16"},
    {"float16", "f16"},
    {"fp16", "f16"},
    {"bfloat16", "bf16"},
    {"bfloat", "bf16"},
    {"brainfloat16", "bf16"},
    {"long", "i64"},
    {"int64", "i64"},
    {"s64", "i64"},
    {"int", "i32"},
    {"int32", "i32"},
    {"s32", "i32"},
    {"short", "i16"},
    {"int16", "i16"},
    {"s16", "i16"},
    {"int8", "i8"},
    {"s8", "i8"},
    {"int4", "i4"},
    {"s4", "i4"},
    {"int2", "i2"},
    {"s2", "i2"},
    {"int1", "i1"},
    {"uint64", "u64"},
    {"uint32", "u32"},
    {"uint16", "u16"},
    {"uint8", "u8"},
    {"byte", "u8"},
    {"uint4", "u4"},
    {"uint2", "u2"},
    {"uint1", "u1"},
    {"float8e4m3", "f8e4m3"},
    {"float8e4m3fn", "f8e4m3"},
    {"fp8e4m3", "f8e4m3"},
    {"f8e4m3fn", "f8e4m3"},
    {"e4m3", "f8e4m3"},
    {"e4m3fn", "f8e4m3"},
    {"float8e5m2", "f8e5m2"},
    {"fp8e5m2", "f8e5m2"},
    {"e5m2", "f8e5m2"},
    {"float4e2m1", "f4e2m1"},
    {"float4e2m1fn", "f4e2m1"},
    {"fp4", "f4e2m1"},
    {"fp4e2m1", "f4e2m1"},
    {"e2m1", "f4e2m1"},
    {"normalfloat4", "nf4"},
    {"float8e8m0fnu", "e8m0"},
    {"f8e8m0", "e8m0"},
    {"swish", "silu"},
    {"average", "mean"},
    {"avg", "mean"},
    {"maximum", "max"},
    {"minimum", "min"},
    {"channelslast", "nhwc"},
    {"channelsfirst", "nchw"},
};

constexpr Alias kKeys[] = {
    {"padding", "pad"},
    {"pads", "pad"},
    {"strides", "stride"},
    {"dilations", "dilation"},
    {"kernelsize", "kernel"},
    {"kernelshape", "kernel"},
    {"filter", "kernel"},
    {"filtersize", "kernel"},
    {"inchannels", "ci"},
    {"cin", "ci"},
    {"ic", "ci"},
    {"outchannels", "co"},
    {"cout", "co"},
    {"oc", "co"},
    {"channels", "c"},
    {"height", "h"},
    {"width", "w"},
    {"length", "l"},
    {"depth", "d"},
    {"group", "groups"},
    {"group", "w.group"},
    {"groupsize", "w.group"},
    {"wgroup", "w.group"},
    {"batchsize", "batch"},
    {"batchsize", "n"},
    {"batchsize", "b"},
    {"bs", "batch"},
    {"b", "batch"},
    {"batch", "n"},
    {"batch", "b"},
    {"transposea", "trans_a"},
    {"ta", "trans_a"},
    {"transposeb", "trans_b"},
    {"tb", "trans_b"},
    {"datatype", "dtype"},
    {"type", "dtype"},
    {"precision", "dtype"},
    {"dtypein", "dtype"},
    {"accumulator", "acc"},
    {"accdtype", "acc"},
    {"accumdtype", "acc"},
    {"outdtype", "out"},
    {"output", "out"},
    {"dtypeout", "out"},
    {"activation", "epilogue"},
    {"act", "epilogue"},
    {"bias", "epilogue"},
    {"fused", "epilogue"},
    {"weightdtype", "w.dtype"},
    {"wdtype", "w.dtype"},
    {"weight.dtype", "w.dtype"},
    {"bits", "w.dtype"},
    {"sparsity", "w.sparse"},
    {"sparse", "w.sparse"},
    {"epsilon", "eps"},
    {"axis", "axes"},
    {"dim", "axes"},
    {"dims", "axes"},
    {"size", "shape"},
    {"sizes", "shape"},
    {"op", "kind"},
    {"mode", "kind"},
    {"function", "fn"},
    {"func", "fn"},
    {"rows", "m"},
    {"cols", "n"},
    {"columns", "n"},
    {"heads", "h"},
    {"numheads", "h"},
    {"headdim", "d"},
    {"seq", "m"},
    {"label", "name"},
};

std::string plain(std::string_view name) {
  std::string text;
  for (char c : name) {
    if (c == '_' || c == '-' || c == ' ') continue;
    text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// The one of `known` that is spelled alike, or that a row of the table leads to.
std::optional<std::string> find(std::string_view name, std::span<const Alias> table,
                                const std::vector<std::string>& known) {
  const std::string wanted = plain(name);
  for (const std::string& k : known) {
    if (plain(k) == wanted) return k;
  }
  for (const Alias& a : table) {
    if (a.other == wanted && holds(known, a.own)) return std::string(a.own);
  }
  return std::nullopt;
}

}  // namespace

const Operator* find_operator_by_alias(const std::string& name) {
  std::vector<std::string> names;
  for (const Operator& op : operators()) names.push_back(op.name);
  const auto own = find(name, kOperators, names);
  return own ? find_operator(*own) : nullptr;
}

std::optional<std::string> choice_by_alias(const std::string& word,
                                           const std::vector<std::string>& choices) {
  // "torch.float32", "np.int8": the module is no part of the name.
  return find(std::string_view(word).substr(word.rfind('.') + 1), kWords, choices);
}

std::optional<std::string> key_by_alias(const std::string& key,
                                        const std::vector<std::string>& keys) {
  return find(key, kKeys, keys);
}

}  // namespace tilewright::ops
