#include "models/weights/packed_words.h"

#include <cstring>

#include "base/error.h"

namespace tilewright::weights {

uint32_t PackedWords::word(int64_t i) const {
  uint32_t value = 0;
  std::memcpy(&value, words_ + i * stride_ * 4, sizeof value);
  return value;
}

uint32_t PackedWords::at(int64_t i) const {
  int64_t first = i * bits_;
  auto shift = static_cast<int>(first % 32);
  uint32_t value = word(first / 32) >> shift;
  if (shift + bits_ > 32) value |= word(first / 32 + 1) << (32 - shift);
  return value & ((1u << bits_) - 1);
}

CodeWriter::CodeWriter(HostArray* array)
    : data_(static_cast<unsigned char*>(array->data())), bits_(bits_of(array->elem())) {
  TW_ASSERT(bits_ <= 8, "codes are at most a byte wide");
}

}  // namespace tilewright::weights
