// How the programs in this folder print CuTe's layouts: a line of text each, which
// tests/kernel/instructions/cute_tables_test.cc reads.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cute/tensor.hpp>
#include <string>

namespace tables {

// FNV-1a over the eight bytes of each number (Fowler, Noll, Vo). A reader of the text that
// evaluates a layout differently from CuTe notices by it.
class Hash {
 public:
  void add(int64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> 8 * i & 0xff)) * 0x100000001b3u;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// "layout NAME SHAPE:STRIDE HASH", where the hash is over all offsets, the first index fastest.
template <class Layout>
void print_layout(const std::string& name, const Layout& layout) {
  std::printf("layout %s ", name.c_str());
  cute::print(layout);
  Hash hash;
  for (int i = 0; i < int(cute::size(layout)); ++i) hash.add(int64_t(layout(i)));
  std::printf(" %016llx\n", static_cast<unsigned long long>(hash.value()));
}

// "swizzle NAME BITS BASE SHIFT": BITS bits from bit BASE on are XORed with those SHIFT above.
template <int bits, int base, int shift>
void print_swizzle(const std::string& name, cute::Swizzle<bits, base, shift>) {
  std::printf("swizzle %s %d %d %d\n", name.c_str(), bits, base, shift);
}

}  // namespace tables
