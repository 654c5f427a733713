#include "runtime/cuda/peers/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "ir/ops/spec.h"
#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// Operands of a product, and the ones that dequantize a stored weight.
constexpr std::array<std::string_view, 7> kOperands = {"A",       "B",      "C",       "bias",
                                                       "B.scale", "B.zero", "B.offset"};

// The workload as a product, without its addresses. The reason for none is in `reason`.
std::optional<Product> product_of(const Workload& w, OperandSet& host, std::string& reason) {
  if (w.op != "matmul") {
    reason = "it computes products of matrices only";
    return std::nullopt;
  }
  for (const OperandInfo& info : host.infos()) {
    if (std::find(kOperands.begin(), kOperands.end(), info.name) != kOperands.end()) continue;
    reason = "it has no operand '" + info.name + "'";
    return std::nullopt;
  }
  const Spec spec = parse_spec(w.canonical);
  Product p;
  p.trans_a = spec.get<bool>("trans_a");
  p.trans_b = spec.get<bool>("trans_b");
  p.in = host.find("A")->elem();
  p.out = host.find("C")->elem();
  p.acc = parse_elem_type(spec.get<std::string>("acc")).value();
  const std::vector<int64_t>&a = host.find("A")->shape(), &c = host.find("C")->shape();
  p.batch = c.size() > 2 ? c[0] : 1;
  p.m = c[c.size() - 2];
  p.n = c[c.size() - 1];
  p.k = p.trans_a ? a[a.size() - 2] : a[a.size() - 1];
  for (const std::string& step : spec.get<std::vector<std::string>>("epilogue")) {
    if (step == "bias" && !p.bias && !p.relu) {
      p.bias = true;
    } else if (step == "relu" && !p.relu) {
      p.relu = true;
    } else {
      reason = "it has no epilogue '" + step + "' in this place";
      return std::nullopt;
    }
  }
  p.sparse = w.weight && w.weight->keep == 2 && w.weight->of == 4;
  return p;
}

}  // namespace

std::unique_ptr<PeerOperands> PeerOperands::make(Device& device, const Workload& w,
                                                 OperandSet& host, const DeviceOperands& operands,
                                                 std::string& reason) {
  std::optional<Product> p = product_of(w, host, reason);
  if (!p) return nullptr;
  auto made = std::unique_ptr<PeerOperands>(new PeerOperands);
  p->a = operands.address("A");
  if (p->bias) p->bias_vector = operands.address("bias");
  HostArray& weight = host.at("B");
  made->host_b_ = &weight;
  if (weight.elem() == p->in) {
    p->b = operands.address("B");
  } else {  // stored in few bits: the library has a dense weight of the factors' type
    p->stands_for = fmt::format("a dense {} weight", to_string(p->in));
    made->own_b_host_ = std::make_unique<HostArray>("B", p->in, weight.shape());
    made->own_b_host_->fill(SeededValues(1, "B", p->in));
    made->host_b_ = made->own_b_host_.get();
    made->own_b_ = std::make_unique<GuardedArray>(device, made->host_b_->bytes());
    made->own_b_->upload(made->host_b_->data());
    p->b = made->own_b_->address();
    p->sparse = false;  // its zeros are not those of the workload's pattern
  }
  made->output_ = std::make_unique<GuardedArray>(device, host.output().bytes());
  p->c = made->output_->address();
  made->product_ = *p;
  return made;
}

void PeerOperands::transpose_b(Device& device) {
  if (product_.trans_b) return;
  const int64_t size = bits_of(product_.in) / 8, n = product_.n, k = product_.k;
  auto turned =
      std::make_unique<HostArray>("B", product_.in, std::vector<int64_t>{product_.batch, n, k});
  const auto* from = static_cast<const char*>(host_b_->data());
  auto* to = static_cast<char*>(turned->data());
  for (int64_t b = 0; b < product_.batch; ++b) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        std::memcpy(to + ((b * n + j) * k + i) * size, from + ((b * k + i) * n + j) * size,
                    static_cast<size_t>(size));
      }
    }
  }
  own_b_ = std::make_unique<GuardedArray>(device, turned->bytes());
  own_b_->upload(turned->data());
  own_b_host_ = std::move(turned);
  host_b_ = own_b_host_.get();
  product_.b = own_b_->address();
  product_.trans_b = true;
}

void PeerOperands::poison_output(HostArray& output) {
  output.poison();
  output_->upload(output.data());
}

bool PeerOperands::fetch_output(HostArray& output) const {
  return output_->download(output.data());
}

}  // namespace tilewright::cuda
