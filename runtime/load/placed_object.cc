#include "runtime/load/placed_object.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace tilewright {
namespace {

constexpr uint64_t kMostTableEntries = 4096;

// Reads an object that was checked; what lies outside of it reads as zeros all the same.
class ObjectView {
 public:
  explicit ObjectView(std::string_view object) : object_(object) {
    const auto header = in_file<Elf64_Ehdr>(0);
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      const auto p = in_file<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
      if (p.p_type == PT_LOAD) loaded_.push_back(p);
      if (p.p_type == PT_DYNAMIC) dynamic_at_ = p.p_vaddr;
    }
  }

  // Segments that a kernel may use. Others are writable until relocations are done, and hold tables of the loader.
  std::vector<Elf64_Phdr> used() const {
    std::vector<Elf64_Phdr> used = loaded_;
    std::erase_if(used, [](const Elf64_Phdr& p) { return (p.p_flags & PF_W) != 0; });
    return used;
  }
  const char* bytes_of(const Elf64_Phdr& p) const { return object_.data() + p.p_offset; }

  // Whether there is something that only the loader does.
  bool needs_loader() const {
    for (uint64_t i = 0; i < kMostTableEntries; ++i) {
      switch (at<Elf64_Dyn>(dynamic_at_ + i * sizeof(Elf64_Dyn)).d_tag) {
        case DT_NULL: return false;
        case DT_GNU_HASH:
        case DT_HASH:
        case DT_STRTAB:
        case DT_SYMTAB:
        case DT_STRSZ:
        case DT_SYMENT: break;
        default:
          return true;  // relocations, libraries, versions of symbols, and what is not known here
      }
    }
    return true;
  }

  // The address of the symbol that the object defines; 0: it has none of that name.
  uint64_t address_of(std::string_view name) const {
    const uint64_t table = dynamic(DT_SYMTAB), count = symbols();
    for (uint64_t i = 1; i < count; ++i) {
      const auto symbol = at<Elf64_Sym>(table + i * sizeof(Elf64_Sym));
      if (symbol.st_shndx != SHN_UNDEF && is_text(symbol.st_name, name)) return symbol.st_value;
    }
    return 0;
  }

 private:
  template <class T>
  T in_file(uint64_t offset) const {
    T value{};
    if (offset <= object_.size() && sizeof(T) <= object_.size() - offset) {
      std::memcpy(&value, object_.data() + offset, sizeof value);
    }
    return value;
  }
  template <class T>
  T at(uint64_t address) const {
    for (const Elf64_Phdr& p : loaded_) {
      if (address < p.p_vaddr || address - p.p_vaddr >= p.p_filesz) continue;
      return in_file<T>(p.p_offset + (address - p.p_vaddr));
    }
    return {};
  }
  uint64_t dynamic(int64_t tag) const {
    for (uint64_t i = 0; i < kMostTableEntries; ++i) {
      const auto entry = at<Elf64_Dyn>(dynamic_at_ + i * sizeof(Elf64_Dyn));
      if (entry.d_tag == tag) return entry.d_un.d_val;
      if (entry.d_tag == DT_NULL) break;
    }
    return 0;
  }
  uint64_t symbols() const {
    if (const uint64_t table = dynamic(DT_HASH)) return at<uint32_t>(table + 4);
    const uint64_t table = dynamic(DT_GNU_HASH);
    const uint64_t buckets = at<uint32_t>(table), first = at<uint32_t>(table + 4);
    const uint64_t bucket_at = table + 16 + at<uint32_t>(table + 8) * uint64_t{8};
    uint64_t last = 0;
    for (uint64_t b = 0; b < std::min(buckets, kMostTableEntries); ++b) {
      last = std::max<uint64_t>(last, at<uint32_t>(bucket_at + 4 * b));
    }
    if (last < first) return first;
    const uint64_t chain_at = bucket_at + 4 * buckets;
    while (last < first + kMostTableEntries &&
           (at<uint32_t>(chain_at + 4 * (last - first)) & 1) == 0) {
      ++last;
    }
    return last + 1;
  }
  bool is_text(uint64_t offset, std::string_view name) const {
    const uint64_t text = dynamic(DT_STRTAB) + offset;
    for (size_t i = 0; i < name.size(); ++i) {
      if (at<char>(text + i) != name[i]) return false;
    }
    return at<char>(text + name.size()) == '\0';
  }

  std::string_view object_;
  std::vector<Elf64_Phdr> loaded_;
  uint64_t dynamic_at_ = 0;
};

}  // namespace

std::optional<PlacedObject> PlacedObject::place(std::string_view object) {
  const ObjectView view(object);
  const std::vector<Elf64_Phdr> segments = view.used();
  if (segments.empty() || view.needs_loader()) return std::nullopt;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto whole = [&](uint64_t bytes) { return (bytes + page - 1) / page * page; };
  const Elf64_Phdr& last = segments.back();
  const size_t bytes = whole(last.p_vaddr + last.p_memsz);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  PlacedObject placed(static_cast<char*>(memory), bytes);
  for (const Elf64_Phdr& p : segments) {
    std::memcpy(placed.memory_ + p.p_vaddr, view.bytes_of(p), p.p_filesz);
  }
  if (mprotect(memory, bytes, PROT_READ) != 0) return std::nullopt;
  for (const Elf64_Phdr& p : segments) {
    if ((p.p_flags & PF_X) == 0) continue;
    char* begin = placed.memory_ + p.p_vaddr / page * page;
    const size_t size = whole(p.p_vaddr + p.p_memsz) - p.p_vaddr / page * page;
    if (mprotect(begin, size, PROT_READ | PROT_EXEC) != 0) return std::nullopt;
    __builtin___clear_cache(begin, begin + size);
  }
  return placed;
}

PlacedObject::~PlacedObject() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

PlacedObject::PlacedObject(PlacedObject&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

PlacedObject& PlacedObject::operator=(PlacedObject&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void* PlacedObject::symbol(std::string_view object, const std::string& name) const {
  const uint64_t address = ObjectView(object).address_of(name);
  return address == 0 || address >= bytes_ ? nullptr : memory_ + address;
}

}  // namespace tilewright
