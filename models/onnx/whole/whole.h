// The parts of the table whole_mappings().
#pragma once

#include "models/onnx/mapping.h"

namespace tilewright::onnx {

const MapFns& whole_element_mappings();      // functions of elements
const MapFns& whole_move_mappings();         // what moves elements
const MapFns& whole_row_mappings();          // reductions and normalizations
const MapFns& whole_attention_mappings();    // attention of one node, and rotary positions
const MapFns& whole_window_mappings();       // pools, resizing, padding, convolutions
const MapFns& whole_recurrent_mappings();    // LSTM, GRU, RNN
const MapFns& whole_quantized_mappings();    // products of integers, and what their codes are worth
const MapFns& whole_code_mappings();         // other functions of codes
const MapFns& whole_product_mappings();      // products with broadcasting
const MapFns& whole_function_mappings();     // circular functions
const MapFns& whole_contraction_mappings();  // Einsum, spectra
const MapFns& whole_sampling_mappings();     // elements at places that a run calculates
const MapFns& whole_normalization_mappings();  // normalizations that no spec says
const MapFns& whole_convolution_mappings();    // convolutions that no spec says
const MapFns& whole_control_mappings();        // If, Loop, Scan
const MapFns& whole_group_weight_mappings();   // products with weights of few bits
const MapFns& whole_contrib_mappings();  // what ONNX Runtime writes into files that it optimized
const MapFns& whole_contrib_attention_mappings();
const MapFns& whole_resize_mappings();
const MapFns& whole_bit_mappings();
const MapFns& whole_grid_mappings();
const MapFns& whole_plain_mappings();  // sizes that values of a run say

// A hyperbolic function or its inverse of one element, '$'; "" for other operators.
std::string hyperbolic_text(const std::string& op);
// A power whose exponent a run calculates.
Mapped calculated_power(const Mapping& m, const Node& node);

// Layers that quantize `x`, f32, to u8 with one scale and one zero point of all its elements, so that 0 is exact.
struct DynamicCodes {
  std::string codes, scale, zero;
};
Mapped dynamic_codes(const Mapping& m, const Node& node, const std::string& x,
                     const DynamicCodes& made);

// `x`, which a convolution of the node left, plus its fourth input, and the function that the node names.
Draft activated(const Mapping& m, const Node& node, const std::string& x);

// A product or a convolution of a value that the model dequantizes with a constant that it dequantizes, as sums
// of products of their codes. Nothing for other nodes.
std::optional<Mapped> product_of_codes(const Mapping& m, const Node& node);

// Layers that calculate `NAME/factor` and `NAME/shift`, by which a normalization with fixed statistics
// multiplies and shifts each channel.
Mapped channel_norm(const Mapping& m, const Node& node, const std::string& gamma,
                    const std::string& beta, const std::string& mean, const std::string& variance,
                    double eps, const std::string& name);

// `x` with so many elements of `value` in front of and behind each axis.
Draft zero_padded(const Mapping& m, const Node& node, const std::string& x,
                  const std::vector<int64_t>& front, const std::vector<int64_t>& behind,
                  const std::string& value, const std::string& output);
// `x`, of these sizes, with axis order[d] as axis d.
Draft reordered(const Mapping& m, const Node& node, const std::string& x,
                const std::vector<int64_t>& sizes, ElemType type, const std::vector<size_t>& order,
                const std::string& output);

}  // namespace tilewright::onnx
