// Host arrays that notice writes outside themselves and elements that were never written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/type.h"
#include "runtime/tensor/seeded.h"

namespace tilewright {

// A packed row-major array, aligned to 64 bytes, between protected pages: an access there is a fault
// (runtime/tensor/fences.h says whose). Bytes that alignment leaves between the array and a protected page
// are guards. They read as NaN in every float type, so a kernel that reads past the end and uses
// what it found goes wrong visibly. Not thread-safe.
class HostArray {
 public:
  static constexpr int64_t kAlignment = 64;

  // The side on which the array touches its protected pages. On the other side up to a page of
  // guards stands between; at the end of BeforeFence, fewer than 64 bytes.
  enum class Place : uint8_t { AfterFence, BeforeFence };

  enum class Contents : uint8_t { Zeros, Poison };

  // Throws Error for an extent under 1 and for a size that overflows, MemoryError for one that
  // cannot be had.
  HostArray(std::string name, ElemType elem, std::vector<int64_t> shape,
            Place place = Place::AfterFence, Contents contents = Contents::Zeros);

  const std::string& name() const { return name_; }
  ElemType elem() const { return elem_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t count() const { return count_; }
  int64_t bytes() const { return bytes_; }
  // Bytes of address space, with the protected pages.
  int64_t mapped_bytes() const { return static_cast<int64_t>(block_.get_deleter().size); }
  void* data() { return data_; }
  const void* data() const { return data_; }

  double get(int64_t flat_index) const;
  void set(int64_t flat_index, double value);
  // Elements [first, first + out.size()).
  void read(int64_t first, std::span<double> out) const;
  void fill(const SeededValues& values) { values.fill(data_, count_); }
  // xxh3 of the elements.
  uint64_t hash() const;
  // Makes the pages of the array read-only, or writable again. A write meanwhile is a fault.
  void protect(bool read_only);
  bool is_protected() const { return protected_; }

  // Which bytes stand for "not written" in types that have no NaN to spare. A legal value may equal
  // one of them by chance, not both.
  enum class Poison : uint8_t { First = 0xcd, Second = 0x32 };
  // Overwrites the elements: wide floats with a NaN of a payload of ours, others with the bytes.
  void poison(Poison poison = Poison::First);
  // The first elements that still hold the poison, `limit` at most. For sub-byte types, the first
  // element of each byte that does.
  std::vector<int64_t> poisoned(Poison poison = Poison::First, size_t limit = 1) const;
  // For each element whether it does; those of one byte together.
  std::vector<bool> poison_map(Poison poison) const;
  // Whether poison left in the array shows that an element was not written: not so for types in
  // which the pattern is a legal value, where a second run with the other poison decides.
  bool poison_is_proof() const;

  // The guard byte that changed: its distance in bytes from the first element (negative: before the
  // array) and from the end.
  struct GuardFault {
    int64_t from_begin;
    int64_t past_end;
    std::string message;  // "write 3 bytes past the end of 'C' (1024 bytes)"
  };
  // Nearest to the array first.
  std::optional<GuardFault> guard_fault() const;
  // Makes the guards whole again.
  void restore_guards();

 private:
  struct Unmap {
    size_t size;
    void operator()(unsigned char* base) const;
  };

  std::string name_;
  ElemType elem_;
  std::vector<int64_t> shape_;
  int64_t count_ = 1;
  int64_t bytes_ = 0;
  unsigned char *pages_ = nullptr, *pages_end_ = nullptr;  // those that may be accessed
  std::unique_ptr<unsigned char, Unmap> block_;            // with the protected ones
  unsigned char* data_ = nullptr;
  uint64_t guard_salt_ = 0;
  bool protected_ = false;
};

// The product of the extents. Throws Error that names the array when one is under 1 or it
// overflows, MemoryError when no memory could hold so many.
int64_t checked_count(const std::string& name, const std::vector<int64_t>& shape);

}  // namespace tilewright
