#include "runtime/load/elf_check.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "runtime/load/elf_names.h"

namespace tilewright {
namespace {

#if defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
constexpr std::array<uint32_t, 3> kSymbolic = {R_AARCH64_ABS64, R_AARCH64_GLOB_DAT,
                                               R_AARCH64_JUMP_SLOT};
constexpr uint32_t kNone = R_AARCH64_NONE, kRelative = R_AARCH64_RELATIVE,
                   kIndirect = R_AARCH64_IRELATIVE;
#else
constexpr uint16_t kMachine = EM_X86_64;
constexpr std::array<uint32_t, 3> kSymbolic = {R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
constexpr uint32_t kNone = R_X86_64_NONE, kRelative = R_X86_64_RELATIVE,
                   kIndirect = R_X86_64_IRELATIVE;
#endif

constexpr uint64_t kMostBytes = uint64_t{1}
                                << 40;  // of address space, so that sums do not overflow
constexpr size_t kMostEntries = 4096;   // of tables that are small in any kernel
constexpr uint64_t kWord = 8;
constexpr int64_t kRelr = 36, kRelrSize = 35, kRelrEntry = 37;  // newer than some <elf.h>

// Ends the reading of an object, with the reason.
struct Refusal {
  std::string why;
};

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw Refusal{fmt::format(format, std::forward<Arguments>(arguments)...)};
}

struct Segment {
  uint64_t begin, offset, file_bytes, bytes;
  uint32_t flags;

  bool writable() const { return (flags & PF_W) != 0; }
  // Whether `count` bytes at the address lie within the first `limit` bytes.
  bool holds(uint64_t address, uint64_t count, uint64_t limit) const {
    return address >= begin && address - begin <= limit && count <= limit - (address - begin);
  }
};

class Checker {
 public:
  Checker(std::string_view object, ObjectKind kind) : object_(object), kind_(kind) {}

  void check() {
    check_header();
    read_segments();
    read_dynamic();
    check_tags();
    check_needed();
    read_versions();
    check_symbols();
    check_relocations(DT_RELA, DT_RELASZ);
    check_relocations(DT_JMPREL, DT_PLTRELSZ);
    check_relative();
  }

 private:
  enum class Place : uint8_t { Any, Fixed };  // Fixed: where no relocation can change it

  template <class T>
  T in_file(uint64_t offset, const char* what) const {
    if (offset > object_.size() || sizeof(T) > object_.size() - offset) {
      refuse("its {} lies outside of the file", what);
    }
    T value;
    std::memcpy(&value, object_.data() + offset, sizeof value);
    return value;
  }
  const char* at(uint64_t address, uint64_t bytes, const char* what,
                 Place place = Place::Fixed) const;
  template <class T>
  T read(uint64_t address, const char* what, Place place = Place::Fixed) const {
    T value;
    std::memcpy(&value, at(address, sizeof(T), what, place), sizeof value);
    return value;
  }
  bool has(int64_t tag) const { return dynamic_.count(tag) != 0; }
  uint64_t value(int64_t tag) const {
    auto found = dynamic_.find(tag);
    if (found == dynamic_.end()) refuse("its dynamic section has no {}", tag_name(tag));
    return found->second;
  }
  std::string_view text(uint64_t offset) const;

  void check_header();
  void read_segments();
  void add_segment(const Elf64_Phdr& p);
  bool is_within_pages(const Elf64_Phdr& p) const;
  void check_part(const Elf64_Phdr& p) const;
  void read_dynamic();
  void check_tags() const;
  void check_needed();
  void read_versions();
  void check_symbols();
  void check_gnu_hash();
  void check_sysv_hash();
  Elf64_Sym check_symbol(uint64_t index) const;
  void check_relocations(int64_t table, int64_t size) const;
  void check_relocation(const Elf64_Rela& r, bool must_be_relative) const;
  void check_relative() const;
  void check_target(uint64_t address) const;

