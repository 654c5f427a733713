// Determines whose kernels may run. A kernel is machine code, so a database file is trusted as ssh
// trusts its keys: by who may write it. docs/security.md describes the threats.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "database/error.h"
#include "database/record.h"

namespace tilewright::database {

// An invalid key or pin, or a key file that others may read.
class TrustError : public Error {
 public:
  using Error::Error;
};

// Kernels that may run besides those built here. Keys and pins are hexadecimal digits.
struct Trust {
  std::vector<std::string> keys = {};  // Ed25519 public keys: kernels that they signed may run
  std::string pin = {};  // SHA-256 of a serving file, whose owner then does not matter; empty: none

  // Throws TrustError unless keys and pin are 64 hexadecimal digits each. Converts them to lower
  // case.
  void normalize();
};

// A pair of Ed25519 keys. The secret key is kept in a file that only its owner can read.
struct SigningKey {
  std::string seed;        // 32 bytes
  std::string public_key;  // 64 hexadecimal digits

  // Makes a pair and writes `path` (mode 0600) and `path`.pub. Throws TrustError when one of them
  // exists.
  static SigningKey generate(const std::filesystem::path& path);
  // Throws TrustError when others may read or write the file, or when it holds no key.
  static SigningKey read(const std::filesystem::path& path);

  std::string sign(const std::string& message) const;  // 128 hexadecimal digits
};

// True when `signature` is the signature of `message` by the public key. False for an invalid key
// or signature.
bool is_signed(const std::string& message, const std::string& signature,
               const std::string& public_key);

// SHA-256 as 64 lower-case hexadecimal digits, as sha256sum prints it.
std::string sha256(std::span<const std::byte> bytes);

// A path in messages.
inline std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

// The target of all links, even for a file that does not exist yet; `path` itself where it cannot
// be determined.
std::filesystem::path resolve(const std::filesystem::path& path);

// The reason why users other than this one or root may decide a file's content, with the next
// command; empty when they may not. `file` must come from resolve(). `immutable`: no journal is
// expected beside it.
std::string distrust(const std::filesystem::path& file, bool immutable);

// Throws DatabaseError (Untrusted) when a journal beside a file of this user belongs to somebody
// else: SQLite would apply it.
void require_own_journal(const std::filesystem::path& file);

// The whole content of a regular file. Throws DatabaseError; never waits for a FIFO.
Blob read_regular_file(const std::filesystem::path& path);

}  // namespace tilewright::database
