// The sliding window over the spatial axes, and padding: shared by all convolutions.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/operator.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// One entry per spatial axis.
struct Window {
  std::vector<std::string> names;  // "h", "w"
  std::vector<Expr> input, output;
  std::vector<int64_t> kernel, stride, pad, dilation;

  std::vector<Expr> kernel_exprs() const;
  std::vector<Axis> kernel_axes() const;  // kh, kw
  std::vector<Axis> output_axes() const;  // oh, ow
};

// The names of the spatial axes: "l", or "h" "w", or "d" "h" "w".
std::vector<std::string> spatial_names(int rank);
// The sizes of the spatial axes, `kernel`, `stride`, `pad` and perhaps `dilation`.
std::vector<KeyDef> window_keys(int rank, bool dilates);
// Writes equal extents as one number; throws for a list of another rank.
void normalize_extents(Spec& spec, int rank);
// Throws for a window that is larger than the padded input.
void check_window(const Spec& spec, int rank);
// One number per axis, from a list of one or of `rank` numbers.
std::vector<int64_t> extents(const Spec& spec, const std::string& key, int rank);
// The window of a plain convolution: output = (input + 2 pad - dilation (kernel - 1) - 1) / stride
// + 1.
Window read_window(WorkloadBuilder& b, int rank);
// The stage X_pad: X with zeros around its spatial axes, which begin at axis `first`. Returns X
// itself when no axis is padded.
Buffer pad_stage(WorkloadBuilder& b, const Buffer& X, const Window& window, int first);

// conv2d_transpose and capsule_conv2d.
std::vector<Operator> special_convolution_operators();

}  // namespace tilewright::ops