  std::string_view object_;
  ObjectKind kind_;
  uint64_t page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Elf64_Ehdr header_{};
  std::vector<Segment> segments_;
  uint64_t dynamic_begin_ = 0, dynamic_end_ = 0;
  std::map<int64_t, uint64_t> dynamic_;
  std::vector<uint64_t> needed_offsets_;
  std::vector<std::string_view> needed_;
  uint16_t last_version_ = 1;  // 0 and 1 are "local" and "global"
};

const char* Checker::at(uint64_t address, uint64_t bytes, const char* what, Place place) const {
  for (const Segment& s : segments_) {
    if (!s.holds(address, bytes, s.file_bytes)) continue;
    if (place == Place::Fixed && s.writable()) {
      refuse("its {} lies where relocations may change it", what);
    }
    return object_.data() + s.offset + (address - s.begin);
  }
  refuse("its {} lies outside of the loaded file", what);
}

std::string_view Checker::text(uint64_t offset) const {
  uint64_t size = value(DT_STRSZ);
  if (offset >= size) refuse("a name lies outside of its string table");
  const char* begin = at(value(DT_STRTAB), size, "string table") + offset;
  const void* end = std::memchr(begin, '\0', size - offset);
  if (end == nullptr) refuse("a name in its string table does not end");
  return {begin, static_cast<size_t>(static_cast<const char*>(end) - begin)};
}

void Checker::check_header() {
  if (object_.substr(0, SELFMAG) != ELFMAG) {
    refuse("the artifact is no ELF object ({} bytes)", object_.size());
  }
  header_ = in_file<Elf64_Ehdr>(0, "ELF header");
  const unsigned char* id = header_.e_ident;
  bool plain = id[EI_CLASS] == ELFCLASS64 && id[EI_DATA] == ELFDATA2LSB &&
               id[EI_VERSION] == EV_CURRENT && header_.e_version == EV_CURRENT &&
               (id[EI_OSABI] == ELFOSABI_NONE || id[EI_OSABI] == ELFOSABI_GNU);
  if (!plain) refuse("it is no 64-bit little-endian ELF object for Linux");
  if (header_.e_machine != kMachine) {
    refuse("it is for another processor (ELF machine {}, here it is {})", header_.e_machine,
           kMachine);
  }
  if (header_.e_type != ET_DYN) refuse("it is no shared object (ELF type {})", header_.e_type);
  if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum == 0 || header_.e_phnum > 64) {
    refuse("its program headers are not as a linker writes them");
  }
}

void Checker::read_segments() {
  const Elf64_Phdr* none = nullptr;
  std::vector<Elf64_Phdr> parts;
  for (uint16_t i = 0; i < header_.e_phnum; ++i) {
    uint64_t offset = header_.e_phoff;
    if (offset > object_.size()) refuse("its program headers lie outside of the file");
    parts.push_back(in_file<Elf64_Phdr>(offset + i * sizeof(Elf64_Phdr), "program header"));
    if (parts.back().p_type == PT_LOAD) add_segment(parts.back());
  }
  const Elf64_Phdr *stack = none, *dynamic = none;
  for (const Elf64_Phdr& p : parts) {
    check_part(p);
    if (p.p_type == PT_GNU_STACK) stack = &p;
    if (p.p_type != PT_DYNAMIC) continue;
    if (dynamic != nullptr) refuse("it has two dynamic sections");
    dynamic = &p;
  }
  // Without this header the loader makes all stacks of the process executable.
  if (stack == nullptr) refuse("it asks for an executable stack (no PT_GNU_STACK)");
  if (dynamic == nullptr) refuse("it has no dynamic section");
  dynamic_begin_ = dynamic->p_vaddr;
}

void Checker::add_segment(const Elf64_Phdr& p) {
  if ((p.p_flags & PF_W) != 0 && (p.p_flags & PF_X) != 0) {
    refuse("one of its segments is writable and executable");
  }
  // The loader reads the tables in them without a look at what it has mapped how.
  if ((p.p_flags & PF_R) == 0) refuse("one of its segments cannot be read");
  bool inside = p.p_offset <= object_.size() && p.p_filesz <= object_.size() - p.p_offset;
  if (!inside || p.p_filesz > p.p_memsz) refuse("one of its segments lies outside of the file");
  if (p.p_vaddr > kMostBytes || p.p_memsz > kMostBytes) refuse("one of its segments is too large");
  if (p.p_offset % page_ != p.p_vaddr % page_) refuse("one of its segments does not lie on a page");
  if (!segments_.empty()) {
    const Segment& last = segments_.back();
    uint64_t end = (last.begin + last.bytes + page_ - 1) / page_ * page_;
    // The loader maps whole pages one segment after the other: a later one would replace an earlier.
    if (p.p_vaddr / page_ * page_ < end) refuse("its segments overlap");
  }
  segments_.push_back({p.p_vaddr, p.p_offset, p.p_filesz, p.p_memsz, p.p_flags});
}

// Whether it lies in the pages of one segment: the loader protects no others then.
bool Checker::is_within_pages(const Elf64_Phdr& p) const {
  return std::any_of(segments_.begin(), segments_.end(), [&](const Segment& s) {
    return s.holds(p.p_vaddr, p.p_memsz, (s.begin + s.bytes + page_ - 1) / page_ * page_ - s.begin);
  });
}

// Other program headers than those that are loaded.
void Checker::check_part(const Elf64_Phdr& p) const {
  switch (p.p_type) {
    case PT_NULL:
    case PT_LOAD:
    case PT_GNU_EH_FRAME: return;
    case PT_GNU_STACK:
      if ((p.p_flags & PF_X) != 0) refuse("it asks for an executable stack (PT_GNU_STACK)");
      return;
    case PT_TLS: refuse("it has thread-local storage (PT_TLS)");
    case PT_INTERP: refuse("it names an interpreter (PT_INTERP)");
    case PT_PHDR:
      if (at(p.p_vaddr, header_.e_phnum * sizeof(Elf64_Phdr), "program headers") !=
          object_.data() + header_.e_phoff) {
        refuse("its PT_PHDR lies elsewhere than its program headers");
      }
      return;
    case PT_NOTE:
    case PT_GNU_PROPERTY:
      if (p.p_filesz > p.p_memsz) refuse("one of its notes lies outside of the file");
      at(p.p_vaddr, p.p_filesz, "note");
      return;
    case PT_DYNAMIC: return;
    case PT_GNU_RELRO:
      if (!is_within_pages(p)) refuse("its PT_GNU_RELRO lies outside of its segments");
      return;
    default: refuse("it has a program header of type {:#x}", p.p_type);
  }
}

void Checker::read_dynamic() {
  uint64_t address = dynamic_begin_;
  for (size_t i = 0;; ++i, address += sizeof(Elf64_Dyn)) {
    if (i == kMostEntries) refuse("its dynamic section does not end");
    auto entry = read<Elf64_Dyn>(address, "dynamic section", Place::Any);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) {
      needed_offsets_.push_back(entry.d_un.d_val);
    } else if (!dynamic_.emplace(entry.d_tag, entry.d_un.d_val).second) {
      refuse("its dynamic section has {} twice", tag_name(entry.d_tag));
    }
  }
  dynamic_end_ = address + sizeof(Elf64_Dyn);
}

