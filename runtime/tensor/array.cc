#include "runtime/tensor/array.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/error.h"
#include "runtime/tensor/blocks.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/fences.h"

namespace tilewright {
namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kPage = 4096;
constexpr int64_t kFenceBytes = 4 << 20;  // on each side: wild accesses land further off

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Byte `offset` (counted from the array's start, or from a multiple of 8 before it) of a guard. Every
// aligned half word is 0x7f80 and some of its low bits, so a NaN in f16, bf16 and f32; each fourth
// is 0x7ffX, which makes a NaN in f64. The bits differ by array and place: what a kernel copies from
// one array's guard into another's shows.
inline unsigned char guard_byte(uint64_t salt, int64_t offset) {
  if (offset % 2 == 1) return 0x7f;
  uint64_t hash = (salt + static_cast<uint64_t>(offset)) * 0x9e3779b97f4a7c15ull;
  hash ^= hash >> 29;
  bool top_of_f64 = offset % 8 == 6;
  return static_cast<unsigned char>(top_of_f64 ? 0xf0 | (1 + hash % 15) : 0x80 | (1 + hash % 127));
}

// The poison of one element, as its bits; the byte pattern repeated for types without a NaN of
// ours.
uint64_t poison_bits(ElemType elem, HostArray::Poison poison) {
  switch (elem) {
    case ElemType::f64: return 0x7ff5deadbeef1234ull;
    case ElemType::f32: return 0x7fa5deadull;
    case ElemType::f16: return 0x7d5aull;
    case ElemType::bf16: return 0x7fa5ull;
    default: return 0x0101010101010101ull * static_cast<uint64_t>(poison);
  }
}

}  // namespace

void HostArray::Unmap::operator()(unsigned char* base) const {
  forget_fence(base);
  give_block(base, size);
}

int64_t checked_count(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 1) {
      throw Error(fmt::format("array '{}': extent {} in shape [{}]; extents are at least 1", name,
                              extent, fmt::join(shape, ", ")));
    }
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw Error(
          fmt::format("array '{}': shape [{}] overflows 64 bits", name, fmt::join(shape, ", ")));
    }
  }
  if (count > (int64_t{1} << 56)) {
    throw MemoryError(fmt::format("array '{}': shape [{}] is larger than any memory", name,
                                  fmt::join(shape, ", ")));
  }
  return count;
}

HostArray::HostArray(std::string name, ElemType elem, std::vector<int64_t> shape, Place place,
                     Contents contents)
    : name_(std::move(name)), elem_(elem), shape_(std::move(shape)) {
  count_ = checked_count(name_, shape_);
  bytes_ = bytes_for(elem_, count_);
  // Large arrays begin at a huge page's edge: then they have the same page layout in every run, and
  // so steadier times.
  const bool huge = bytes_ >= 2 * kHugePage;
  const int64_t used = round_up(bytes_, kPage);
  const int64_t size = used + 2 * kFenceBytes + (huge ? kHugePage : 0);
  auto no_memory = [&] {
    return MemoryError(
        fmt::format("array '{}': no memory for {} bytes: {}", name_, bytes_, std::strerror(errno)));
  };
  bool used_before = false;
  size_t got = static_cast<size_t>(size);
  unsigned char* base = take_block(&got, &used_before);
  if (base == nullptr) throw no_memory();
  block_ = {base, Unmap{got}};
  pages_ = block_.get() + kFenceBytes;
  if (huge) pages_ += (kHugePage - reinterpret_cast<uintptr_t>(pages_) % kHugePage) % kHugePage;
  pages_end_ = pages_ + used;
  if (mprotect(pages_, static_cast<size_t>(used), PROT_READ | PROT_WRITE) != 0) {
    throw no_memory();
  }
  if (huge) madvise(pages_, static_cast<size_t>(used), MADV_HUGEPAGE);
  data_ = place == Place::AfterFence ? pages_ : pages_ + (used - bytes_) / kAlignment * kAlignment;
  guard_salt_ = XXH3_64bits(name_.data(), name_.size());
  if (contents == Contents::Poison) {
    poison();
  } else if (used_before) {
    std::memset(pages_, 0, static_cast<size_t>(used));
  }
  restore_guards();
  register_fence({block_.get(), block_.get() + got, data_, bytes_}, name_);
}

void HostArray::protect(bool read_only) {
  const int access = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  const int failed = mprotect(pages_, static_cast<size_t>(pages_end_ - pages_), access);
  TW_ASSERT(failed == 0, "pages of array " + name_ + " take another protection");
  protected_ = read_only;
}

