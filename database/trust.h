// Whose kernels may run. A kernel is machine code, so a database's file is trusted as ssh trusts its
// keys: by who may write it. docs/security.md says what that guards against.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "database/error.h"
#include "database/record.h"

namespace tilewright::database {

// A key or pin that cannot be read, or a key file that others may read.
class TrustError : public Error {
 public:
  using Error::Error;
};

// What may run besides what was built here. Keys and pins are hexadecimal digits.
struct Trust {
  std::vector<std::string> keys = {};  // Ed25519 public keys: kernels that they signed may run
  std::string pin = {};  // SHA-256 of a serving file, which then may belong to anybody; empty: none

  // Throws TrustError unless keys and pin are 64 hexadecimal digits each; makes these lower-case.
  void normalize();
};

// A pair of Ed25519 keys. The secret one is kept in a file that only its owner can read.
struct SigningKey {
  std::string seed;        // 32 bytes
  std::string public_key;  // 64 hexadecimal digits

  // Makes a pair and writes `path` (mode 0600) and `path`.pub. Throws TrustError when one is there.
  static SigningKey generate(const std::filesystem::path& path);
  // Throws TrustError when others may read or write the file, or it holds no key.
  static SigningKey read(const std::filesystem::path& path);

  std::string sign(const std::string& message) const;  // 128 hexadecimal digits
};

// Whether `signature` is that of `message` by the public key. False for what is no key or signature.
bool is_signed(const std::string& message, const std::string& signature,
               const std::string& public_key);

// SHA-256 as 64 lower-case hexadecimal digits, which is what sha256sum prints.
std::string sha256(std::span<const std::byte> bytes);

// The file behind links, also one that is still to be made; `path` itself where that cannot be told.
std::filesystem::path resolve(const std::filesystem::path& path);

// Why others than this user and root may decide what a file (one that resolve() gave) holds, with
// the next command; empty when they may not. `immutable`: no journal is looked for beside it.
std::string distrust(const std::filesystem::path& file, bool immutable);

// Throws DatabaseError (Untrusted) when a journal beside a file of this user's is somebody else's:
// SQLite would carry out what it says.
void require_own_journal(const std::filesystem::path& file);

// The whole content of a regular file. Throws DatabaseError; never waits for a FIFO.
Blob read_regular_file(const std::filesystem::path& path);

}  // namespace tilewright::database