void Checker::check_tags() const {
  for (const auto& [tag, value] : dynamic_) {
    if (std::string why = tag_problem(tag, kMachine == EM_AARCH64); !why.empty()) {
      refuse("{}", why);
    }
  }
  for (const std::vector<int64_t>& group : tag_groups()) {
    for (int64_t tag : group) {
      if (has(tag) != has(group[0])) {
        refuse("its dynamic section has one of {} and {} alone", tag_name(group[0]), tag_name(tag));
      }
    }
  }
  auto only = [&](int64_t tag, uint64_t allowed) {
    if (has(tag) && (value(tag) & ~allowed) != 0) {
      refuse("its {} are {:#x}; a kernel has at most {:#x}", tag_name(tag), value(tag), allowed);
    }
  };
  only(DT_FLAGS, DF_BIND_NOW);
  only(DT_FLAGS_1, DF_1_NOW);
  auto is = [&](int64_t tag, uint64_t wanted) {
    if (has(tag) && value(tag) != wanted) refuse("its {} is {}", tag_name(tag), value(tag));
  };
  is(DT_SYMENT, sizeof(Elf64_Sym));
  is(DT_RELAENT, sizeof(Elf64_Rela));
  is(DT_PLTREL, DT_RELA);
  is(kRelrEntry, kWord);
  if (has(DT_PLTGOT)) at(value(DT_PLTGOT), kWord, "DT_PLTGOT", Place::Any);
}

void Checker::check_needed() {
  for (uint64_t offset : needed_offsets_) {
    std::string_view name = text(offset);
    if (!is_known_library(name, kind_)) {
      refuse(
          "it needs the library '{}' (DT_NEEDED); a kernel needs libm.so.6 and libc.so.6 at most",
          name);
    }
    needed_.push_back(name);
  }
}

