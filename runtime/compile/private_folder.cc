#include "runtime/compile/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/files.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tilewright-", kPattern = "XXXXXX";
// Seconds that a new folder has until its owner holds the lock on it.
constexpr time_t kGrace = 60;

// A directory of this user's own that is not a symbolic link, opened.
UniqueFd open_own_directory(const std::string& path, struct stat* status) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() || fstat(fd.get(), status) != 0 || status->st_uid != geteuid()) return {};
  return fd;
}

// The folder is locked as long as its process lives, in whatever container that is.
struct Folder {
  std::string path;
  pid_t owner = -1;
  UniqueFd lock;
};

class Folders {
 public:
  // A forked process that shares them leaves them to its parent.
  ~Folders() {
    std::error_code ignored;
    for (auto& [base, folder] : folders_) {
      if (folder.owner == getpid()) fs::remove_all(folder.path, ignored);
    }
  }

  std::string get() {
    std::string base = temporary_directory();
    std::lock_guard lock(mutex_);
    Folder& folder = folders_[base];
    struct stat status {};
    bool usable = folder.owner == getpid() && open_own_directory(folder.path, &status).valid();
    if (!usable) folder = make(base);
    return folder.path;
  }

 private:
  static Folder make(const std::string& base) {
    sweep_private_folders(base);
    Folder folder;
    folder.path = fmt::format("{}/{}{}", base, kPrefix, kPattern);
    if (mkdtemp(folder.path.data()) == nullptr) {
      throw ToolchainError(fmt::format(
          "cannot write to the temporary directory '{}': {}; make room, or name another in TMPDIR",
          base, std::strerror(errno)));
    }
    folder.owner = getpid();
    struct stat status {};
    folder.lock = open_own_directory(folder.path, &status);
    if (folder.lock.valid()) flock(folder.lock.get(), LOCK_EX | LOCK_NB);
    return folder;
  }

  std::mutex mutex_;
  std::map<std::string, Folder> folders_;  // by the directory that they are in
};

}  // namespace

std::string private_folder() {
  static Folders folders;
  return folders.get();
}

std::string private_path(const std::string& suffix) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}/{}{}", private_folder(), counter.fetch_add(1), suffix);
}

void sweep_private_folders(const std::string& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& e : fs::directory_iterator(directory, ignored)) {
    std::string name = e.path().filename().string();
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kPattern.size()) continue;
    struct stat status {};
    UniqueFd fd = open_own_directory(e.path().string(), &status);
    bool left = fd.valid() && (status.st_mode & 077) == 0 &&
                status.st_mtime + kGrace < std::time(nullptr) &&
                flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    std::error_code kept;
    if (left) fs::remove_all(e.path(), kept);
  }
}

}  // namespace tilewright
