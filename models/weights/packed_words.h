// Narrow integers in little-endian 32-bit words, as GPTQ, AWQ and compressed-tensors store them,
// and in packed arrays, as operands have them.
#pragma once

#include <cstdint>

#include "runtime/tensor/array.h"

namespace tilewright::weights {

// The numbers of `bits` bits (1 to 8) in words that lie `stride` words apart. Number i begins at
// bit i * bits of the words in a row, lowest bits first; one that reaches the end of a word goes on
// in the next.
class PackedWords {
 public:
  PackedWords(const void* words, int64_t stride, int bits)
      : words_(static_cast<const unsigned char*>(words)), stride_(stride), bits_(bits) {}

  // Reads no word but those that hold bits of number i.
  uint32_t at(int64_t i) const;
  // How many words `count` numbers take.
  static int64_t words_for(int64_t count, int bits) { return (count * bits + 31) / 32; }

 private:
  uint32_t word(int64_t i) const;

  const unsigned char* words_;
  int64_t stride_;
  int bits_;
};

// Writes bit patterns into an array of an integer type that still is all zeros, each place once.
class CodeWriter {
 public:
  explicit CodeWriter(HostArray* array);
  void put(int64_t flat_index, uint32_t code) {
    int64_t bit = flat_index * bits_;
    data_[bit / 8] = static_cast<unsigned char>(data_[bit / 8] | (code << (bit % 8)));
  }

 private:
  unsigned char* data_;
  int bits_;
};

}  // namespace tilewright::weights
