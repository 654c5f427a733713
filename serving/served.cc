#include "serving/served.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "database/tables/checksum.h"
#include "runtime/error.h"
#include "serving/status.h"

namespace tilewright::serving {
namespace {

// The extent over the spec's dynamic dimensions, where kernel dimensions come from `dims`.
KernelExtent over_spec(const KernelExtent& extent, const std::vector<DimSource>& dims) {
  KernelExtent result;
  result.offset = extent.offset;
  result.divisor = extent.divisor;
  for (size_t d = 0; d < extent.factors.size(); ++d) {
    const int64_t factor = extent.factors[d];
    if (factor == 0) continue;
    if (dims[d].dim < 0) {
      result.offset += factor * dims[d].fixed;
      continue;
    }
    const auto own = static_cast<size_t>(dims[d].dim);
    if (result.factors.size() <= own) result.factors.resize(own + 1, 0);
    result.factors[own] += factor;
  }
  if (result.factors.empty() && result.divisor != 1) return KernelExtent(result.at({}));
  return result;
}

// Adds what of `box` lies outside of `taken`: what sticks out of it in one dimension after another.
void cut(Box box, const Box& taken, std::vector<Box>& outside) {
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].max < taken[d].min || taken[d].max < box[d].min) {
      outside.push_back(std::move(box));
      return;
    }
  }
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].min < taken[d].min) {
      outside.push_back(box);
      outside.back()[d].max = taken[d].min - 1;
      box[d].min = taken[d].min;
    }
    if (box[d].max > taken[d].max) {
      outside.push_back(box);
      outside.back()[d].min = taken[d].max + 1;
      box[d].max = taken[d].max;
    }
  }
}

// Whether two ways to say a shape come to the same at all sizes of the box.
bool same_shape(const std::vector<KernelExtent>& a, const std::vector<KernelExtent>& b,
                const Box& box) {
  if (a == b || a.size() != b.size()) return a == b;
  std::vector<int64_t> sizes;
  for (const DimSize& size : box) {
    if (size.is_dynamic()) return false;
    sizes.push_back(size.min);
  }
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis].at(sizes) != b[axis].at(sizes)) return false;
  }
  return true;
}

int find_pack(const std::vector<KernelFunction>& packs, const std::string& made) {
  for (size_t i = 0; i < packs.size(); ++i) {
    if (packs[i].params.back().name == made) return static_cast<int>(i);
  }
  return -1;
}

// The identity of these packed weights among all others. The functions that lay them out are in the
// artifact; their parameters name source and result.
std::string identity_of(const std::vector<KernelFunction>& packs, const std::string& workload_hash,
                        const std::string& artifact_hash) {
  if (packs.empty()) return "";
  std::string text = workload_hash + "\n" + artifact_hash;
  for (const KernelFunction& pack : packs) {
    for (const KernelParam& p : pack.params) {
      text += "\n" + p.name + " " + tilewright::to_string(p.elem);
      for (const KernelExtent& extent : p.shape) text += " " + extent.to_c({});
    }
  }
  return database::content_hash(text);
}

}  // namespace

bool Variant::takes(const int64_t* sizes) const {
  for (size_t d = 0; d < box.size(); ++d) {
    if (sizes[d] < box[d].min || sizes[d] > box[d].max) return false;
  }
  return true;
}

size_t Weights::bytes() const {
  size_t sum = 0;
  for (const PackedVariant& variant : variants) {
    for (const PackedBuffer& buffer : variant.buffers) sum += static_cast<size_t>(buffer.bytes);
  }
  return sum;
}

Served::Served(const Request& request, Place place, LaunchObserver observer)
    : text_(request.text), place_(place), observer_(observer), dims_(request.dims) {
  for (const Dim& d : dims_) dim_names_.push_back(d.name);
  for (const std::string& name : request.operands) {
    operands_.emplace_back();
    operands_.back().name = name;
    operands_.back().packed = -1;  // no kernel has taken it yet
  }
}

bool Served::has_dim(const std::string& name) const {
  return std::find(dim_names_.begin(), dim_names_.end(), name) != dim_names_.end();
}