// The loader follows these lists to their ends and trusts what they say.
void Checker::read_versions() {
  if (!has(DT_VERNEED)) return;
  size_t entries = 0;
  for (uint64_t file = value(DT_VERNEED);;) {
    auto need = read<Elf64_Verneed>(file, "DT_VERNEED");
    bool known = std::find(needed_.begin(), needed_.end(), text(need.vn_file)) != needed_.end();
    if (need.vn_version != 1 || !known)
      refuse("its DT_VERNEED names a library that it does not need");
    for (uint64_t entry = file + need.vn_aux;;) {
      auto version = read<Elf64_Vernaux>(entry, "DT_VERNEED");
      text(version.vna_name);
      last_version_ = std::max<uint16_t>(last_version_, version.vna_other & 0x7fff);
      if (++entries > kMostEntries) refuse("its DT_VERNEED does not end");
      if (version.vna_next == 0) break;
      entry += version.vna_next;
    }
    if (need.vn_next == 0) break;
    file += need.vn_next;
  }
}

void Checker::check_symbols() {
  if (!has(DT_GNU_HASH) && !has(DT_HASH)) refuse("it has no hash table of symbols");
  if (has(DT_GNU_HASH)) check_gnu_hash();
  if (has(DT_HASH)) check_sysv_hash();
}

// Every symbol that a lookup can reach, and those before them, which are those it takes from others.
void Checker::check_gnu_hash() {
  const uint64_t table = value(DT_GNU_HASH);
  const auto words = read<std::array<uint32_t, 4>>(table, "DT_GNU_HASH");
  const auto [buckets, first, bloom, shift] = words;
  if (buckets == 0 || bloom == 0 || (bloom & (bloom - 1)) != 0 || shift > 31) {
    refuse("its DT_GNU_HASH is not as a linker writes it");
  }
  const uint64_t bucket_at = table + sizeof words + bloom * kWord,
                 chain_at = bucket_at + buckets * 4ull;
  at(table, chain_at - table, "DT_GNU_HASH");
  uint64_t next = first;
  for (uint64_t i = 1; i < first; ++i) check_symbol(i);
  for (uint64_t b = 0; b < buckets; ++b) {
    uint64_t symbol = read<uint32_t>(bucket_at + 4 * b, "DT_GNU_HASH");
    if (symbol == 0) continue;
    if (symbol < next) refuse("its DT_GNU_HASH has chains that overlap");
    for (;; ++symbol) {
      check_symbol(symbol);
      if (read<uint32_t>(chain_at + 4 * (symbol - first), "DT_GNU_HASH") & 1) break;
    }
    next = symbol + 1;
  }
}

void Checker::check_sysv_hash() {
  const uint64_t table = value(DT_HASH);
  const auto [buckets, chains] = read<std::array<uint32_t, 2>>(table, "DT_HASH");
  const uint64_t bucket_at = table + 8, chain_at = bucket_at + buckets * 4ull;
  at(table, chain_at + chains * 4ull - table, "DT_HASH");
  if (buckets == 0) refuse("its DT_HASH is not as a linker writes it");
  for (uint64_t i = 1; i < chains; ++i) check_symbol(i);
  std::vector<bool> seen(chains);
  for (uint64_t b = 0; b < buckets; ++b) {
    auto symbol = read<uint32_t>(bucket_at + 4 * b, "DT_HASH");
    while (symbol != 0) {
      if (symbol >= chains || seen[symbol]) refuse("its DT_HASH has a chain that does not end");
      seen[symbol] = true;
      symbol = read<uint32_t>(chain_at + 4ull * symbol, "DT_HASH");
    }
  }
}

Elf64_Sym Checker::check_symbol(uint64_t index) const {
  auto symbol = read<Elf64_Sym>(value(DT_SYMTAB) + index * sizeof(Elf64_Sym), "symbol table");
  std::string_view name = text(symbol.st_name);
  const int type = ELF64_ST_TYPE(symbol.st_info), bind = ELF64_ST_BIND(symbol.st_info);
  // mold gives a name that is taken from elsewhere the type that it has there.
  if (type == STT_GNU_IFUNC && symbol.st_shndx != SHN_UNDEF) {
    refuse("its symbol '{}' is a function that runs while it is loaded (STT_GNU_IFUNC)", name);
  }
  if (type == STT_TLS) refuse("its symbol '{}' is thread-local (STT_TLS)", name);
  if (bind != STB_LOCAL && bind != STB_GLOBAL && bind != STB_WEAK) {
    refuse("its symbol '{}' has binding {}", name, bind);
  }
  if (has(DT_VERSYM)) {
    auto version = read<uint16_t>(value(DT_VERSYM) + 2 * index, "DT_VERSYM");
    if ((version & 0x7fff) > last_version_) refuse("its symbol '{}' has an unknown version", name);
  }
  if (symbol.st_shndx == SHN_UNDEF) {
    if (index != 0 && !is_known_function(name, kind_)) {
      refuse(
          "it takes '{}' from other libraries; a kernel takes functions of libm and memcpy, "
          "memset, memmove, memcmp alone",
          name);
    }
    return symbol;
  }
  bool inside = std::any_of(segments_.begin(), segments_.end(),
                            [&](const Segment& s) { return s.holds(symbol.st_value, 0, s.bytes); });
  if (symbol.st_shndx == SHN_ABS || !inside) refuse("its symbol '{}' lies outside of it", name);
  return symbol;
}

