#include "models/weights/storage_type.h"

#include <array>

namespace tilewright::weights {
namespace {

constexpr std::array kSafetensors = {
    StorageType{"BOOL", ElemType::boolean, 1, 8},   StorageType{"F4", ElemType::f4e2m1, 1, 4},
    StorageType{"F6_E2M3", std::nullopt, 1, 6},     StorageType{"F6_E3M2", std::nullopt, 1, 6},
    StorageType{"U8", ElemType::u8, 1, 8},          StorageType{"I8", ElemType::i8, 1, 8},
    StorageType{"F8_E5M2", ElemType::f8e5m2, 1, 8}, StorageType{"F8_E4M3", ElemType::f8e4m3, 1, 8},
    StorageType{"F8_E8M0", ElemType::e8m0, 1, 8},   StorageType{"I16", ElemType::i16, 1, 16},
    StorageType{"U16", ElemType::u16, 1, 16},       StorageType{"F16", ElemType::f16, 1, 16},
    StorageType{"BF16", ElemType::bf16, 1, 16},     StorageType{"I32", ElemType::i32, 1, 32},
    StorageType{"U32", ElemType::u32, 1, 32},       StorageType{"F32", ElemType::f32, 1, 32},
    StorageType{"C64", std::nullopt, 1, 64},        StorageType{"F64", ElemType::f64, 1, 64},
    StorageType{"I64", ElemType::i64, 1, 64},       StorageType{"U64", ElemType::u64, 1, 64},
};

struct GgufType {
  uint32_t number;
  StorageType type;
};

constexpr GgufType plain(uint32_t number, std::string_view name, ElemType elem, int64_t bits) {
  return {number, {name, elem, 1, bits}};
}

constexpr GgufType blocks(uint32_t number, std::string_view name, int64_t elements, int64_t bytes) {
  return {number, {name, std::nullopt, elements, bytes * 8}};
}

// The numbers of ggml.h, with the sizes of its block structures. 4, 5, 31 to 33 and 36 to 38 are
// types that it has given up.
constexpr std::array kGguf = {
    plain(0, "F32", ElemType::f32, 32),
    plain(1, "F16", ElemType::f16, 16),
    blocks(2, "Q4_0", 32, 18),
    blocks(3, "Q4_1", 32, 20),
    blocks(6, "Q5_0", 32, 22),
    blocks(7, "Q5_1", 32, 24),
    blocks(8, "Q8_0", 32, 34),
    blocks(9, "Q8_1", 32, 36),
    blocks(10, "Q2_K", 256, 84),
    blocks(11, "Q3_K", 256, 110),
    blocks(12, "Q4_K", 256, 144),
    blocks(13, "Q5_K", 256, 176),
    blocks(14, "Q6_K", 256, 210),
    blocks(15, "Q8_K", 256, 292),
    blocks(16, "IQ2_XXS", 256, 66),
    blocks(17, "IQ2_XS", 256, 74),
    blocks(18, "IQ3_XXS", 256, 98),
    blocks(19, "IQ1_S", 256, 50),
    blocks(20, "IQ4_NL", 32, 18),
    blocks(21, "IQ3_S", 256, 110),
    blocks(22, "IQ2_S", 256, 82),
    blocks(23, "IQ4_XS", 256, 136),
    plain(24, "I8", ElemType::i8, 8),
    plain(25, "I16", ElemType::i16, 16),
    plain(26, "I32", ElemType::i32, 32),
    plain(27, "I64", ElemType::i64, 64),
    plain(28, "F64", ElemType::f64, 64),
    blocks(29, "IQ1_M", 256, 56),
    plain(30, "BF16", ElemType::bf16, 16),
    blocks(34, "TQ1_0", 256, 54),
    blocks(35, "TQ2_0", 256, 66),
    blocks(39, "MXFP4", 32, 17),
    blocks(40, "NVFP4", 64, 36),
};

}  // namespace

const StorageType* safetensors_type(std::string_view name) {
  for (const StorageType& type : kSafetensors) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const StorageType* gguf_type(uint32_t number) {
  for (const GgufType& type : kGguf) {
    if (type.number == number) return &type.type;
  }
  return nullptr;
}

std::string safetensors_type_names() {
  std::string names;
  for (const StorageType& type : kSafetensors) {
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  return names;
}

std::optional<uint64_t> stored_bytes(const StorageType& type, uint64_t count) {
  auto block = static_cast<uint64_t>(type.block), bits = static_cast<uint64_t>(type.block_bits);
  uint64_t all_bits = 0;
  if (count % block != 0 || __builtin_mul_overflow(count / block, bits, &all_bits)) return {};
  if (all_bits % 8 != 0) return {};
  return all_bits / 8;
}

}  // namespace tilewright::weights
