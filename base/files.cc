#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/knobs.h"

namespace tilewright {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int UniqueFd::release() {
  int fd = fd_;
  fd_ = -1;
  return fd;
}

void UniqueFd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

bool is_own(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & kOthersWrite) == 0;
}

void warn_of_strangers(const std::string& path, const struct stat& status) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  std::lock_guard lock(mutex);
  if (!warned.insert(path).second) return;
  std::string why = status.st_uid != geteuid()
                        ? "it belongs to user " + std::to_string(status.st_uid) + ", not to " +
                              std::to_string(geteuid())
                        : "others may write to it; chmod go-w makes it yours alone";
  std::fprintf(
      stderr, "warning: the cache '%s' is not used: %s; TILEWRIGHT_CACHE names another directory\n",
      path.c_str(), why.c_str());
}

}  // namespace

std::optional<std::string> user_cache() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/') {
    return std::string(xdg) + "/tilewright";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    return std::string(home) + "/.cache/tilewright";
  }
  return std::nullopt;
}

std::optional<std::string> cache_directory() {
  std::string path = knob_text(Knob::Cache);
  if (path == "off") return std::nullopt;
  if (path.empty()) path = user_cache().value_or("");
  if (path.empty() || !own_directory(path)) return std::nullopt;
  return path;
}

bool is_own_directory(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && is_own(status);
}

bool own_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return false;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return false;
  if (!is_own(status)) {
    warn_of_strangers(path, status);
    return false;
  }
  return access(path.c_str(), W_OK | X_OK) == 0;
}

std::string temporary_directory() {
  const char* directory = std::getenv("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

std::string read_all(int fd) {
  std::string bytes;
  struct stat status {};
  if (fstat(fd, &status) == 0 && status.st_size > 0) {
    bytes.reserve(static_cast<size_t>(status.st_size));
  }
  lseek(fd, 0, SEEK_SET);
  char buffer[1 << 16];
  for (;;) {
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
  }
}

std::optional<std::string> read_file(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || S_ISDIR(status.st_mode)) return std::nullopt;
  return read_all(fd.get());
}

std::optional<std::string> read_own_file(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || !is_own(status)) return std::nullopt;
  return read_all(fd.get());
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

bool write_file_atomic(const std::string& path, std::string_view bytes) {
  static std::atomic<unsigned> counter{0};
  std::string temporary =
      path + ".tmp." + std::to_string(getpid()) + "." + std::to_string(counter.fetch_add(1));
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return false;
  bool written = write_all(fd.get(), bytes);
  fd.reset();
  if (written && rename(temporary.c_str(), path.c_str()) == 0) return true;
  unlink(temporary.c_str());
  return false;
}

UniqueFd anonymous_file(const char* label) {
  UniqueFd fd(memfd_create(label, MFD_CLOEXEC));
  if (fd.valid()) return fd;
  std::string path = temporary_directory() + "/tilewright.XXXXXX";
  fd = UniqueFd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) {
    throw Error("cannot make a temporary file '" + path + "': " + std::strerror(errno));
  }
  unlink(path.c_str());
  return fd;
}

}  // namespace tilewright
