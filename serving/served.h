// The kernels that serve one spec, with the sizes that each takes, and how a caller's tensors
// become their arguments.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serving/choice.h"
#include "serving/device_kernel.h"

namespace tilewright::serving {

// Where an argument of a kernel comes from.
struct ArgSource {
  int operand = -1;  // a tensor of the caller's, or
  int packed = -1;   // what the packing function of this index has made
};

// Where the value of a kernel's dynamic dimension comes from.
struct DimSource {
  int dim = -1;       // one of the spec's, or
  int64_t fixed = 0;  // a size that the spec fixes
};

// A kernel for some of the sizes.
struct Variant {
  Box box;
  std::shared_ptr<const DeviceKernel> kernel;
  std::string identity;  // of its packed weights; empty where it packs none
  std::vector<ArgSource> args;
  std::vector<DimSource> dims;
  std::vector<int> read;  // operands that its packing functions read
  WorkspaceNeed workspace;

  bool takes(const int64_t* sizes) const;
};

// Packed weights of one variant.
struct PackedVariant {
  std::string identity;
  std::vector<PackedBuffer> buffers;
};

// Where a dynamic dimension of the spec is read off.
struct DimPlace {
  size_t operand = 0;
  size_t axis = 0;
};

class Weights {
 public:
  std::vector<PackedVariant> variants;
  std::string identity;

  size_t bytes() const;
};

// One launch as the caller gives it.
struct LaunchArgs {
  const DLTensor* const* tensors = nullptr;
  size_t tensor_count = 0;
  const Weights* weights = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  const tw_executor* executor = nullptr;
  void* stream = nullptr;
};

// Whom launches are told; null: nobody.
struct LaunchObserver {
  decltype(tw_open_options::launched) call = nullptr;
  void* user = nullptr;
};

// Immutable once its variants were added.
class Served {
 public:
  Served(const Request& request, Place place, LaunchObserver observer);

  // Takes what a kernel says of the operands, and not the kernel. Throws as add().
  void declare(const DeviceKernel& kernel);
  // Takes a kernel for the sizes of `box`. Throws KernelError for a kernel that reads what is no
  // operand of the spec, or takes other shapes than the kernels before. One for fixed sizes says
  // nothing of how shapes follow from sizes, so that another one has to go before.
  void add(Box box, std::shared_ptr<const DeviceKernel> kernel, const StoredWorkload& made_for,
           const std::string& artifact_hash);
  // Finds where dynamic dimensions are read off. After the last kernel was added.
  void finish();

  bool empty() const { return variants_.empty(); }
  bool has_dim(const std::string& name) const;
  // The sizes among those of `box` that none of its kernels takes.
  std::vector<Box> missing(const Box& box) const;
  const std::string& text() const { return text_; }
  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<Dim>& dims() const { return dims_; }
  // One for each of dims().
  const std::vector<DimPlace>& dim_places() const { return dim_places_; }
  const Place& place() const { return place_; }
  const std::string& identity() const { return identity_; }

  // The most that any of its kernels needs.
  int64_t workspace_bytes(int threads) const;
  // Throws ServingError that names the operand.
  Weights pack(const tw_named_tensor* tensors, size_t count, const tw_executor& executor) const;
  // Allocates nothing and takes no lock, unless it fails. Throws ServingError that names the operand
  // and dimension.
  void launch(const LaunchArgs& args) const;

 private:
  int operand_index(const std::string& name) const;
  // The operand that the parameter is; what the kernels say of one operand has to agree at the sizes
  // of the box.
  int take_operand(const KernelParam& param, const std::vector<DimSource>& dims, const Box& box);
  void take_operands(const DeviceKernel& kernel, Variant& variant);
  std::vector<DimSource> dims_of(const DeviceKernel& kernel) const;
  std::map<std::string, const void*> weights_given(const tw_named_tensor* tensors,
                                                   size_t count) const;
  void check_kinds(const LaunchArgs& args) const;
  void read_dims(const LaunchArgs& args, int64_t* dims) const;
  const Variant& variant_for(const int64_t* dims) const;
  const PackedVariant* packed_for(const Variant& variant, const Weights* weights) const;
  void check_workspace(const Variant& variant, const LaunchArgs& args, int threads) const;
  const DLTensor& tensor(const LaunchArgs& args, size_t operand, const int64_t* dims) const;
  void launch_observed(const Variant& variant, void* const* pointers, const int64_t* dims,
                       const Resources& resources) const;

  std::string text_;
  Place place_;
  LaunchObserver observer_;
  std::vector<Dim> dims_;
  std::vector<std::string> dim_names_;
  std::vector<Operand> operands_;
  std::vector<DimPlace> dim_places_;
  std::vector<Variant> variants_;
  std::string identity_;
};

// A tw_kernel is a Served under a name that C can say.
inline const Served& served(const tw_kernel* kernel) {
  return *reinterpret_cast<const Served*>(kernel);
}

}  // namespace tilewright::serving