void Checker::check_relocations(int64_t table, int64_t size) const {
  if (!has(table)) return;
  const uint64_t begin = value(table), bytes = value(size);
  if (bytes % sizeof(Elf64_Rela) != 0)
    refuse("its {} is no whole number of entries", tag_name(size));
  at(begin, bytes, tag_name(table).c_str());
  const uint64_t relative = table == DT_RELA && has(DT_RELACOUNT) ? value(DT_RELACOUNT) : 0;
  if (relative > bytes / sizeof(Elf64_Rela)) refuse("its DT_RELACOUNT is larger than its table");
  for (uint64_t i = 0; i < bytes / sizeof(Elf64_Rela); ++i) {
    auto r = read<Elf64_Rela>(begin + i * sizeof(Elf64_Rela), "relocations");
    check_relocation(r, i < relative);
  }
}

void Checker::check_relocation(const Elf64_Rela& r, bool must_be_relative) const {
  const auto type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
  if (type == kIndirect) {
    refuse("a relocation calls a function while it is loaded (IRELATIVE)");
  }
  if (must_be_relative && type != kRelative) refuse("its DT_RELACOUNT is larger than it may be");
  if (type == kNone) return;
  const bool symbolic = std::find(kSymbolic.begin(), kSymbolic.end(), type) != kSymbolic.end();
  if (!symbolic && type != kRelative) refuse("it has a relocation of type {}", type);
  check_target(r.r_offset);
  const uint64_t index = ELF64_R_SYM(r.r_info);
  if (!symbolic || index == 0) return;
  Elf64_Sym symbol = check_symbol(index);
  const int visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  // Looked up by name in the libraries that were loaded before: 'system' of this object would be the C
  // library's.
  bool elsewhere = symbol.st_shndx != SHN_UNDEF && visibility == STV_DEFAULT &&
                   ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
  if (elsewhere && kind_ == ObjectKind::Kernel) {
    refuse(
        "a relocation names its own symbol '{}', which other libraries may have too; make it "
        "static",
        text(symbol.st_name));
  }
}

// The packed form of relative relocations: an address, then words whose bits stand for the words
// behind it.
void Checker::check_relative() const {
  if (!has(kRelr)) return;
  const uint64_t begin = value(kRelr), bytes = value(kRelrSize);
  if (bytes % kWord != 0) refuse("its DT_RELRSZ is no whole number of entries");
  at(begin, bytes, "DT_RELR");
  std::optional<uint64_t> where;
  for (uint64_t i = 0; i < bytes / kWord; ++i) {
    auto entry = read<uint64_t>(begin + i * kWord, "DT_RELR");
    if ((entry & 1) == 0) {
      check_target(entry);
      where = entry + kWord;
      continue;
    }
    if (!where) refuse("its DT_RELR begins with no address");
    for (uint64_t bit = 1; bit < 64; ++bit) {
      if (entry >> bit & 1) check_target(*where + (bit - 1) * kWord);
    }
    *where += 63 * kWord;
  }
}

// Relocations write to data only: nothing that was looked at here may change.
void Checker::check_target(uint64_t address) const {
  bool data = std::any_of(segments_.begin(), segments_.end(), [&](const Segment& s) {
    return s.writable() && s.holds(address, kWord, s.bytes);
  });
  if (!data) refuse("a relocation writes outside of its data");
  if (address + kWord > dynamic_begin_ && address < dynamic_end_) {
    refuse("a relocation writes to its dynamic section");
  }
}

}  // namespace

std::string object_problem(std::string_view object, ObjectKind kind) {
  try {
    Checker(object, kind).check();
  } catch (const Refusal& refusal) {
    return refusal.why;
  }
  return {};
}

}  // namespace tilewright
