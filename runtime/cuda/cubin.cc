#include "runtime/cuda/cubin.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

constexpr uint16_t kCudaMachine = 190;
constexpr size_t kInstructionBytes = 16;
constexpr uint64_t kOpcodeMask = 0x1ff;

// The section .nv.info is a list of attributes: a format byte, what it is, then its value. Those of a
// kernel hold the kernel's symbol and a number.
constexpr uint8_t kSizedFormat = 4;
constexpr uint8_t kRegisterCount = 0x2f;
constexpr uint8_t kFrameSize = 0x11;

struct Opcode {
  uint64_t bits;
  const char* mnemonic;
};

// Read off what ptxas makes of kernels with and without each instruction.
constexpr Opcode kOpcodes[] = {
    {0x03c, "HMMA"},      {0x037, "IMMA"},    {0x07a, "QMMA"},       {0x026, "IDP"},
    {0x023, "FFMA"},      {0x03d, "BMMA"},    {0x044, "STSM"},       {0x03b, "LDSM"},
    {0x1ae, "LDGSTS"},    {0x181, "LDG"},     {0x186, "STG"},        {0x184, "LDS"},
    {0x188, "STS"},       {0x183, "LDL"},     {0x187, "STL"},        {0x11d, "BAR"},
    {0x189, "SHFL"},      {0x1b4, "UTMALDG"}, {0x1b5, "UTMASTG"},    {0x1ba, "UBLKCP"},
    {0x1a7, "SYNCS"},     {0x1b2, "SYNCS"},   {0x1c8, "USETMAXREG"}, {0x1f0, "HGMMA"},
    {0x1f1, "IGMMA"},     {0x1f3, "QGMMA"},   {0x1c7, "UCGABAR"},    {0x012, "LOP3"},
    {0x1c5, "WARPGROUP"}, {0x02e, "ACQBULK"}, {0x02d, "PREEXIT"},
};

// The bit of the high half that stands for a form of an instruction, read off likewise: of matrix
// instructions that with a sparse operand, of tensor copies that of windows and that to several blocks of
// a cluster.
struct FormBit {
  std::string_view mnemonic;
  int bit;
  std::string_view form;
};

constexpr FormBit kFormBits[] = {{"HMMA", 9, ".SP"},         {"IMMA", 8, ".SP"},
                                 {"QMMA", 12, ".SP"},        {"HGMMA", 9, ".SP"},
                                 {"IGMMA", 9, ".SP"},        {"QGMMA", 9, ".SP"},
                                 {"UTMALDG", 18, ".IM2COL"}, {"UTMALDG", 11, ".MULTICAST"}};

std::string name_of(const Opcode& opcode, uint64_t high) {
  std::string name = opcode.mnemonic;
  for (const FormBit& f : kFormBits) {
    if (f.mnemonic == opcode.mnemonic && (high >> f.bit & 1) != 0) name.append(f.form);
  }
  return name;
}

struct Section {
  std::string name;
  Elf64_Shdr header;
  std::string_view bytes;
};

// Checked reads: a damaged file is an error and not a crash.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  template <class T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, slice(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view slice(uint64_t offset, uint64_t size) const {
    if (offset > file_.size() || size > file_.size() - offset) {
      throw KernelError("the cubin is cut off");
    }
    return file_.substr(offset, size);
  }

 private:
  std::string_view file_;
};

std::string name_at(std::string_view names, uint64_t offset) {
  if (offset >= names.size()) throw KernelError("the cubin is damaged: a name lies outside");
  std::string_view rest = names.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

std::vector<Section> sections_of(std::string_view cubin) {
  if (cubin.size() < sizeof(Elf64_Ehdr) || std::memcmp(cubin.data(), ELFMAG, SELFMAG) != 0) {
    throw KernelError(fmt::format("no cubin: {} bytes that are no ELF file", cubin.size()));
  }
  Reader reader(cubin);
  auto header = reader.at<Elf64_Ehdr>(0);
  if (header.e_machine != kCudaMachine) {
    throw KernelError(fmt::format("no cubin: an ELF file of machine {}", header.e_machine));
  }
  std::vector<Section> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    Section& s = sections[i];
    s.header = reader.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    if (s.header.sh_type != SHT_NOBITS && s.header.sh_type != SHT_NULL) {
      s.bytes = reader.slice(s.header.sh_offset, s.header.sh_size);
    }
  }
  if (header.e_shstrndx >= sections.size()) throw KernelError("the cubin is damaged: no names");
  for (Section& s : sections) {
    s.name = name_at(sections[header.e_shstrndx].bytes, s.header.sh_name);
  }
  return sections;
}

const Section* find(const std::vector<Section>& sections, const std::string& name) {
  for (const Section& s : sections) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

// The position of the kernel's symbol.
std::optional<uint32_t> symbol_of(const std::vector<Section>& sections, std::string_view kernel) {
  const Section *symbols = find(sections, ".symtab"), *names = find(sections, ".strtab");
  if (symbols == nullptr || names == nullptr) return std::nullopt;
  Reader reader(symbols->bytes);
  for (uint32_t i = 0; i < symbols->bytes.size() / sizeof(Elf64_Sym); ++i) {
    auto symbol = reader.at<Elf64_Sym>(i * sizeof(Elf64_Sym));
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
        name_at(names->bytes, symbol.st_name) == kernel) {
      return i;
    }
  }
  return std::nullopt;
}

void read_attributes(std::string_view info, uint32_t symbol, CubinFacts& facts) {
  Reader reader(info);
  for (uint64_t at = 0; at + 4 <= info.size();) {
    auto format = reader.at<uint8_t>(at), attribute = reader.at<uint8_t>(at + 1);
    auto size = reader.at<uint16_t>(at + 2);  // or the value itself, in the other formats
    at += 4;
    if (format != kSizedFormat) continue;
    if (size >= 8 && reader.at<uint32_t>(at) == symbol) {
      auto value = reader.at<uint32_t>(at + 4);
      if (attribute == kRegisterCount) facts.registers = static_cast<int>(value);
      if (attribute == kFrameSize) facts.stack_bytes = value;
    }
    at += size;
  }
}

}  // namespace

CubinFacts cubin_facts(std::string_view cubin, std::string_view kernel) {
  std::vector<Section> sections = sections_of(cubin);
  std::optional<uint32_t> symbol = symbol_of(sections, kernel);
  const Section* text = find(sections, fmt::format(".text.{}", kernel));
  if (!symbol || text == nullptr) {
    throw KernelError(fmt::format("the cubin has no kernel '{}'", kernel));
  }
  CubinFacts facts;
  if (const Section* info = find(sections, ".nv.info")) {
    read_attributes(info->bytes, *symbol, facts);
  }
  if (const Section* shared = find(sections, fmt::format(".nv.shared.{}", kernel))) {
    facts.shared_bytes = static_cast<int64_t>(shared->header.sh_size);
  }
  Reader code(text->bytes);
  for (uint64_t at = 0; at + kInstructionBytes <= text->bytes.size(); at += kInstructionBytes) {
    uint64_t opcode = code.at<uint64_t>(at) & kOpcodeMask;
    for (const Opcode& known : kOpcodes) {
      if (known.bits != opcode) continue;
      ++facts.instructions[name_of(known, code.at<uint64_t>(at + kInstructionBytes / 2))];
    }
  }
  return facts;
}

}  // namespace tilewright::cuda
