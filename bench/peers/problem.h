// Shared by the plugins: the spec as they read it, operands by name, and a peer's C interface.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/peers/peer.h"

namespace tilewright::peers {

// The peer has no such operator; the text tells which part it lacks.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An operator's spec. Defaults are those of the operators' table; keys nest by objects or by dots.
class PeerSpec {
 public:
  explicit PeerSpec(const std::string& json_text);

  const std::string& op() const { return op_; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // A size. Throws Unsupported for one that is known only at launch.
  int64_t size(const std::string& key) const;
  int64_t size(const std::string& key, int64_t fallback) const;
  double number(const std::string& key, double fallback) const;
  bool flag(const std::string& key) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  std::vector<std::string> names(const std::string& key) const;
  std::vector<int64_t> sizes(const std::string& key) const;
  // One value an axis from a number, a list or "RxS".
  std::vector<int64_t> per_axis(const std::string& key, int axes, int64_t fallback) const;
  // Throws Unsupported where the weight is stored in a low-bit or sparse format.
  void require_plain_weight() const;

 private:
  const nlohmann::json* find(const std::string& key) const;

  std::string op_;
  std::shared_ptr<const nlohmann::json> json_;
};

class Operands {
 public:
  Operands(const TilewrightPeerOperand* operands, int count) : list_(operands, operands + count) {}
  bool has(const std::string& name) const;
  // The memory of an operand of exactly `bytes` bytes.
  void* get(const std::string& name, int64_t bytes) const;

 private:
  std::vector<TilewrightPeerOperand> list_;
};

// A prepared problem; run computes once.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual void run() = 0;
  // The code that runs, in the library's own words; empty where it does not tell.
  const std::string& implementation() const { return implementation_; }
  bool is_reference() const { return reference_; }

 protected:
  void set_implementation(std::string text, bool reference) {
    implementation_ = std::move(text);
    reference_ = reference;
  }

 private:
  std::string implementation_;
  bool reference_ = false;
};

using Prepare = std::unique_ptr<Problem> (*)(const PeerSpec&, int threads, const Operands&);

// Calls `prepare` behind the C interface: no exception leaves it, and `reason` is filled.
void* prepare_guarded(Prepare prepare, const char* spec_json, int threads,
                      const TilewrightPeerOperand* operands, int count, char* reason,
                      size_t reason_size) noexcept;
TilewrightPeerImplementation implementation_of(void* problem) noexcept;
int run_guarded(void* problem) noexcept;
void destroy_guarded(void* problem) noexcept;

// While it lives, the calling thread may run on every core, so that threads started meanwhile are
// not tied to the core that a caller pinned itself to.
class UnpinnedThread {
 public:
  UnpinnedThread();
  ~UnpinnedThread();
  UnpinnedThread(const UnpinnedThread&) = delete;
  UnpinnedThread& operator=(const UnpinnedThread&) = delete;

 private:
  std::vector<unsigned char> saved_;
};

}  // namespace tilewright::peers
