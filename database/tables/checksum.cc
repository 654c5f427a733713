#include "database/tables/checksum.h"

#include <sodium.h>

#include <array>
#include <bit>

#include "base/hex.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilewright::database {

std::string content_hash(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return to_hex({reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest});
}

void Canonical::append_u64(char tag, uint64_t value) {
  bytes_ += tag;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes_ += static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
}

void Canonical::integer(int64_t value) { append_u64('I', static_cast<uint64_t>(value)); }

void Canonical::real(double value) { append_u64('R', std::bit_cast<uint64_t>(value + 0.0)); }

void Canonical::text(std::string_view value) {
  append_u64('T', value.size());
  bytes_ += value;
}

void Canonical::blob(std::span<const std::byte> value) {
  append_u64('B', value.size());
  bytes_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

uint64_t Canonical::checksum() const { return XXH3_64bits(bytes_.data(), bytes_.size()); }

uint64_t Canonical::checksum_before(std::span<const std::byte> blob) const {
  Canonical head = *this;
  head.append_u64('B', blob.size());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, head.bytes_.data(), head.bytes_.size());
  XXH3_64bits_update(&state, blob.data(), blob.size());
  return XXH3_64bits_digest(&state);
}

std::string Canonical::hash() const { return content_hash(bytes_); }

std::string Canonical::digest() const {
  std::array<unsigned char, 32> hash;
  crypto_generichash(hash.data(), hash.size(),
                     reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size(), nullptr,
                     0);
  return to_hex({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

}  // namespace tilewright::database
