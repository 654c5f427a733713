#include "database/trust/trust.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/hex.h"

namespace tilewright::database {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecretMark = "tilewright-secret-key-1 ";

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, mode_t mode = 0)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void start_sodium() {
  if (sodium_init() < 0) throw InternalError("libsodium cannot be started");
}

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

std::string require_hex(const std::string& text, const char* what) {
  const std::optional<std::string> bytes = from_hex(text, 32);
  if (!bytes) {
    throw TrustError(std::string(what) + " must be 64 hexadecimal digits, got '" +
                     text.substr(0, 80) + "'");
  }
  return to_hex(*bytes);
}

struct KeyPair {
  std::array<unsigned char, crypto_sign_PUBLICKEYBYTES> open;
  std::array<unsigned char, crypto_sign_SECRETKEYBYTES> secret;

  explicit KeyPair(const std::string& seed) {
    start_sodium();
    crypto_sign_seed_keypair(open.data(), secret.data(), bytes_of(seed));
  }
  ~KeyPair() { sodium_memzero(secret.data(), secret.size()); }
  KeyPair(const KeyPair&) = delete;
  KeyPair& operator=(const KeyPair&) = delete;

  std::string public_hex() const {
    return to_hex({reinterpret_cast<const char*>(open.data()), open.size()});
  }
};

void write_new_file(const fs::path& path, const std::string& text, mode_t mode) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  const bool written = file.get() >= 0 && ::write(file.get(), text.data(), text.size()) ==
                                              static_cast<ssize_t>(text.size());
  if (written) return;
  const std::string cause = std::generic_category().message(errno);
  throw TrustError("cannot write the key " + quoted(path) + ": " + cause +
                   (errno == EEXIST ? "; name another file, or remove that one" : ""));
}

}  // namespace

void Trust::normalize() {
  for (std::string& key : keys) key = require_hex(key, "a public key");
  if (!pin.empty()) pin = require_hex(pin, "the SHA-256 of a serving file");
}

SigningKey SigningKey::generate(const fs::path& path) {
  start_sodium();
  SigningKey key{std::string(crypto_sign_SEEDBYTES, '\0'), {}};
  randombytes_buf(key.seed.data(), key.seed.size());
  key.public_key = KeyPair(key.seed).public_hex();
  write_new_file(path, kSecretMark + to_hex(key.seed) + "\n", 0600);
  write_new_file(path.string() + ".pub", key.public_key + "\n", 0644);
  return key;
}

SigningKey SigningKey::read(const fs::path& path) {
  const std::string name = "the secret key " + quoted(path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw TrustError(name + ": " + std::generic_category().message(errno) +
                     "; 'db keygen FILE' makes one");
  }
  if ((info.st_mode & 077) != 0) {
    throw TrustError(name + " can be read or written by others: chmod 600 " + quoted(path));
  }
  const Blob bytes = read_regular_file(path);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string mark = kSecretMark;
  std::optional<std::string> seed;
  if (text.starts_with(mark)) seed = from_hex(text.substr(mark.size(), 64), 32);
  if (!seed) throw TrustError(name + " is none: expected a file that 'db keygen FILE' wrote");
  return {*seed, KeyPair(*seed).public_hex()};
}

std::string SigningKey::sign(const std::string& message) const {
  const KeyPair pair(seed);
  std::string signature(crypto_sign_BYTES, '\0');
  crypto_sign_detached(bytes_of(signature), nullptr, bytes_of(message), message.size(),
                       pair.secret.data());
  return to_hex(signature);
}

bool is_signed(const std::string& message, const std::string& signature,
               const std::string& public_key) {
  const auto signed_bytes = from_hex(signature, crypto_sign_BYTES);
  const auto key = from_hex(public_key, crypto_sign_PUBLICKEYBYTES);
  if (!signed_bytes || !key) return false;
  start_sodium();
  return crypto_sign_verify_detached(bytes_of(*signed_bytes), bytes_of(message), message.size(),
                                     bytes_of(*key)) == 0;
}

std::string sha256(std::span<const std::byte> bytes) {
  start_sodium();
  std::string hash(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256(bytes_of(hash), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size());
  return to_hex(hash);
}

Blob read_regular_file(const fs::path& path) {
  using Kind = DatabaseError::Kind;
  const auto fail = [&](Kind kind, const std::string& cause) {
    throw DatabaseError(kind, quoted(path) + " cannot be read: " + cause);
  };
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    fail(errno == ENOENT ? Kind::NotFound : Kind::Unreadable,
         std::generic_category().message(errno));
  }
  if (!S_ISREG(info.st_mode)) fail(Kind::NotADatabase, "expected a regular file");
  Blob bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Kind::Unreadable, std::generic_category().message(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace tilewright::database
