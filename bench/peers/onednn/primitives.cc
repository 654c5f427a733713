#include "bench/peers/onednn/primitives.h"

#include <numeric>

#include "bench/peers/onednn/threads.h"

namespace tilewright::peers {

dnnl::engine& cpu_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Type type_named(const std::string& name) {
  if (name == "f32") return Type::f32;
  if (name == "f16") return Type::f16;
  if (name == "bf16") return Type::bf16;
  if (name == "i32") return Type::s32;
  if (name == "i8") return Type::s8;
  if (name == "u8") return Type::u8;
  throw Unsupported("no element type " + name);
}

int64_t bytes_of(const dnnl::memory::desc& desc) { return static_cast<int64_t>(desc.get_size()); }

Dims strides_in_order(const Dims& dims, const std::vector<int>& order) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = stride;
    stride *= dims[*axis];
  }
  return strides;
}

dnnl::memory::desc dense(const Dims& dims, Type type, const std::vector<int>& order) {
  return {dims, type, strides_in_order(dims, order)};
}

dnnl::memory::desc dense(const Dims& dims, Type type) {
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  return dense(dims, type, order);
}

Types types_of(const PeerSpec& spec) {
  const std::string in = spec.text("dtype", "f32");
  const bool integer = in == "i8" || in == "u8";
  const std::string acc = spec.text("acc", integer ? "i32" : "f32");
  if (acc != (integer ? "i32" : "f32")) throw Unsupported("no accumulator of type " + acc);
  return {type_named(in), type_named(spec.text("out", integer ? acc : in))};
}

void PrimitiveProblem::run() {
  use_threads(threads_);
  primitive_.execute(stream_, arguments_);
  stream_.wait();
}

void PrimitiveProblem::add(int argument, const dnnl::memory::desc& desc, const Operands& operands,
                           const std::string& name) {
  arguments_[argument] = dnnl::memory(desc, cpu_engine(), operands.get(name, bytes_of(desc)));
}

void PrimitiveProblem::add_constant(int argument, const dnnl::memory::desc& given,
                                    const dnnl::memory::desc& wanted, const Operands& operands,
                                    const std::string& name) {
  dnnl::memory source(given, cpu_engine(), operands.get(name, bytes_of(given)));
  dnnl::memory packed(wanted, cpu_engine());
  dnnl::reorder(source, packed).execute(stream_, source, packed);
  stream_.wait();
  arguments_[argument] = packed;
}

void PrimitiveProblem::set(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                           const std::string& implementation) {
  primitive_ = primitive;
  set_implementation(implementation, implementation.starts_with("ref"));
  if (scratchpad.get_size() > 0) {
    arguments_[DNNL_ARG_SCRATCHPAD] = dnnl::memory(scratchpad, cpu_engine());
  }
}

Epilogue epilogue_of(const PeerSpec& spec, const dnnl::memory::desc& output) {
  using Algorithm = dnnl::algorithm;
  Epilogue epilogue;
  dnnl::post_ops steps;
  for (const std::string& step : spec.names("epilogue")) {
    if (step == "bias") {
      if (steps.len() > 0) throw Unsupported("a bias comes before the other steps of an epilogue");
      epilogue.bias = true;
    } else if (step == "relu") {
      steps.append_eltwise(Algorithm::eltwise_relu, 0, 0);
    } else if (step == "gelu") {
      steps.append_eltwise(Algorithm::eltwise_gelu_erf, 0, 0);
    } else if (step == "silu") {
      steps.append_eltwise(Algorithm::eltwise_swish, 1, 0);
    } else if (step == "add") {
      epilogue.addend_arguments.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(steps.len()) |
                                          DNNL_ARG_SRC_1);
      steps.append_binary(Algorithm::binary_add, output);
    } else {
      throw Unsupported("no epilogue step " + step);
    }
  }
  epilogue.attributes.set_post_ops(steps);
  epilogue.attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return epilogue;
}

}  // namespace tilewright::peers
