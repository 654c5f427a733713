// Checksums of the database. xxHash has two uses: 128 bits name content, and 64 bits guard a row. A
// digest of BLAKE2b resists forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tilewright::database {

// XXH3-128 as 32 lower-case hexadecimal digits.
std::string content_hash(std::string_view text);

// The canonical bytes of a row. Each field is tagged with its type and carries its length, so that
// no two different rows serialize to the same bytes. Numbers are little-endian on every machine.
class Canonical {
 public:
  void integer(int64_t value);
  void real(double value);  // -0.0 is written as 0.0, as in SQLite
  void text(std::string_view value);
  void blob(std::span<const std::byte> value);

  uint64_t checksum() const;  // XXH3-64
  // The same as of a blob behind these bytes, which is not copied.
  uint64_t checksum_before(std::span<const std::byte> blob) const;
  std::string hash() const;  // XXH3-128, as content_hash writes it
  // BLAKE2b-256 as 64 hexadecimal digits. It is collision-resistant, unlike the other two.
  std::string digest() const;

 private:
  void append_u64(char tag, uint64_t value);

  std::string bytes_;
};

}  // namespace tilewright::database