std::vector<Box> Served::missing(const Box& box) const {
  std::vector<Box> left = {box};
  for (const Variant& v : variants_) {
    std::vector<Box> still;
    for (const Box& b : left) cut(b, v.box, still);
    left = std::move(still);
  }
  return left;
}

int Served::operand_index(const std::string& name) const {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Served::take_operand(const KernelParam& param, const std::vector<DimSource>& dims,
                         const Box& box) {
  const int index = operand_index(param.name);
  if (index < 0) {
    throw KernelError(
        fmt::format("the kernel takes '{}', which is no operand of {}", param.name, text_));
  }
  std::vector<KernelExtent> shape;
  for (const KernelExtent& extent : param.shape) shape.push_back(over_spec(extent, dims));
  Operand& operand = operands_[static_cast<size_t>(index)];
  if (operand.packed >= 0) {
    if (operand.elem == param.elem && same_shape(operand.shape, shape, box)) return index;
    throw KernelError(
        fmt::format("kernels of {} do not agree about operand '{}'", text_, param.name));
  }
  operand.elem = param.elem;
  operand.shape = std::move(shape);
  operand.role = param.role;
  operand.packed = 0;
  for (const KernelExtent& extent : operand.shape) {
    operand.known_shape.push_back(extent.is_constant() ? extent.at({}) : -1);
  }
  return index;
}

std::vector<DimSource> Served::dims_of(const DeviceKernel& kernel) const {
  std::vector<DimSource> dims;
  std::map<std::string, DimSize> sizes;  // read off the text where a kernel has more dimensions
  for (const std::string& name : kernel.dims()) {
    auto own = std::find(dim_names_.begin(), dim_names_.end(), name);
    if (own != dim_names_.end()) {
      dims.push_back({static_cast<int>(own - dim_names_.begin()), 0});
      continue;
    }
    if (sizes.empty()) sizes = sizes_of(parse_spec(text_));
    if (auto fixed = sizes.find(name); fixed != sizes.end()) {
      dims.push_back({-1, fixed->second.min});
    } else {
      throw KernelError(fmt::format("the kernel has dimension '{}', which {} lacks", name, text_));
    }
  }
  return dims;
}

void Served::take_operands(const DeviceKernel& kernel, Variant& variant) {
  for (const KernelParam& p : kernel.params()) {
    const int pack = find_pack(kernel.packs(), p.name);
    variant.args.push_back(pack >= 0 ? ArgSource{-1, pack}
                                     : ArgSource{take_operand(p, variant.dims, variant.box), -1});
  }
  for (const KernelFunction& pack : kernel.packs()) {
    for (size_t p = 0; p + 1 < pack.params.size(); ++p) {
      const int operand = take_operand(pack.params[p], variant.dims, variant.box);
      if (std::find(variant.read.begin(), variant.read.end(), operand) == variant.read.end()) {
        variant.read.push_back(operand);
      }
    }
  }
}

void Served::declare(const DeviceKernel& kernel) {
  Variant none;
  for (const Dim& d : dims_) none.box.push_back({d.min, d.max});
  none.dims = dims_of(kernel);
  take_operands(kernel, none);
}

void Served::add(Box box, std::shared_ptr<const DeviceKernel> kernel,
                 const StoredWorkload& made_for, const std::string& artifact_hash) {
  const DeviceKernel& k = *kernel;
  if (k.params().size() > kMaxOperands || k.dims().size() > kMaxDims) {
    throw KernelError(
        fmt::format("the kernel of {} takes {} operands and {} dimensions; at most {} "
                    "and {} are served",
                    text_, k.params().size(), k.dims().size(), kMaxOperands, kMaxDims));
  }
  Variant variant;
  variant.box = std::move(box);
  variant.dims = dims_of(k);
  take_operands(k, variant);
  std::vector<int64_t> largest;
  for (const DimSource& d : variant.dims) {
    largest.push_back(d.dim < 0 ? d.fixed : variant.box[static_cast<size_t>(d.dim)].max);
  }
  variant.workspace = k.workspace(largest);
  variant.identity = identity_of(k.packs(), made_for.hash, artifact_hash);
  if (!variant.identity.empty() && identity_.find(variant.identity) == std::string::npos) {
    identity_ += (identity_.empty() ? "" : ",") + variant.identity;
  }
  variant.kernel = std::move(kernel);
  variants_.push_back(std::move(variant));
}

void Served::finish() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    bool plain = false, packed = false;
    for (const Variant& v : variants_) {
      for (const ArgSource& a : v.args) plain |= a.operand == static_cast<int>(i);
      packed |= std::find(v.read.begin(), v.read.end(), static_cast<int>(i)) != v.read.end();
    }
    if (!plain && !packed) {
      throw KernelError(
          fmt::format("no kernel of {} takes operand '{}'", text_, operands_[i].name));
    }
    operands_[i].packed = !packed ? 0 : plain ? 2 : 1;
    const std::vector<int64_t>& shape = operands_[i].known_shape;
    if (packed && std::find(shape.begin(), shape.end(), -1) != shape.end()) {
      throw KernelError(
          fmt::format("operand '{}' of {} is packed, but its shape is known only at "
                      "launch",
                      operands_[i].name, text_));
    }
  }
  for (size_t d = 0; d < dims_.size(); ++d) {
    const size_t before = dim_places_.size();
    for (size_t i = 0; i < operands_.size() && dim_places_.size() == before; ++i) {
      if (operands_[i].packed != 0) continue;
      for (size_t axis = 0; axis < operands_[i].shape.size(); ++axis) {
        if (operands_[i].shape[axis].as_dimension() != static_cast<int>(d)) continue;
        dim_places_.push_back({i, axis});
        break;
      }
    }
    if (dim_places_.size() == before) {
      throw KernelError(fmt::format("no operand of {} tells dimension '{}'", text_, dims_[d].name));
    }
  }
}

