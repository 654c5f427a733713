#include "ggml_backend/kernels.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ggml_backend/gguf_view.h"

namespace tilewright::ggml {
namespace {

bool is_float(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

// A few bytes by which another weight at the same address is noticed.
std::array<uint64_t, 3> sample_of(const ggml_tensor& weight) {
  const size_t bytes = ggml_nbytes(&weight);
  std::array<uint64_t, 3> sample{};
  if (bytes < sizeof(uint64_t)) return sample;
  const size_t last = bytes - sizeof(uint64_t);
  const std::array<size_t, 3> places = {0, last / 2, last};
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(&sample[i], static_cast<const char*>(weight.data) + places[i], sizeof(uint64_t));
  }
  return sample;
}

}  // namespace

std::string describe(const Product& product) {
  return std::string(ggml_type_name(product.type)) + " " + std::to_string(product.n) + "x" +
         std::to_string(product.k);
}

Kernels::Kernels(Settings settings) : settings_(std::move(settings)) {
  if (!settings_.specs.empty() && !std::filesystem::exists(settings_.database)) return;
  const tw::Library::Trust trust{settings_.trust, {}};
  library_.emplace(
      settings_.database, [](const std::string&) {}, trust);
}

// The very specs that decoders and the PyTorch backend ask for, so that one database serves all.
std::string Kernels::spec_of(const Product& product, Rows rows) {
  const std::string m = rows == Rows::One ? "1" : "2.." + std::to_string(settings_.rows);
  const std::string n = std::to_string(product.n), k = std::to_string(product.k);
  if (product.type == GGML_TYPE_F32)
    return "matmul:m=" + m + ",n=" + n + ",k=" + k + ",trans_b=true";
  if (is_float(product.type)) {
    const std::string dtype = product.type == GGML_TYPE_F16 ? "f16" : "bf16";
    return "expr:expr=\"C[i, j] += A[i, k] * B[j, k]\",dims.i=" + m + ",dims.j=" + n +
           ",dims.k=" + k + ",dtypes.B=" + dtype + ",weights=[B]";
  }
  auto known = keys_.find(product.type);
  if (known == keys_.end()) known = keys_.emplace(product.type, block_keys(product.type)).first;
  if (known->second.empty()) return "";
  return "matmul:m=" + m + ",n=" + n + ",k=" + k + "," + known->second;
}

const FoundKernel* Kernels::find(const Product& product, Rows rows) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = found_.try_emplace({product, rows});
  if (is_new) place->second = look_up(product, rows);
  return place->second.get();
}

std::unique_ptr<FoundKernel> Kernels::look_up(const Product& product, Rows rows) {
  const std::string spec = spec_of(product, rows);
  if (spec.empty()) return nullptr;
  if (!library_) {
    tell_miss(product, rows, "there is no database '" + settings_.database + "' yet", "");
    return nullptr;
  }
  try {
    tw::Prepared prepared = library_->prepare({.specs = {spec}, .threads = product.threads});
    for (const tw_report& line : prepared.report()) {
      if (line.outcome == TW_MISS || line.outcome == TW_DEFAULT) {
        tell_miss(product, rows, line.reason, line.command);
        return nullptr;
      }
    }
    const tw::Kernel kernel = prepared.find(spec);
    auto found = std::make_unique<FoundKernel>(FoundKernel{std::move(prepared), kernel, {}, 0});
    for (const tw_operand& operand : kernel.operands()) {
      found->operands.push_back({operand.name, operand.packed});
    }
    found->workspace = kernel.workspace_bytes(product.threads);
    return found;
  } catch (const std::exception& error) {
    tell_miss(product, rows, error.what(), "");
    return nullptr;
  }
}

void Kernels::tell_miss(const Product& product, Rows rows, const std::string& reason,
                        const std::string& command) {
  const std::string spec = spec_of(product, rows);
  std::string next = command;
  if (!settings_.specs.empty()) {
    bool listed = false;
    std::ifstream before(settings_.specs);
    for (std::string line; std::getline(before, line);) listed = listed || line == spec;
    if (!listed) std::ofstream(settings_.specs, std::ios::app) << spec << "\n";
    next = "tune-cli tune " + settings_.specs + " --db " + settings_.database + " --threads " +
           std::to_string(product.threads);
  }
  say(GGML_LOG_LEVEL_WARN,
      describe(product) + (rows == Rows::One ? ", 1 row," : ", several rows,") +
          " stays with ggml's CPU backend: " + reason + (next.empty() ? "" : "; " + next));
}

PackedWeight Kernels::pack(const FoundKernel& found, const Product& product, const void* bytes) {
  tw::Operands operands =
      weight_file(product.type, product.n, product.k, bytes).read(kWeightName, found.kernel);
  const std::vector<tw_named_tensor> named = operands.tensors();
  std::vector<tw_named_tensor> to_pack;
  std::vector<const DLTensor*> tensors;
  bool keeps = false;
  for (const FoundKernel::Operand& operand : found.operands) {
    const auto same = std::ranges::find_if(
        named, [&](const tw_named_tensor& tensor) { return operand.name == tensor.operand; });
    const bool is_weight = same != named.end();
    if (is_weight && operand.packed != 0) to_pack.push_back(*same);
    tensors.push_back(is_weight && operand.packed != 1 ? same->tensor : nullptr);
    keeps = keeps || tensors.back() != nullptr;
  }
  PackedWeight packed{found.kernel.pack(to_pack), std::nullopt, std::move(tensors)};
  if (keeps) packed.operands = std::move(operands);
  return packed;
}

std::shared_ptr<const PackedWeight> Kernels::packed(const FoundKernel& kernel,
                                                    const ggml_tensor& weight) {
  const auto sample = sample_of(weight);
  const std::lock_guard lock(mutex_);
  Held& held = packed_[{weight.data, &kernel}];
  if (held.weight == nullptr || held.sample != sample) {
    const Product product{weight.type, weight.ne[1], weight.ne[0], 1};
    held = {sample, std::make_shared<const PackedWeight>(pack(kernel, product, weight.data))};
  }
  return held.weight;
}

void Kernels::enter() {
  const std::lock_guard lock(mutex_);
  ++users_;
}

void Kernels::leave() {
  const std::lock_guard lock(mutex_);
  if (--users_ == 0) packed_.clear();
}

}  // namespace tilewright::ggml
