// A workload as libraries of matrix products take it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ir/tensor_expr.h"
#include "runtime/cuda/device_operands.h"

namespace tilewright::cuda {

/// C = A B with an optional bias and relu, all row-major. As libraries count in columns, this is
/// C^T = B^T A^T: their first factor is B, n x k, their second A, k x m.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  ElemType in = ElemType::f32, acc = ElemType::f32, out = ElemType::f32;
  bool bias = false, relu = false;
  bool sparse = false;  ///< B is worth something in 2 of 4 neighbours along k
  DeviceAddress a = 0, b = 0, bias_vector = 0;
  DeviceAddress c = 0;     ///< the library's own output
  std::string stands_for;  ///< what B is instead of the workload's weight: "a dense f16 weight"

  /// The elements of one matrix of the batch.
  int64_t a_elements() const { return m * k; }
  int64_t b_elements() const { return n * k; }
  int64_t c_elements() const { return m * n; }
};

/// A product with the memory that it needs besides the workload's operands. Must go before its device
/// does.
class PeerOperands {
 public:
  /// Nothing, with the reason, for a workload that is no such product.
  static std::unique_ptr<PeerOperands> make(Device& device, const Workload& workload,
                                            OperandSet& host, const DeviceOperands& operands,
                                            std::string& reason);

  const Product& product() const { return product_; }
  /// Makes B of the product transposed, [n, k], where it is not: the form that some instructions ask
  /// for.
  void transpose_b(Device& device);
  /// Poisons the library's output; `output` is one of its kind on the host.
  void poison_output(HostArray& output);
  /// Fetches what the library wrote; whether that was nothing beside its output.
  bool fetch_output(HostArray& output) const;

 private:
  PeerOperands() = default;

  Product product_;
  const HostArray* host_b_ = nullptr;  // as the library has it
  std::unique_ptr<HostArray> own_b_host_;
  std::unique_ptr<GuardedArray> own_b_, output_;
};

}  // namespace tilewright::cuda
