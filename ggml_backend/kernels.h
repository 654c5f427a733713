// The kernels of the database for products of ggml, and weights as those kernels read them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ggml_backend/settings.h"
#include "tilewright/tilewright.hpp"

namespace tilewright::ggml {

// A weight [n, k] of one type times f32 rows of k, on so many threads. ggml's weight has k first.
struct Product {
  ggml_type type = GGML_TYPE_F32;
  int64_t n = 0, k = 0;
  int threads = 1;
  auto operator<=>(const Product&) const = default;
};

// "q4_1 576x576"
std::string describe(const Product& product);

enum class Rows : uint8_t { One, Several };
inline Rows rows_of(int64_t m) { return m == 1 ? Rows::One : Rows::Several; }

struct FoundKernel {
  struct Operand {
    std::string name;
    int packed;  // as tw_operand has it
  };
  tw::Prepared prepared;  // owns the kernel
  tw::Kernel kernel;
  std::vector<Operand> operands;
  size_t workspace = 0;
};

struct PackedWeight {
  tw::Weights weights;
  std::optional<tw::Operands> operands;  // kept where the kernel reads some as they are
  std::vector<const DLTensor*>
      tensors;  // an operand each; null where it is packed, and for A and C
};

// Everything here may be called by many threads.
class Kernels {
 public:
  // Opens the database. Throws tw::Error, unless there is none yet and `specs` is asked for.
  explicit Kernels(Settings settings);

  const Settings& settings() const { return settings_; }

  // Null where the database has no tuned kernel, which is said once.
  const FoundKernel* find(const Product& product, Rows rows);
  // The weight for this kernel, packed at its first use. A weight that is elsewhere now, or has other bytes, is
  // packed again.
  std::shared_ptr<const PackedWeight> packed(const FoundKernel& kernel, const ggml_tensor& weight);
  // Weights of `bytes` in ggml's layout, kept by nobody.
  static PackedWeight pack(const FoundKernel& kernel, const Product& product, const void* bytes);

  // Backends that are alive: packed weights go with the last one.
  void enter();
  void leave();

 private:
  struct Held {
    std::array<uint64_t, 3> sample;
    std::shared_ptr<const PackedWeight> weight;
  };

  std::string spec_of(const Product& product, Rows rows);
  std::unique_ptr<FoundKernel> look_up(const Product& product, Rows rows);
  void tell_miss(const Product& product, Rows rows, const std::string& reason,
                 const std::string& command);

  Settings settings_;
  std::optional<tw::Library> library_;  // none: the database is still to be made
  std::mutex mutex_;
  std::map<std::pair<Product, Rows>, std::unique_ptr<FoundKernel>> found_;
  std::map<std::pair<const void*, const FoundKernel*>, Held> packed_;
  std::map<ggml_type, std::string> keys_;
  int users_ = 0;
};

}  // namespace tilewright::ggml
