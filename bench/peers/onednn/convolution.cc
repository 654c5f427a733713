// Convolutions of one to three axes: grouped, dilated, depthwise, transposed. Activations lie as
// the spec says, weights in the layout that oneDNN chooses.
#include "bench/peers/onednn/primitives.h"

namespace tilewright::peers {
namespace {

struct Shape {
  int axes = 2;
  bool channels_last = true;
  bool transposed = false;
  int64_t n = 1, ci = 1, co = 1, groups = 1;
  Dims in, kernel, stride, pad, dilation, out;  // one value an axis

  // Rows and columns that the far side needs so that the output has its size.
  Dims far_pad() const {
    Dims far(axes);
    for (int i = 0; i < axes; ++i) {
      const int64_t reach = dilation[i] * (kernel[i] - 1);
      far[i] = transposed ? (in[i] - 1) * stride[i] + reach + 1 - out[i] - pad[i]
                          : (out[i] - 1) * stride[i] + reach + 1 - in[i] - pad[i];
    }
    return far;
  }
};

Shape shape_of(const PeerSpec& spec) {
  Shape shape;
  const std::string& op = spec.op();
  shape.axes = op == "conv1d" ? 1 : op == "conv3d" ? 3 : 2;
  shape.transposed = op == "conv2d_transpose";
  shape.channels_last = spec.text("layout", "nhwc") == "nhwc";
  shape.n = spec.size("n");
  if (op == "depthwise_conv2d") {
    shape.ci = shape.co = shape.groups = spec.size("c");
  } else {
    shape.ci = spec.size("ci");
    shape.co = spec.size("co");
    shape.groups = spec.size("groups", 1);
  }
  static const std::vector<std::string> kExtents[] = {{"l"}, {"h", "w"}, {"d", "h", "w"}};
  for (const std::string& key : kExtents[shape.axes - 1]) shape.in.push_back(spec.size(key));
  shape.kernel = spec.per_axis("kernel", shape.axes, 1);
  shape.stride = spec.per_axis("stride", shape.axes, 1);
  shape.pad = spec.per_axis("pad", shape.axes, 0);
  shape.dilation = spec.per_axis("dilation", shape.axes, 1);
  for (int i = 0; i < shape.axes; ++i) {
    const int64_t reach = shape.dilation[i] * (shape.kernel[i] - 1) + 1;
    shape.out.push_back(shape.transposed
                            ? (shape.in[i] - 1) * shape.stride[i] - 2 * shape.pad[i] + reach
                            : (shape.in[i] + 2 * shape.pad[i] - reach) / shape.stride[i] + 1);
  }
  return shape;
}

dnnl::memory::desc activation(const Shape& shape, int64_t channels, const Dims& extents,
                              Type type) {
  Dims dims = {shape.n, channels};
  dims.insert(dims.end(), extents.begin(), extents.end());
  std::vector<int> order = {0};
  if (!shape.channels_last) order.push_back(1);
  for (int i = 0; i < shape.axes; ++i) order.push_back(2 + i);
  if (shape.channels_last) order.push_back(1);
  return dense(dims, type, order);
}

// The weight as the spec stores it, in oneDNN's order of axes: [groups,] co, ci, kernel….
dnnl::memory::desc weight(const Shape& shape, Type type) {
  const bool grouped = shape.groups > 1;
  Dims dims;
  if (grouped) dims.push_back(shape.groups);
  dims.push_back(shape.co / shape.groups);
  dims.push_back(shape.ci / shape.groups);
  dims.insert(dims.end(), shape.kernel.begin(), shape.kernel.end());
  const int co = grouped ? 1 : 0, ci = co + 1, first = ci + 1;
  std::vector<int> taps, channels;
  for (int i = 0; i < shape.axes; ++i) taps.push_back(first + i);
  if (shape.channels_last) {  // taps, ci, (groups, co)
    channels = grouped ? std::vector<int>{ci, 0, co} : std::vector<int>{ci, co};
    taps.insert(taps.end(), channels.begin(), channels.end());
    return dense(dims, type, taps);
  }
  channels = grouped ? std::vector<int>{0, co, ci} : std::vector<int>{co, ci};
  if (shape.transposed) channels = {ci, co};
  channels.insert(channels.end(), taps.begin(), taps.end());
  return dense(dims, type, channels);
}

// The tensors of a plan, in either direction.
struct Tensors {
  dnnl::memory::desc x, w, any_w, bias, y;
};

template <class Primitive, class Plan>
void finish(const Plan& plan, const Tensors& tensors, const Epilogue& epilogue,
            const Operands& operands, PrimitiveProblem& problem) {
  problem.add(DNNL_ARG_SRC, tensors.x, operands, "X");
  problem.add_constant(DNNL_ARG_WEIGHTS, tensors.w, plan.weights_desc(), operands, "W");
  problem.add(DNNL_ARG_DST, tensors.y, operands, "Y");
  if (epilogue.bias) problem.add(DNNL_ARG_BIAS, tensors.bias, operands, "bias");
  for (int argument : epilogue.addend_arguments) problem.add(argument, tensors.y, operands, "D");
  problem.set<Primitive>(plan);
}

template <class Primitive>
typename Primitive::primitive_desc plan_of(const Shape& shape, const Tensors& tensors,
                                           const Epilogue& epilogue, dnnl::algorithm algorithm) {
  constexpr auto kInference = dnnl::prop_kind::forward_inference;
  Dims dilation = shape.dilation;
  for (int64_t& d : dilation) --d;  // oneDNN counts the elements skipped
  using Plan = typename Primitive::primitive_desc;
  if (epilogue.bias) {
    return Plan(cpu_engine(), kInference, algorithm, tensors.x, tensors.any_w, tensors.bias,
                tensors.y, shape.stride, dilation, shape.pad, shape.far_pad(), epilogue.attributes);
  }
  return Plan(cpu_engine(), kInference, algorithm, tensors.x, tensors.any_w, tensors.y,
              shape.stride, dilation, shape.pad, shape.far_pad(), epilogue.attributes);
}

}  // namespace

void make_convolution(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  spec.require_plain_weight();
  const Types types = types_of(spec);
  const Shape shape = shape_of(spec);
  Tensors tensors;
  tensors.x = activation(shape, shape.ci, shape.in, types.in);
  tensors.y = activation(shape, shape.co, shape.out, types.out);
  tensors.w = weight(shape, types.in);
  tensors.any_w = {tensors.w.get_dims(), types.in, dnnl::memory::format_tag::any};
  tensors.bias = dense({shape.co}, types.out);
  const Epilogue epilogue = epilogue_of(spec, tensors.y);
  if (shape.transposed) {
    using Primitive = dnnl::deconvolution_forward;
    finish<Primitive>(
        plan_of<Primitive>(shape, tensors, epilogue, dnnl::algorithm::deconvolution_direct),
        tensors, epilogue, operands, problem);
  } else {
    using Primitive = dnnl::convolution_forward;
    finish<Primitive>(
        plan_of<Primitive>(shape, tensors, epilogue, dnnl::algorithm::convolution_auto), tensors,
        epilogue, operands, problem);
  }
}

}  // namespace tilewright::peers
