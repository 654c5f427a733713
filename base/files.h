// Small things about files: the cache directory, whole-file reads, atomic writes, anonymous files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

// The directory that the knob TILEWRIGHT_CACHE and the XDG variables name, made if need be. Nothing
// when it is "off" or cannot be made and written: then nothing is kept. Nothing either, with a warning
// once a process, where it is not this user's alone to write: what lies there is run.
std::optional<std::string> cache_directory();

// This program's folder by the XDG variables: $XDG_CACHE_HOME/tilewright, else
// ~/.cache/tilewright. Nothing where neither is set.
std::optional<std::string> user_cache();

// Whether it is a directory of this user that nobody else may write to. Makes nothing.
bool is_own_directory(const std::string& path);

// Makes the directory if need be, for this user alone. Whether it can be used: it belongs to this user,
// nobody else may write to it, and this process can. Warns once a directory where others can.
bool own_directory(const std::string& path);

// Where short-lived files go: $TMPDIR, or /tmp.
std::string temporary_directory();

// The file's bytes, or nothing when it cannot be read.
std::optional<std::string> read_file(const std::string& path);
// The same of a regular file, and no symbolic link, that belongs to this user and that nobody else may
// write.
std::optional<std::string> read_own_file(const std::string& path);
// The bytes of a descriptor from its start.
std::string read_all(int fd);
// Writes a file so that other processes see the old one, none, or all of the new one. False when
// the directory is not writable or full; nothing is left behind then.
bool write_file_atomic(const std::string& path, std::string_view bytes);
// Writes all of `bytes`; false on an error.
bool write_all(int fd, std::string_view bytes);

// An open file without a name, close-on-exec. Throws Error when none can be had.
UniqueFd anonymous_file(const char* label);

}  // namespace tilewright
