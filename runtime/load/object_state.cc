#include "runtime/load/object_state.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tilewright {
namespace {

constexpr uint64_t kMostHeaders = 64, kMostRanges = 4096;
constexpr uint64_t kLinkageHeader = 24;  // the first words of DT_PLTGOT belong to the loader

using AddressRange = std::pair<uint64_t, uint64_t>;  // addresses [first, second)

class Reader {
 public:
  explicit Reader(std::string_view object) : object_(object) {}

  // Bytes that are writable once relocations are done, without the slots through which functions
  // of other libraries are called.
  uint64_t writable_bytes() {
    if (!read_headers()) return 0;
    uint64_t bytes = 0;
    for (const Elf64_Phdr& p : loaded_) {
      if ((p.p_flags & PF_W) == 0) continue;
      bytes += p.p_memsz - overlap({p.p_vaddr, p.p_vaddr + p.p_memsz}, relro_);
    }
    return bytes - std::min(bytes, linkage_bytes());
  }

 private:
  template <class T>
  std::optional<T> in_file(uint64_t offset) const {
    if (offset > object_.size() || sizeof(T) > object_.size() - offset) return std::nullopt;
    T value;
    std::memcpy(&value, object_.data() + offset, sizeof value);
    return value;
  }

  template <class T>
  std::optional<T> at(uint64_t address) const {
    for (const Elf64_Phdr& p : loaded_) {
      if (address < p.p_vaddr || address - p.p_vaddr >= p.p_filesz) continue;
      return in_file<T>(p.p_offset + (address - p.p_vaddr));
    }
    return std::nullopt;
  }

  static uint64_t overlap(const AddressRange& a, const AddressRange& b) {
    const uint64_t begin = std::max(a.first, b.first), end = std::min(a.second, b.second);
    return begin < end ? end - begin : 0;
  }

  bool read_headers() {
    const auto header = in_file<Elf64_Ehdr>(0);
    if (!header || header->e_phnum > kMostHeaders) return false;
    for (uint64_t i = 0; i < header->e_phnum; ++i) {
      const auto p = in_file<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
      if (!p) return false;
      if (p->p_type == PT_LOAD) loaded_.push_back(*p);
      if (p->p_type == PT_GNU_RELRO) relro_ = {p->p_vaddr, p->p_vaddr + p->p_memsz};
      if (p->p_type == PT_DYNAMIC) dynamic_at_ = p->p_vaddr;
    }
    for (uint64_t i = 0; i < kMostRanges; ++i) {
      const auto entry = at<Elf64_Dyn>(dynamic_at_ + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      dynamic_[entry->d_tag] = entry->d_un.d_val;
    }
    return true;
  }

  bool stays_writable(uint64_t address) const {
    return overlap({address, address + 1}, relro_) == 0;
  }

  uint64_t linkage_bytes() const {
    uint64_t bytes = 0;
    const auto table = dynamic_.find(DT_PLTGOT);
    if (table != dynamic_.end() && stays_writable(table->second)) bytes += kLinkageHeader;
    const auto slots = dynamic_.find(DT_JMPREL), size = dynamic_.find(DT_PLTRELSZ);
    if (slots == dynamic_.end() || size == dynamic_.end()) return bytes;
    const uint64_t count = std::min(size->second / sizeof(Elf64_Rela), kMostRanges);
    for (uint64_t i = 0; i < count; ++i) {
      const auto slot = at<Elf64_Rela>(slots->second + i * sizeof(Elf64_Rela));
      if (slot && stays_writable(slot->r_offset)) bytes += sizeof(uint64_t);
    }
    return bytes;
  }

  std::string_view object_;
  std::vector<Elf64_Phdr> loaded_;
  AddressRange relro_{0, 0};
  uint64_t dynamic_at_ = 0;
  std::map<int64_t, uint64_t> dynamic_;
};

}  // namespace

std::string object_state(std::string_view object) {
  const uint64_t bytes = Reader(object).writable_bytes();
  return bytes == 0 ? "" : fmt::format("it keeps {} bytes from call to call", bytes);
}

}  // namespace tilewright