double HostArray::get(int64_t flat_index) const {
  TW_ASSERT(flat_index >= 0 && flat_index < count_, "index inside array " + name_);
  return load_element(elem_, data_, flat_index);
}

void HostArray::set(int64_t flat_index, double value) {
  TW_ASSERT(flat_index >= 0 && flat_index < count_, "index inside array " + name_);
  store_element(elem_, data_, flat_index, value);
}

void HostArray::read(int64_t first, std::span<double> out) const {
  const auto count = static_cast<int64_t>(out.size());
  TW_ASSERT(first >= 0 && first + count <= count_, "elements inside array " + name_);
  load_elements(elem_, data(), first, out);
}

uint64_t HostArray::hash() const {
  const int64_t whole = count() * bits_of(elem()) / 8;
  const auto left = static_cast<unsigned>(count() * bits_of(elem()) % 8);
  const uint64_t seed = left == 0 ? 0 : data_[whole] & ((1u << left) - 1);
  return XXH3_64bits_withSeed(data_, static_cast<size_t>(whole), seed);
}

namespace {

// Calls `work` with the elements as unsigned numbers of `width` bytes: outputs may be large, and of a
// known width they are gone through at the speed of memory.
template <class Work>
void with_width(void* data, int64_t bytes, int width, Work&& work) {
  auto as = [&](auto number) {
    auto* first = static_cast<decltype(number)*>(data);
    work(first, first + bytes / width);
  };
  switch (width) {
    case 1: return as(uint8_t{});
    case 2: return as(uint16_t{});
    case 4: return as(uint32_t{});
    default: return as(uint64_t{});
  }
}

}  // namespace

void HostArray::poison(Poison poison) {
  uint64_t bits = poison_bits(elem_, poison);
  with_width(data_, bytes_, poison_is_proof() ? bits_of(elem_) / 8 : 1,
             [&](auto* first, auto* last) {
               std::fill(first, last, static_cast<std::remove_pointer_t<decltype(first)>>(bits));
             });
}

std::vector<int64_t> HostArray::poisoned(Poison poison, size_t limit) const {
  uint64_t bits = poison_bits(elem_, poison);
  int width = bits_of(elem_) < 8 ? 1 : bits_of(elem_) / 8;
  int elements = bits_of(elem_) < 8 ? 8 / bits_of(elem_) : 1;
  std::vector<int64_t> found;
  with_width(data_, bytes_, width, [&](auto* first, auto* last) {
    auto wanted = static_cast<std::remove_pointer_t<decltype(first)>>(bits);
    for (auto* at = std::find(first, last, wanted); at != last && found.size() < limit;
         at = std::find(at + 1, last, wanted)) {
      found.push_back((at - first) * elements);
    }
  });
  return found;
}

std::vector<bool> HostArray::poison_map(Poison poison) const {
  uint64_t bits = poison_bits(elem_, poison);
  int64_t width = std::max(1, bits_of(elem_) / 8), elements = std::max(1, 8 / bits_of(elem_));
  std::vector<bool> map(static_cast<size_t>(count_));
  for (int64_t i = 0; i < count_; ++i) {
    map[static_cast<size_t>(i)] =
        std::memcmp(data_ + i / elements * width, &bits, static_cast<size_t>(width)) == 0;
  }
  return map;
}

bool HostArray::poison_is_proof() const {
  return elem_ == ElemType::f64 || elem_ == ElemType::f32 || elem_ == ElemType::f16 ||
         elem_ == ElemType::bf16;
}

std::optional<HostArray::GuardFault> HostArray::guard_fault() const {
  const int64_t behind = pages_end_ - data_ - bytes_, before = data_ - pages_;
  for (int64_t i = 0; i < std::max(behind, before); ++i) {
    if (i < behind && data_[bytes_ + i] != guard_byte(guard_salt_, bytes_ + i)) {
      return GuardFault{
          bytes_ + i, i,
          fmt::format("write {} bytes past the end of '{}' ({} bytes)", i, name_, bytes_)};
    }
    if (i < before && data_[-1 - i] != guard_byte(guard_salt_, kPage - 1 - i)) {
      return GuardFault{
          -1 - i, -1 - i - bytes_,
          fmt::format("write {} bytes before the start of '{}' ({} bytes)", i + 1, name_, bytes_)};
    }
  }
  return std::nullopt;
}

void HostArray::restore_guards() {
  for (int64_t i = 0; i < pages_end_ - data_ - bytes_; ++i) {
    data_[bytes_ + i] = guard_byte(guard_salt_, bytes_ + i);
  }
  for (int64_t i = 0; i < data_ - pages_; ++i)
    data_[-1 - i] = guard_byte(guard_salt_, kPage - 1 - i);
}

}  // namespace tilewright
