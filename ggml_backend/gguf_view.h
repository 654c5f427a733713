// A weight of ggml as libtilewright reads weights: a GGUF file in memory that holds it alone.
#pragma once

#include <cstdint>
#include <string>

#include <ggml.h>
#include "tilewright/tilewright.hpp"

namespace tilewright::ggml {

inline constexpr const char* kWeightName = "weight";

// The file with the weight [n, k] whose blocks stand at `bytes`, which are copied. Throws std::system_error and
// tw::Error.
tw::WeightFile weight_file(ggml_type type, int64_t n, int64_t k, const void* bytes);

// The keys of a matmul's spec for weights of this type; "" for types that are no blocks which libtilewright knows.
std::string block_keys(ggml_type type);

}  // namespace tilewright::ggml
