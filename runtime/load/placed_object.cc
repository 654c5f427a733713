#include "runtime/load/placed_object.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/load/perf_map.h"

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

size_t whole_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// Some systems refuse it, such as SELinux without execmem.
bool may_become_executable() {
  static const bool may = [] {
    const size_t bytes = whole_pages(1);
    void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    std::memset(page, 0, bytes);
    const bool sealed = mprotect(page, bytes, PROT_READ | PROT_EXEC) == 0;
    munmap(page, bytes);
    return sealed;
  }();
  return may;
}

}  // namespace

CodeMemory::~CodeMemory() {
  for (const Chunk& chunk : chunks_) munmap(chunk.memory, chunk.bytes);
}

char* CodeMemory::take(size_t bytes) {
  if (!may_become_executable()) return nullptr;
  const size_t wanted = whole_pages(bytes);
  if (chunks_.empty() || chunks_.back().sealed ||
      chunks_.back().bytes - chunks_.back().used < wanted) {
    const size_t size = std::max(wanted, whole_pages(step_));
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    chunks_.push_back({static_cast<char*>(memory), size, 0, false});
  }
  Chunk& chunk = chunks_.back();
  char* first = chunk.memory + chunk.used;
  chunk.used += wanted;
  return first;
}

void CodeMemory::seal() {
  for (Chunk& chunk : chunks_) {
    if (chunk.sealed) continue;
    if (mprotect(chunk.memory, chunk.bytes, PROT_READ | PROT_EXEC) != 0) {
      throw KernelError(std::string("cannot make kernels executable: ") + std::strerror(errno));
    }
    __builtin___clear_cache(chunk.memory, chunk.memory + chunk.used);
    chunk.sealed = true;
  }
}

std::optional<PlacedObject> PlacedObject::place(std::string_view object,
                                                std::shared_ptr<CodeMemory> memory) {
  const ObjectView view(object);
  const std::vector<Elf64_Phdr> segments = view.used();
  if (segments.empty() || view.needs_loader()) return std::nullopt;
  const size_t bytes = segments.back().p_vaddr + segments.back().p_memsz;
  char* first = memory->take(bytes);
  if (first == nullptr) return std::nullopt;
  for (const Elf64_Phdr& p : segments) {
    std::memcpy(first + p.p_vaddr, view.bytes_of(p), p.p_filesz);
  }
  return PlacedObject(std::move(memory), first, bytes);
}

void PlacedObject::name(std::string_view text) const { name_code(first_, bytes_, text); }

void* PlacedObject::symbol(std::string_view object, const std::string& name) const {
  const uint64_t address = ObjectView(object).address_of(name);
  return address == 0 || address >= bytes_ ? nullptr : first_ + address;
}

}  // namespace tilewright
