// Memory between protected pages: a kernel's access beyond the array faults, or is detected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::mutation {

// `bytes` bytes aligned to 64, with 2 MiB of protected pages on both sides. The array's end or its
// begin is at a protected page. The few bytes between the array and the next page hold NaNs of
// every float type; whole() checks them.
class FencedArray {
 public:
  enum class At : uint8_t { End, Begin };
  FencedArray(int64_t bytes, At at);
  ~FencedArray();
  FencedArray(const FencedArray&) = delete;
  FencedArray& operator=(const FencedArray&) = delete;

  unsigned char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Makes writes fault, or allows them again.
  void read_only(bool is) const;
  bool whole() const;

 private:
  unsigned char* base_ = nullptr;
  unsigned char* inner_ = nullptr;
  unsigned char* data_ = nullptr;
  size_t all_ = 0, inside_ = 0;
  int64_t bytes_;
};

}  // namespace tilewright::mutation
