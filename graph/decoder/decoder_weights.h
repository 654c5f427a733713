// Matrices of a GGUF file as operands of products and of an embedding, with the codes that are stored.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/weights/tensor_file.h"

namespace tilewright::graph {

// An operand of a workload and what stands beside it: "", ".scale", ".offset".
struct StoredPart {
  std::string suffix;
  ElemType elem = ElemType::f32;
  Shape shape;
  Bytes data;
};

struct StoredMatrix {
  std::string
      keys;  // that a product's spec takes for it: "trans_b=true", "w.dtype=u4,w.group=32,…"
  std::vector<StoredPart> parts;
};

// The matrices [n, k] of these names below each other, which are stored alike (can_join). Quantized ones
// keep their codes, as [k, n]; others become f32. Throws FileError with the byte where one is missing, has
// another shape, or a type that no operand has.
StoredMatrix read_matrix(const weights::TensorFile& file, const std::vector<std::string>& names,
                         const std::vector<int64_t>& rows, int64_t k);
// Whether the tensors have one type.
bool can_join(const weights::TensorFile& file, const std::vector<std::string>& names);

// A vector of n elements as f32.
StoredPart read_vector(const weights::TensorFile& file, const std::string& name, int64_t n);

// The table [rows, k] for a look-up of rows. Codes of less than 8 bits become bytes; codes of floats
// become f32.
StoredMatrix read_table(const weights::TensorFile& file, const std::string& name, int64_t rows,
                        int64_t k);

// The tensor. Throws FileError that names it where the file has none.
const weights::StoredTensor& tensor_of(const weights::TensorFile& file, const std::string& name);

}  // namespace tilewright::graph