int64_t Served::workspace_bytes(int threads) const {
  int64_t most = 0;
  for (const Variant& v : variants_) most = std::max(most, v.workspace.bytes(threads));
  return most;
}

std::map<std::string, const void*> Served::weights_given(const tw_named_tensor* tensors,
                                                         size_t count) const {
  if (count > 0) require(tensors, "tensors");
  const Place host;
  std::map<std::string, const void*> given;
  for (size_t i = 0; i < count; ++i) {
    require(tensors[i].operand, "tensors[].operand");
    require(tensors[i].tensor, "tensors[].tensor");
    const int index = operand_index(tensors[i].operand);
    if (index < 0 || operands_[static_cast<size_t>(index)].packed == 0) {
      std::string known;
      for (const Operand& o : operands_) {
        if (o.packed != 0) known += (known.empty() ? "'" : ", '") + o.name + "'";
      }
      throw ServingError(TW_ERROR_ARGUMENT,
                         fmt::format("'{}' is not packed by the kernel of {}; it packs {}",
                                     tensors[i].operand, text_, known.empty() ? "nothing" : known));
    }
    const Operand& operand = operands_[static_cast<size_t>(index)];
    if (given.count(operand.name) != 0) {
      throw ServingError(TW_ERROR_ARGUMENT,
                         fmt::format("tensors[{}]: '{}' was given before; give each operand once",
                                     i, operand.name));
    }
    check_kind(operand, *tensors[i].tensor, host);
    check_layout(operand, *tensors[i].tensor, nullptr, dim_names_, host);
    given[operand.name] = first_element(*tensors[i].tensor);
  }
  return given;
}

Weights Served::pack(const tw_named_tensor* tensors, size_t count,
                     const tw_executor& executor) const {
  const std::map<std::string, const void*> given = weights_given(tensors, count);
  for (const Operand& o : operands_) {
    if (o.packed == 0 || given.count(o.name) != 0) continue;
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("operand '{}' is packed by the kernel of {}, and was not given",
                                   o.name, text_));
  }
  Weights weights;
  weights.identity = identity_;
  for (const Variant& v : variants_) {
    const auto same = [&](const PackedVariant& p) { return p.identity == v.identity; };
    if (v.identity.empty() || std::any_of(weights.variants.begin(), weights.variants.end(), same)) {
      continue;
    }
    weights.variants.push_back({v.identity, v.kernel->pack(given, executor)});
  }
  return weights;
}

}  // namespace tilewright::serving
