// What frameworks call operators, element types and keys. Names are compared without regard to
// capitals, '_' and '-': "LayerNorm" is "layer_norm".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tilewright {
struct Operator;
}

namespace tilewright::ops {

// The operator of that name or alias ("gemm", "linear", "dense": matmul); null when there is none.
const Operator* find_operator_by_alias(const std::string& name);

// The one of `choices` that `word` stands for ("float32", "torch.float32": f32), if any.
std::optional<std::string> choice_by_alias(const std::string& word,
                                           const std::vector<std::string>& choices);

// The one of `keys` that frameworks call so ("padding": pad), or nothing. Keys are suggested, not
// taken: two names for a key could both be given.
std::optional<std::string> key_by_alias(const std::string& key,
                                        const std::vector<std::string>& keys);

}  // namespace tilewright::ops
