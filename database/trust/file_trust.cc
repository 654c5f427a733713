// Determines who may decide a file's content: its owner, everyone who may write it, and everyone
// who may replace it.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <system_error>

#include "database/trust/trust.h"

namespace tilewright::database {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

bool is_own(const struct stat& info) { return info.st_uid == 0 || info.st_uid == geteuid(); }

std::string mode_text(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

// The reason why others may write the file that `info` describes; empty when they may not. In a
// sticky folder nobody can rename or remove files of others.
std::string writable_by_others(const std::string& name, const fs::path& path,
                               const struct stat& info, bool sticky_is_safe) {
  if (!is_own(info)) {
    return name + " belongs to user " + std::to_string(info.st_uid) + ", not to this one (" +
           std::to_string(geteuid()) + ") or root: if what it holds is yours, chown " +
           std::to_string(geteuid()) + " " + quoted(path);
  }
  if ((info.st_mode & kOthersWrite) == 0) return "";
  if ((info.st_mode & S_ISVTX) != 0 && S_ISDIR(info.st_mode)) {
    if (sticky_is_safe) return "";
    return name + " lets anybody put a journal beside the database (mode " +
           mode_text(info.st_mode) + "): move it into a folder that only you may write";
  }
  return name + " may be written by others (mode " + mode_text(info.st_mode) + "): chmod go-w " +
         quoted(path);
}

}  // namespace

fs::path resolve(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

std::string distrust(const fs::path& file, bool immutable) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    return quoted(file) + " cannot be looked at: " + std::generic_category().message(errno);
  }
  std::string why = writable_by_others(quoted(file), file, info, false);
  // Everyone who may write a folder on the path may replace the file.
  const fs::path absolute = fs::absolute(file);
  bool own_folder = true;
  for (fs::path folder = absolute.parent_path(); why.empty(); folder = folder.parent_path()) {
    if (::stat(folder.c_str(), &info) != 0) {
      return "the folder " + quoted(folder) +
             " cannot be looked at: " + std::generic_category().message(errno);
    }
    why =
        writable_by_others("the folder " + quoted(folder), folder, info, immutable || !own_folder);
    own_folder = false;
    if (folder == folder.parent_path()) break;
  }
  return why;
}

void require_own_journal(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0 || !is_own(info) || (info.st_mode & kOthersWrite) != 0) {
    return;  // others may write the file itself
  }
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const fs::path journal = file.string() + suffix;
    if (::lstat(journal.c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode) && is_own(info) && (info.st_mode & kOthersWrite) == 0) continue;
    throw DatabaseError(
        DatabaseError::Kind::Untrusted,
        quoted(journal) + " beside the database belongs to user " + std::to_string(info.st_uid) +
            " or may be written by others (mode " + mode_text(info.st_mode) +
            "), and SQLite would write what it says into the database: rm " + quoted(journal));
  }
}

}  // namespace tilewright::database
